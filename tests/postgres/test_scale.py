"""The program that measures very many sessions, with a few: what it makes, and that more sessions take no more asking.

The times of a million are in `docs/scale.md`. Here the statements are counted that each question takes.
"""

from collections.abc import Mapping
from pathlib import Path

import click
import psycopg
import pytest
from bench import archive, archive_measuring
from bench.scale import ENTRIES, ENTRY_BYTES, read, scale_command
from bench.scale_measuring import AT_ONCE, Ask, make, questions, searches, sizes
from click.testing import CliRunner

from treering import SessionHost, Settings
from treering.stores.postgres.local_server import LocalServer

from .counting import counted

FEW, MORE = 3, 7


async def statements(server: LocalServer, schema: str, asked: Mapping[str, Ask]) -> dict[str, int]:
    """Ask each question about a session, and return how many statements that took."""
    counts: dict[str, int] = {}
    for what, ask in asked.items():
        with counted(server.url()) as each:
            await ask(1)
        counts[what] = each.of(f'"{schema}".')
    return counts


async def test_a_question_takes_as_many_statements_of_many_sessions_as_of_few(
    server: LocalServer, schema: str, url: str
) -> None:
    url += "&lease_s=600"
    unsaved = Settings(debounce_ms=600_000)  # rows are written beside the questions, and would be counted
    async with SessionHost(url) as host:
        begun = await host.get_or_create("chat:2")  # as a run leaves it that was stopped
        await begun.append_message("user", "the first")
    took: list[dict[str, int]] = []
    for count in (FEW, MORE):
        await make(url, 0, count)
        async with SessionHost(url, settings=unsaved) as host:
            await host.list_sessions(limit=1)
            took.append(await statements(server, schema, questions(host, count)))
            for ask in searches(host).values():
                await ask(1)  # which makes what is missing of the index
            took[-1] |= await statements(server, schema, searches(host))
    assert took[0] == took[1]
    assert took[0]["a page of 50 of the list"] == 1
    assert max(took[0].values()) <= 14
    with psycopg.connect(server.url()) as connection:
        whole = f"SELECT count(*), sum(head), sum(size) FROM {schema}.logs".encode()
        (logs, lines, size) = connection.execute(whole).fetchone() or (0, 0, 0)
    assert (logs, lines) == (MORE, MORE * ENTRIES + len(took))  # each time the questions append to a session
    assert size > lines * ENTRY_BYTES
    assert sizes(url)["lines"] > size


@pytest.mark.soak
@pytest.mark.timeout(86_400)
@pytest.mark.feature("C-24")
def test_a_run_that_was_stopped_goes_on_and_measures_all(
    short_folder: Path, scale: float, capfd: pytest.CaptureFixture[str]
) -> None:
    most = max(2 * AT_ONCE, round(1_000_000 * scale))
    for count in (AT_ONCE, most):
        arguments = ["--sessions", str(count), "--folder", str(short_folder / "s"), "--index-through", str(AT_ONCE)]
        run = CliRunner().invoke(scale_command, arguments, catch_exceptions=False)
        assert run.exit_code == 0
    with capfd.disabled():
        click.echo(run.stdout)  # the table of a run that takes an hour
    measured = read(short_folder / "s")
    assert [each.sessions for each in measured] == sorted({AT_ONCE, *(10**n for n in (3, 4, 5) if 10**n < most), most})
    assert sum(each.made for each in measured) == most
    for each in measured:
        assert each.table_bytes["lines"] > each.sessions * ENTRIES * ENTRY_BYTES
        assert (each.index_bytes is not None) == (each.sessions <= AT_ONCE)
        assert all(took > 0 for took in each.took_ms.values())


async def test_what_archiving_frees_is_measured(url: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="objects need the package fsspec")
    measured = await archive_measuring.measure(url, 2, f"file://{tmp_path}")
    assert measured.after_bytes < measured.before_bytes
    assert 0 < measured.object_bytes < 2 * ENTRIES * ENTRY_BYTES
    assert "| its object | " in archive.report(measured)

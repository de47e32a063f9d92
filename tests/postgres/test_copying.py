"""Copies between files and PostgreSQL: byte-equal, also if the copy is killed and continued."""

import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from anyio import to_thread
from tests.cli.conftest import Cli
from tests.stores.copies import content, fill, killed_at_every_step

from treering import SessionHost
from treering.stores import FileStore, Store, copy_logs
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.local_server import LocalServer


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[Store]:
    """A store of files with sessions."""
    await fill(tmp_path / "from")
    store = FileStore(tmp_path / "from")
    yield store
    await store.aclose()


@pytest.mark.feature("C-14")
async def test_sessions_go_to_a_database_and_back_with_every_line(filled: Store, url: str, tmp_path: Path) -> None:
    expected = await content(filled)
    there = PostgresStore(url)
    report = await copy_logs(filled, there)
    assert (report.logs, report.added, report.failed) == (2, 2, [])
    assert await content(there) == expected
    back = FileStore(tmp_path / "back", durability="file")
    assert (await copy_logs(there, back)).failed == []
    assert await content(back) == expected
    again = await copy_logs(there, back)
    assert (again.logs, again.added, again.lines, again.failed) == (2, 0, 0, [])
    await back.aclose()
    await there.aclose()
    for path in (tmp_path / "from").glob("*.jsonl"):
        if path.name != "pi.jsonl":  # which lacks its last newline, and has a blank line
            assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()
    async with SessionHost(url) as host:
        session = await host.load("one")
        assert session.path() == [(await session.entries())[0].id]
        await session.append_message("assistant", "In the yard.")


@pytest.mark.feature("C-14")
async def test_a_copy_to_a_database_that_is_killed_at_any_step_goes_on(
    filled: Store, server: LocalServer, schema: str, url: str
) -> None:
    await to_thread.run_sync(Administration(url).migrate)

    def make(_: int) -> Callable[[], Store]:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            for table in ("logs", "lines", "beside", "hosts"):
                connection.execute(f"delete from {schema}.{table}".encode())
        return lambda: PostgresStore(url)

    await killed_at_every_step(filled, make)


@pytest.mark.feature("C-14")
async def test_the_command_goes_on_after_a_kill(server: LocalServer, schema: str, url: str, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "from") as host:
        for number in range(40):
            session = await host.create(f"s{number}")
            for text in range(5):
                await session.append_message("user", f"{text} " * 50)
    cli, target = Cli(tmp_path), server.url(schema=schema, lease_s="1")
    await to_thread.run_sync(lambda: cli.json("postgres", "migrate", "-q", "--root", target))

    def kill_in_between() -> subprocess.Popen[bytes]:
        lines = f"select count(*) from {schema}.lines".encode()
        with psycopg.connect(server.url()) as holding, psycopg.connect(server.url(), autocommit=True) as looking:
            # What holds one session up, so that the copy cannot end before it is killed.
            holding.execute(f"insert into {schema}.logs (ref, epoch) values ('s9.jsonl', 0)".encode())
            running = cli.spawn("copy", tmp_path / "from", target)
            while looking.execute(lines).fetchone() == (0,):
                time.sleep(0.001)
            running.send_signal(signal.SIGKILL)
            running.communicate()
            holding.rollback()
        return running

    running = await to_thread.run_sync(kill_in_between)
    assert running.returncode == -signal.SIGKILL
    report = await to_thread.run_sync(lambda: cli.json("copy", "-q", tmp_path / "from", target))
    assert (report["sessions"], report["failed"]) == (40, [])
    source, there = FileStore(tmp_path / "from"), PostgresStore(target)
    assert await content(there) == await content(source)
    await source.aclose()
    await there.aclose()
    again = await to_thread.run_sync(lambda: cli("copy", tmp_path / "from", target))
    assert again.stdout == ""
    assert again.stderr == "40 sessions the same in both, 0 of them new or longer: 0 lines added, 0 bytes\n"
    assert "give two" in cli.error("copy", target, target, status=2)
    assert f"there is no directory {tmp_path}/form" in cli.error("copy", tmp_path / "form", target)
    assert url

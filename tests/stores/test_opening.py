"""A path or a URL chooses a host's store."""

import os
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner

from treering import InvalidInput, MemoryStore, SessionHost
from treering.cli import main
from treering.events.findings import Finding, Repair
from treering.events.stores import opening
from treering.events.stores.capabilities import Health, offered

T = TypeVar("T")

made: list[tuple[str, set[str]]] = []


def make_toy(url: str, **options: object) -> MemoryStore:
    made.append((url, set(options)))
    return MemoryStore()


def make_nothing(url: str, **options: object) -> None:
    """Return what is no store."""


class Ill(MemoryStore):
    """A store that has a finding until it is repaired."""

    repaired = False

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, (Health,))

    def examine(self) -> list[Finding]:
        return [] if self.repaired else [Finding("ill:x", None, None, "ill", "error", "it has a fever")]

    def repair(self) -> list[Repair]:
        Ill.repaired = True
        return [Repair("ill:x", "made_anew", "it was given a rest")]


def make_ill(url: str, **options: object) -> MemoryStore:
    return Ill()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install packages that offer stores for `toy:` and `nothing:`."""
    points = EntryPoints(
        EntryPoint(name, f"{__name__}:{value}", opening.GROUP)
        for name, value in (("ill", "make_ill"), ("toy", "make_toy"), ("nothing", "make_nothing"))
    )
    monkeypatch.setattr("importlib.metadata.entry_points", points.select)
    made.clear()


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}", "FILE:{}"])
async def test_a_path_and_a_file_url_choose_the_folder(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    text = str(folder) if form == "{}" else str(folder).replace(" ", "%20")
    async with SessionHost(form.format(text)) as host:
        await (await host.create("s")).append_message("user", "Hello")
    assert os.listdir(tmp_path) == ["a b"]
    assert (folder / "s.jsonl").is_file()


async def test_memory_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with SessionHost("memory:") as host:
        await (await host.create("s")).append_message("user", "Hello")
        assert [row.path for row in await host.list_sessions()] == [None]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memory:mine", "a store in memory has no name"),
        ("file:", "names no directory"),
        ("file://server/logs", "of the machine 'server'"),
        ("redis://anna:secret@db", r"the root begins with 'redis:', like an address.*are file:, memory:.*--server"),
    ],
)
def test_a_url_that_no_store_serves_is_refused_by_name(url: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        SessionHost(url)
    assert "secret" not in str(refused.value)


@pytest.mark.usefixtures("toys")
async def test_an_installed_store_is_found_by_its_scheme_and_given_the_url() -> None:
    async with SessionHost("toy://there/x") as host:
        await (await host.create("s")).append_message("user", "Hello")
    assert made == [("toy://there/x", {"durability", "offload", "new_id"})]
    with pytest.raises(InvalidInput, match="there are file:, ill:, memory:, nothing:, toy:"):
        SessionHost("redis:")


@pytest.mark.usefixtures("toys")
def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"make_nothing', which serves 'nothing:', returned `NoneType`"):
        SessionHost("nothing:")


@pytest.mark.usefixtures("toys")
def test_the_doctor_asks_a_store_that_is_no_directory_to_examine_itself() -> None:
    def doctor(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["doctor", *args], prog_name="treering")
        return result.exit_code, result.stdout or result.stderr

    assert doctor("ill:x") == (1, "ill:x: error: it has a fever\n")
    assert doctor("ill:x", "--repair") == (0, "ill:x: made_anew: it was given a rest\n")
    assert doctor("ill:x") == (0, "1 store, 0 findings\n")
    for url, said in (("toy:x", "the store of 'toy:' cannot examine itself"), ("redis:x", "there is no store of this")):
        status, error = doctor(url)
        assert (status, said in error) == (1, True), error

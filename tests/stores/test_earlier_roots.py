"""Roots that version 0.1 left, under `earlier_roots`: each is opened, read, continued and reopened.

Each holds the sessions that `EXPECTED` names, written at every durability, closed or killed. In `torn`, a line was cut;
in `lost-group`, a power cut took from the files what only the journal had flushed; in `packed`, a session is archived.
Lock files are not kept: they say nothing once no process holds them.
"""

import shutil
from pathlib import Path

import pytest

from treering import Durability, SessionHost, plain_text

from ..sampling import each_with_one

ROOTS = Path(__file__).resolve().parent / "earlier_roots"
STORY = ["Which one first?", "The parser first.", "Another way."]
EXPECTED = {"plain": (STORY, 6), "moved": (STORY[:1], 6)}
NATIVE = ["os", "file", "group", "killed-os", "killed-group", "lost-group", "torn"]


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(ROOTS / request.param, tmp_path / "root"))


def files_in(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def assert_told(host: SessionHost, session_id: str, said: list[str], entries: int, *, more: int = 0) -> None:
    """Assert that a session holds the story, `more` messages of which were appended here."""
    session = await host.load(session_id)
    added = [f"More {number}." for number in range(more)]
    assert [plain_text(each.content) for each in (await session.context()).messages] == said + added
    assert len([entry async for entry in session.iter_entries()]) == entries + more
    assert [label for _, label in session.labels()] == ["crossroads"]


@pytest.mark.parametrize(("root", "durability"), each_with_one(NATIVE, ["os", "file", "group"]), indirect=["root"])
async def test_a_root_of_version_0_1_is_read_and_continued(root: Path, durability: Durability) -> None:
    for round_ in range(2):
        async with SessionHost(root, durability=durability) as host:
            assert {row.id for row in await host.list_sessions()} >= {"plain", "moved"}
            for session_id, (said, entries) in EXPECTED.items():
                await assert_told(host, session_id, said, entries, more=round_)
                await (await host.load(session_id)).append_message("user", f"More {round_}.")
            keyed = await host.find_by_key("telegram:1")
            assert keyed is not None
            assert [plain_text(each.content) for each in await keyed.all_messages()] == ["By key."]


@pytest.mark.parametrize("root", NATIVE, indirect=True)
async def test_reading_a_root_of_version_0_1_changes_no_line_of_it(root: Path) -> None:
    before = files_in(root)
    session = "moved" if root / "moved.jsonl" in before else "plain"
    async with SessionHost(root) as host:
        assert await (await host.load(session, read_only=True)).all_messages()
    after = files_in(root)
    assert {path.name for path in before if path.suffix != ".journal" and not after[path].startswith(before[path])} <= {
        "index.jsonl"
    }


@pytest.mark.parametrize("root", ["packed"], indirect=True)
async def test_an_archive_of_version_0_1_is_read_and_brought_back(root: Path) -> None:
    async with SessionHost(root) as host:
        (row,) = await host.list_sessions(status="any")
        assert (row.id, row.archived) == ("plain", True)
        session = await host.load("plain")
        assert [plain_text(each.content) for each in (await session.context()).messages] == STORY
        await session.append_message("user", "More 0.")
    async with SessionHost(root) as host:
        (row,) = await host.list_sessions()
        session = await host.load(row.id)
        assert [plain_text(each.content) for each in (await session.context()).messages] == [*STORY, "More 0."]


@pytest.mark.parametrize("root", ["pi"], indirect=True)
async def test_a_pi_session_of_version_0_1_is_continued_as_one(root: Path) -> None:
    for round_ in range(2):
        async with SessionHost(root) as host:
            await assert_told(host, "plain", STORY, 6, more=round_)
            await (await host.load("plain")).append_message("user", f"More {round_}.")
    (lines,) = (data.splitlines() for path, data in files_in(root).items() if path.name.endswith("_plain.jsonl"))
    assert b'"version":3' in lines[0]

"""Turns in a store: each is one unit and one write, in a file that only grows."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_type_hints

import anyio
import pytest
from msgspec.structs import replace

from treering import MemoryStore, Message, Session, SessionHost, Usage, message, plain_text, tool_result, tool_use
from treering.events.dialects.detect import DialectName
from treering.events.disk import OsDisk
from treering.events.entries import ENTRY_TYPES
from treering.events.stores.base import Append, Outcome
from treering.projections.state import WorkProjection
from treering.testing.disks import FaultyDisk, Operation, RecordingDisk
from treering.testing.simulation import run
from treering.testing.simulation.determinism import AtOnce

from .logs import put_file

TURN = [
    message("user", "Read it."),
    message("assistant", tool_use("c1", "read", {"path": "a"})),
    message("tool", tool_result("c1", "text")),
    message("assistant", "It says: text"),
]


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """List the names in a folder, or nothing if there is no such folder."""
    return sorted(path.name for path in folder.glob(pattern))


def remove_derived_files(root: Path) -> None:
    """Leave only the logs under a root."""
    for path in root.rglob("*"):
        if path.is_file() and (path.suffix != ".jsonl" or path.parent != root):
            path.unlink()


@pytest.mark.feature("D-41", "D-42", "D-43")
async def test_a_session_is_a_file_of_json_lines_named_by_its_id(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await host.create("sess-123")
        await session.save_turn(TURN, Usage(10, 3))
    assert names_in(root, "*.jsonl") == ["sess-123.jsonl"]
    lines = [json.loads(line) for line in (root / "sess-123.jsonl").read_bytes().splitlines()]
    assert (lines[0]["type"], lines[0]["id"]) == ("session", "sess-123")
    assert [line["type"] for line in lines[1:]] == ["message"] * 4 + ["usage"]
    assert [line["seq"] for line in lines[1:]] == [1, 2, 3, 4, 5]


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b'{"torn')


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_with_the_longest_id_all_works_that_needs_files_beside_a_log(root: Path, dialect: DialectName) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create("x" * 180)
        first = await session.append_message("user", "Hello")
        await session.append_message("assistant", "Hi")
        await session.branch(first)
        path = Path(session.file_path or "")
    tear(path)
    async with SessionHost(root) as host:
        session = await host.load(path)
        assert session.leaf_id == first
        await session.append_message("user", "Again")
        await host.archive(path)
        await host.unarchive(path)
        await host.delete(path)
    assert names_in(root, "**/*xxx*") == []


@pytest.mark.feature("D-46")
async def test_opening_repairs_a_torn_line_and_keeps_a_damaged_one_in_its_place(root: Path) -> None:
    path = root / "main.jsonl"
    async with SessionHost(root) as host:
        session = await host.create("main")
        for number in range(4):
            await session.append_message("user", str(number))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"type":"message","id":\n'
    damaged = b"".join(lines)
    torn = b'{"type":"message","id":"torn","mess'
    path.write_bytes(damaged + torn)
    async with SessionHost(root) as host:
        session = await host.open("main")
        assert path.read_bytes() == damaged
        (kept,) = names_in(root, "main.jsonl.torn-*")
        assert (root / kept).read_bytes() == torn
        assert [plain_text(each.content) for each in await session.all_messages()] == ["0", "2", "3"]
        assert [plain_text(each.content) for each in await session.messages()] == ["2", "3"]
        assert [entry.seq for entry in await session.entries()] == [1, 3, 4]
        await session.append_message("user", "4")
        assert path.read_bytes().startswith(damaged)
        assert [plain_text(each.content) for each in await session.messages()] == ["2", "3", "4"]


@pytest.mark.feature("D-6", "D-45")
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_turn_is_one_unit_and_one_write(root: Path, writes: str) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk, writes=writes) as host:  # type: ignore[arg-type]
        session = await host.create("main")
        await session.save_turn(TURN)
        disk.reset_counts()
        ids = await session.save_turn(TURN, Usage(10, 3))
        assert disk.counts["write"] == 1
        assert disk.counts["rename"] == disk.counts["truncate"] == disk.bytes_read == 0
        assert await session.event_count() == 2
        marks = [entry.batch for entry in (await session.entries())[5:]]
        assert [(mark.id, mark.i, mark.n) for mark in marks if mark] == [(ids[0], i, 5) for i in range(5)]


def rewritten(disk: RecordingDisk) -> list[str]:
    """The logs that were truncated, replaced or deleted since the last call."""
    changes = [each for each in disk.operations if each.kind in ("truncate", "rename", "unlink")]
    disk.operations.clear()
    names = [os.path.basename(each.target or each.path) for each in changes if ".treering" not in each.path]
    return sorted({name for name in names if name.endswith(".jsonl")})


@pytest.mark.feature("D-7")
async def test_only_put_and_migration_rewrite_a_log() -> None:
    disk = RecordingDisk()

    async def summarize(request: object) -> str:
        return "in short"

    old = (
        b'{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/work"}\n'
        b'{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"Hello"}}\n'
    )
    put_file(disk, "/s/old.jsonl", old)
    async with SessionHost() as memory, SessionHost("/s", disk=disk, offload=AtOnce()) as host:
        session = await host.create("main")
        for _ in range(10):
            await session.save_turn([message("user", "long " * 100), message("assistant", "long " * 100)], Usage(1))
        first = session.path()[0]
        await session.set_title("A title")
        await session.set_label(first, "here")
        assert (await session.compact(summarize, keep_tokens=300)).applied
        await session.truncate_history(1)
        await session.branch(first)
        await session.branch_with_summary(first, "left")
        await session.set_history(TURN)
        await session.passivate()
        await session.save_turn(TURN)
        await session.append_tool_execution("c1", "read", {}, "text")
        assert rewritten(disk) == []
        other = await memory.create("main")
        await other.save_turn(TURN)
        await host.put(other, replace=True)
        assert rewritten(disk) == ["main.jsonl"]
        assert await (await host.load("old")).all_messages() == [message("user", "Hello")]
        assert rewritten(disk) == ["old.jsonl"]
        await session.save_turn(TURN)
        await session.save_turn(TURN)
        assert rewritten(disk) == []


@pytest.mark.feature("D-47")
def test_a_put_is_a_temporary_file_synced_renamed_and_its_folder_synced() -> None:
    disk = RecordingDisk()
    target = "/data/sessions/main.jsonl"

    async def put(replacing: bool) -> None:
        async with SessionHost() as memory, SessionHost("/data/sessions", disk=disk, offload=AtOnce()) as host:
            session = await memory.create("main")
            await session.save_turn(TURN)
            await host.put(session, replace=replacing)

    begun = 0
    for replacing in (False, True):
        begun = len(disk.operations)
        run(0, put, replacing)
        assert order(disk.operations[begun:], target) == ["open", "write", "datasync", "rename", "sync_directory"]
        assert disk.memory.files()[target].count(b"\n") == 6
    for left in disk.crash_states(since=begun):
        assert left.files()[target].count(b"\n") == 6


def order(operations: Sequence[Operation], target: str) -> list[str]:
    """Return the operations on the way to a file through its temporary one, without repetitions."""
    renamed = next(each for each in operations if each.kind == "rename" and each.target == target)
    assert ".tmp-" in renamed.path
    opened = next(each for each in operations if each.kind == "open" and each.path == renamed.path)
    kinds: list[str] = []
    for each in operations[operations.index(opened) :]:
        folder = each.kind == "sync_directory" and each.path == os.path.dirname(target)
        if (each.path == renamed.path or each.node == opened.node or folder) and kinds[-1:] != [each.kind]:
            kinds.append(each.kind)
    return kinds[: kinds.index("rename") + 2]


class Counting(MemoryStore):
    """A store that counts which path appends take, with or without a fast one."""

    def __init__(self, *, fast: bool) -> None:
        super().__init__()
        self.fast = fast
        self.tried = self.awaited = 0

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]
        self.tried += 1
        return super().try_append(append) if self.fast else None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        self.awaited += 1
        return [super(Counting, self).try_append(each) for each in appends]


@pytest.mark.feature("D-60")
async def test_a_store_works_with_and_without_a_fast_path_for_appends() -> None:
    seen: list[list[Message]] = []
    for fast in (True, False):
        store = Counting(fast=fast)
        async with SessionHost(store=store) as host:
            session = await host.create("main")
            await session.save_turn(TURN)
            await session.append_message("user", "on")
            assert (store.tried, store.awaited) == (2, 0 if fast else 2)
            seen.append(await session.messages())
    assert seen[0] == seen[1]


@pytest.mark.feature("D-68")
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_concurrent_appends_can_share_a_write_and_each_returns_after_it(root: Path, writes: str) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk, writes=writes) as host:  # type: ignore[arg-type]
        session = await host.create("main")
        await session.append_message("user", "first")

        async def append(number: int) -> None:
            entry_id = await session.append_message("user", f"number {number}")
            assert entry_id.encode() in (root / "main.jsonl").read_bytes()

        disk.reset_counts()
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(append, number)
        assert 1 <= disk.counts["write"] <= 50
        assert writes == "inline" or disk.counts["write"] < 50


@pytest.mark.feature("D-23", "D-64")
async def test_a_title_and_any_metadata_are_written_at_once_and_kept_after_reopening(root: Path) -> None:
    path = root / "main.jsonl"
    state = {"app:theme": "dark", "user:name": {"first": "Ada", "tags": [1, None, True]}, "temp:x": 1.5, "": ""}
    async with SessionHost(root) as host:
        session = await host.open("main")
        assert session.title is None
        turn = await session.save_turn(TURN, metadata=state)
        info = await session.append_session_info(metadata=state)
        for title in ("Demo", "Another"):
            await session.set_title(title)
            assert session.title == title
            assert json.loads(path.read_bytes().splitlines()[-1])["session_info"] == {"name": title}
        async with SessionHost(root) as other:
            assert (await other.load("main", read_only=True)).title == "Another"
    async with SessionHost(root) as host:
        session = await host.open("main")
        assert session.title == "Another"
        assert (await session.entry(turn[-1])).usage.metadata == state  # type: ignore[union-attr]
        assert (await session.entry(info)).session_info.metadata == state  # type: ignore[union-attr]
        await session.set_title("")
        assert session.title is None


@pytest.mark.feature("D-24")
async def test_event_count_counts_a_turn_as_one_event(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await host.open("main")
        assert await session.event_count() == 0
        first = ""
        for number in range(1, 4):
            first = (await session.save_turn(TURN, Usage(1)))[0]
            assert await session.event_count() == number
        await session.append_compaction("So far.", None, 10)
        await session.branch(first)
        await session.append_message("user", "elsewhere")
        assert await session.event_count() == 5
        fork = await session.fork("fork")
        assert await fork.event_count() == 5
        await fork.save_turn(TURN)
        assert (await fork.event_count(), await session.event_count()) == (6, 5)
    torn = (root / "main.jsonl").read_bytes().splitlines(keepends=True)[:4]
    (root / "torn.jsonl").write_bytes(b"".join(torn).replace(b'"main"', b'"torn"'))
    async with SessionHost(root) as host:
        assert await (await host.open("main")).event_count() == 5
        session = await host.open("torn")
        await session.append_message("user", "after a crash in the first turn")
        assert await session.event_count() == 1


@pytest.mark.feature("D-25")
async def test_usage_is_totalled_over_all_branches_or_along_one_path(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await host.open("main")
        assert await session.total_usage() == Usage()
        first = (await session.save_turn([message("user", "a")], Usage(1, 10)))[-1]
        left = (await session.save_turn([message("user", "b")], Usage(2, 20, cost=0.5)))[-1]
        await session.branch(first)
        right = (await session.save_turn([message("user", "c")], Usage(4, 40)))[-1]
        await session.append_compaction("So far.", None, 10, usage=Usage(8))
        assert await session.total_usage() == Usage(15, 70, cost=0.5)
        assert await session.total_usage(left) == Usage(3, 30, cost=0.5)
        assert await session.total_usage(right) == Usage(5, 50)
        assert await session.total_usage(session.leaf_id) == Usage(13, 50)
    async with SessionHost(root) as host:
        assert await (await host.open("main")).total_usage() == Usage(15, 70, cost=0.5)


@pytest.mark.feature("D-65")
async def test_state_rebuilt_from_the_log_equals_the_live_state(root: Path) -> None:
    async def state(session: Session, host: SessionHost) -> list[object]:
        # The time of the last access is not in the log.
        rows = [replace(row, last_accessed=row.created) for row in await host.list_sessions()]
        return [
            session.tree(),
            session.path(),
            session.leaf_id,
            session.labels(),
            session.title,
            session.summary,
            session.metadata,
            session.updated,
            session.message_count,
            await session.event_count(),
            await session.total_usage(),
            await session.context(),
            await session.entries(),
            await session.view(WorkProjection()),
            rows,
        ]

    async with SessionHost(root) as host:
        session = await host.open("main")
        live: list[list[object]] = []
        steps: list[Callable[[], object]] = [
            lambda: session.save_turn(TURN, Usage(1)),
            lambda: session.set_title("Title"),
            lambda: session.set_label(session.path()[0], "begin"),
            lambda: session.branch_with_summary(session.path()[0], "left"),
            lambda: session.save_turn(TURN, Usage(2)),
            lambda: session.set_summary("So far"),
            lambda: session.truncate_history(2),
            lambda: session.append_model_change("p", "m"),
        ]
        for step in steps:
            await step()  # type: ignore[misc]
            live.append(await state(session, host))
            await session.passivate()
            assert await state(session, host) == live[-1]
    remove_derived_files(root)
    async with SessionHost(root) as host:
        assert await state(await host.load("main"), host) == live[-1]


@pytest.mark.feature("D-34")
def test_the_public_types_use_messages_and_the_entries_below_are_documented() -> None:
    for method in (Session.messages, Session.history, Session.all_messages):
        assert get_type_hints(method)["return"] == list[Message]
    assert get_type_hints(Session.save_turn)["messages"] == Sequence[Message]
    for name in ("messages", "history", "set_history", "save_turn", "summary", "title", "total_usage", "event_count"):
        member = getattr(Session, name)
        hints = get_type_hints(member.fget if isinstance(member, property) else member)
        assert not [hint for hint in hints.values() if "Entry" in str(hint)], name
    documented = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    assert [kind for kind in ENTRY_TYPES if f"`{kind}`" not in documented] == []

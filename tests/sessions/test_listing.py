"""The listing has a row for each file, whatever is in it or happens to it meanwhile."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Limits, SessionHost, text
from treering.entries import SessionInfo
from treering.events.disk import OsDisk
from treering.events.stores.base import Ref, Stamp
from treering.events.stores.files.changes import Changes
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk

SESSIONS = 5
BODY = "x" * 100_000


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 10, 0, second, tzinfo=UTC)


def line(kind: str, entry_id: str, parent_id: str | None, second: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "id": entry_id, "parent_id": parent_id, "timestamp": at(second).isoformat(), kind: payload}


def message_body(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": {"content": content}}]}


@pytest.mark.feature("G-101")
async def test_a_row_has_all_figures_of_its_file(root: Path, clock: ManualClock, file_of: Callable[..., Path]) -> None:
    named = file_of(
        {"type": "session", "id": "named", "version": 1, "timestamp": at(0).isoformat()},
        line("message", "a", None, 1, message_body("user", "Hello")),
        line("message", "b", "a", 2, message_body("assistant", "Hi")),
        line("message", "c", "a", 3, message_body("user", "on another branch")),
        line("session_info", "d", "c", 9, {"name": "Greeting"}),
        name="named.jsonl",
    )
    plain = file_of(
        {"type": "session", "id": "plain", "version": 1, "timestamp": at(4).isoformat()},
        line("message", "a", None, 5, message_body("user", "Hello")),
        name="plain.jsonl",
    )
    empty = file_of(
        {"type": "session", "id": "empty", "version": 1, "timestamp": at(1).isoformat()}, name="empty.jsonl"
    )
    (root / "--work--").mkdir()
    foreign = file_of(
        {"type": "session", "version": 3, "id": "foreign", "timestamp": "2026-01-01T10:00:06.000Z", "cwd": "/work"},
        {
            "type": "message",
            "id": "0000000a",
            "parentId": None,
            "timestamp": "2026-01-01T10:00:07.000Z",
            "message": {"role": "user", "content": "Hello", "timestamp": 1767261607000},
        },
        {
            "type": "session_info",
            "id": "0000000b",
            "parentId": "0000000a",
            "timestamp": "2026-01-01T10:00:08.000Z",
            "name": "From elsewhere",
        },
        name="--work--/foreign.jsonl",
    )
    (root / "notes.txt").write_text("no session")
    expected = [
        ("named", str(named), "Greeting", at(0), at(3), 3),
        ("foreign", str(foreign), "From elsewhere", at(6), at(7), 1),
        ("plain", str(plain), None, at(4), at(5), 1),
        ("empty", str(empty), None, at(1), at(1), 0),
    ]
    clock.now = at(30)
    async with SessionHost(root, clock=clock) as host:
        for _ in range(2):  # first from the files, then from memory
            rows = await host.list_sessions()
            assert [
                (row.id, row.path, row.name, row.created, row.modified, row.message_count) for row in rows
            ] == expected
            for row in reversed(rows):  # the most recent one is loaded last, so the order stays
                await host.load(row.path or "")


@pytest.mark.feature("G-99")
async def test_listing_reads_no_bodies_and_reports_corrupt_files(
    root: Path, file_of: Callable[..., Path], files: Callable[[], list[str]]
) -> None:
    async with SessionHost(root, limits=Limits(snapshot_after_lines=1)) as host:
        for number in range(SESSIONS):
            session = await host.create(f"s{number}")
            await session.append_message("user", f"question {number}")
            for _ in range(number + 1):
                await session.append_message("assistant", [text(BODY)])
    file_of(b"this is no session", b"at all", name="bad-text.jsonl")
    file_of({"type": "message", "id": "a"}, name="bad-first.jsonl")
    file_of({"type": "session", "id": "n", "version": 99, "timestamp": "2026-01-01T10:00:00Z"}, name="bad-new.jsonl")
    file_of(b"\xff\xfe\x00" * 1000, name="bad-bytes.jsonl")
    before = {root / name: (root / name).read_bytes() for name in files()}
    assert sum(map(len, before.values())) > 15 * len(BODY)

    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        rows = {row.id: row for row in await host.list_sessions()}
        assert disk.bytes_read < 2 * len(BODY)
        assert sum(row.message_count for row in rows.values()) == 20
        for number in range(SESSIONS):
            row = rows.pop(f"s{number}")
            assert (row.status, row.message_count, row.first_message) == ("active", number + 2, f"question {number}")
        disk.reset_counts()
        assert len(await host.list_sessions()) == SESSIONS + 4
        assert disk.bytes_read < 10_000
    assert set(rows) == {"bad-text", "bad-first", "bad-new", "bad-bytes"}
    for row in rows.values():
        assert row.status == "corrupted"
        assert row.problem
    assert "99" in (rows["bad-new"].problem or "")
    assert all(path.read_bytes() == content for path, content in before.items())


async def test_a_project_that_cannot_be_a_path_is_listed(host: SessionHost) -> None:
    session = await host.create("odd")
    await session.append(SessionInfo(project="/work/\0"))
    await session.passivate()
    assert [info.id for info in await host.list_sessions()] == ["odd"]


PATIENCE_S = 30


class PausingFiles(dict[Ref, Stamp]):
    """Files that pause at each membership test until they may continue."""

    def __init__(self, files: dict[Ref, Stamp]) -> None:
        super().__init__(files)
        self.reached = threading.Event()
        self.go = threading.Event()

    def __contains__(self, ref: object) -> bool:
        self.reached.set()
        assert self.go.wait(PATIENCE_S)
        return super().__contains__(ref)


async def test_a_session_deleted_during_a_listing_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[PausingFiles] = []
    scan = Changes.scan

    def pausing_scan(self: Changes) -> PausingFiles:
        found.append(PausingFiles(scan(self)))
        return found[-1]

    async with SessionHost(tmp_path) as host:
        for name in "abc":
            await (await host.create(name)).append_message("user", name)
        await host.list_sessions()
        await (await host.create("d")).append_message("user", "d")
        monkeypatch.setattr(Changes, "scan", pausing_scan)
        rows: list[str] = []

        async def listed() -> None:
            rows.extend(sorted(row.id for row in await host.list_sessions()))

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(listed)
                while not (found and found[0].reached.is_set()):
                    await checkpoint()
                try:
                    await host.delete("b")
                finally:
                    found[0].go.set()
        assert rows == ["a", "c", "d"]

"""Searching all sessions: by scan and by index, with the same results."""

# ruff: noqa: ANN401  # options are passed on unchanged

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from treering import InvalidInput, MemoryStore, Message, Session, SessionHost, SyncHost, image, text, thinking, tool_use
from treering.entries import Custom, SessionInfo, file_text
from treering.events.disk import OsDisk
from treering.events.stores import search_database as search_file
from treering.events.stores import search_index
from treering.events.stores.search import EntryText, IndexUnavailable
from treering.sessions import Hit
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
BOTH = pytest.mark.parametrize("index", [False, True], ids=["scan", "index"])


@pytest.fixture
def new_host(root: Path) -> Callable[..., SessionHost]:
    def make(**options: Any) -> SessionHost:
        return SessionHost(root, clock=ManualClock(START, timedelta(minutes=1)), **options)

    return make


async def hits(host: SessionHost, query: str, **options: Any) -> list[Hit]:
    return [hit async for hit in host.search(query, **options)]


async def ids(host: SessionHost, query: str, **options: Any) -> list[str]:
    return [hit.entry_id for hit in await hits(host, query, **options)]


async def create_session(host: SessionHost) -> tuple[Session, list[str]]:
    session = await host.create("work", cwd="/work/project")
    entry_ids = [
        await session.append_message("user", "Where is the needle?"),
        await session.append_message(
            "assistant", [thinking("The NEEDLE lies"), tool_use("c1", "grep", {"for": "needle"})]
        ),
        *(await session.append_tool_execution("c1", "grep", {"for": "needle"}, "hay: 3 needles"))[:1],
        await session.append_message("assistant", [text("Found"), image("bmVlZGxl", "image/png")]),
        await session.append_compaction("A needle was found", None, 10),
        await session.append_session_info("Needlework"),
    ]
    await session.append(Custom("mine", None))
    return session, entry_ids


@pytest.mark.feature("U-17")
@BOTH
async def test_entries_are_found_with_snippet_id_and_filter(new_host: Callable[..., SessionHost], index: bool) -> None:
    async with new_host() as host:
        session, entry_ids = await create_session(host)
        other = await host.create("other", cwd="/work/other")
        last = await other.append_message("user", "no needle here")
        found = await hits(host, "needle", index=index)
        assert [hit.entry_id for hit in found] == [last, *entry_ids[:3], *entry_ids[4:6]]
        assert [hit.role for hit in found] == ["user", "user", "assistant", "tool", "compaction", "session_info"]
        first = found[1]
        assert (first.session_id, first.ref, first.name) == ("work", "work.jsonl", "Needlework")
        assert (first.snippet, first.ranges) == ("Where is the needle?", ((13, 19),))
        entry = await session.entry(entry_ids[0])
        assert entry is not None
        assert first.timestamp == entry.timestamp
        assert await ids(host, "needle", role="user", index=index) == [last, entry_ids[0]]
        assert await ids(host, "needle", tool="grep", index=index) == entry_ids[1:3]
        assert await ids(host, "needle", tool="gre", index=index) == []
        assert await ids(host, "needle", project="/work/other", index=index) == [last]
        assert await ids(host, "needle", project=Path("/work/project/"), role="tool", index=index) == [entry_ids[2]]
        result = await session.entry(entry_ids[2])
        assert result is not None
        third = result.timestamp
        assert await ids(host, "needle", after=third, project="/work/project", index=index) == [
            entry_ids[2],
            *entry_ids[4:6],
        ]
        assert await ids(host, "needle", before=third, index=index) == entry_ids[:2]
        assert await ids(host, "needle", limit=2, index=index) == [last, entry_ids[0]]
        assert await ids(host, "needle", limit=2, offset=2, index=index) == entry_ids[1:3]
        assert await ids(host, "needle", limit=0, index=index) == []
        for wrong in ({"limit": -1}, {"offset": -1}, {"after": datetime(2026, 1, 1)}):
            with pytest.raises(InvalidInput):
                host.search("needle", **wrong)
        with pytest.raises(InvalidInput):
            host.search(" ")


@pytest.mark.feature("U-17")
@BOTH
async def test_later_changes_are_found(new_host: Callable[..., SessionHost], root: Path, index: bool) -> None:
    async with new_host() as host:
        session, _ = await create_session(host)
        gone = await host.create("gone")
        await gone.append_message("user", "short-lived needle")
        kept = await host.create("kept")
        await kept.append_message("user", "replaced needle")
        assert len(await hits(host, "needle", index=index)) == 7
        added = await session.append_message("user", "one more needle")
        await host.delete("gone")
        await kept.close()
        await host.passivate_idle()
        lines = (root / "kept.jsonl").read_bytes().replace(b"replaced needle", b"replaced pebble")
        (root / "new").write_bytes(lines)
        (root / "new").rename(root / "kept.jsonl")
        found = await hits(host, "needle", index=index)
        assert len(found) == 6
        assert found[-1].entry_id == added
        assert {hit.session_id for hit in found} == {"work"}
        assert [hit.session_id for hit in await hits(host, "pebble", index=index)] == ["kept"]
        assert await ids(host, "short-lived", index=index) == []
        if index:
            with closing(sqlite3.connect(root / "search.db", isolation_level=None)) as db:
                assert db.execute("SELECT count(*) FROM entries WHERE text LIKE '%short-lived%'").fetchone() == (0,)


async def test_deleted_text_that_a_reader_of_the_index_kept_is_removed_with_the_next_deletion(
    new_host: Callable[..., SessionHost], root: Path
) -> None:
    async with new_host() as host:
        for name in ("secret", "other"):
            await (await host.create(name)).append_message("user", f"the {name} word")
        assert len(await ids(host, "word", index=True)) == 2
        with closing(sqlite3.connect(root / "search.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM entries").fetchone() == (2,)
            await host.delete("secret")
            assert reader.execute("SELECT count(*) FROM entries").fetchone() == (2,)
            assert b"the secret word" in (root / "search.db-wal").read_bytes()
        assert len(await ids(host, "word", index=True)) == 1
        await host.delete("other")
        assert (root / "search.db-wal").read_bytes() == b""
        assert b"the secret word" not in (root / "search.db").read_bytes()


@pytest.mark.feature("D-66")
async def test_the_index_is_optional_private_and_rebuilt_anew(new_host: Callable[..., SessionHost], root: Path) -> None:
    path = root / "search.db"
    async with new_host() as host:
        await create_session(host)
        expected = await hits(host, "needle")
        assert not path.exists(), "the index is created on request only"
        assert await hits(host, "needle", index=True) == expected
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()
        assert await hits(host, "needle") == expected
        assert await hits(host, "needle", index=True) == expected
    data = path.read_bytes()
    assert not (root / "search.db-wal").exists()
    damages = {
        "torn": data[: len(data) // 2],
        "zeroed": data[:4096] + bytes(len(data) - 4096),
        "header": bytes(100) + data[100:],
        "empty": b"",
        "text": b"something else\n",
    }
    for damage in damages.values():
        path.write_bytes(damage)
        async with new_host() as host:
            for _ in range(3):
                assert await hits(host, "needle", index=True) == expected
            with closing(search_index.SearchIndex(search_file.SearchFile(str(path)))) as index:
                assert index.known().keys() == {"work.jsonl"}
    assert (root / "search.db.other-1").read_bytes() == damages["header"]
    assert (root / "search.db.other-2").read_bytes() == damages["text"]


async def test_an_older_index_is_rebuilt_and_a_newer_one_kept(new_host: Callable[..., SessionHost], root: Path) -> None:
    async with new_host() as host:
        await create_session(host)
        expected = await hits(host, "needle", index=True)
    for version, remains in (("0 14 0 0", False), ("nonsense", False), ("999 0 0 0", True)):
        with closing(sqlite3.connect(root / "search.db", isolation_level=None)) as db:
            db.execute("UPDATE settings SET version=?", (version,))
        async with new_host() as host:
            assert await hits(host, "needle", index=True) == expected
        with closing(sqlite3.connect(root / "search.db", isolation_level=None)) as db:
            assert (db.execute("SELECT version FROM settings").fetchone() == (version,)) is remains


async def test_without_fts5_or_a_writable_root_the_scan_is_used(
    new_host: Callable[..., SessionHost], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_host() as host:
        await create_session(host)
        expected = await hits(host, "needle")
        monkeypatch.setattr(search_file, "_missing_feature", lambda: "no such module: fts5")
        assert await hits(host, "needle", index=True) == expected
        assert not (root / "search.db").exists()
        monkeypatch.undo()
        (root / "search.db").mkdir()  # so it can be neither opened nor created
        assert await hits(host, "needle", index=True) == expected
        assert await hits(host, "needle") == expected
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        assert await hits(host, "needle", index=True) == expected, "an index needs the operating system's own disk"


async def test_the_scan_continues_when_the_index_fails_halfway(
    new_host: Callable[..., SessionHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_host() as host:
        for name in "abcdef":
            session = await host.create(name)
            for number in range(100):
                await session.append_message("user", f"needle {number}")
        expected = await ids(host, "needle", limit=1000, index=True)
        assert len(expected) == 600
        find = search_index.SearchIndex.find
        for after in range(1, 14):
            left = after

            def failing(self: search_index.SearchIndex, *args: Any, **options: Any) -> list[EntryText]:
                nonlocal left
                left -= 1
                if left <= 0:
                    raise IndexUnavailable("it is full")
                return find(self, *args, **options)

            monkeypatch.setattr(search_index.SearchIndex, "find", failing)
            assert await ids(host, "needle", limit=1000, index=True) == expected
            monkeypatch.undo()


@BOTH
async def test_two_hosts_of_a_root_find_each_others_entries(new_host: Callable[..., SessionHost], index: bool) -> None:
    async with new_host() as one, new_host() as other:
        session, entry_ids = await create_session(one)
        assert await ids(one, "needle", index=index) == await ids(other, "needle", index=index)
        added = await session.append_message("user", "needle again")
        assert (await ids(other, "needle", index=index))[-1] == added
        assert (await ids(one, "needle", index=index))[-1] == added
        theirs = await other.create("theirs")
        newest = await theirs.append_message("user", "their needle")
        assert (await ids(one, "their needle", index=index)) == [newest]
        assert len(await ids(other, "needle", index=index)) == len(entry_ids) + 1


@BOTH
async def test_unsearchable_files_are_reported(new_host: Callable[..., SessionHost], root: Path, index: bool) -> None:
    async with new_host() as host:
        await create_session(host)
        (root / "bad.jsonl").write_bytes(b"this is no session: needle\n")
        for _ in range(2):
            search = host.search("needle", index=index)
            assert len([hit async for hit in search]) == 5
            assert [(str(each.where), each.code, each.severity) for each in search.findings] == [
                (f"{root / 'bad.jsonl'}:1:0", "not_searched", "error")
            ]
            assert "bad.jsonl" not in search.findings[0].message  # a caller that prints `where` names the file once
        (root / "bad.jsonl").unlink()
        session = await host.create("corrupt")
        await session.append(SessionInfo(summary="needle of a program", status="corrupted"))
        assert len(await ids(host, "needle of a program", index=index)) == 1  # the status is the program's own
        await host.delete("corrupt")
        search = host.search("needle", index=index)
        assert len([hit async for hit in search]) == 5
        assert search.findings == []


@BOTH
async def test_lines_of_incomplete_batches_and_damaged_lines_are_not_found(
    new_host: Callable[..., SessionHost], root: Path, index: bool
) -> None:
    def line(number: int, content: str, batch: tuple[str, int, int, str] | None = None) -> bytes:
        entry: dict[str, Any] = {
            "type": "message",
            "id": f"e{number}",
            "parent_id": None,
            "timestamp": f"2026-01-01T10:00:{number:02}Z",
            "seq": number,
            "message": {"role": "user", "content": [{"type": "text", "text": {"content": content}}]},
        }
        if batch is not None:
            entry["batch"] = dict(zip(("id", "i", "n", "session"), batch, strict=True))
        return json.dumps(entry).encode() + b"\n"

    (root / "x").parent.mkdir()
    header = b'{"type":"session","id":"s","version":1,"timestamp":"2026-01-01T10:00:00Z"}\n'
    lines = [
        line(1, "needle whole", ("b1", 0, 2, "s")),
        line(2, "hay", ("b1", 1, 2, "s")),
        line(3, "needle torn", ("b2", 0, 3, "s")),
        b"needle { no json\n",
        line(5, "needle copied", ("b3", 1, 3, "parent")),
        line(6, "needle middle", ("b4", 1, 3, "s")),
        line(7, "straight needle"),
        line(8, "needle withheld", ("b5", 0, 2, "s")),
    ]
    path = root / "s.jsonl"
    path.write_bytes(header + b"".join(lines))
    async with new_host() as host:
        assert await ids(host, "needle", index=index) == ["e1", "e5", "e7"]
        path.write_bytes(path.read_bytes() + line(9, "needle last", ("b5", 1, 2, "s")))
        assert await ids(host, "needle", index=index) == ["e1", "e5", "e7", "e8", "e9"]


@BOTH
async def test_archived_sessions_are_searched(new_host: Callable[..., SessionHost], index: bool) -> None:
    async with new_host() as host:
        session, _ = await create_session(host)
        before = await ids(host, "needle", index=index)
        await host.archive(session)
        assert await ids(host, "needle", index=index) == before
        await host.unarchive(session)
        assert await ids(host, "needle", index=index) == before


async def test_a_host_in_memory_searches_by_scan() -> None:
    async with SessionHost(store=MemoryStore()) as host:
        session = await host.create()
        entry = await session.append(Message("user", (file_text("a.py", "import needle"),)))
        for index in (None, True, False):
            assert await ids(host, "IMPORT needle", index=index) == [entry]


async def test_a_long_log_is_indexed_in_portions_and_later_appends_are_added(
    new_host: Callable[..., SessionHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.actors.search.updating._PORTION_CHARS", 2000)
    async with new_host() as host:
        session = await host.create("long")
        entry_ids = [await session.append_message("user", f"needle {number} " + "x" * 100) for number in range(600)]
        assert await ids(host, "needle", limit=1000, index=True) == entry_ids
        entry_ids.append(await session.append_message("user", "needle last"))
        assert await ids(host, "needle", limit=1000, index=True) == entry_ids
        assert await ids(host, "ne", limit=1000, index=True) == entry_ids, "too short for the index"
        assert await ids(host, '"needle 599"', index=True) == [entry_ids[599]]


def test_the_blocking_facade_finds_the_same(root: Path) -> None:
    with SyncHost(root) as host:
        session = host.create("s")
        entries = [session.append_message("user", f"needle {number}") for number in range(3)]
        with host.search("needle", index=True) as search:
            assert [hit.entry_id for hit in search] == entries
        assert search.findings == []
        with host.search("needle") as search:
            assert next(search).entry_id == entries[0]
        host.archive("s")
        assert [row.status for row in host.list_sessions(status="any")] == ["archived"]
        host.unarchive(session)
        assert host.apply_retention(dry_run=True).archived == ()
    assert os.path.exists(root / "search.db")

"""Disk errors reach each caller at once, and sessions work again when the disk does."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from treering import AppendFailed, AppendInDoubt, InvalidInput, Limits, LogReplaced, Message, Session, SessionHost, text
from treering.errors import SessionNotFound
from treering.events.disk import OsDisk
from treering.events.stores.files import Durability, FileStore
from treering.events.stores.files.locks import SHARDS
from treering.testing.disks import FaultyDisk
from treering.testing.simulation import durabilities
from treering.testing.simulation.checks import check_session, tokens_of

LOGS = "*.jsonl"
CALLERS = 8


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(OsDisk())


@pytest.fixture(params=durabilities())
def durability(request: pytest.FixtureRequest) -> Durability:
    chosen: Durability = request.param
    return chosen


@pytest.fixture
async def host(tmp_path: Path, disk: FaultyDisk, durability: Durability) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "sessions", disk=disk, durability=durability) as host:
        yield host


@pytest.fixture
async def session(host: SessionHost) -> Session:
    session = await host.create("main")
    await session.append_message("user", "first")
    return session


async def assert_holds(session: Session, *tokens: str) -> None:
    """Check that a session and its file hold exactly these entries."""
    path = Path(session.file_path or "")
    assert tokens_of(await check_session(session, path.read_bytes(), str(path))) == list(tokens)


@pytest.mark.feature("U-6")
async def test_on_a_full_disk_every_append_fails_and_later_appends_lose_and_double_nothing(
    session: Session, disk: FaultyDisk
) -> None:
    full = disk.fail("write", errno.ENOSPC, path=LOGS, times=None)
    failed: list[str] = []

    async def append(number: int) -> None:
        with pytest.raises(AppendFailed, match="free some space") as caught:
            await session.append_message("user", f"early{number}")
        assert isinstance(caught.value.__cause__, OSError)
        failed.append(f"early{number}")

    for _ in range(3):
        async with anyio.create_task_group() as callers:
            for number in range(CALLERS):
                callers.start_soon(append, number)
    assert len(failed) == 3 * CALLERS
    with pytest.raises(AppendFailed):
        await session.append_many([Message("user", (text("a"),)), Message("user", (text("b"),))])
    assert session.message_count == 1
    full.lift()
    await session.append_message("user", "second")
    await session.append_many([Message("user", (text("third"),)), Message("user", (text("fourth"),))])
    await assert_holds(session, "first", "second", "third", "fourth")


async def test_in_a_shared_short_write_only_complete_lines_are_acknowledged(session: Session, disk: FaultyDisk) -> None:
    answers: dict[str, str] = {}

    async def append(token: str) -> None:
        try:
            await session.append_message("user", f"{token} {'x' * 100}")
            answers[token] = "acknowledged"
        except AppendFailed:
            answers[token] = "failed"

    disk.shorten(900, path=LOGS, nth=1)
    async with anyio.create_task_group() as callers:
        for number in range(CALLERS):
            callers.start_soon(append, f"t{number}")
    assert len(answers) == CALLERS
    found = tokens_of(await session.entries())
    assert sorted(found) == sorted(["first", *(token for token, answer in answers.items() if answer == "acknowledged")])
    disk.heal()
    await session.append_message("user", "second")
    await assert_holds(session, *found, "second")


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("nth", [1, 2, 4])
async def test_a_failed_flush_puts_the_append_in_doubt_until_it_is_repeated(
    session: Session, disk: FaultyDisk, durability: Durability, nth: int
) -> None:
    if durability == "os":
        pytest.skip("nothing is flushed")
    disk.fail("datasync", errno.EIO, nth=nth)
    tokens = [f"t{number}" for number in range(5)]
    doubts = 0
    for token in tokens:
        try:
            await session.append_message("user", token, command_id=token)
        except AppendInDoubt:
            doubts += 1
            disk.reset_counts()
            await session.append_message("user", token, command_id=token)
            assert disk.counts["write"] or durability == "group", (
                "after a failed flush, the data must be written again, not only flushed again"
            )
            assert not disk.counts["truncate"], "lines that may have been acknowledged must not be cut off"
    assert doubts == 1
    await assert_holds(session, "first", *tokens)


@pytest.mark.parametrize("durability", ["file", "group"])
@pytest.mark.parametrize("passivated", [False, True])
async def test_in_a_pi_file_a_repeated_append_after_a_failed_flush_flushes_first(
    tmp_path: Path, durability: Durability, passivated: bool
) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability=durability, dialect="pi") as host:
        session = await host.create("main")
        await session.append_message("user", "first")
        failed = disk.fail("datasync", errno.EIO, path="*.journal" if durability == "group" else "*.jsonl", times=1)
        with pytest.raises(AppendInDoubt):
            await session.append_message("assistant", "second", command_id="a-command")
        assert failed.hits == 1
        if passivated:
            assert await session.passivate()
        disk.reset_counts()
        await session.append_message("assistant", "second", command_id="a-command")
        assert disk.counts["datasync"]
        await assert_holds(session, "first", "second")


@pytest.mark.parametrize(
    ("call", "durability", "journal_max_bytes", "open_files_max"),
    [
        pytest.param("datasync", "group", 1, 64, id="checkpoint"),
        pytest.param("close", "os", 1 << 20, 1, id="close-os"),
        pytest.param("close", "group", 1 << 20, 1, id="close-group"),  # under "file" no descriptor is kept
    ],
)
async def test_an_error_in_housekeeping_for_another_log_fails_no_append(
    tmp_path: Path, call: str, durability: Durability, journal_max_bytes: int, open_files_max: int
) -> None:
    disk = FaultyDisk(OsDisk())
    store = FileStore(
        tmp_path, durability=durability, disk=disk, journal_max_bytes=journal_max_bytes, open_files_max=open_files_max
    )
    async with SessionHost(store=store) as host:
        first, other = await host.create("main"), await host.create("other")
        await first.append_message("user", "first")
        failed = disk.fail(call, errno.EIO, path="*/main.jsonl")
        await other.append_message("user", "this append finds the journal or the pool of descriptors full")
        assert failed.hits == 1
        await first.append_message("user", "second")
        await assert_holds(first, "first", "second")


@pytest.mark.parametrize("call", ["open", "stat", "fstat"])
async def test_a_log_that_fails_to_open_raises_an_append_error(session: Session, disk: FaultyDisk, call: str) -> None:
    assert await session.passivate()
    fault = disk.fail(call, errno.EMFILE, path=LOGS, times=None)
    with pytest.raises(AppendFailed):
        await session.append_message("user", "lost")
    with pytest.raises(AppendInDoubt):  # it may have been carried out before
        await session.append_message("user", "second", command_id="a-command")
    fault.lift()
    await session.append_message("user", "second", command_id="a-command")
    await assert_holds(session, "first", "second")


@pytest.mark.parametrize(
    ("call", "path", "number"),
    [
        pytest.param("open", "*/new.jsonl", errno.EACCES, id="no permission"),
        pytest.param("open", "*/new.jsonl", errno.EROFS, id="read-only disk"),
        pytest.param("make_directory", "*", errno.EACCES, id="no root"),
    ],
)
async def test_where_no_file_can_be_made_an_append_fails(
    host: SessionHost, disk: FaultyDisk, call: str, path: str, number: int
) -> None:
    fault = disk.fail(call, number, path=path, times=None)
    session = await host.create("new")
    with pytest.raises(AppendFailed, match=os.strerror(number)):
        await session.append_message("user", "lost")
    fault.lift()
    await session.append_message("user", "first")
    await assert_holds(session, "first")


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
async def test_a_file_that_is_not_the_same_raises_an_error_and_is_continued_once_there_is_one(
    host: SessionHost, session: Session, replaced: bool
) -> None:
    if replaced:
        other = await host.create("other")
        await other.append_message("user", "another")
        await other.passivate()
        os.replace(other.file_path or "", session.file_path or "")
    else:
        os.unlink(session.file_path or "")
    with pytest.raises(LogReplaced if replaced else SessionNotFound):
        await session.append_message("user", "lost")
    if not replaced:
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "lost again")
        assert not os.path.exists(session.file_path or "")
        await host.create("main")
    await session.append_message("user", "second")
    await assert_holds(session, *(["another"] if replaced else []), "second")


async def test_a_stalled_write_delays_its_own_session(tmp_path: Path, disk: FaultyDisk, durability: Durability) -> None:
    async with SessionHost(tmp_path / "sessions", disk=disk, durability=durability, writes="thread") as host:
        slow, quick = await host.create("slow"), await host.create("quick")
        await slow.append_message("user", "first")
        stall = disk.stall("write", path="*/slow.jsonl")
        async with anyio.create_task_group() as callers:
            callers.start_soon(slow.append_message, "user", "second")
            assert await anyio.to_thread.run_sync(stall.wait)
            if durability != "group":
                await quick.append_message("user", "first")
            assert slow.message_count == 1
            stall.lift()
        await assert_holds(slow, "first", "second")


@pytest.mark.feature("N-136")
async def test_flush_returns_when_all_earlier_appends_are_as_durable_as_the_host_promises(
    session: Session, disk: FaultyDisk, durability: Durability
) -> None:
    disk.reset_counts()
    async with anyio.create_task_group() as callers:
        for number in range(CALLERS):
            callers.start_soon(session.append_message, "user", f"t{number}")
        await anyio.wait_all_tasks_blocked()
        await session.flush()
        size = os.path.getsize(session.file_path or "")
        assert session.cursor.seq == len((Path(session.file_path or "")).read_bytes().splitlines()) - 1
        assert bool(disk.counts["datasync"]) == (durability != "os")
    await session.flush()
    assert os.path.getsize(session.file_path or "") >= size
    await assert_holds(session, "first", *(token for token in tokens_of(await session.entries()) if token != "first"))
    assert session.message_count == CALLERS + 1


LOCKS = ".treering/locks"
JOURNAL = ".treering/journal/1-1.journal"


def put_in_place_of_locks(root: Path, put: Callable[[Path], None]) -> None:
    """Put something in the place of each lock file."""
    for number in range(SHARDS):
        shard = root / LOCKS / f"{number:02x}"
        shard.unlink(missing_ok=True)
        put(shard)


async def end_with_two_entries(root: Path) -> None:
    """Leave a session that a host has closed."""
    async with SessionHost(root) as host:
        session = await host.create("main")
        await session.append_message("user", "first")
        await session.append_message("user", "second", command_id="second")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("has_journal", [False, True])
async def test_without_room_for_a_lock_a_session_is_refused_by_name_and_goes_on_later(
    root: Path, durability: Durability, has_journal: bool
) -> None:
    await end_with_two_entries(root)
    put_in_place_of_locks(root, lambda shard: shard.symlink_to("/dev/full"))
    refused = rf"No space left on device: {root}/{LOCKS}/..\): free some space, then"
    async with SessionHost(root, durability=durability) as host:
        fresh = await host.create("fresh")
        if has_journal:
            (root / JOURNAL).parent.mkdir()
            (root / JOURNAL).touch()
        with pytest.raises(AppendFailed, match=refused):
            await host.load("main")
        with pytest.raises(AppendFailed, match=refused):
            await fresh.append_message("user", "refused")
        with pytest.raises(AppendInDoubt, match=refused):
            await fresh.append_message("user", "kept", command_id="again")
        put_in_place_of_locks(root, Path.touch)
        await fresh.append_message("user", "kept", command_id="again")
        await assert_holds(fresh, "kept")
        session = await host.load("main")
        await session.append_message("user", "third")
        await assert_holds(session, "first", "second", "third")


async def append_to_main(host: SessionHost) -> None:
    await (await host.load("main")).append_message("user", "third")


async def branch_main(host: SessionHost) -> None:
    session = await host.load("main")
    await session.branch(session.path()[0])


async def archive_main(host: SessionHost) -> None:
    await host.archive("main")


CALLS = [append_to_main, branch_main, archive_main]


@pytest.mark.parametrize(
    ("in_the_way", "refused"),
    [(LOCKS, CALLS), (JOURNAL, CALLS), ("main.jsonl.leaf", [branch_main]), ("main.jsonl.index", [archive_main])],
    ids=["lock", "journal", "leaf record", "snapshot"],
)
async def test_a_folder_in_the_place_of_a_file_is_named(
    root: Path, in_the_way: str, refused: list[Callable[[SessionHost], Awaitable[None]]]
) -> None:
    await end_with_two_entries(root)
    if in_the_way == LOCKS:
        put_in_place_of_locks(root, Path.mkdir)
    else:
        (root / in_the_way).mkdir(parents=True)
    async with SessionHost(root) as host:
        for call in CALLS:
            if call not in refused:
                await call(host)
                continue
            with pytest.raises((InvalidInput, AppendFailed, IsADirectoryError), match="move that directory") as caught:
                await call(host)
            assert f"{root}/{in_the_way}" in str(caught.value)


async def test_a_branch_is_kept_after_another_program_deleted_the_file_and_wrote_it_anew(root: Path) -> None:
    await end_with_two_entries(root)
    path = root / "main.jsonl"
    data = path.read_bytes()
    async with SessionHost(root) as host:
        session = await host.load("main")
        first = session.path()[0]
        path.unlink()
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "third")
        path.write_bytes(data)
        await session.append_message("user", "second", command_id="second")  # which is found, and not written
        await session.branch(first)
    async with SessionHost(root) as host:
        session = await host.load("main")
        assert session.leaf_id == first
        await assert_holds(session, "first", "second")


async def test_no_snapshot_is_written_while_an_append_is_in_doubt(root: Path, disk: FaultyDisk) -> None:
    limits = Limits(snapshot_after_lines=1)
    async with SessionHost(root, disk=disk, durability="file", limits=limits) as host:
        session = await host.create("main")
        await session.append_message("user", "first")
        disk.fail("datasync", errno.EIO, path=LOGS)
        with pytest.raises(AppendInDoubt):
            await session.append_message("user", "second", command_id="second")
        await session.passivate()
        assert not (root / "main.jsonl.index").exists()
        await session.append_message("user", "second", command_id="second")
        await assert_holds(session, "first", "second")
        await session.passivate()
        assert (root / "main.jsonl.index").exists()

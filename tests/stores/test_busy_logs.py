"""While a thread works on a log, what else is asked of the log waits, and gets the state that the thread leaves."""

import asyncio
import errno
from collections.abc import Awaitable
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from treering.events.errors import Conflict, InvalidInput, LogReplaced, SessionLocked
from treering.events.stores.base import Append, Cursor, InDoubt, Lease
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk
from treering.testing.stores.case import Writer, bare, line, lines, read_all

from .logs import HEADER, HoldingOffload, attempt, own, put_file


class Asked:
    """What was asked of a store, in the order in which it was answered."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def note(self, name: str, asking: Awaitable[object]) -> None:
        try:
            await asking
        except (Conflict, LogReplaced) as error:
            name += f": {type(error).__name__}"
        self.answers.append(name)


async def begun(root: Path, durability: Durability = "file") -> tuple[FileStore, Writer, HoldingOffload]:
    """Return the writer of a log with one line, whose next call of a thread waits there."""
    offload = HoldingOffload()
    writer = await own(FileStore(root, durability=durability, offload=offload))
    await writer.append(line(1))
    offload.hold()
    assert isinstance(writer.store, FileStore)
    return writer.store, writer, offload


async def test_a_log_is_released_when_its_append_is_done_and_what_still_waits_for_it_is_refused(root: Path) -> None:
    store, writer, offload = await begun(root)
    asked, other = Asked(), FileStore(root)
    index = Cursor(writer.head.generation, 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked.note, "append", writer.append(line(2)))
        await offload.held.wait()
        tasks.start_soon(asked.note, "read", store.read("a.jsonl", "stale", 0))
        tasks.start_soon(asked.note, "release", store.release([writer.lease]))
        await wait_all_tasks_blocked()
        tasks.start_soon(asked.note, "save", store.save(writer.lease, "index", index, b"index"))
        await wait_all_tasks_blocked()
        assert asked.answers == []
        assert isinstance((await other.acquire(["a.jsonl"], "other"))[0], SessionLocked)
        assert (await store.read("a.jsonl", index.generation, 0)).lines == bare([line(1)]), "only what is committed"
        offload.release()
    assert sorted(asked.answers) == ["append", "read: LogReplaced", "release", "save: Conflict"]
    assert isinstance((await other.acquire(["a.jsonl"], "other"))[0], Lease)
    assert await read_all(other, "a.jsonl") == bare(lines(1, 2))
    await other.aclose()
    await store.aclose()


async def test_a_log_is_released_although_its_release_is_cancelled_while_it_waits(root: Path) -> None:
    store, writer, offload = await begun(root)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.append, line(2))
        await offload.held.wait()
        releasing = asyncio.create_task(store.release([writer.lease]))
        for _ in range(2):  # no shield stops that
            await wait_all_tasks_blocked()
            releasing.cancel()
        await wait_all_tasks_blocked()
        offload.release()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert isinstance((await FileStore(root).acquire(["a.jsonl"], "other"))[0], Lease)


async def test_an_append_waits_for_what_a_thread_does_with_its_log(root: Path) -> None:
    store, writer, offload = await begun(root, "os")
    asked = Asked()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked.note, "save", store.save(writer.lease, "index", writer.head, b"index"))
        await offload.held.wait()
        tasks.start_soon(asked.note, "append", writer.append(line(2)))
        await wait_all_tasks_blocked()
        offload.release()
    assert asked.answers == ["save", "append"]
    await store.aclose()


async def test_lines_whose_file_is_gone_are_refused_when_the_thread_is_done(root: Path) -> None:
    store, writer, offload = await begun(root)
    asked, generation = Asked(), writer.head.generation
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attempt, writer, line(2))
        await offload.held.wait()
        (root / "a.jsonl").unlink()
        tasks.start_soon(asked.note, "read", store.read("a.jsonl", generation, 0))
        await wait_all_tasks_blocked()
        assert asked.answers == []
        offload.release()
    assert asked.answers == ["read: LogReplaced"]
    await store.aclose()


async def test_a_log_that_was_acquired_while_it_was_opened_shows_no_line_in_doubt() -> None:
    memory, offload = MemoryDisk(), HoldingOffload()
    put_file(memory, "/s/a.jsonl", HEADER + line(1))
    disk = FaultyDisk(memory)
    store = FileStore("/s", disk=disk, durability="file", offload=offload)
    seqs: list[int] = []

    async def open_it() -> None:
        seqs.append((await store.open("a.jsonl")).head.seq)

    async with anyio.create_task_group() as tasks:
        offload.hold()
        tasks.start_soon(open_it)
        await offload.held.wait()
        offload.holds = False
        writer = await own(store)
        disk.fail("datasync", errno.EIO)
        [outcome] = await store.append([writer.request(line(2))])
        assert isinstance(outcome, InDoubt)
        offload.release()
    assert seqs == [1]


@pytest.mark.parametrize("durability", ["os", "file", "group"])
async def test_an_append_that_cannot_be_carried_out_is_refused_or_in_doubt(durability: Durability) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = FileStore("/s", disk=disk, durability=durability)
    writer = await own(store)
    with pytest.raises(InvalidInput, match="its first append needs a header block"):
        await store.append([Append(writer.lease, writer.head, (line(1),))])
    await writer.append(line(1))
    disk.fail("datasync", errno.EIO, times=None)
    [outcome] = await store.append([writer.request(line(2))])
    if durability == "os":
        return
    assert isinstance(outcome, InDoubt)
    with pytest.raises(Conflict, match="is in doubt: load the session, then archive it"):
        await store.pack(writer.lease)
    disk.heal()
    assert (await store.resolve(writer.lease)).seq == 2
    await store.pack(writer.lease)
    await store.aclose()


async def test_an_exception_in_a_thread_leaves_the_append_in_doubt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(root, durability="file")
    writer = await own(store)
    await writer.append(line(1))
    strange = ArithmeticError("strange")

    def fail(*_: object) -> None:
        raise strange

    with monkeypatch.context() as patch:
        patch.setattr("treering.events.disk.OsDisk.write", fail)
        [outcome] = await store.append([writer.request(line(2))])
    assert isinstance(outcome, InDoubt)
    assert outcome.error.__cause__ is strange
    assert (await store.resolve(writer.lease)).seq == 1
    await writer.append(line(2))
    await store.aclose()

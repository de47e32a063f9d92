"""Appends to several logs in one call: each log has its own outcome, whatever became of the others."""

import errno
import os
from collections.abc import Callable
from itertools import product
from typing import TypeVar, TypeVarTuple

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering.events.errors import AppendInDoubt
from treering.events.stores.base import Committed, Cursor, Fenced, InDoubt, Outcome
from treering.events.stores.files import Durability, FileStore, Writes
from treering.testing.disks import FaultyDisk, MemoryDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import Writer, line, lines

from .logs import append_to, header_for, own

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

FOLDER = "/sessions"
THEIRS, THEIRS_AFTER = line(9), line(10)
NOWHERE = Cursor("", 0)
WAYS: list[tuple[Durability, Writes]] = [
    ("os", "inline"), ("os", "thread"), ("file", "inline"), ("group", "inline"), ("group", "thread")
]  # fmt: skip


class BrokenOffload(AtOnce):
    """Has no threads while it is broken."""

    error: Exception | None = None
    calls = 0

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.calls += 1
        if self.error is not None:
            await checkpoint()
            raise self.error
        return await super().__call__(fn, *args)


class OtherProgramDisk(FaultyDisk):
    """A disk on which another program may append a line to a log just before and after a write, or empty it before."""

    meanwhile = ""
    emptied = ""

    def write(self, fd: int, data: bytes) -> int:
        path = self.path_of(fd)
        if path == self.emptied:
            self.inner.truncate(fd, 0)
        if path != self.meanwhile:
            return super().write(fd, data)
        self.meanwhile = ""
        append_to(self.inner, path, THEIRS)
        try:
            return super().write(fd, data)
        finally:
            append_to(self.inner, path, THEIRS_AFTER)


class Host:
    """A store with the logs that are asked for."""

    def __init__(self, durability: Durability, writes: Writes, syncs_max: int = 8) -> None:
        self.memory = MemoryDisk()
        self.disk = OtherProgramDisk(self.memory)
        self.offload = BrokenOffload()
        self.store = FileStore(
            FOLDER, durability=durability, writes=writes, disk=self.disk, offload=self.offload, syncs_max=syncs_max
        )
        self.writers: dict[str, Writer] = {}

    async def own(self, *names: str, count: int = 1) -> None:
        """Own logs with a number of lines; without one, they do not exist yet."""
        for name in names:
            lease = (await own(self.store, name)).lease
            self.writers[name] = Writer(self.store, lease)
            if count:
                await self.writers[name].append(*lines(1, count))

    async def append(self, first: int, last: int, *names: str) -> list[str]:
        """Append the same lines to logs in one call, and return the outcomes in words."""
        requests = [self.writers[name].request(*lines(first, last)) for name in names]
        outcomes = await self.store.append(requests)
        assert len(outcomes) == len(names)
        return [self.word(name, outcome) for name, outcome in zip(names, outcomes, strict=True)]

    def word(self, name: str, outcome: Outcome) -> str:
        writer = self.writers[name]
        if isinstance(outcome, InDoubt):
            assert isinstance(outcome.error, AppendInDoubt)
            return f"{name} in doubt: {outcome.error.__cause__!r}"
        moved = outcome.head.seq - writer.head.seq
        same = "" if outcome.head.generation == writer.head.generation else " of another generation"
        if isinstance(outcome, Committed):
            writer.head = outcome.head
            writer._exists = True
        return f"{name} {type(outcome).__name__} at {moved:+d}{same}"

    def content(self, name: str) -> bytes:
        return self.memory.files()[os.path.join(FOLDER, name)]

    async def after_power_cut(self, name: str) -> bytes:
        """Return what the next host has of a log if only what was flushed survives."""
        disk = self.memory.crash()
        store = FileStore(FOLDER, durability="group", disk=disk, offload=AtOnce())
        await store.acquire([name], "next")
        await store.aclose()
        return disk.files().get(os.path.join(FOLDER, name), b"")


@pytest.mark.parametrize("order", [1, -1], ids=["", "reversed"])
@pytest.mark.parametrize(("durability", "writes"), WAYS)
async def test_each_log_of_one_call_has_its_own_outcome(durability: Durability, writes: Writes, order: int) -> None:
    host = Host(durability, writes)
    names = ["good", "new", "lost", "behind", "replaced", "removed", "joined", "full", "/elsewhere/far"]
    await host.own(*(name for name in names if name != "new"))
    await host.own("new", count=0)
    await host.store.release([host.writers["lost"].lease])
    lease = (await own(host.store, "lost")).lease
    await Writer(host.store, lease).append(line(7))
    behind = host.writers["behind"]
    [outcome] = await host.store.append([behind.request(line(7))])
    assert isinstance(outcome, Committed)
    append_to(host.memory, f"{FOLDER}/x", header_for("another") + line(8))
    host.memory.rename(f"{FOLDER}/x", f"{FOLDER}/replaced")
    host.memory.unlink(f"{FOLDER}/removed")
    host.disk.meanwhile = f"{FOLDER}/joined"
    host.disk.shorten(len(line(2)) + 5, path=f"{FOLDER}/full")
    before = {name: host.content(name) for name in names if name not in ("new", "removed")}

    outcomes = await host.append(2, 4, *names[::order])

    ours = b"".join(lines(2, 4))
    assert sorted(outcomes) == sorted(
        [
            "good Committed at +3",
            "new Committed at +3 of another generation",
            "lost Fenced at +1",
            "behind Fenced at +1",
            "replaced Fenced at +0 of another generation",
            "removed Fenced at -1 of another generation",
            "joined Committed at +5",
            "full Failed at +1",
            "/elsewhere/far Committed at +3",
        ]
    )
    assert [each.split()[0] for each in outcomes] == names[::order]
    expected = {
        "good": before["good"] + ours,
        "new": header_for("new") + ours,
        "lost": before["lost"],
        "behind": before["behind"],
        "replaced": before["replaced"],
        "joined": before["joined"] + THEIRS + ours + THEIRS_AFTER,
        "full": before["full"] + line(2),
        "/elsewhere/far": before["/elsewhere/far"] + ours,
    }
    assert {name: host.content(name) for name in expected} == expected
    if durability != "os":
        acknowledged = [name for name in expected if name != "replaced"]
        assert {name: await host.after_power_cut(name) for name in acknowledged} == {
            name: expected[name] for name in acknowledged
        }
    going_on = ["good", "new", "joined", "/elsewhere/far"]
    assert await host.append(5, 5, *going_on) == [f"{name} Committed at +1" for name in going_on]
    await host.store.aclose()
    assert host.memory.open_files == 0


@pytest.mark.parametrize(("durability", "writes"), WAYS)
async def test_an_append_of_no_lines_is_checked_and_changes_nothing(durability: Durability, writes: Writes) -> None:
    host = Host(durability, writes)
    await host.own("a", "b")
    await host.own("new", count=0)
    files = host.memory.files()
    host.disk.reset_counts()
    for _ in range(2):
        assert await host.append(2, 1, "a", "b") == ["a Committed at +0", "b Committed at +0"]
        assert await host.append(2, 1, "a") == ["a Committed at +0"]
    assert (host.memory.files(), host.disk.counts) == (files, {})
    host.memory.unlink(f"{FOLDER}/b")
    assert await host.append(2, 1, "b") == ["b Committed at +0"]
    assert await host.append(2, 1, "new") == ["new Committed at +0 of another generation"]
    assert host.content("new") == header_for("new")
    old = host.writers["a"].request()
    assert await host.append(2, 2, "a") == ["a Committed at +1"]
    assert await host.store.append([old]) == [Fenced(host.writers["a"].head, host.writers["a"].lease.epoch)]
    assert await host.append(3, 3, "new", "a") == ["new Committed at +1", "a Committed at +1"]


@pytest.mark.parametrize(
    ("durability", "writes", "calls"),
    [("os", "inline", 0), ("os", "thread", 1), ("file", "inline", 1), ("group", "inline", 1), ("group", "thread", 2)],
)
@pytest.mark.parametrize("names", [["a"], ["a", "b", "c", "d"]], ids=["one", "several"])
async def test_appends_of_one_call_share_their_threads_and_their_flush(
    durability: Durability, writes: Writes, calls: int, names: list[str]
) -> None:
    host = Host(durability, writes, syncs_max=1)
    await host.own(*names)
    for number in (2, 3):
        host.offload.calls = 0
        host.disk.reset_counts()
        assert await host.append(number, number, *names) == [f"{name} Committed at +1" for name in names]
        assert host.offload.calls == calls
        assert host.disk.counts["datasync"] == {"os": 0, "file": len(names), "group": 1}[durability]
    stale = [host.writers[name].request(line(4), head=NOWHERE) for name in names]
    host.offload.calls = 0
    fenced = [Fenced(host.writers[name].head, host.writers[name].lease.epoch) for name in names]
    assert await host.store.append(stale) == fenced
    assert host.offload.calls == (0 if (durability, writes) in {("os", "inline"), ("group", "inline")} else 1)


@pytest.mark.parametrize(("durability", "writes"), WAYS)
@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one", "several"])
async def test_of_two_appends_at_once_to_the_same_end_of_a_log_one_is_refused(
    durability: Durability, writes: Writes, names: list[str]
) -> None:
    host = Host(durability, writes)
    await host.own(*names)
    outcomes: list[Outcome] = []

    async def append() -> None:
        outcomes.extend(await host.store.append([host.writers[name].request(line(2)) for name in names]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append)
        tasks.start_soon(append)
    assert sorted(type(each).__name__ for each in outcomes) == ["Committed"] * len(names) + ["Fenced"] * len(names)
    assert all(host.content(name) == header_for(name) + b"".join(lines(1, 2)) for name in names)


@pytest.mark.parametrize(
    ("durability", "writes", "cause"),
    [
        *((*way, "no threads") for way in WAYS if way != ("os", "inline")),
        ("group", "inline", "no flush"),
        ("group", "thread", "no flush"),
    ],
)
@pytest.mark.parametrize("names", [["a"], ["a", "b", "/elsewhere/c"]], ids=["one", "several"])
async def test_appends_are_in_doubt_while_no_thread_can_be_had_and_if_the_journal_cannot_be_flushed(
    durability: Durability, writes: Writes, cause: str, names: list[str]
) -> None:
    host = Host(durability, writes)
    if cause == "no flush":
        names = [name for name in names if not name.startswith("/")]  # the journal has only those below its root
    await host.own(*names)
    error = ZeroDivisionError("no threads") if cause == "no threads" else OSError(errno.EIO, os.strerror(errno.EIO))
    if cause == "no threads":
        host.offload.error = error
    else:
        host.disk.fail("datasync", errno.EIO, path="*.journal")
    for offload_error in (host.offload.error, host.offload.error, None):  # a doubt stays until it is resolved
        host.offload.error = offload_error
        assert await host.append(2, 3, *names) == [f"{name} in doubt: {error!r}" for name in names]
    for name in names:
        writer = host.writers[name]
        writer.head = await host.store.resolve(writer.lease)
        await writer.append(*lines(writer.head.seq + 1, 4))
        whole = header_for(name) + b"".join(lines(1, 4))
        assert host.content(name) == whole
        if durability != "os":
            assert await host.after_power_cut(name) == whole


@pytest.mark.parametrize(("durability", "writes"), WAYS)
async def test_an_append_is_tried_only_where_nothing_is_waited_for(durability: Durability, writes: Writes) -> None:
    host = Host(durability, writes)
    await host.own("a")
    before = host.memory.files()
    outcome = host.store.try_append(host.writers["a"].request(line(2)))
    is_written = (durability, writes) == ("os", "inline")
    assert (isinstance(outcome, Committed), outcome is None) == (is_written, not is_written)
    assert (host.memory.files() != before) == is_written


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # its tasks take turns in order
@pytest.mark.parametrize(("durability", "writes"), WAYS)
async def test_other_tasks_get_a_turn_during_any_append(durability: Durability, writes: Writes) -> None:
    host = Host(durability, writes)
    await host.own("a", "b", "c")
    turns: list[str] = []

    async def take_turn() -> None:
        turns.append("taken")

    for names, written, head in product(("a", "abc"), ([], [line(2)]), (None, NOWHERE)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turn)
            await host.store.append([host.writers[name].request(*written, head=head) for name in names])
            assert turns.pop() == "taken", (names, written, head)


@pytest.mark.parametrize(("durability", "writes"), WAYS)
async def test_an_append_to_a_file_emptied_just_before_is_in_doubt(durability: Durability, writes: Writes) -> None:
    host = Host(durability, writes)
    await host.own("a", "b")
    host.disk.emptied = f"{FOLDER}/a"
    assert await host.append(2, 2, "a", "b") == ["a in doubt: None", "b Committed at +1"]
    assert host.content("a") == line(2)

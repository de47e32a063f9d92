"""Equal commands give equal bytes, on every loop and in whichever way they are sent."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, TypeVarTuple, get_args
from uuid import UUID

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import (
    Entry,
    InvalidInput,
    Limits,
    Message,
    Session,
    SessionHost,
    TreeringError,
    Usage,
    message,
    text,
    tool_use,
)
from treering.events.disk import Disk, OsDisk
from treering.events.stores.files import Durability
from treering.testing import strategies
from treering.testing.clocks import ManualClock
from treering.testing.disks import MemoryDisk, RecordingDisk

from ..sampling import examples

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Name: TypeAlias = Literal["native", "pi", "omp"]
LOOPS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


class Inputs:
    """A clock that advances with each call, ids from a counter, and an offload that counts its calls."""

    def __init__(self, *, start: int = 0) -> None:
        self._ids: Iterator[int] = count(start)
        self._time = datetime(2026, 1, 1, tzinfo=UTC)
        self.offloaded = 0

    def clock(self) -> datetime:
        self._time += timedelta(milliseconds=7)
        return self._time

    def new_id(self) -> str:
        number = next(self._ids)
        return str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128, version=4))

    async def offload(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.offloaded += 1
        return fn(*args)


async def program(root: str, disk: Disk, inputs: Inputs, dialect: Name, durability: Durability) -> None:
    """Use every operation that writes."""
    async with SessionHost(
        root,
        dialect=dialect,
        durability=durability,
        disk=disk,
        clock=inputs.clock,
        new_id=inputs.new_id,
        offload=inputs.offload,
        writes="inline",
        limits=Limits(snapshot_after_lines=4),
    ) as host:
        session = await host.create(cwd="/work", key="chat:1")
        first = await session.append_message("user", "héllo", metadata={"a": [1, None]})
        turn = [
            Message("assistant", (text("well"), tool_use("c1", "read", {"path": "a"})), usage=Usage(1, 2)),
            message("user", "x"),
        ]
        await session.save_turn(turn, Usage(3), command_id="turn-1")
        await session.append_tool_execution("c1", "read", {"path": "a"}, "done", duration_ms=1.5)
        await session.set_label(first, "start")
        await session.passivate()
        await session.branch(first)
        await session.passivate()
        await session.append_model_change("p", "m")
        await session.branch_with_summary(first, "left", details={"files": []})
        last = await session.append_message("user", "run_on")
        await session.append_compaction("short", last, 1000)
        await session.append_session_info("name")
        if dialect == "native":
            await session.append_custom_entry("note", {"n": 1}, below=first, aside=True)
        await (await session.fork()).append_message("user", "in the fork")
        await session.create_branched_session(last)
        other = await host.create("other")
        await other.append_message("user", "one")
        await other.reset_leaf()


def run_on(loop: str, run: Callable[..., Any], *args: object) -> None:
    anyio.run(partial(run, *args), **LOOPS[loop])


@pytest.mark.feature("X-35")
@pytest.mark.parametrize("durability", get_args(Durability))
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
def test_the_same_clock_ids_and_disk_give_the_same_bytes_on_every_loop(dialect: Name, durability: Durability) -> None:
    pytest.importorskip("uvloop")
    written: list[dict[str, bytes]] = []
    done: list[list[object]] = []
    threads = {*threading.enumerate()}  # some may end meanwhile: those that earlier tests left idle
    for loop in [*LOOPS, *LOOPS]:
        disk, inputs = RecordingDisk(MemoryDisk()), Inputs()
        run_on(loop, program, "/sessions", disk, inputs, dialect, durability)
        written.append(disk.memory.files())
        done.append(list(disk.operations))
        assert inputs.offloaded > 0
        assert threads.issuperset(threading.enumerate())  # all blocking work went through the offload
    assert sum(path.endswith(".jsonl") and "/.treering/" not in path for path in written[0]) == 4
    assert all(files == written[0] for files in written)
    assert all(operations == done[0] for operations in done)


@pytest.mark.feature("X-35")
def test_other_ids_give_other_files_and_another_disk_the_same_files(tmp_path: Path) -> None:
    contents: list[dict[str, bytes]] = []
    for name, start in (("one", 0), ("two", 0), ("three", 1000)):
        root = tmp_path / name
        run_on("asyncio", program, str(root), OsDisk(), Inputs(start=start), "native", "os")
        contents.append({log.name: log.read_bytes().replace(str(root).encode(), b"") for log in root.glob("*.jsonl")})
    one, two, three = contents
    assert one == two
    assert one.keys() != three.keys()
    memory = MemoryDisk()
    run_on("trio", program, "/sessions", memory, Inputs(), "native", "os")
    in_memory = {
        path.removeprefix("/sessions/"): data.replace(b"/sessions", b"") for path, data in memory.files().items()
    }
    assert one.items() <= in_memory.items()


async def test_a_clock_without_a_zone_is_refused_before_anything_is_written() -> None:
    async with SessionHost(clock=lambda: datetime(2026, 1, 1)) as host:
        for make in (host.create, partial(host.open, "a"), partial(host.get_or_create, "key")):
            with pytest.raises(InvalidInput, match="has no time zone: give one"):
                await make()
        assert await host.list_sessions() == []


AppendOne: TypeAlias = Callable[[Session, Message], Awaitable[object]]
Stored: TypeAlias = tuple[bytes, bytes, list[Entry], list[tuple[type[TreeringError], str]]]


async def plainly(session: Session, message: Message) -> None:
    await session.append(message)


async def as_list(session: Session, message: Message) -> None:
    await session.append_many([message])


async def with_an_expected_leaf(session: Session, message: Message) -> None:
    await session.append(message, expected_leaf=session.leaf_id)


async def stored_by(append: AppendOne, dialect: Literal["native", "pi", "omp"], messages: list[Message]) -> Stored:
    """Append messages, and return the file, the snapshot, the entries and the errors."""
    ids = (f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 1000))
    clock = ManualClock(step=timedelta(milliseconds=7))
    errors: list[tuple[type[TreeringError], str]] = []
    disk = MemoryDisk()
    async with SessionHost("/root", disk=disk, dialect=dialect, clock=clock, new_id=lambda: next(ids)) as host:
        session = await host.create(cwd="/work")
        for message in messages:
            try:
                await append(session, message)
            except TreeringError as error:
                errors.append((type(error), error.message))
        entries, index = await session.entries(), (await session.log()).index.dump()
    return disk.files().get(f"/root/{session.ref}", b""), index, entries, errors


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
@settings(max_examples=examples(12))
@given(messages=st.lists(strategies.messages(), max_size=6))
def test_a_message_is_stored_alike_whichever_way_it_is_appended(
    dialect: Literal["native", "pi", "omp"], messages: list[Message]
) -> None:
    async def stored() -> list[Stored]:
        return [await stored_by(append, dialect, messages) for append in (as_list, plainly, with_an_expected_leaf)]

    listed, plain, expecting = anyio.run(stored)
    assert plain == listed
    assert expecting == listed


@pytest.mark.parametrize("append", [plainly, as_list, with_an_expected_leaf])
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_times_do_not_go_back_when_the_clock_does(
    tmp_path: Path, append: AppendOne, writes: Literal["inline", "thread"]
) -> None:
    clock = ManualClock()
    start = clock.now
    async with SessionHost(tmp_path, clock=clock, writes=writes) as host:
        session = await host.create("main")
        for hours in (0, -1, -24, 1, 0, -1):
            clock.now = start + timedelta(hours=hours)
            await append(session, Message("user", (text(str(hours)),)))
        await session.passivate()
        for hours in (-2, -3, 2):
            clock.now = start + timedelta(hours=hours)
            await append(session, Message("user", (text(str(hours)),)))
        hours_stored = [(entry.timestamp - start) / timedelta(hours=1) for entry in await session.entries()]
    assert hours_stored == [0, 0, 0, 1, 1, 1, 1, 1, 2]
    async with SessionHost(tmp_path) as host:
        entries = await (await host.load("main", read_only=True)).entries()
    assert [(entry.timestamp - start) / timedelta(hours=1) for entry in entries] == hours_stored

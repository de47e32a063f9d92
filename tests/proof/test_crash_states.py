"""Every disk state that a power cut can leave of a small program opens with what was acknowledged."""

import errno
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from random import Random
from typing import Literal, TypeAlias

import pytest
from msgspec import Struct

from treering import Message, Session, SessionHost, SessionNotFound, text
from treering.events.disk import Disk
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.disks.crashes import digest
from treering.testing.simulation import check_file, check_session, durabilities, run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

ROOT = "/data/sessions"
NAMES = ("a", "b", "fork")
STEPS = ("append", "many", "branch", "other", "passivate", "fork")
LONG = "x" * 600

Program: TypeAlias = tuple[str, ...]
Way: TypeAlias = "Callable[[Program, RecordingDisk, Durability], Awaitable[list[Moment]]]"
How: TypeAlias = Literal["cut", "killed", "repeated", "interrupted"]
Case: TypeAlias = tuple[How, Durability, Program]

EVERY = [pytest.param(each, marks=pytest.mark.feature("X-27") if each == "group" else ()) for each in durabilities()]
SHORT: list[Program] = [program for length in (1, 2) for program in product(STEPS, repeat=length)]
INTERRUPTED: list[Program] = [("many", "branch"), ("append", "fork"), ("append", "other")]
LONGER: list[Program] = [program for length in (3, 4) for program in product(STEPS, repeat=length)]


class Contents(Struct, frozen=True):
    """The contents of a session: the ids of its entries, and its leaf."""

    ids: tuple[str, ...] = ()
    leaf: str | None = None


class Moment(Struct, frozen=True):
    """The number of disk operations at which a step was acknowledged, and the contents of the sessions then."""

    operations: int
    contents: dict[str, Contents]


NOTHING = Moment(0, dict.fromkeys(NAMES, Contents()))


def new_disk() -> RecordingDisk:
    """Make a disk with the parent folder of the root."""
    memory = MemoryDisk()
    memory.make_directory("/data")
    memory.settle()
    return RecordingDisk(memory)


class WithoutSessionIndex(WrappedDisk):
    """A disk that refuses to open the index of sessions: it is derived, and its states would triple the number."""

    def open(self, path: str, flags: int) -> int:
        """Open any file but the index."""
        if "/.treering/index.jsonl" in path:
            raise OSError(errno.ENOENT if flags & os.O_ACCMODE == os.O_RDONLY else errno.EROFS, "not here", path)
        return super().open(path, flags)


def host_on(disk: Disk, durability: Durability, seed: bytes = b"") -> SessionHost:
    offload = AtOnce()
    random = Random(seed)
    new_id = SeededIds(random)
    store = FileStore(ROOT, durability=durability, disk=WithoutSessionIndex(disk), offload=offload, new_id=new_id)
    return SessionHost(store=store, offload=offload, clock=VirtualClock(random), new_id=new_id)


async def carry_out(program: Program, disk: RecordingDisk, durability: Durability) -> list[Moment]:
    """Run a program, and return what was acknowledged when."""
    moments = [NOTHING]
    async with host_on(disk, durability) as host:
        sessions: dict[str, Session] = {"a": await host.create("a"), "b": await host.create("b")}
        for number, step in enumerate(program):
            await run_step(step, number, sessions)
            moments.append(await moment_of(disk, sessions))
    return moments


async def run_step(step: str, number: int, sessions: dict[str, Session]) -> None:
    first = sessions["a"]
    match step:
        case "append":
            await first.append_message("user", f"{number} {LONG}")
        case "many":
            await first.append_many([Message("user", (text(f"{number}.{part} {LONG}"),)) for part in range(3)])
        case "branch" if path := first.path():
            await first.branch(path[0])
        case "other":
            await sessions["b"].append_message("user", str(number))
        case "passivate":
            await first.passivate()
        case "fork" if first.path() and "fork" not in sessions:
            sessions["fork"] = await first.fork("fork")
        case _:
            pass


async def moment_of(disk: RecordingDisk, sessions: Mapping[str, Session]) -> Moment:
    """Return the current contents of the sessions, all of which was acknowledged."""
    contents = {name: await contents_of(session) for name, session in sessions.items()}
    return Moment(len(disk.operations), dict.fromkeys(NAMES, Contents()) | contents)


async def contents_of(session: Session) -> Contents:
    return Contents(tuple(entry.id or "" for entry in await session.entries()), session.leaf_id)


async def recover(memory: MemoryDisk, durability: Durability) -> dict[str, Contents]:
    """Open every session of a disk, and check each against its file."""
    found: dict[str, Contents] = {}
    async with host_on(memory, durability, digest(memory.image)) as host:
        for name in NAMES:
            path = f"{ROOT}/{name}.jsonl"
            before = memory.files().get(path, b"")
            try:
                session = await host.load(name)
            except SessionNotFound:
                found[name] = Contents()
                assert not memory.files().get(path)
                if before:  # the header is torn
                    assert before in [data for each, data in memory.files().items() if each.startswith(f"{path}.torn")]
            else:
                data = memory.files()[path]
                check_file(data, path)
                assert data.startswith(before[: before.rfind(b"\n") + 1]), "a complete line is gone"
                await check_session(session, data, path)
                found[name] = await contents_of(session)
    return found


def record_states(memory: MemoryDisk) -> list[MemoryDisk]:
    """Return a list to which the state of the disk is added after each operation."""
    kept: list[MemoryDisk] = []
    memory.listeners.append(lambda _: kept.append(memory.crash(keep_unsynced=True)))
    return kept


def logs(memory: MemoryDisk) -> dict[str, bytes]:
    return {
        path: data for path, data in memory.files().items() if path.endswith(".jsonl") and "/.treering/" not in path
    }


def check(moments: Sequence[Moment], cut_after: int, found: dict[str, Contents], durability: Durability) -> None:
    """Compare what opened with what was acknowledged before the power cut."""
    for name in NAMES:
        history = [moment.contents[name] for moment in moments]
        final = max((contents.ids for contents in history), key=len)
        ids = found[name].ids
        assert ids == final[: len(ids)], "not a prefix of what was appended"
        if name == "fork":
            assert ids in [contents.ids for contents in history], "a copy is complete or absent"
        known = [moment.contents[name] for moment in moments if moment.operations <= cut_after]
        if durability != "os":
            assert known[-1].ids == ids[: len(known[-1].ids)], "an acknowledged entry is lost"
        # If the log ends there, the leaf is the last acknowledged one, or one that was set after it.
        surely = len(known) - 1 if durability != "os" else 0
        leaves = {contents.leaf for contents in history[surely:] if contents.ids == ids}
        if durability == "os" or ids != known[-1].ids:
            leaves.add(ids[-1] if ids else None)
        assert found[name].leaf in leaves


async def repeat(program: Program, disk: RecordingDisk, durability: Durability) -> list[Moment]:
    """Repeat the commands of a process that ended before it flushed anything; return what was acknowledged when."""
    async with host_on(disk, "os") as earlier:
        await send_commands(program, await earlier.create("a"))
    moments = [NOTHING]
    async with host_on(disk, durability) as host:
        session = await host.load("a")
        await send_commands(program, session)
        moments.append(await moment_of(disk, {"a": session}))
        await session.append_message("user", LONG)
        moments.append(await moment_of(disk, {"a": session}))
    return moments


async def send_commands(program: Program, session: Session) -> None:
    for number, step in enumerate(program):
        count = 3 if step == "many" else 1
        await session.append_many([Message("user", (text(LONG),))] * count, command_id=str(number))


class Prover:
    """Checks what opens on the disks that power cuts leave of programs.

    Programs that begin alike leave the same disks, so what opens on a disk is computed once."""

    def __init__(self, durability: Durability) -> None:
        self._durability: Durability = durability
        self._found: dict[bytes, dict[str, Contents]] = {}

    def prove(self, program: Program, how: Way = carry_out) -> int:
        """Check every state that a power cut can leave of a program, and return their number."""
        disk = new_disk()
        moments = run(0, how, program, disk, self._durability)
        states = 0
        for left in disk.crash_states():
            check(moments, left.cut_after, self._opened(left), self._durability)
            states += 1
        assert states, "no state was checked"
        return states

    def _opened(self, left: MemoryDisk) -> dict[str, Contents]:
        key = digest(left.image)
        if key not in self._found:
            found = run(0, recover, left, self._durability)
            once = logs(left)
            assert run(0, recover, left, self._durability) == found
            assert logs(left) == once, "recovering again changed something"
            self._found[key] = found
        return self._found[key]


def prove_killed(program: Program, durability: Durability) -> int:
    """Kill a program after each operation, open what is left in a new host, and check each power cut during that."""
    disk = new_disk()
    killed: list[MemoryDisk] = []
    disk.memory.listeners.append(lambda _: killed.append(MemoryDisk(disk.memory.image.copy())))
    moments = run(0, carry_out, program, disk, durability)
    seen: set[bytes] = set()
    for operations, left in enumerate(killed, 1):
        known = [moment.contents for moment in moments if moment.operations <= operations][-1]
        recording = RecordingDisk(left)
        run(0, recover, recording.memory, durability)
        for after in recording.crash_states():
            key = digest(after.image) + repr(known).encode()
            if key not in seen:
                seen.add(key)
                found = run(0, recover, after, durability)
                for name in NAMES:
                    assert found[name].ids[: len(known[name].ids)] == known[name].ids, "an acknowledged entry is lost"
    assert seen or not killed, "no state was checked"
    return len(seen)


def prove_interrupted(program: Program, durability: Durability, *, every: int) -> int:
    """Recover from one in `every` power cuts, cut the power again, and check that the next recovery gives the same."""
    disk = new_disk()
    run(0, carry_out, program, disk, durability)
    interrupted = 0
    for left in islice(disk.crash_states(), 0, None, every):
        untouched = MemoryDisk(left.image.copy())
        run(0, recover, untouched, durability)
        recording = RecordingDisk(left)
        run(0, recover, recording.memory, durability)
        if not any(each.kind in ("write", "truncate", "rename") for each in recording.operations):
            continue
        for again in islice(recording.crash_states(), 3):
            run(0, recover, again, durability)
            assert logs(again) == logs(untouched)
            interrupted += 1
    assert interrupted, "no recovery wrote anything"
    return interrupted


def cases() -> Iterator[Case]:
    """Yield what the soak checks: programs with the same first steps, which leave the same disks, follow each other."""
    fifth = Random(0).sample([*product(STEPS, repeat=4)], 60)
    longest = [(*first, last) for first in fifth for last in STEPS]
    for durability in durabilities():
        for program in [*SHORT, *LONGER, *longest]:
            yield "cut", durability, program
    synced: list[Durability] = ["file", "group"]
    for durability, program in product(synced, SHORT):
        yield "killed", durability, program
    for durability, program in product(synced, SHORT):
        yield "repeated", durability, program
    for durability, program in product(durabilities(), INTERRUPTED):
        yield "interrupted", durability, program


CASES = list(cases())


@lru_cache(maxsize=1)
def prover_for(how: How, durability: Durability, first: Program) -> Prover:
    """Return the prover of the programs that begin with the same steps."""
    return Prover(durability)


def prove_seed(seed: int, tally: Counter[str]) -> None:
    """Check a case of the soak."""
    how, durability, program = CASES[seed]
    if how == "killed":
        tally["crash states checked"] += prove_killed(program, durability)
    elif how == "interrupted":
        tally["crash states checked"] += prove_interrupted(program, durability, every=1)
    else:
        way = repeat if how == "repeated" else carry_out
        tally["crash states checked"] += prover_for(how, durability, program[:-1]).prove(program, way)


@pytest.mark.feature("X-26")
@pytest.mark.parametrize("durability", EVERY)
def test_each_state_after_a_power_cut_has_what_was_acknowledged(durability: Durability, tally: Counter[str]) -> None:
    random = Random(durability)
    # The soak checks all of them; a journal multiplies the states.
    short, longer = (6, 0) if durability == "group" else (12, 1)
    prover = Prover(durability)
    for program in [*random.sample(SHORT, short), *random.sample(LONGER, longer)]:
        tally["crash states checked"] += prover.prove(program)


@pytest.mark.parametrize("durability", ["file", "group"])
@pytest.mark.parametrize("program", [("append", "many")])
def test_repeated_commands_are_as_durable_as_new(durability: Durability, program: Program, tally: Counter[str]) -> None:
    tally["crash states checked"] += Prover(durability).prove(program, repeat)


@pytest.mark.parametrize(
    ("durability", "program"), [("file", ("append", "passivate", "append")), ("group", ("append", "other"))]
)
def test_a_kill_with_a_power_cut_loses_nothing(durability: Durability, program: Program, tally: Counter[str]) -> None:
    tally["crash states checked"] += prove_killed(program, durability)


@pytest.mark.parametrize(("durability", "program"), [*zip(durabilities(), INTERRUPTED, strict=True)])
def test_a_cut_recovery_is_completed_by_the_next(durability: Durability, program: Program, tally: Counter[str]) -> None:
    tally["crash states checked"] += prove_interrupted(program, durability, every=3)


@pytest.mark.parametrize("durability", EVERY)
def test_an_exit_at_any_operation_loses_nothing_acknowledged(durability: Durability, tally: Counter[str]) -> None:
    for program in Random(1).sample([*SHORT, *LONGER], 5):
        disk = new_disk()
        kept = record_states(disk.memory)
        moments = run(0, carry_out, program, disk, durability)
        for operations, left in enumerate(kept, 1):
            found = run(0, recover, left, durability)
            known = [moment for moment in moments if moment.operations <= operations][-1]
            for name in NAMES:
                assert found[name].ids[: len(known.contents[name].ids)] == known.contents[name].ids
                if found[name].ids == known.contents[name].ids:
                    assert found[name].leaf in {
                        moment.contents[name].leaf for moment in moments if moment.contents[name].ids == found[name].ids
                    }
            tally["crash states checked"] += 1

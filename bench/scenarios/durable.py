"""What durability costs: one journal for all sessions compared with one flush per file, and with no flush.

The disk whose flush takes 2 ms is the machine's own disk with a sleep after each `datasync`, in the calling thread. The
delay is added nowhere else.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from math import inf

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from treering import SessionHost
from treering.events.dialects.native import NativeDialect
from treering.events.disk import OsDisk
from treering.events.entries import NATIVE_VERSION, Header
from treering.events.stores.base import Append, Committed, Lease
from treering.events.stores.files import Durability, FileStore
from treering.testing.stores.case import TIME, line

from ..driving import call_repeatedly
from ..jobs import TEXT_1_KB
from ..least import Log
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, micros, near_the_least
from ..timing import Sample, timed
from ..workspace import Workspace

FLUSH_S = 0.002
THREADS = 32
WAVES = 5
"""How many appends each session gets in a round; the next one starts once the previous one is durable."""

_BARE = f"{THREADS} bare threads"
_OPTIONS = {"use_uvloop": find_spec("uvloop") is not None}
_SURVIVES = {"os": "a process crash", "file": "a power cut", "group": "a power cut"}
_NATIVE = NativeDialect()


class SlowFlush(OsDisk):
    """The machine's disk with a flush that takes 2 ms longer."""

    def datasync(self, fd: int) -> None:
        """Flush a file, then sleep."""
        super().datasync(fd)
        time.sleep(FLUSH_S)


def _run(job: Callable[[], Awaitable[Sample]]) -> Sample:
    return anyio.run(job, backend="asyncio", backend_options=_OPTIONS)


# -- the store alone


def _through_store(durability: Durability, scale: Scale, space: Workspace) -> Sample:
    async def run() -> Sample:
        store = FileStore(space.new_folder(), durability=durability, disk=SlowFlush(), syncs_max=THREADS)
        leases = await store.acquire([f"{number}.jsonl" for number in range(scale.many)], "bench")
        held_leases = [each for each in leases if isinstance(each, Lease)]
        header = _NATIVE.encode_header(Header(id="bench", version=NATIVE_VERSION, timestamp=TIME))
        created = await store.append([Append(each, each.head, (), False, header, _NATIVE) for each in held_leases])
        heads = [each.head for each in created if isinstance(each, Committed)]
        sample = Sample(len(heads) * WAVES)
        for wave in range(1, WAVES + 1):
            new_lines = (line(wave, TEXT_1_KB),)
            appends = [Append(lease, head, new_lines) for lease, head in zip(held_leases, heads, strict=True)]
            with timed(sample):
                began = time.perf_counter()
                outcomes = await store.append(appends)
                sample.latencies_s.append(time.perf_counter() - began)
            heads = [each.head for each in outcomes if isinstance(each, Committed)]
            assert len(heads) == len(held_leases)
        await store.aclose()
        return sample

    return _run(run)


def _by_threads(scale: Scale, space: Workspace) -> Sample:
    """Only write and flush each file, in a thread pool: the reference for the cost of a store's bookkeeping."""
    disk, folder = SlowFlush(), space.new_folder()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    files = [disk.open(str(folder / str(number)), flags) for number in range(scale.many)]
    sample = Sample(len(files) * WAVES)

    def append(fd: int) -> None:
        disk.write(fd, data)
        disk.datasync(fd)

    with ThreadPoolExecutor(THREADS) as pool:
        for wave in range(WAVES):
            data = line(wave + 1, TEXT_1_KB)
            with timed(sample):
                began = time.perf_counter()
                deque(pool.map(append, files), maxlen=0)
                sample.latencies_s.append(time.perf_counter() - began)
    for fd in files:
        disk.close(fd)
    return sample


# -- through sessions


def _through_sessions(durability: Durability, sessions: int, calls: int, space: Workspace, *, slow: bool) -> Sample:
    async def run() -> Sample:
        sample = Sample(sessions * calls)
        disk = SlowFlush() if slow else OsDisk()
        store = FileStore(space.new_folder(), durability=durability, disk=disk, syncs_max=THREADS)
        async with SessionHost(store=store) as host:
            handles = [await host.create() for _ in range(sessions)]
            async with anyio.create_task_group() as group:
                for each in handles:
                    group.start_soon(each.append_message, "user", "hello")
            with timed(sample):
                async with anyio.create_task_group() as group:
                    for each in handles:
                        append = partial(each.append_message, "user", TEXT_1_KB)
                        group.start_soon(call_repeatedly, append, calls, inf, sample.latencies_s)
        return sample

    return _run(run)


def _least(scale: Scale, space: Workspace) -> Sample:
    """Append to each file, write all lines once more to one journal, flush that, and wake whoever waits: the wall."""
    disk, folder = SlowFlush(), space.new_folder()
    logs = [Log(folder, f"{number}.jsonl") for number in range(scale.many)]
    for log in logs:
        log.create()
    journal = disk.open(str(folder / "journal"), os.O_WRONLY | os.O_CREAT)

    async def run() -> Sample:
        sample = Sample(len(logs) * WAVES)
        rounds = _Rounds(disk, journal)
        with timed(sample):
            async with anyio.create_task_group() as group:
                for log in logs:
                    call = partial(rounds.append, log)
                    group.start_soon(call_repeatedly, call, WAVES, inf, sample.latencies_s)
                while len(sample.latencies_s) < sample.operations:
                    await rounds.settle()
        return sample

    sample = _run(run)
    for fd in (journal, *(log.fd for log in logs)):
        disk.close(fd)
    return sample


class _Rounds:
    """The rounds of a journal: all that was appended since the last one is flushed together."""

    def __init__(self, disk: OsDisk, journal: int) -> None:
        self._disk = disk
        self._journal = journal
        self._lines: list[bytes] = []
        self._flushed = anyio.Event()

    async def append(self, log: Log) -> None:
        """Append a message, and wait until it is flushed."""
        self._lines.append(log.append())
        await self._flushed.wait()

    async def settle(self) -> None:
        """Flush what has been appended, and wake whoever waits for that."""
        await checkpoint()
        lines, self._lines = self._lines, []
        flushed, self._flushed = self._flushed, anyio.Event()
        if lines:
            await to_thread.run_sync(self._flush, b"".join(lines))
        flushed.set()

    def _flush(self, data: bytes) -> None:
        self._disk.write(self._journal, data)
        self._disk.datasync(self._journal)


# -- scenarios


def _side(durability: Durability, run: Callable[[Durability, Scale, Workspace], Sample], scale: Scale) -> Side:
    return Side(durability, partial(run, durability, scale), _SURVIVES[durability])


def _sides(
    run: Callable[[Durability, Scale, Workspace], Sample], *durabilities: Durability
) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: [_side(each, run, scale) for each in durabilities]


def _pending(durability: Durability, scale: Scale, space: Workspace) -> Sample:
    return _through_sessions(durability, scale.many, WAVES, space, slow=True)


def _unslowed(durability: Durability, scale: Scale, space: Workspace) -> Sample:
    calls = max(1, scale.messages // scale.many)
    return _through_sessions(durability, scale.many, calls, space, slow=False)


_NOTE = (
    f"A flush takes {FLUSH_S * 1000:.0f} ms longer than the machine's own; `file` flushes on {THREADS} threads. "
    "The files of all sessions may be open at once."
)

SCENARIOS = [
    Scenario(
        "durable-store",
        "one pending append of 1 KB in each of many sessions, a flush of 2 ms, the store alone",
        "µs/append",
        micros,
        lambda peers, scale: [
            *_sides(_through_store, "file", "group")(peers, scale),
            Side(_BARE, partial(_by_threads, scale), _SURVIVES["file"]),
        ],
        (Goal("group", "speed", 10.0), Goal("group", "cost", 1 / 10, against=(_BARE,))),
        "file",
        5,
        f"{_NOTE} The bare threads write and flush files, and do none of a store's other work.",
    ),
    Scenario(
        "durable-sessions",
        "one pending append of 1 KB in each of many sessions, a flush of 2 ms, through sessions",
        "µs/message",
        micros,
        lambda peers, scale: [
            *_sides(_pending, "file", "group")(peers, scale),
            Side(_BARE, partial(_by_threads, scale), _SURVIVES["file"]),
            Side("the least", partial(_least, scale), _SURVIVES["group"]),
        ],
        (
            Goal("group", "speed", 4.0),
            Goal("group", "cost", 1 / 10, against=(_BARE,)),
            near_the_least("group"),
        ),
        "file",
        5,
        f"{_NOTE} The least appends, and awaits one flush of a journal for all.",
    ),
    Scenario(
        "durable-many-sessions",
        "awaited appends of 1 KB, one at a time in each of many sessions, without added delay",
        "µs/message",
        micros,
        _sides(_unslowed, "os", "file", "group"),
        (Goal("group", "speed", 1 / 2),),
        "os",
        5,
        "The figure of `file` depends on how long the machine's own flush takes.",
    ),
]

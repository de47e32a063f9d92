"""What a long run is watched by: the pauses of the collector, how late the event loop is, and memory from time to time."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from math import log2

import anyio
from msgspec import Struct

from .process import resident_bytes

TICK_S = 0.005
_STEPS = 8
"""How many buckets a doubling has: a figure is at most 9 % too high."""


class Histogram:
    """Durations in buckets from one microsecond on, so that a day of them takes no more room than a minute."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.max_s = 0.0

    def add(self, seconds: float) -> None:
        """Take one in."""
        self._buckets[int(log2(max(seconds * 1e6, 1.0)) * _STEPS)] += 1
        self.max_s = max(self.max_s, seconds)

    def quantile(self, share: float) -> float:
        """Return what that share of the durations does not exceed, in seconds: the upper end of its bucket."""
        wanted = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            wanted -= self._buckets[bucket]
            if wanted <= 0:
                return min(2 ** ((bucket + 1) / _STEPS) / 1e6, self.max_s)
        return 0.0


class Pauses(Struct):
    """How often the collector collected one generation, and how long everything stood still for it.

    Attributes:
        count: How often.
        max_ms: The longest pause.
        total_ms: All of them together.
        cpu_max_ms: The most processor time that one took: where that is far less, the machine had other things to do.
    """

    count: int = 0
    max_ms: float = 0.0
    total_ms: float = 0.0
    cpu_max_ms: float = 0.0

    def add(self, spent_ms: float, cpu_ms: float) -> None:
        """Take one in."""
        self.count += 1
        self.total_ms += spent_ms
        self.max_ms = max(self.max_ms, spent_ms)
        self.cpu_max_ms = max(self.cpu_max_ms, cpu_ms)


@contextmanager
def pauses() -> Generator[list[Pauses]]:
    """Measure the collector's pauses in a block: an item for each generation, the last for full collections."""
    found = [Pauses() for _ in gc.get_count()]
    began = cpu = 0.0

    def note(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began, cpu
        if phase == "start":
            began, cpu = time.perf_counter(), time.thread_time()
        else:
            spent = time.perf_counter() - began
            found[info["generation"]].add(spent * 1000, (time.thread_time() - cpu) * 1000)

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


async def tick(late: Histogram) -> None:
    """Wake every 5 ms until cancelled, and note how late that is."""
    while True:
        began = time.perf_counter()
        await anyio.sleep(TICK_S)
        late.add(time.perf_counter() - began - TICK_S)


class Memory(Struct, frozen=True):
    """The memory of this process at one time.

    Attributes:
        resident_bytes: What the system has given it.
        blocks: How many blocks Python has allocated.
        traced_bytes: What Python has allocated, where that is traced, which itself takes time and room.
    """

    resident_bytes: int
    blocks: int
    traced_bytes: int | None


def memory() -> Memory:
    """Look at the memory of this process."""
    traced = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else None
    return Memory(resident_bytes(), sys.getallocatedblocks(), traced)


def tracked(most: int) -> tuple[int, dict[str, int]]:
    """Count the objects that a full collection goes through.

    Args:
        most: How many types to name, the most frequent first.

    Returns:
        How many there are, and how many of each of those types.
    """
    found = gc.get_objects()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found)
    return len(found), dict(types.most_common(most))

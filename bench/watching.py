"""Instruments for a long run: pauses of the garbage collector, delays of the event loop, and memory."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from math import log2

import anyio
from msgspec import Struct

from .process import resident_bytes

TICK_S = 0.005
_STEPS = 8
"""Buckets per power of two: a quantile is at most 9 % too high."""


class Histogram:
    """Durations in buckets, from one microsecond up, so that memory does not grow with the number of durations."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.max_s = 0.0

    def add(self, seconds: float) -> None:
        """Add a duration."""
        self._buckets[int(log2(max(seconds * 1e6, 1.0)) * _STEPS)] += 1
        self.max_s = max(self.max_s, seconds)

    def quantile(self, share: float) -> float:
        """Return the upper bound, in seconds, of the bucket that holds a quantile."""
        remaining = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            remaining -= self._buckets[bucket]
            if remaining <= 0:
                return min(2 ** ((bucket + 1) / _STEPS) / 1e6, self.max_s)
        return 0.0


class Pauses(Struct):
    """The pauses for collections of one generation of the garbage collector.

    Attributes:
        count: The number of collections.
        max_ms: The longest pause.
        total_ms: The total of all pauses.
        cpu_max_ms: The most processor time of one collection; if it is far below `max_ms`, the machine was busy.
    """

    count: int = 0
    max_ms: float = 0.0
    total_ms: float = 0.0
    cpu_max_ms: float = 0.0

    def add(self, spent_ms: float, cpu_ms: float) -> None:
        """Add a pause."""
        self.count += 1
        self.total_ms += spent_ms
        self.max_ms = max(self.max_ms, spent_ms)
        self.cpu_max_ms = max(self.cpu_max_ms, cpu_ms)


@contextmanager
def pauses() -> Generator[list[Pauses]]:
    """Measure the collector's pauses in a block: one item per generation, the last one for full collections."""
    by_generation = [Pauses() for _ in gc.get_count()]
    began = cpu = 0.0

    def note_phase(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began, cpu
        if phase == "start":
            began, cpu = time.perf_counter(), time.thread_time()
        else:
            spent = time.perf_counter() - began
            by_generation[info["generation"]].add(spent * 1000, (time.thread_time() - cpu) * 1000)

    gc.callbacks.append(note_phase)
    try:
        yield by_generation
    finally:
        gc.callbacks.remove(note_phase)


async def tick(note_delay: Callable[[float], object]) -> None:
    """Wake every 5 ms until cancelled, and note the delay of each wake-up, in seconds."""
    while True:
        began = time.perf_counter()
        await anyio.sleep(TICK_S)
        note_delay(time.perf_counter() - began - TICK_S)


class Memory(Struct, frozen=True):
    """The memory of this process at one moment.

    Attributes:
        resident_bytes: The resident set size.
        blocks: The number of blocks that Python has allocated.
        traced_bytes: The bytes that Python has allocated, if allocations are traced; tracing costs time and memory.
    """

    resident_bytes: int
    blocks: int
    traced_bytes: int | None


def memory() -> Memory:
    """Measure the memory of this process."""
    traced = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else None
    return Memory(resident_bytes(), sys.getallocatedblocks(), traced)


def count_tracked_objects(types_max: int) -> tuple[int, dict[str, int]]:
    """Count the objects that a full collection traverses.

    Args:
        types_max: How many of the most frequent types to return.

    Returns:
        The number of objects, and the number of each of those types.
    """
    objects = gc.get_objects()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in objects)
    return len(objects), dict(types.most_common(types_max))

"""How things are timed: wall and processor time of a stretch, and the latency of each operation in it."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct


class Sample(Struct):
    """What one round of one peer came to.

    Attributes:
        operations: How many operations were timed.
        wall_s: How long they took.
        cpu_s: The processor time of the process, all its threads, meanwhile.
        latencies_s: How long each call took, where that is measured.
        value: Where it is not time that is measured: the figure, in the unit of the scenario.
        peak_bytes: The most memory that the process has had, where it was one of its own.
        disk_bytes: The bytes that its files have.
    """

    operations: int = 1
    wall_s: float = 0.0
    cpu_s: float = 0.0
    latencies_s: list[float] = []
    value: float | None = None
    peak_bytes: int | None = None
    disk_bytes: int | None = None

    @property
    def wall_us(self) -> float:
        """Microseconds per operation."""
        return self.wall_s / self.operations * 1e6

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time per operation."""
        return self.cpu_s / self.operations * 1e6


@contextmanager
def timed(sample: Sample) -> Generator[None]:
    """Time a block into a sample. Garbage of what came before is collected first; collection itself stays on."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    sample.wall_s += time.perf_counter() - wall
    sample.cpu_s += time.process_time() - cpu

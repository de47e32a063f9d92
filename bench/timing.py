"""Times a block of operations: its wall and processor time, and the latency of each call."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct


class Sample(Struct):
    """The measurements of one round of one peer.

    Attributes:
        operations: How many operations were timed.
        wall_s: How long they took.
        cpu_s: The processor time that all threads of the process used meanwhile.
        latencies_s: How long each call took, if that is measured.
        value: The figure, in the unit of the scenario, if something other than time is measured.
        peak_bytes: The peak memory of the process, if the peer has its own.
        disk_bytes: The size of its files.
        figures: Further figures by name, if the job has several.
    """

    operations: int = 1
    wall_s: float = 0.0
    cpu_s: float = 0.0
    latencies_s: list[float] = []
    value: float | None = None
    peak_bytes: int | None = None
    disk_bytes: int | None = None
    figures: dict[str, float] = {}

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
    """Add the time of a block to a sample; collects earlier garbage first and leaves the collector on."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    sample.wall_s += time.perf_counter() - wall
    sample.cpu_s += time.process_time() - cpu

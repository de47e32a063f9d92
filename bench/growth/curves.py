"""Curves: what a cost took at each size, and how steeply it grows at the end of what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ..report import Machine

Axis: TypeAlias = Literal["sessions", "entries", "followers", "bytes"]
"""What there is more and more of."""

SIZES: dict[Axis, list[int]] = {
    "sessions": [1, 10, 100, 1_000, 10_000, 100_000],
    "entries": [10, 100, 1_000, 10_000, 100_000, 1_000_000],
    "followers": [1, 10, 100, 1_000, 10_000],
    "bytes": [1_000, 10_000, 100_000, 1_000_000, 10_000_000],
}
"""The sizes of a full run."""

SLACK = 0.15
"""By how much an exponent may be above the expected one: caches that are left behind, and noise, cost that much."""
_LAST = 3


class Point(Struct, frozen=True):
    """What a cost took at one size.

    Attributes:
        size: The size.
        cpu_us: Microseconds of processor time of one operation, of all threads: the median of the rounds.
        wall_us: The same for the time that passed.
    """

    size: int
    cpu_us: float
    wall_us: float


class Curve(Struct, frozen=True):
    """How a cost grows.

    Attributes:
        name: The name of the cost.
        title: What one operation is.
        axis: What there is more and more of.
        expected: The exponent that the cost should have: 0 if it should not depend on the size, 1 if it may grow as
            the size does.
        points: What was measured, by size.
        why: What explains an exponent above the expected one; empty if none is known to be.
    """

    name: str
    title: str
    axis: Axis
    expected: int
    points: list[Point]
    why: str = ""

    @property
    def slope(self) -> float | None:
        """The exponent over the last two powers of ten: 0 is flat, 1 proportional to the size; None of one point.

        Where the sizes are small, what does not depend on them hides what does, so only the end counts.
        """
        last = self.points[-_LAST:]
        if len(last) < 2:
            return None
        sizes = [math.log10(point.size) for point in last]
        return statistics.linear_regression(sizes, [math.log10(point.cpu_us) for point in last]).slope

    @property
    def is_as_expected(self) -> bool | None:
        """Whether the exponent is at most the expected one; None of one point."""
        return None if self.slope is None else self.slope <= self.expected + SLACK


class Growth(Struct, frozen=True):
    """What a run measured.

    Attributes:
        machine: Where.
        scale: The size of the run.
        rounds: How often each size was measured.
        curves: The costs.
    """

    machine: Machine
    scale: str
    rounds: int
    curves: list[Curve]


def median_point(size: int, rounds: Sequence[tuple[float, float]]) -> Point:
    """Return the medians of what the rounds at a size took.

    Args:
        size: The size.
        rounds: Microseconds of processor time and of time passed, of one operation in each round.
    """
    cpu_us, wall_us = zip(*rounds, strict=True)
    return Point(size, statistics.median(cpu_us), statistics.median(wall_us))

"""Measures curves: each size of each cost in a process of its own, the sizes of a round one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from ..workspace import Workspace
from .costs import COSTS, Cost
from .curves import SIZES, Curve, median_point


class GrowthScale(Struct, frozen=True):
    """The size of a run.

    Attributes:
        rounds: How often each size is measured.
        share: How much of each axis: the largest size is the axis' own divided by this.
    """

    rounds: int
    share: int


GROWTH_SCALES = {"tiny": GrowthScale(1, 10_000), "quick": GrowthScale(1, 100), "full": GrowthScale(3, 1)}


def sizes_of(cost: Cost, scale: GrowthScale) -> list[int]:
    """Return the sizes at which a cost is measured: the smallest two of its axis in any case."""
    sizes = SIZES[cost.axis]
    largest = min(sizes[-1], cost.largest or sizes[-1]) // scale.share
    return sizes[:2] + [size for size in sizes[2:] if size <= largest]


def measure(costs: Sequence[Cost], scale: GrowthScale, space: Workspace, step: Callable[[str], None]) -> list[Curve]:
    """Measure costs.

    Args:
        costs: The costs.
        scale: The size of the run.
        space: Where the files go.
        step: Called before each measurement with a description of it.
    """
    return [_curve(cost, scale, space, step) for cost in costs]


def _curve(cost: Cost, scale: GrowthScale, space: Workspace, step: Callable[[str], None]) -> Curve:
    took: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes_of(cost, scale)}
    for _ in range(scale.rounds):
        for size, rounds in took.items():
            step(f"{cost.name}: {size:,} {cost.axis}")
            rounds.append(_in_process(cost.name, size, space.folder))
    points = [median_point(size, rounds) for size, rounds in took.items()]
    return Curve(cost.name, cost.title, cost.axis, cost.expected, points, cost.why)


def _in_process(name: str, size: int, folder: Path) -> tuple[float, float]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, name, size, folder).result()


def _measured(name: str, size: int, folder: Path) -> tuple[float, float]:
    cost = next(each for each in COSTS if each.name == name)
    sample = cost.measure(size, Workspace(folder))
    return sample.cpu_us, sample.wall_us

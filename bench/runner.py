"""Runs scenarios: interleaves the rounds of all sides and summarizes their samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from .peer import Peer
from .scenario import Goal, Scale, Scenario, Side
from .timing import Sample
from .worker import PeerFailed
from .workspace import Workspace


class Spread(Struct, frozen=True):
    """The median of some values, with their minimum and maximum."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarize values."""
        return cls(statistics.median(values), min(values), max(values))


class SideResult(Struct, frozen=True):
    """The results of one side.

    Attributes:
        figure: The figure, in the unit of the scenario.
        speed: The yardstick's figure divided by this one, round by round; None for the yardstick itself.
        thrift: The same ratio for processor time, which other programs on the machine disturb less.
        cpu_us: Microseconds of processor time per operation, if the scenario measures time.
        p50_us: The median latency of a call, over all rounds.
        p99_us: The latency that one call in a hundred exceeds.
        max_us: The longest latency.
        peak_bytes: The peak memory of any of its processes.
        bytes_per_operation: The size of its files divided by the number of operations, if it wrote any.
        failed: Why there are no figures.
    """

    name: str
    durability: str
    figure: Spread | None = None
    speed: Spread | None = None
    thrift: Spread | None = None
    cpu_us: Spread | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None
    peak_bytes: int | None = None
    bytes_per_operation: float | None = None
    failed: str | None = None


class Verdict(Struct, frozen=True):
    """Whether a goal was met; `value` is None if the side was not measured."""

    goal: Goal
    value: float | None
    met: bool | None


class ScenarioResult(Struct, frozen=True):
    """The results of a scenario."""

    name: str
    title: str
    unit: str
    rounds: int
    note: str
    yardstick: str | None
    sides: list[SideResult]
    verdicts: list[Verdict]


def measurements(scenario: Scenario, peers: Sequence[Peer], scale: Scale) -> int:
    """Return how many measurements a scenario takes."""
    return len(scenario.sides(peers, scale)) * min(scale.rounds, scenario.rounds_max)


def run(
    scenario: Scenario, peers: Sequence[Peer], scale: Scale, space: Workspace, step: Callable[[str], None]
) -> ScenarioResult:
    """Measure a scenario.

    Args:
        scenario: What to measure.
        peers: The peers that can run here.
        scale: The size of the jobs.
        space: Where the files go.
        step: Called before each measurement with a description of it.
    """
    sides = scenario.sides(peers, scale)
    rounds = min(scale.rounds, scenario.rounds_max)
    samples, failed = _measure(sides, rounds, space, lambda side: step(f"{scenario.name}: {side}"))
    results = [
        _side(scenario, side, samples, failed.get(side.name))
        for side in sides
        if samples[side.name] or side.name in failed
    ]
    return ScenarioResult(
        scenario.name,
        scenario.title_at(scale),
        scenario.unit,
        rounds,
        scenario.note,
        scenario.yardstick,
        results,
        [_verdict(goal, scenario.yardstick, results) for goal in scenario.goals],
    )


def _measure(
    sides: Sequence[Side], rounds: int, space: Workspace, step: Callable[[str], None]
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """Run all sides in each round; return the samples of each, and why sides failed, which then have no samples."""
    samples: dict[str, list[Sample]] = {side.name: [] for side in sides}
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for side in sides:
            step(side.name)
            if side.name in failed:
                continue
            try:
                sample = side.run(space)
            except PeerFailed as error:
                failed[side.name] = str(error)
                samples[side.name] = []
            else:
                samples[side.name] += [] if sample is None else [sample]
    return samples, failed


def _side(scenario: Scenario, side: Side, samples: dict[str, list[Sample]], failed: str | None) -> SideResult:
    own_samples = samples[side.name]
    if failed is not None:
        return SideResult(side.name, side.durability, failed=failed)
    figures = [scenario.figure(sample) for sample in own_samples]
    is_timed = all(sample.value is None for sample in own_samples)
    speed = thrift = None
    yardstick = samples.get(scenario.yardstick or "")
    if yardstick and side.name != scenario.yardstick:
        pairs = list(zip(yardstick, own_samples, strict=True))
        speed = Spread.of([scenario.figure(other) / scenario.figure(sample) for other, sample in pairs])
        thrift = Spread.of([other.cpu_us / sample.cpu_us for other, sample in pairs]) if is_timed else None
    latencies = [latency for sample in own_samples for latency in sample.latencies_s]
    cuts = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else None
    peaks = [sample.peak_bytes for sample in own_samples if sample.peak_bytes]
    sizes = [sample.disk_bytes / sample.operations for sample in own_samples if sample.disk_bytes]
    return SideResult(
        side.name,
        side.durability,
        Spread.of(figures),
        speed,
        thrift,
        Spread.of([sample.cpu_us for sample in own_samples]) if is_timed else None,
        cuts[49] * 1e6 if cuts else None,
        cuts[98] * 1e6 if cuts else None,
        max(latencies) * 1e6 if cuts else None,
        max(peaks, default=None),
        statistics.median(sizes) if sizes else None,
    )


def _verdict(goal: Goal, yardstick: str | None, sides: Sequence[SideResult]) -> Verdict:
    """Check a side against its goal; where the goal names several other sides, against the best of them."""
    own = next((side.figure for side in sides if side.name == goal.side and side.figure is not None), None)
    if own is None:
        return Verdict(goal, None, None)
    if goal.of == "figure":
        return Verdict(goal, own.median, goal.is_met_by(own.median))
    if goal.against is None:
        mine = next(side for side in sides if side.name == goal.side)
        speeds = [mine.speed.median] if mine.speed is not None and yardstick is not None else []
    else:
        others = [side.figure for side in sides if side.figure is not None and side.name.startswith(goal.against)]
        speeds = [other.median / own.median for other in others]
    if not speeds:
        return Verdict(goal, None, None)
    value = min(speeds) if goal.of == "speed" else 1 / min(speeds)
    return Verdict(goal, value, goal.is_met_by(value))

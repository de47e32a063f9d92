"""Runs scenarios: rounds interleaved over the sides, and what they come to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from .jobs import Peer
from .scenario import Goal, Scale, Scenario, Side
from .timing import Sample
from .workspace import Workspace


class Spread(Struct, frozen=True):
    """The median of some values, with the least and the greatest."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum values up."""
        return cls(statistics.median(values), min(values), max(values))


class SideResult(Struct, frozen=True):
    """What one side came to.

    Attributes:
        figure: In the unit of the scenario.
        speed: The yardstick's figure through this one's, round by round; None for the yardstick itself.
        thrift: The same of processor time, which other programs on the machine disturb less.
        cpu_us: Microseconds of processor time per operation, where time is measured.
        p50_us: The median latency of a call, over all rounds.
        p99_us: The latency that one call of a hundred exceeds.
    """

    name: str
    durability: str
    figure: Spread
    speed: Spread | None = None
    thrift: Spread | None = None
    cpu_us: Spread | None = None
    p50_us: float | None = None
    p99_us: float | None = None


class Verdict(Struct, frozen=True):
    """What became of a promise; `value` is None where the side was not there."""

    goal: Goal
    value: float | None
    met: bool | None


class ScenarioResult(Struct, frozen=True):
    """What a scenario came to."""

    name: str
    title: str
    unit: str
    rounds: int
    note: str
    yardstick: str | None
    sides: list[SideResult]
    verdicts: list[Verdict]


def measurements(scenario: Scenario, peers: Sequence[Peer], scale: Scale) -> int:
    """Tell how many times something will be measured."""
    return len(scenario.sides(peers, scale)) * min(scale.rounds, scenario.rounds_max)


def run(
    scenario: Scenario, peers: Sequence[Peer], scale: Scale, space: Workspace, step: Callable[[str], None]
) -> ScenarioResult:
    """Measure a scenario.

    Args:
        scenario: What to measure.
        peers: Who is present.
        scale: How large the jobs are.
        space: Where the files go.
        step: Called before each measurement with what it is.
    """
    sides = scenario.sides(peers, scale)
    rounds = min(scale.rounds, scenario.rounds_max)
    samples: dict[str, list[Sample]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            step(f"{scenario.name}: {side.name}")
            samples[side.name].append(side.run(space))
    results = [_side(scenario, side, samples) for side in sides]
    return ScenarioResult(
        scenario.name,
        scenario.title,
        scenario.unit,
        rounds,
        scenario.note,
        scenario.yardstick,
        results,
        [_verdict(goal, results) for goal in scenario.goals],
    )


def _side(scenario: Scenario, side: Side, samples: dict[str, list[Sample]]) -> SideResult:
    own = samples[side.name]
    figures = [scenario.figure(sample) for sample in own]
    timed = all(sample.value is None for sample in own)
    speed = thrift = None
    yardstick = samples.get(scenario.yardstick or "")
    if yardstick is not None and side.name != scenario.yardstick:
        pairs = list(zip(yardstick, own, strict=True))
        speed = Spread.of([scenario.figure(other) / scenario.figure(sample) for other, sample in pairs])
        thrift = Spread.of([other.cpu_us / sample.cpu_us for other, sample in pairs]) if timed else None
    calls = [latency for sample in own for latency in sample.latencies_s]
    cuts = statistics.quantiles(calls, n=100) if len(calls) > 1 else None
    return SideResult(
        side.name,
        side.durability,
        Spread.of(figures),
        speed,
        thrift,
        Spread.of([sample.cpu_us for sample in own]) if timed else None,
        cuts[49] * 1e6 if cuts else None,
        cuts[98] * 1e6 if cuts else None,
    )


def _verdict(goal: Goal, sides: Sequence[SideResult]) -> Verdict:
    for side in sides:
        if side.name == goal.side:
            if goal.of == "figure":
                value = side.figure.median
            elif side.speed is None:
                break
            else:
                value = side.speed.median if goal.of == "speed" else 1 / side.speed.median
            return Verdict(goal, value, goal.met(value))
    return Verdict(goal, None, None)

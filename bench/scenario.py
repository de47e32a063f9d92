"""Scenarios: sides that do the same job, and goals for their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from .environments import interpreter
from .jobs import Job
from .peer import Peer
from .timing import Sample
from .worker import Order, run_in_process
from .workspace import Workspace


class Scale(Struct, frozen=True):
    """The size of a run.

    Attributes:
        rounds: How often each side is measured.
        messages: The number of messages appended in a round.
        many: The number of sessions in scenarios with many sessions.
        entries: The number of entries in a long log.
        held: The number of sessions that are held in memory, or searched.
        resting: The number of passivated sessions whose handles are held.
        seconds_max: The time limit for a side's appends in one round.
        everything: Include the scenarios and peers that only full runs measure.
    """

    rounds: int
    messages: int
    many: int
    entries: int
    held: int
    resting: int
    seconds_max: float
    everything: bool = False


SCALES = {
    "tiny": Scale(rounds=1, messages=20, many=4, entries=200, held=20, resting=20, seconds_max=0.2),
    "quick": Scale(rounds=2, messages=4_000, many=1_000, entries=50_000, held=1_000, resting=2_000, seconds_max=1.0),
    "full": Scale(
        rounds=7,
        messages=20_000,
        many=1_000,
        entries=100_000,
        held=10_000,
        resting=100_000,
        seconds_max=3.0,
        everything=True,
    ),
}


class Goal(Struct, frozen=True):
    """A goal for one side.

    Attributes:
        side: The side that has the goal.
        of: "speed" is the other side's time divided by this one's, "cost" the inverse; "figure" is this side's figure
            itself.
        limit: The least allowed value for "speed", the greatest for "cost" and "figure".
        aim: The value to strive for.
        against: The other side, or name prefixes of several sides, of which the best counts; None for the yardstick.
    """

    side: str
    of: Literal["speed", "cost", "figure"]
    limit: float
    aim: float | None = None
    against: tuple[str, ...] | None = None

    def is_met_by(self, value: float) -> bool:
        """Return whether a value meets the goal."""
        return value >= self.limit if self.of == "speed" else value <= self.limit


def near_the_least(side: str = "treering/uvloop", least: str = "the least") -> Goal:
    """Return the goal of twice what the promises take at the least; see `bench.peers.least`."""
    return Goal(side, "cost", 2.0, against=(least,))


@dataclass(frozen=True)
class Side:
    """One of the contestants that do the job.

    Attributes:
        name: Its name in the table.
        run: Does the job once; returns None if the job does not apply to this side.
        durability: What an append survives once its call has returned; empty if nothing is appended.
    """

    name: str
    run: Callable[[Workspace], Sample | None]
    durability: str = ""


@dataclass(frozen=True)
class Scenario:
    """A job, the sides that do it, and the goals.

    Attributes:
        name: Its name on the command line.
        title: One line for the table; a function of the scale if it contains a number that depends on the scale.
        unit: The unit of its figures; lower is better.
        figure: Extracts the figure from a sample.
        sides: Selects the sides, given the peers that can run here.
        goals: The goals for its sides.
        yardstick: The side that ratios refer to.
        rounds_max: The maximum number of rounds, whatever the scale says.
        note: What a reader must know to interpret the figures.
        full_only: Only full runs include it, unless it is named.
    """

    name: str
    title: str | Callable[[Scale], str]
    unit: str
    figure: Callable[[Sample], float]
    sides: Callable[[Sequence[Peer], Scale], list[Side]]
    goals: tuple[Goal, ...] = ()
    yardstick: str | None = None
    rounds_max: int = 1_000
    note: str = ""
    full_only: bool = False

    def title_at(self, scale: Scale) -> str:
        """Return the title with the numbers of a scale."""
        return self.title if isinstance(self.title, str) else self.title(scale)


def peer_sides(
    peers: Sequence[Peer], job: Job, *, suffix: str = "", appends: bool = False, only: str = ""
) -> list[Side]:
    """Return a side for every peer that can do a job; each runs in a fresh process.

    Args:
        peers: The peers that can run here.
        job: The job.
        suffix: Appended to the names, for scenarios in which a peer takes part more than once.
        appends: Show what an append survives.
        only: Select only peers whose names begin with this.
    """
    return [
        Side(peer.name + suffix, _runner_for(peer, job), peer.durability if appends else "")
        for peer in peers
        if peer.can(type(job)) and peer.name.startswith(only)
    ]


def _runner_for(peer: Peer, job: Job) -> Callable[[Workspace], Sample | None]:
    def run(space: Workspace) -> Sample | None:
        return run_in_process(type(peer).__module__, peer.name, interpreter(peer), Order(job, str(space.folder)))

    return run


def micros(sample: Sample) -> float:
    """Return the microseconds per operation."""
    return sample.wall_us


def millis(sample: Sample) -> float:
    """Return the milliseconds per operation."""
    return sample.wall_us / 1000


def value(sample: Sample) -> float:
    """Return the figure of a scenario that does not measure time."""
    assert sample.value is not None
    return sample.value

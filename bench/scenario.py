"""What a scenario is: sides that do the same job, and what is promised about the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from .environments import interpreter
from .jobs import Job
from .peer import Peer
from .timing import Sample
from .worker import Order, done
from .workspace import Workspace


class Scale(Struct, frozen=True):
    """How large a run is.

    Attributes:
        rounds: How often each side is measured.
        messages: How many messages are appended in a round.
        many: How many "many sessions" are.
        entries: How many entries a long log has.
        held: How many sessions are held, or searched.
        resting: How many passivated sessions are held.
        seconds_max: How long a side may append, in a round.
        everything: Take in the scenarios and the peers that are measured in full runs only.
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
    """What is promised of one side.

    Attributes:
        side: The side that it is promised of.
        of: "speed" is the other's time through the side's, "cost" the side's through the other's; "figure" is the side's
            figure itself.
        limit: What `of` must reach ("speed") or must not pass.
        aim: What we would like it to be.
        against: The other side, or the beginning of the names of several, of which the best counts; the yardstick where it
            is None.
    """

    side: str
    of: Literal["speed", "cost", "figure"]
    limit: float
    aim: float | None = None
    against: tuple[str, ...] | None = None

    def met(self, value: float) -> bool:
        """Tell whether a value keeps the promise."""
        return value >= self.limit if self.of == "speed" else value <= self.limit


@dataclass(frozen=True)
class Side:
    """One of those who do the job.

    Attributes:
        name: What the table calls it.
        run: Does the job once; None where the job says nothing of this side.
        durability: What an append has survived when its call returns; empty where nothing is appended.
    """

    name: str
    run: Callable[[Workspace], Sample | None]
    durability: str = ""


@dataclass(frozen=True)
class Scenario:
    """A job, who does it, and what is promised.

    Attributes:
        name: Its name on the command line.
        title: One line for the table; a function of the scale where it says a number that depends on it.
        unit: The unit of its figures; less is better.
        figure: Takes the figure out of a sample.
        sides: Says who takes part, of the peers that are present.
        goals: What is promised.
        yardstick: The side that ratios refer to.
        rounds_max: The most rounds that are worth their time.
        note: What a reader has to know to read the figures rightly.
        full_only: Other runs leave it out, unless it is asked for.
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

    def titled(self, scale: Scale) -> str:
        """Return the title, with the numbers of a scale."""
        return self.title if isinstance(self.title, str) else self.title(scale)


def peer_sides(
    peers: Sequence[Peer], job: Job, *, suffix: str = "", appends: bool = False, only: str = ""
) -> list[Side]:
    """Let every peer that can do a job take part, each in a fresh process.

    Args:
        peers: Who is present.
        job: The job.
        suffix: What is put behind the names, where one peer takes part more than once.
        appends: Say what an append survives.
        only: Only peers whose names begin so.
    """
    return [
        Side(peer.name + suffix, _in_process_of(peer, job), peer.durability if appends else "")
        for peer in peers
        if peer.can(type(job)) and peer.name.startswith(only)
    ]


def _in_process_of(peer: Peer, job: Job) -> Callable[[Workspace], Sample | None]:
    def run(space: Workspace) -> Sample | None:
        return done(type(peer).__module__, peer.name, interpreter(peer), Order(job, str(space.folder)))

    return run


def micros(sample: Sample) -> float:
    """Microseconds per operation."""
    return sample.wall_us


def millis(sample: Sample) -> float:
    """Milliseconds per operation."""
    return sample.wall_us / 1000


def value(sample: Sample) -> float:
    """What was measured where it is not time."""
    assert sample.value is not None
    return sample.value

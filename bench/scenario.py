"""What a scenario is: sides that do the same job, and what is promised about the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from .jobs import Peer
from .timing import Sample
from .workspace import Workspace


class Scale(Struct, frozen=True):
    """How large a run is.

    Attributes:
        rounds: How often each side is measured.
        messages: How many messages are appended in a round.
        many: How many "many sessions" are.
        entries: How many entries a long log has.
        held: How many resting sessions are held.
    """

    rounds: int
    messages: int
    many: int
    entries: int
    held: int


SCALES = {
    "tiny": Scale(rounds=1, messages=20, many=4, entries=200, held=20),
    "quick": Scale(rounds=5, messages=4_000, many=1_000, entries=100_000, held=2_000),
    "full": Scale(rounds=15, messages=20_000, many=1_000, entries=100_000, held=10_000),
}


class Goal(Struct, frozen=True):
    """What is promised of one side.

    Attributes:
        side: The side that it is promised of.
        of: "speed" is the yardstick's time through the side's, "cost" the side's through the yardstick's; "figure" is
            the side's figure itself.
        limit: What `of` must reach ("speed") or must not pass.
        aim: What we would like it to be.
    """

    side: str
    of: Literal["speed", "cost", "figure"]
    limit: float
    aim: float | None = None

    def met(self, value: float) -> bool:
        """Tell whether a value keeps the promise."""
        return value >= self.limit if self.of == "speed" else value <= self.limit


@dataclass(frozen=True)
class Side:
    """One of those who do the job.

    Attributes:
        name: What the table calls it.
        run: Does the job once.
        durability: What an append has survived when its call returns; empty where nothing is appended.
    """

    name: str
    run: Callable[[Workspace], Sample]
    durability: str = ""


@dataclass(frozen=True)
class Scenario:
    """A job, who does it, and what is promised.

    Attributes:
        name: Its name on the command line.
        title: One line for the table.
        unit: The unit of its figures.
        figure: Takes the figure out of a sample.
        sides: Says who takes part, of the peers that are present.
        goals: What is promised.
        yardstick: The side that ratios refer to.
        rounds_max: The most rounds that are worth their time.
        note: What a reader has to know to read the figures rightly.
    """

    name: str
    title: str
    unit: str
    figure: Callable[[Sample], float]
    sides: Callable[[Sequence[Peer], Scale], list[Side]]
    goals: tuple[Goal, ...] = ()
    yardstick: str | None = None
    rounds_max: int = 1_000
    note: str = ""


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

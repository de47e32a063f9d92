"""Compares each framework's own store with the adapter, in rounds that alternate, and keeps what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from ..environments import ROOT, interpreter, why_absent
from ..jobs import Conversations
from ..report import Machine, describe_machine
from ..runner import Spread
from ..worker import Order, PeerFailed, run_in_process
from ..workspace import Workspace
from .side import APPEND, APPEND_CPU, DESCRIPTORS, DISK, LOAD, LOAD_CPU, STALL, STALL_PACED, Side

PUBLISHED = ROOT / "docs" / "benchmarks" / "adapters.json"
LATEST = ROOT / "bench" / "results" / "adapters.json"
"""The figures in the documentation, and those of the last run here."""

AIM = 10
"""How many times better an adapter should be, at a thousand conversations."""

SIZES: dict[str, tuple[int, tuple[Conversations, ...]]] = {
    "tiny": (1, (Conversations(1, 3, 5), Conversations(4, 3, 5))),
    "quick": (3, (Conversations(1, 300, 200), Conversations(1000, 5, 200))),
    "full": (5, (Conversations(1, 1000, 500), Conversations(1000, 20, 500))),
}
"""For each scale the number of rounds, and the conversations."""

FIGURES = {
    APPEND: "µs an append",
    APPEND_CPU: "µs of processor time an append",
    LOAD: "µs to load a conversation",
    LOAD_CPU: "µs of processor time to load one",
    DISK: "bytes on disk a message",
    DESCRIPTORS: "files that are open",
    STALL: "ms of delay of the loop meanwhile, p99",
    STALL_PACED: "ms of delay at 100 appends a second, p99",
}
"""What each figure is."""


class Figure(Struct, frozen=True):
    """A figure of both sides; lower is better.

    Attributes:
        name: One of `FIGURES`.
        sessions: The number of conversations.
        messages: How many messages were appended to each.
        theirs: That of the framework's own store.
        ours: That of the adapter.
    """

    name: str
    sessions: int
    messages: int
    theirs: Spread
    ours: Spread

    @property
    def better(self) -> float | None:
        """How many times better the adapter is; None if one side has none of it, such as bytes in memory."""
        return self.theirs.median / self.ours.median if self.theirs.median and self.ours.median else None


class Pair(Struct, frozen=True):
    """What was found for one framework.

    Attributes:
        framework: Its name.
        at: When, in UTC.
        releases: What was installed for it.
        theirs: Its own store.
        ours: The adapter.
        their_durability: What an append survives in the framework's own store.
        our_durability: What it survives through the adapter.
        rounds: How often each side was measured.
        figures: The figures.
        failed: Why others are missing.
    """

    framework: str
    at: datetime
    releases: list[str]
    theirs: str
    ours: str
    their_durability: str
    our_durability: str
    rounds: int
    figures: list[Figure] = []
    failed: list[str] = []


class Comparison(Struct, frozen=True):
    """What was found for all frameworks.

    Attributes:
        at: When the last of them was measured, in UTC.
        machine: Where.
        pairs: What was found for each framework.
        absent: Why others were not compared.
    """

    at: datetime
    machine: Machine
    pairs: list[Pair]
    absent: dict[str, str]


def compare(
    pairs: Iterable[tuple[Side, Side]],
    rounds: int,
    sizes: Sequence[Conversations],
    space: Workspace,
    step: Callable[[str], None],
) -> Comparison:
    """Measure all frameworks that are installed.

    Args:
        pairs: Each framework's own store and the adapter.
        rounds: How often each side is measured.
        sizes: The conversations.
        space: Where the files go.
        step: Called before each measurement with a description of it.
    """
    found: list[Pair] = []
    absent: dict[str, str] = {}
    for theirs, ours in pairs:
        why = why_absent(theirs) or why_absent(ours)
        if why is not None:
            absent[ours.framework] = why
            continue
        at = datetime.now(UTC).replace(microsecond=0)
        about = (at, [*theirs.requirements], theirs.name, ours.name, theirs.durability, ours.durability, rounds)
        pair = Pair(ours.framework, *about)
        for job in sizes:
            try:
                pair.figures.extend(_measure(theirs, ours, rounds, job, space, step))
            except PeerFailed as error:
                pair.failed.append(f"{job.sessions:,} conversations: {error}")
        found.append(pair)
    return Comparison(datetime.now(UTC).replace(microsecond=0), describe_machine(), found, absent)


def _measure(
    theirs: Side, ours: Side, rounds: int, job: Conversations, space: Workspace, step: Callable[[str], None]
) -> list[Figure]:
    found: dict[str, list[dict[str, float]]] = {theirs.name: [], ours.name: []}
    for _ in range(rounds):
        for side in (theirs, ours):
            step(f"{side.name}, {job.sessions:,} x {job.messages:,}")
            order = Order(job, str(space.folder))
            sample = run_in_process(type(side).__module__, side.name, interpreter(side), order)
            assert sample is not None
            found[side.name].append(sample.figures)
    spreads = {
        name: [Spread.of([figures[name] for figures in found[side.name]]) for side in (theirs, ours)]
        for name in FIGURES
    }
    return [Figure(name, job.sessions, job.messages, *both) for name, both in spreads.items()]


def beside_others(comparison: Comparison, path: Path) -> Comparison:
    """Return what was found for some frameworks, with what a file has of others."""
    if not path.exists():
        return comparison
    measured = {pair.framework for pair in comparison.pairs}
    kept = msgspec.json.decode(path.read_bytes(), type=Comparison).pairs
    pairs = [*comparison.pairs, *(pair for pair in kept if pair.framework not in measured)]
    return msgspec.structs.replace(comparison, pairs=sorted(pairs, key=lambda pair: pair.framework))


def latest() -> Comparison | None:
    """Return what was found last, here or for the documentation; None if nothing was."""
    found = [msgspec.json.decode(path.read_bytes(), type=Comparison) for path in (PUBLISHED, LATEST) if path.exists()]
    return max(found, key=lambda each: each.at, default=None)


def write(comparison: Comparison, path: Path) -> None:
    """Write what was found as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(comparison)) + b"\n")

"""Appending messages of 1 KB: one call at a time in each session, for one session and for many, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..jobs import Appends
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, micros, peer_sides

_NOTE = (
    "The plain loops keep no tree, no index and no view: a floor, not rivals. "
    "A store whose cost grows with the session was stopped when its time was up, and would be slower later."
)
_STORES = ("openai-agents", "google-adk", "langgraph", "strands", "agent-framework", "eventsourcing")


def _sides(job: Callable[[Scale], Appends]) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: peer_sides(peers, job(scale), appends=True)


def _each(sessions: int) -> Callable[[Scale], Appends]:
    def job(scale: Scale) -> Appends:
        count = min(sessions, scale.many if sessions <= 1_000 else 10 * scale.many)
        return Appends(count, max(1, scale.messages // count), seconds_max=scale.seconds_max)

    return job


def _scenario(
    name: str,
    title: str,
    job: Callable[[Scale], Appends],
    *goals: Goal,
    rounds_max: int = 1_000,
    full_only: bool = False,
) -> Scenario:
    return Scenario(name, title, "µs/message", micros, _sides(job), goals, "plain loop", rounds_max, _NOTE, full_only)


def _past_stores(times: float) -> Goal:
    return Goal("treering/uvloop", "speed", times, against=_STORES)


SCENARIOS = [
    _scenario(
        "append-one",
        "awaited appends of 1 KB, 1 session",
        _each(1),
        Goal("treering/uvloop", "speed", 1 / 5, aim=0.4),
        _past_stores(10),
        Goal("treering/uvloop", "speed", 1.0, against=("pi 0.73.1",)),
        Goal("treering/uvloop", "speed", 1.0, against=("pi 1.5.2",)),
    ),
    _scenario(
        "append-100-sessions",
        "awaited appends of 1 KB, 100 sessions at once",
        _each(100),
        _past_stores(10),
        full_only=True,
    ),
    _scenario(
        "append-many-sessions",
        "awaited appends of 1 KB, 1,000 sessions at once",
        _each(1_000),
        Goal("treering/uvloop", "speed", 1 / 8, aim=0.4),
        _past_stores(10),
        rounds_max=3,
    ),
    _scenario(
        "append-10000-sessions",
        "awaited appends of 1 KB, 10,000 sessions at once",
        _each(10_000),
        _past_stores(10),
        rounds_max=2,
        full_only=True,
    ),
    _scenario(
        "append-batches",
        "append_many of 100 messages of 1 KB, 1 session",
        lambda scale: Appends(1, max(1, scale.messages // 100), 100, seconds_max=scale.seconds_max),
        Goal("treering/uvloop", "speed", 2 / 3),
    ),
]

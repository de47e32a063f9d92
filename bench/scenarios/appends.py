"""Appending messages of 1 KB: one call at a time per session, to one session and to many, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..jobs import Appends
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, micros, near_the_least, peer_sides

_NOTE = (
    "The plain loops keep no tree, index or view: they are a lower bound, not rivals. "
    "Stores on SQLite flush each message to the disk, which treering's default does not. "
    "A store whose cost grows with the session was stopped at the time limit, and would be slower later."
)
_STORES = ("openai-agents", "google-adk", "langgraph", "strands", "agent-framework", "eventsourcing")


def _sides(job: Callable[[Scale], Appends]) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: peer_sides(peers, job(scale), appends=True)


def _one_call_per_message(sessions: int) -> Callable[[Scale], Appends]:
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


def _faster_than_stores(times: float) -> Goal:
    return Goal("treering/uvloop", "speed", times, against=_STORES)


SCENARIOS = [
    _scenario(
        "append-one",
        "awaited appends of 1 KB, 1 session",
        _one_call_per_message(1),
        Goal("treering/uvloop", "speed", 0.45),
        _faster_than_stores(10),
        Goal("treering/uvloop", "speed", 1.0, against=("pi 0.73.1",)),
        Goal("treering/uvloop", "speed", 1.0, against=("pi 1.5.2",)),
        near_the_least(),
    ),
    _scenario(
        "append-100-sessions",
        "awaited appends of 1 KB, 100 sessions at once",
        _one_call_per_message(100),
        _faster_than_stores(10),
        full_only=True,
    ),
    _scenario(
        "append-many-sessions",
        "awaited appends of 1 KB, 1,000 sessions at once",
        _one_call_per_message(1_000),
        Goal("treering/uvloop", "speed", 0.33),
        _faster_than_stores(10),
        near_the_least(),
        rounds_max=3,
    ),
    _scenario(
        "append-10000-sessions",
        "awaited appends of 1 KB, 10,000 sessions at once",
        _one_call_per_message(10_000),
        _faster_than_stores(10),
        rounds_max=2,
        full_only=True,
    ),
    _scenario(
        "append-batches",
        "append_many of 100 messages of 1 KB, 1 session",
        lambda scale: Appends(1, max(1, scale.messages // 100), 100, seconds_max=scale.seconds_max),
        Goal("treering/uvloop", "speed", 2 / 3),
        near_the_least(),
    ),
]

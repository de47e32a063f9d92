"""Appending messages of 1 KB: one call at a time in each session, for one session and for many, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..jobs import Appender, Appends, Peer
from ..scenario import Goal, Scale, Scenario, Side, micros

_NOTE = "The plain loop keeps no tree, no index and no view; it is the floor, not a rival."


def _sides(job: Callable[[Scale], Appends]) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    def sides(peers: Sequence[Peer], scale: Scale) -> list[Side]:
        return [
            Side(peer.name, partial(peer.append, job(scale)), peer.durability)
            for peer in peers
            if isinstance(peer, Appender)
        ]

    return sides


def _scenario(
    name: str, title: str, goal: Goal, job: Callable[[Scale], Appends], *, rounds_max: int = 1_000
) -> Scenario:
    return Scenario(name, title, "µs/message", micros, _sides(job), (goal,), "plain loop", rounds_max, _NOTE)


SCENARIOS = [
    _scenario(
        "append-one",
        "awaited appends of 1 KB, 1 session",
        Goal("treering/uvloop", "speed", 1 / 5, aim=0.4),
        lambda scale: Appends(1, scale.messages),
    ),
    _scenario(
        "append-many-sessions",
        "awaited appends of 1 KB, one at a time in each of many sessions",
        Goal("treering/uvloop", "speed", 1 / 8, aim=0.4),
        lambda scale: Appends(scale.many, max(1, scale.messages // scale.many)),
        rounds_max=3,
    ),
    _scenario(
        "append-batches",
        "append_many of 100 messages of 1 KB, 1 session",
        Goal("treering/uvloop", "speed", 2 / 3),
        lambda scale: Appends(1, max(1, scale.messages // 100), 100),
    ),
]

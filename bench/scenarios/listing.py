"""Listing many sessions: without an index of sessions, and again."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs import Lists
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, near_the_least, peer_sides

_WARM_CALLS = 10


def _sides(sessions: int, entries: int, warm: bool, peers: Sequence[Peer], scale: Scale) -> list[Side]:
    count = min(sessions, scale.many if sessions <= 1_000 else 10 * scale.many)
    return peer_sides(peers, Lists(count, entries, warm, _WARM_CALLS if warm else 1))


def _scenario(name: str, title: str, sessions: int, entries: int, warm: bool, *goals: Goal) -> Scenario:
    return Scenario(
        name,
        title,
        "ms",
        millis,
        lambda peers, scale: _sides(sessions, entries, warm, peers, scale),
        (*goals, near_the_least()),
        rounds_max=3,
        note="Cold means without an index of sessions: pi and treering then read the files. "
        "google-adk reads table rows."
        + (f" The mean of up to {_WARM_CALLS} listings by a process that has listed them before." if warm else ""),
        full_only=sessions > 1_000,
    )


SCENARIOS = [
    _scenario(
        "list-cold",
        "list 1,000 sessions of 200 messages, cold",
        1_000,
        200,
        False,
        Goal("treering/uvloop", "cost", 0.2, against=("pi 1.5.2",)),
    ),
    _scenario(
        "list-warm",
        "list 1,000 sessions of 200 messages again",
        1_000,
        200,
        True,
        Goal("treering/uvloop", "figure", 3.0),
    ),
    _scenario(
        "list-10000-cold", "list 10,000 sessions, cold", 10_000, 4, False, Goal("treering/uvloop", "figure", 1500)
    ),
    _scenario("list-10000-warm", "list 10,000 sessions again", 10_000, 4, True, Goal("treering/uvloop", "figure", 30)),
]

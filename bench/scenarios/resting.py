"""What sessions cost that a program holds, and how late the event loop is while all of them append."""

from __future__ import annotations

from ..jobs import Holds, Stalls
from ..scenario import Goal, Scenario, peer_sides, value

_NOTE = "Traced allocations per session, after each was appended to once; the handle came from create()."

SCENARIOS = [
    Scenario(
        "memory-passivated",
        "memory of a passivated session that a program still holds",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.held)),
        (Goal("treering/uvloop", "figure", 1024),),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "memory-live",
        "memory of a live session that does nothing",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.held, live=True)),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "loop-stall",
        "how late a ticker of 5 ms is, p99, while 1,000 sessions append as fast as they can",
        "ms",
        value,
        lambda peers, scale: peer_sides(peers, Stalls(scale.many)),
        rounds_max=3,
    ),
]

"""What sessions cost that a program holds, the files that they keep open, and how late the event loop is while all of them append."""

from __future__ import annotations

from ..jobs import Descriptors, Holds, Stalls
from ..scenario import Goal, Scenario, peer_sides, value

_NOTE = "Traced allocations per session, after each was appended to once; the handle came from create()."

SCENARIOS = [
    Scenario(
        "memory-passivated",
        lambda scale: f"memory of each of {scale.resting:,} passivated sessions that a program still holds",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.resting)),
        (Goal("treering/uvloop", "figure", 1024),),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "memory-live",
        lambda scale: f"memory of each of {scale.held:,} live sessions that do nothing",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.held, live=True)),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "descriptors",
        lambda scale: f"files that a process has open after appending to {scale.many:,} sessions",
        "files",
        value,
        lambda peers, scale: peer_sides(peers, Descriptors(scale.many)),
        (Goal("treering/uvloop", "figure", 1_200),),
        rounds_max=1,
        note="More than before it began, the event loop's own not counted. Of treering, they are an eighth of what the process may "
        "open, up to 1,024, and 128 for locks: where it may open 256, a thousand sessions are appended to all the same.",
    ),
    Scenario(
        "loop-stall",
        lambda scale: f"how late a ticker of 5 ms is, p99, while {scale.many:,} sessions append as fast as they can",
        "ms",
        value,
        lambda peers, scale: peer_sides(peers, Stalls(scale.many)),
        rounds_max=3,
    ),
]

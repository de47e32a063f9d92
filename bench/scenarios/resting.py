"""What many sessions cost a program: memory, open files, and delays of the event loop while all of them append."""

from __future__ import annotations

from ..jobs import Descriptors, Holds, Stalls
from ..scenario import Goal, Scenario, near_the_least, peer_sides, value

_NOTE = "Traced allocations per session, after one append to each; the handles came from create()."

SCENARIOS = [
    Scenario(
        "memory-passivated",
        lambda scale: f"memory of each of {scale.resting:,} passivated sessions whose handles are held",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.resting)),
        (Goal("treering/uvloop", "figure", 512), near_the_least()),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "memory-live",
        lambda scale: f"memory of each of {scale.held:,} live sessions that are idle",
        "bytes",
        value,
        lambda peers, scale: peer_sides(peers, Holds(scale.held, live=True)),
        (Goal("treering/uvloop", "figure", 4096), near_the_least()),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "descriptors",
        lambda scale: f"files that are open in a process after appending to {scale.many:,} sessions",
        "files",
        value,
        lambda peers, scale: peer_sides(peers, Descriptors(scale.many)),
        (Goal("treering/uvloop", "figure", 1_200),),
        rounds_max=1,
        note="The number that the job added, without the event loop's own. treering opens at most an eighth of the "
        "process's limit, up to 1,024, and 128 for locks: "
        "with a limit of 256, appending to a thousand sessions still works.",
    ),
    Scenario(
        "loop-stall",
        lambda scale: f"p99 delay of a 5 ms ticker while {scale.many:,} sessions append as fast as they can",
        "ms",
        value,
        lambda peers, scale: peer_sides(peers, Stalls(scale.many)),
        rounds_max=3,
    ),
]

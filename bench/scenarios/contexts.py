"""Building the context of an open session: of long paths, and of one that was compacted shortly before its end."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs import Contexts
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, peer_sides


def _compacted(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return [
        side
        for suffix, again in (("", False), (" again", True))
        for side in peer_sides(peers, Contexts(scale.entries, compacted=True, again=again), suffix=suffix)
    ]


def _whole(entries: int) -> Scenario:
    return Scenario(
        f"context-{entries}",
        f"context of a path of {entries:,} messages, for the first time",
        "ms",
        millis,
        lambda peers, scale: peer_sides(peers, Contexts(min(entries, scale.entries))),
        (),
        "pi 1.5.2",
        rounds_max=3,
        note="pi holds every message in memory once the session is open; treering reads the bodies at this point.",
        full_only=entries != 10_000,
    )


SCENARIOS = [
    Scenario(
        "context-compacted",
        "context of a long compacted session that was just loaded",
        "ms",
        millis,
        _compacted,
        (Goal("treering/uvloop", "figure", 5.0),),
        rounds_max=5,
        note="The first context reads its messages from the file, and the second finds the first one kept. "
        "pi holds all in memory.",
    ),
    *map(_whole, (1_000, 10_000, 100_000)),
]

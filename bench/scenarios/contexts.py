"""Building the context of a long session that was compacted a little before its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..jobs import ContextBuilder, Peer
from ..scenario import Goal, Scale, Scenario, Side, millis
from ..timing import Sample
from ..workspace import Workspace


def _context(peer: ContextBuilder, entries: int, again: bool, space: Workspace) -> Sample:
    return peer.context(space.log(entries, compacted=True), again=again)


def _sides(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return [
        Side(peer.name + suffix, partial(_context, peer, scale.entries, again))
        for peer in peers
        if isinstance(peer, ContextBuilder)
        for suffix, again in (("", False), (" again", True))
    ]


SCENARIOS = [
    Scenario(
        "context-compacted",
        "context of a long compacted session that was just loaded",
        "ms",
        millis,
        _sides,
        (Goal("treering/uvloop", "figure", 5.0),),
        note="The first context reads its messages from the file; the next finds them decoded.",
    )
]

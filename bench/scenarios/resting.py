"""What a session costs that a program holds and does not use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..jobs import Holder, Peer
from ..scenario import Goal, Scale, Scenario, Side, value


def _sides(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return [Side(peer.name, partial(peer.hold, scale.held)) for peer in peers if isinstance(peer, Holder)]


SCENARIOS = [
    Scenario(
        "memory-passivated",
        "memory of a passivated session that a program still holds",
        "bytes",
        value,
        _sides,
        (Goal("treering/uvloop", "figure", 1024),),
        rounds_max=1,
        note="Traced allocations per session, after each was appended to once; the handle came from create().",
    )
]

"""Opening a long log: from the log alone, and with the snapshot that an earlier opening left beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..jobs import Opener, Peer
from ..scenario import Goal, Scale, Scenario, Side, millis
from ..timing import Sample
from ..workspace import Workspace

_NOTE = "The file is in the page cache for all sides alike; cold means without a snapshot."


def _open(peer: Opener, entries: int, prepared: bool, space: Workspace) -> Sample:
    sample = peer.open(space.log(entries), prepared=prepared)
    assert sample is not None
    return sample


def _cold(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return [Side(peer.name, partial(_open, peer, scale.entries, False)) for peer in peers if isinstance(peer, Opener)]


def _with_snapshot(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    ours = [peer for peer in peers if peer.name.startswith("treering/") and isinstance(peer, Opener)]
    cold = [Side("cold", partial(_open, peer, scale.entries, False)) for peer in ours[:1]]
    return cold + [Side(peer.name, partial(_open, peer, scale.entries, True)) for peer in ours]


SCENARIOS = [
    Scenario(
        "open-cold",
        "open a long log of 1.3 KB lines, cold",
        "ms",
        millis,
        _cold,
        (Goal("treering/uvloop", "cost", 3.0),),
        "plain loop",
        rounds_max=3,
        note=_NOTE,
    ),
    Scenario(
        "open-snapshot",
        "open a long log with its snapshot, against cold",
        "ms",
        millis,
        _with_snapshot,
        (Goal("treering/uvloop", "cost", 1 / 10),),
        "cold",
        rounds_max=3,
        note=_NOTE,
    ),
]

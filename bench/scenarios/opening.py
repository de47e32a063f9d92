"""Opening a long log: from the log alone, with the snapshot of an earlier opening, and including its context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..jobs import Opens
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, near_the_least, peer_sides

_NOTE = "The file is in the page cache for all sides; cold means without a snapshot. pi's file has the same messages."
_PI = ("pi 1.5.2",)


def _sides(**more: bool) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: peer_sides(peers, Opens(scale.entries, **more))


def _with_snapshot(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    ours = [peer for peer in peers if peer.name.startswith("treering/")]
    cold = peer_sides(ours[:1], Opens(scale.entries), suffix=" cold")
    others = [peer for peer in peers if peer.name.startswith("pi ")]
    return [*cold, *peer_sides(ours, Opens(scale.entries, prepared=True)), *peer_sides(others, Opens(scale.entries))]


SCENARIOS = [
    Scenario(
        "open-cold",
        "open a long log of 1.3 KB lines, cold",
        "ms",
        millis,
        _sides(),
        (Goal("treering/uvloop", "cost", 3.0), Goal("treering/uvloop", "cost", 0.5, against=_PI), near_the_least()),
        "plain loop",
        rounds_max=3,
        note=_NOTE + " The plain loop reads the file and decodes three fields of each line.",
    ),
    Scenario(
        "open-snapshot",
        "open a long log with its snapshot",
        "ms",
        millis,
        _with_snapshot,
        (
            Goal("treering/uvloop", "cost", 1 / 10, against=("treering/uvloop cold",)),
            Goal("treering/uvloop", "cost", 0.015, against=_PI),
        ),
        rounds_max=3,
        note=_NOTE,
    ),
    Scenario(
        "open-context",
        "open a long log, cold, and build its whole context",
        "ms",
        millis,
        _sides(context=True),
        (Goal("treering/uvloop", "cost", 0.9, against=_PI), near_the_least()),
        rounds_max=3,
        note=_NOTE,
    ),
    Scenario(
        "open-compacted-context",
        "open a long compacted log with its snapshot, and build its context",
        "ms",
        millis,
        lambda peers, scale: [
            *peer_sides(peers, Opens(scale.entries, prepared=True, context=True, compacted=True), only="treering/"),
            *peer_sides(peers, Opens(scale.entries, context=True, compacted=True), only="pi "),
        ],
        (Goal("treering/uvloop", "cost", 1 / 50, against=_PI),),
        rounds_max=3,
        note=_NOTE,
    ),
]

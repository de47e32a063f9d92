"""Reading the whole history of a session that the process has not read before."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs import Reads
from ..peer import Peer
from ..scenario import Scale, Scenario, Side, millis, peer_sides


def _sides(entries: int, peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return peer_sides(peers, Reads(min(entries, scale.entries)))


def _scenario(entries: int) -> Scenario:
    return Scenario(
        f"read-{entries}",
        f"read a history of {entries:,} messages of 1 KB",
        "ms",
        millis,
        lambda peers, scale: _sides(entries, peers, scale),
        (),
        "plain loop",
        rounds_max=3,
        full_only=entries != 10_000,
        note="treering and pi also open the session for appending. The plain loop only decodes lines.",
    )


SCENARIOS = [_scenario(entries) for entries in (1_000, 10_000, 100_000)]

"""Searching many sessions: with an index that is up to date, and by reading the logs."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs import Searches
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, near_the_least, peer_sides
from ..search_data import COMMON, COMMON_HITS, RARE, RARE_HITS

_ENTRIES = 50


def _sides(peers: Sequence[Peer], scale: Scale, word: str, hits: int) -> list[Side]:
    indexed, scanned = (Searches(scale.held, _ENTRIES, word, hits, scan) for scan in (False, True))
    ours = [peer for peer in peers if peer.name.startswith("treering/")]
    others = [peer for peer in peers if peer not in ours]
    # A scan does not depend on the event loop: one side is enough to show what the index saves.
    return [*peer_sides(ours, indexed), *peer_sides(ours[:1], scanned, suffix=" scan"), *peer_sides(others, scanned)]


def _scenario(name: str, target: str, word: str, hits: int, limit_ms: float) -> Scenario:
    return Scenario(
        name,
        lambda scale: f"search {scale.held:,} sessions of {_ENTRIES} entries for {target}, again",
        "ms",
        millis,
        lambda peers, scale: _sides(peers, scale, word, hits),
        (Goal("treering/uvloop", "figure", limit_ms), near_the_least()),
        rounds_max=3,
        note="The host has searched before, and checks every file for changes. "
        "The plain loop searches for the bytes of the word, in lower case only.",
    )


SCENARIOS = [
    _scenario("search-10000", f"a word that {RARE_HITS} entries say", RARE, RARE_HITS, 20),
    _scenario("search-10000-common", f"the first {COMMON_HITS} of many hits", COMMON, COMMON_HITS, 50),
]

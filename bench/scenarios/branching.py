"""Going back to the middle of a long session and saying something else there."""

from __future__ import annotations

from ..jobs import Branches
from ..scenario import Scenario, millis, peer_sides

SCENARIOS = [
    Scenario(
        "branch",
        "branch from the middle of 10,000 messages and append there",
        "ms",
        millis,
        lambda peers, scale: peer_sides(peers, Branches(min(10_000, scale.entries))),
        (),
        "pi 1.5.2",
        rounds_max=3,
        note="pi holds the leaf in memory and forgets it with the process; treering's is written down before branch() returns.",
    )
]

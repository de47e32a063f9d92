"""Branching from the middle of a long session."""

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
        note="pi keeps the leaf in memory and loses it with the process; "
        "treering writes it to disk before branch() returns.",
    )
]

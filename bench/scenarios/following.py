"""Delivering appended entries to the subscribers of one session: one at a time, and in bursts."""

from __future__ import annotations

from ..jobs import FanOuts
from ..scenario import Goal, Scenario, micros, near_the_least, peer_sides


def _scenario(subscribers: int, burst: int, *goals: Goal, at_once: bool = False) -> Scenario:
    name = f"fan-out-{subscribers}" + ("-bursts" if burst > 1 else "") + ("-at-once" if at_once else "")
    how = f"bursts of {burst}" if burst > 1 else "one at a time"
    received = ", each received at once" if at_once else ""
    return Scenario(
        name,
        f"deliver appends to subscribers of one session: {subscribers:,}, {how}{received}",
        "µs/delivery",
        micros,
        lambda peers, scale: peer_sides(
            peers, FanOuts(subscribers, max(burst, min(2_000, scale.messages, 200_000 // subscribers)), burst, at_once)
        ),
        goals,
        rounds_max=3,
        full_only=not goals,
    )


SCENARIOS = [
    _scenario(1, 1),
    _scenario(10, 1),
    _scenario(100, 1, Goal("treering/uvloop", "figure", 2.5), near_the_least()),
    _scenario(1_000, 1),
    _scenario(100, 20, Goal("treering/uvloop", "figure", 0.25), near_the_least()),
    _scenario(100, 20, Goal("treering/uvloop", "figure", 0.25), near_the_least(), at_once=True),
]

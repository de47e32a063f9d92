"""Sessions that are begun, continued and left again: what a message costs where nothing is in use yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..jobs import Begins
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, near_the_least, peer_sides
from ..timing import Sample

_NOTE = (
    "The plain loop opens a file, writes a line for each message, and closes it. "
    "The figures are processor time: what creating a file costs depends on the file system, and treering also takes a "
    "lock, and checks for what a crash or another program may have left."
)


def _cpu_micros(sample: Sample) -> float:
    return sample.cpu_us


def _sides(messages: int, *, again: bool = False) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: peer_sides(peers, Begins(min(1_000, 10 * scale.many), messages, again=again))


def _scenario(name: str, title: str, sides: Callable[[Sequence[Peer], Scale], list[Side]], limit: float) -> Scenario:
    goal = Goal("treering/uvloop", "cost", limit)
    return Scenario(
        name, title, "µs of processor time", _cpu_micros, sides, (goal, near_the_least()), "plain loop", note=_NOTE
    )


SCENARIOS = [
    _scenario("first-append", "the first append of 1 KB to a new session", _sides(1), 3.0),
    _scenario("reopening-append", "an append of 1 KB to a session at rest", _sides(1, again=True), 4.0),
    _scenario("short-session", "create a session, append 3 messages of 1 KB, close it", _sides(3), 4.0),
]

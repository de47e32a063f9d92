"""The events of a session of the Agent Development Kit, in the order in which it appended them.

A rewind is a branch: it stands above what it took back. The kit's own readers want what was taken back, too, so the
way to the leaf goes on from a rewind to the last event before it.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from ...actors.session.session import Session
from ...formats.adk.events import Event, event_of
from .state import Known

READ_FIRST = 32
"""How many of the last entries are read first to find some of the last events."""


class Found(NamedTuple):
    """An event, and the entry that it is."""

    entry_id: str
    parent_id: str | None
    event: Event


async def events_of(
    own: Session, leaf: str | None, known: Known, *, author: str, most: int | None = None, since: float | None = None
) -> list[Found]:
    """Return the events up to a leaf, oldest first, and what was rewound where it happened.

    Args:
        own: The session.
        leaf: The leaf.
        known: What is known of the session, of the leaf at least.
        author: The agent that is said to have written what something else wrote.
        most: At least so many of the last ones will do.
        since: Those since this time will do, in seconds.
    """
    shown, head = _path(own, leaf, known), own.cursor.seq
    span = head if most is None and since is None else max(READ_FIRST, 2 * (most or 0))
    while True:
        found: list[Found] = []
        async for entry in own.iter_entries(max(0, head - span)):
            event = event_of(entry, known.author or author) if entry.id in shown else None
            if event is not None:
                found.append(Found(entry.id or "", entry.parent_id, event))
        if span >= head or (most is not None and len(found) >= most):
            return found
        if since is not None and found and min(map(time_of, found)) < since:
            return found
        span *= 4


def _path(own: Session, leaf: str | None, known: Known) -> set[str]:
    """Return the entries on the way to a leaf, by the order in which the kit appended them."""
    ways: list[list[str]] = []
    while leaf is not None:
        path = own.path(leaf)
        at = next((at for at in range(len(path) - 1, -1, -1) if path[at] in known.rewinds), 0)
        ways.append(path[at:])
        leaf = known.rewinds.get(path[at])
    return set(chain.from_iterable(ways))


def time_of(found: Found) -> float:
    """Return the time of an event, in seconds."""
    moment = found.event.get("timestamp")
    return float(moment) if isinstance(moment, (int, float)) else 0.0

"""The readers of one session that have all there is of it: the stream of one of them writes to all.

A stream that has caught up takes a seat and leaves its subscription; from then on the stream that leads reads and
encodes what comes, and hands it to each seat without waking a task. A reader whose connection does not take it at once
leaves its seat with what it was not handed, and goes on by a subscription of its own. When the stream that leads ends,
all do so, and the first that has caught up leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ...actors.session.session import Session
from ...events.stores.base import Cursor, Ref
from ...projections.subscriptions import EntryFollowing

if TYPE_CHECKING:
    from ..service import Service

SEATS_MAX = 256
"""Readers that are written to before the event loop serves anything else; more of them follow by themselves."""

Offer: TypeAlias = Callable[[bytes], bool]
"""Sends whole events if the connection takes them at once, and returns whether it did."""


class Progress(Struct):
    """How far a reader of a session has come.

    Attributes:
        had: The cursor of what it was sent; None if it was sent nothing yet.
        target: The end of the log up to which it catches up.
        is_ready: Whether it has caught up.
        misses_leaf: Whether it is still to be told where the leaf is.
    """

    had: Cursor | None
    target: Cursor
    is_ready: bool = False
    misses_leaf: bool = False


class Seat:
    """The place of a reader that another one's stream writes to.

    Attributes:
        progress: How far it had come when it had to leave.
        pending: What it was to be handed since then.
    """

    __slots__ = ("_left", "_offer", "pending", "progress")

    def __init__(self, offer: Offer, progress: Progress) -> None:
        self._offer = offer
        self._left = anyio.Event()
        self.progress = progress
        self.pending = b""

    def hand(self, events: bytes) -> None:
        """Send events, or keep them if the connection does not take them at once."""
        if self.pending or not self._offer(events):
            self.pending += events

    def leave(self, progress: Progress) -> None:
        """Let the reader go on by itself."""
        self.progress = replace(progress)
        self._left.set()

    async def wait(self) -> None:
        """Wait until the reader has to leave."""
        await self._left.wait()


class Audience:
    """The readers of one session who ask for the same, and have all there is."""

    def __init__(self) -> None:
        self._leader: EntryFollowing[Any] | None = None
        self._own: Seat
        self._seats: set[Seat] = set()

    def enter(self, items: EntryFollowing[Any], progress: Progress, offer: Offer) -> Seat | None:
        """Return a seat for a reader that has all there is; None if its own stream leads, or has to go on.

        Args:
            items: The subscription of its stream.
            progress: How far it has come, which its stream keeps up to date as long as it leads.
            offer: Hands it events.
        """
        leader = self._leader
        if leader is None:
            self._leader, self._own = items, Seat(offer, progress)
        elif leader is not items and len(self._seats) < SEATS_MAX and items.is_level_with(leader):
            seat = Seat(offer, progress)
            self._seats.add(seat)
            return seat
        return None

    def is_led_by(self, items: EntryFollowing[Any]) -> bool:
        """Return whether the stream of a subscription writes to all."""
        return self._leader is items

    def tell(self, events: bytes) -> None:
        """Hand events to all, the reader of the stream that leads included."""
        self._own.hand(events)
        for seat in self._seats:
            seat.hand(events)

    def settle(self) -> bytes:
        """Let those go who did not take all, after all of a batch was told.

        Returns:
            What the reader of the stream that leads has not taken: if it is anything, nobody leads any longer.
        """
        progress, pending = self._own.progress, self._own.pending
        late = [seat for seat in self._seats if pending or seat.pending]
        for seat in late:
            seat.leave(progress)
        self._seats.difference_update(late)
        if pending:
            self._leader = None
        return pending

    def leave(self, seat: Seat) -> None:
        """Note that a reader is gone."""
        self._seats.discard(seat)

    def end(self, items: EntryFollowing[Any]) -> None:
        """Let all go if the stream of this subscription leads, since it ends."""
        if self._leader is items:
            self._leader = None
            for seat in self._seats:
                seat.leave(self._own.progress)
            self._seats.clear()


_open: WeakKeyDictionary[Service, WeakValueDictionary[tuple[Ref, frozenset[str]], Audience]] = WeakKeyDictionary()
"""Those whose streams are open, by their servers, sessions and what they ask for."""


def audience_of(service: Service, session: Session, kinds: frozenset[str]) -> Audience:
    """Return the readers of a session who ask for these events."""
    audiences = _open.setdefault(service, WeakValueDictionary())
    return audiences.setdefault((session.ref, kinds), Audience())

"""The logs that were written to, for subscribers of the listing."""

from __future__ import annotations

import anyio

from ...events.stores.base import Ref


class Touched:
    """The logs that were written to, for subscribers of the listing.

    Attributes:
        listeners: For each subscriber, the names of the changed logs, each once, in the order of their first change.
        closed: Whether nothing will be written any more.
    """

    __slots__ = ("_event", "closed", "listeners")

    def __init__(self) -> None:
        self.listeners: list[dict[Ref, None]] = []
        self.closed = False
        self._event: anyio.Event | None = None

    def add(self, ref: Ref) -> None:
        """Note that a log was written to, or removed."""
        for listener in self.listeners:
            listener[ref] = None
        if self._event is not None:
            self.wake()

    def close(self) -> None:
        """Let the subscribers read what is there, and then end."""
        self.closed = True
        self.wake()

    async def wait(self) -> None:
        """Wait for the next log that is written to."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

    def wake(self) -> None:
        """Wake the waiting subscribers, even if no log was written to."""
        if self._event is not None:
            self._event.set()
            self._event = None

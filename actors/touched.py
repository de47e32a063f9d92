"""Which sessions were written to, for whoever follows the listing."""

from __future__ import annotations

import anyio

from ..events.stores.base import Ref


class Touched:
    """Which sessions were written to, for whoever follows the listing.

    Attributes:
        listeners: A set for each follower, to which the names of changed logs are added.
    """

    __slots__ = ("_event", "listeners")

    def __init__(self) -> None:
        self.listeners: list[set[Ref]] = []
        self._event: anyio.Event | None = None

    def add(self, ref: Ref) -> None:
        """Note that a log was written to, or removed."""
        for listener in self.listeners:
            listener.add(ref)
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait for the next log that is written to."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

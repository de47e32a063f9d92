"""What an adapter knows of sessions beyond what they hold themselves: indexes of their entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, Unpack

import anyio

from ..actors.commands import AppendOptions
from ..actors.host.host import SessionHost
from ..actors.session.session import Session
from ..events.entries import Custom, CustomEntry, Entry, Payload
from ..events.errors import SessionNotFound

I = TypeVar("I", bound="SessionIndex")  # an index

INDEXES_KEPT_MAX = 1000
"""How many sessions an adapter keeps the index of; others are read anew when they are used again."""


async def append_and_let_go(session: Session, payload: Payload, **options: Unpack[AppendOptions]) -> str:
    """Append to a session that other processes write to at the same time, and hold it no longer than that."""
    try:
        return await session.append(payload, **options)
    finally:
        await let_go(session)


async def let_go(session: Session) -> None:
    """Unlock a session for other processes."""
    if session.file_path is not None:  # elsewhere nothing is locked
        await session.passivate()


class SessionIndex(ABC):
    """An index of the entries of one session; whoever changes the session holds the lock.

    Args:
        session: The session.

    Attributes:
        session: The session.
        lock: The lock.
        read_to: The seq up to which the entries are known.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = anyio.Lock(fast_acquire=True)
        self.read_to = 0
        self._generation: str | None = None

    async def is_current(self) -> bool:
        """Return whether the session is there, and is the one of which the entries are known."""
        try:
            await self.session.refresh()
        except SessionNotFound:
            return False
        return not self.read_to or self.session.cursor.generation == self._generation

    async def refresh(self) -> None:
        """Read the entries that were appended since, here, through other objects or by other programs."""
        await self.session.refresh()
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read the entries that were appended since in this program."""
        self._generation = self.session.cursor.generation
        head = self.session.cursor.seq  # what is appended while this reads is left to the next time
        if head <= self.read_to:
            return
        async for entry in self.session.iter_entries(self.read_to):
            self._see(entry)
        self.read_to = head

    def skip(self, count: int) -> None:
        """Take note that the last entries are known, which whoever holds the lock appended.

        Args:
            count: How many. If there are more, something else appended, too: then all are read the next time.
        """
        if self.session.cursor.seq == self.read_to + count:
            if not self.read_to:  # the log began with them, and has its generation from then on
                self._generation = self.session.cursor.generation
            self.read_to += count

    @abstractmethod
    def _see(self, entry: Entry) -> None:
        """Take an entry into the index; it may come again."""


class CustomIndex(SessionIndex):
    """An index of the custom entries of one session."""

    def _see(self, entry: Entry) -> None:
        if isinstance(entry, CustomEntry) and entry.custom.raw_data is not None:
            self._note(entry.id, entry.custom)

    @abstractmethod
    def _note(self, entry_id: str, custom: Custom) -> None:
        """Take an entry that has data into the index; it may come again."""


class SessionIndexes(Generic[I]):
    """The indexes of the sessions that were used last, by key.

    Args:
        make: Makes the index of a session.
        shared: Whether other processes write to the sessions at the same time, so that reading leaves none locked.
    """

    def __init__(self, make: Callable[[Session], I], *, shared: bool = False) -> None:
        self._make = make
        self._shared = shared
        self._host: SessionHost | None = None
        self._kept: OrderedDict[str, I] = OrderedDict()

    async def of(self, host: SessionHost, key: str) -> I | None:
        """Return the index of a key's session, up to date; None if there is no session."""
        index = await self._known(host, key)
        if index is not None:
            return await self._caught_up(key, index)
        session = await host.find_by_key(key)
        return None if session is None else await self._refreshed(key, self._keep(key, session))

    async def made(self, host: SessionHost, key: str, create: Callable[[], Awaitable[Session]] | None = None) -> I:
        """Return the index of a key's session, which is created if there is none, perhaps in a way of one's own."""
        index = await self._known(host, key)
        if index is not None:
            return await self._caught_up(key, index)
        if create is not None:
            session = await create()
        else:  # one that is there is read first, which waits for nobody
            session = await host.find_by_key(key) or await host.get_or_create(key)
        return await self._refreshed(key, self._keep(key, session))

    def forget(self, key: str) -> None:
        """Drop the index of a session that is deleted."""
        self._kept.pop(key, None)

    async def _known(self, host: SessionHost, key: str) -> I | None:
        if host is not self._host:  # another one was opened for the root
            self._kept.clear()
            self._host = host
        index = self._kept.get(key)
        if index is None or await index.is_current():
            return index
        if self._kept.get(key) is index:  # another program deleted the session, or put another one in its place
            del self._kept[key]
        return self._kept.get(key)

    def _keep(self, key: str, session: Session) -> I:
        index = self._kept.setdefault(key, self._make(session))
        if len(self._kept) > INDEXES_KEPT_MAX:
            self._kept.popitem(last=False)
        return index

    async def _caught_up(self, key: str, index: I) -> I:
        """Return an index of which it was just asked whether it is current."""
        if key in self._kept:
            self._kept.move_to_end(key)
        async with index.lock:
            await index.catch_up()
        return index

    async def _refreshed(self, key: str, index: I) -> I:
        if self._shared:
            await let_go(index.session)
        async with index.lock:
            await index.refresh()
        return index

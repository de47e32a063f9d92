"""The one source behind the handles of a session: what holds its log at the moment, and how that changes.

A host has one `Source` for each log of which somebody holds a handle. Every read and every command goes through it,
whatever its state:

    unwritten   there is a header to create the log with; nothing is stored
    changing    being activated, passivated or read for the first time, or leased to import, pack, put or delete it
    live        an actor owns it; in doubt: the actor looks at it again before it carries out the next command;
                archived: the actor brings the session back before it writes
    passivated  nothing of it is in memory
    followed    its index is in memory, and nothing is locked: others may append to it
    gone        it was deleted, by this host or by anyone; nobody brings it back by accident
    closed      the host is closed

Where two states hold different things, it is changing in between, and all others wait:

    a  unwritten, passivated, followed, gone -> live    a command, if there is a log or a header; unwritten: a read, too
    b  live -> in doubt -> live                         a write that failed; a look that succeeded
    c  live -> archived -> live                         `archive`; any other write
    d  live -> passivated                               idle, or one too many is live
    e  live -> followed                                 the same, with subscribers or read-only handles
    f  passivated -> followed                           an awaited read
    g  followed -> passivated                           not used, or all that kept it followed was closed
    h  live, followed, passivated -> gone               `delete`; it is noticed that someone else deleted it
    i  gone -> unwritten                                `create`, `open`, `get_or_create`
    j  gone -> followed                                 an awaited read, if there is a log again
    k  any -> closed                                    the host closes, and answers accepted commands first

So a read takes no lock. It waits while the source is changing, is answered by the actor if there is one, and otherwise
by a follower, which looks at the file first. A synchronous read is answered from memory, and from the file as it is now
if there is nothing in memory. Read-only handles share the source, which stays followed as long as they are open.

A read that finds another log in the place of its own is repeated from its beginning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from ...events.errors import LeaseLost, LogReplaced, SessionLocked, SessionNotFound
from ...events.index import LogIndex
from ..actor import SessionActor
from ..folds import Values
from .holder import Holder
from .open_log import TRIES_MAX, OpenLog

T = TypeVar("T")


class State(Enum):
    """What holds a log; see the module's table."""

    UNWRITTEN = "unwritten"
    CHANGING = "changing"
    LIVE = "live"
    IN_DOUBT = "live, in doubt"
    ARCHIVED = "live, archived"
    PASSIVATED = "passivated"
    FOLLOWED = "followed"
    GONE = "gone"
    CLOSED = "closed"


class Source(Holder):
    """What holds one log, and the way to it; handles, subscriptions and views share it."""

    __slots__ = ()

    @property
    def state(self) -> State:
        """What holds the log now."""
        actor, follower = self.actor, self._follower
        if self.holders.closing:
            return State.CLOSED
        if self._changed is not None:
            return State.CHANGING
        if actor is not None:
            return _state_of(actor)
        if self.creation is not None:
            return State.UNWRITTEN
        if follower is not None:
            return State.GONE if follower.gone else State.FOLLOWED
        return State.GONE if self._was_deleted else State.PASSIVATED

    # -- reading

    def index(self) -> tuple[LogIndex, str]:
        """Return the index and the generation without waiting: from memory, or else from the file as it is now.

        Raises:
            SessionNotFound: There is no such log.
            NotLive: There is nothing in memory, and the store cannot be read without waiting.
        """
        self.recent = True
        actor, follower = self.actor, self._follower
        if actor is not None and not actor.owned.gone:
            log = actor.log
        elif follower is not None and not follower.outdated:
            log = follower.log
        else:
            header = None if self.creation is None or actor is not None else self.creation.header
            if self._was_deleted and self.holders.runtime.looks is None:
                raise SessionNotFound(f"session {self.ref!r} was deleted, and is no longer: load or create another one")
            return OpenLog.peek(self.holders.runtime, self.ref, header)
        return log.index, log.generation

    async def ready(self) -> OpenLog:
        """Return the log, which the feed publishes, caught up with the file; it is not locked for that.

        An unwritten one is activated all the same: there is nothing to read, and what comes next is its first append.

        Raises:
            SessionNotFound: There is no such log, and nothing to create it with.
            HostClosed: The host is closing or closed.
        """
        self.recent = True
        while True:
            actor, follower = self.actor, self._follower
            if actor is not None:
                try:
                    await actor.refresh()
                except LeaseLost:  # it is another host's, and followed from now on
                    self.lose()
                    await self.unchanging()
                    continue
                return actor.log
            if self._changed is not None:
                await self._changed.wait()
            elif self.creation is not None and (follower is None or follower.gone) and await self._activated():
                continue
            elif follower is not None:
                log = await follower.ready()
                if self._follower is follower:  # otherwise it is live by now
                    if log.generation:
                        self.exists()
                    return log
            else:
                await self.follow()

    async def _activated(self) -> bool:
        """Activate the session, and return whether that was done; not if another process is about to write it."""
        try:
            await self.holders.activate(self, waits=False)
        except SessionLocked:
            return False
        return True

    async def read(self, read: Callable[[OpenLog], Awaitable[T]], *, read_only: bool) -> T:
        """Return what a function reads from the log, caught up with the file.

        It reads again from the beginning if another log took the place of this one meanwhile: one that this host put
        there, or any if the log is followed, since another process may archive the session, or bring it back, at any
        time. Where the actor finds that another program replaced its log, that is said once.

        Args:
            read: The function.
            read_only: Whether it reads for a read-only handle, which is never told.
        """
        for _ in range(TRIES_MAX - 1):
            log = await self.ready()
            try:
                return await read(log)
            except LogReplaced:
                told = self.actor is not None and self.actor.log is log
                if told and not read_only:
                    raise
        return await read(await self.ready())

    def values(self) -> Values:
        """Return the values of the session's projections, which are kept while it is live or followed."""
        if self._values is None:
            self._values = Values(self.holders.runtime, self.ref)
        return self._values

    def holds(self, log: object) -> bool:
        """Return whether this is the log that is in memory, and not one from before or elsewhere."""
        actor, follower = self.actor, self._follower
        return log is (actor.log if actor is not None else follower.log if follower is not None else self)


def _state_of(actor: SessionActor) -> State:
    if actor.owned.gone:
        return State.GONE
    if actor.owned.in_doubt:
        return State.IN_DOUBT
    return State.ARCHIVED if actor.archived else State.LIVE

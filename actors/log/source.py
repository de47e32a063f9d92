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

Between two states that hold something else, it is changing, and all others wait:

    a  unwritten, passivated, followed, gone -> live        a command; gone: if there is a log again
    b  live -> in doubt -> live                             a write that failed; a look that succeeded
    c  live -> archived -> live                             `archive`; any other write
    d  live -> passivated                                   idle, or one too many is live
    e  live -> followed                                     the same, with subscribers or read-only handles
    f  passivated -> followed                               an awaited read
    g  followed -> passivated                               not used, or all that kept it followed was closed
    h  live, followed, passivated -> gone                   `delete`; it is noticed that someone else deleted it
    i  gone -> unwritten                                    `create`, `open`, `get_or_create`
    j  gone -> followed                                     an awaited read, if there is a log again
    k  any -> closed                                        the host closes, and answers accepted commands first

So a read takes no lock. It waits while the source is changing, is answered by the actor if there is one, and otherwise
by a follower, which looks at the file first. A synchronous read is answered from memory, and from the file as it is now
if there is nothing in memory. Read-only handles share the source, which stays followed as long as they are open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from threading import get_ident
from typing import TypeVar
from weakref import WeakSet

import anyio
from msgspec import Struct

from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import HostClosed, LogReplaced, SessionLocked, SessionNotFound
from ...events.index import LogIndex
from ...events.stores.base import Lease, Ref
from ...projections.feed import Feed
from ..actor import SessionActor
from ..folds import Values
from ..host.runtime import Runtime
from .follower import Follower
from .open_log import OpenLog
from .owned_log import OwnedLog

T = TypeVar("T")

READS_MAX = 64
"""How often a read begins again at most, because another log takes the place of the one that it reads."""


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


class Creation(Struct, frozen=True):
    """What a log that does not exist yet is created with."""

    header: Header
    dialect: Dialect


class Sources:
    """What the sources of a host share.

    Attributes:
        runtime: The seams, bounds and counters.
        live_sources: The live sources, the least recently used first.
        changing: The sources that are changing.
        followed: The sources that are followed.
        before_passivation: Called with each actor that is about to be passivated.
        closing: Whether no more sessions are activated.
        thread: The thread of the host's event loop.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.live_sources: OrderedDict[Ref, Source] = OrderedDict()
        self.changing: dict[Ref, Source] = {}
        self.followed: WeakSet[Source] = WeakSet()
        self.before_passivation: Callable[[SessionActor], None] | None = None
        self.closing = False
        self.thread = get_ident()

    async def activate(self, source: Source) -> SessionActor:
        """Return the actor of a source, activating it within the bounds of the host if it is not live."""
        raise NotImplementedError


class Source:
    """What holds one log, and the way to it.

    Args:
        sources: What it shares with the other sources of the host.
        ref: The name of the log.

    Attributes:
        ref: The name of the log.
        actor: The actor that owns the log, while it is live.
        creation: What to create the log with if it does not exist; None once it exists, or was deleted.
        feed: The feed of its subscribers, while there are any.
        recent: Whether it was used since the host last looked for idle sessions.
        sources: What it shares with the other sources of the host.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_follower",
        "_readers",
        "_values",
        "_was_deleted",
        "actor",
        "creation",
        "feed",
        "recent",
        "ref",
        "sources",
    )

    def __init__(self, sources: Sources, ref: Ref) -> None:
        self.sources = sources
        self.ref = ref
        self.actor: SessionActor | None = None
        self.creation: Creation | None = None
        self.feed: Feed | None = None
        self.recent = True
        self._changed: anyio.Event | None = None
        self._follower: Follower | None = None
        self._readers: WeakSet[object] | None = None
        self._values: Values | None = None
        self._was_deleted = False

    @property
    def state(self) -> State:
        """What holds the log now."""
        actor, follower = self.actor, self._follower
        if self.sources.closing:
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
        if actor is not None and not actor.gone:
            log = actor.log
        elif follower is not None and not follower.outdated:
            log = follower.log
        else:
            header = None if self.creation is None or actor is not None else self.creation.header
            return OpenLog.peek(self.sources.runtime, self.ref, header)
        return log.index, log.generation

    async def log(self) -> OpenLog:
        """Return the log, caught up with the file; it is not locked for that.

        An unwritten one is activated all the same: there is nothing to read, and what comes next is its first append.

        Raises:
            SessionNotFound: There is no such log, and nothing to create it with.
            HostClosed: The host is closing or closed.
        """
        self.recent = True
        while True:
            actor, follower = self.actor, self._follower
            if actor is not None:
                await actor.refresh()
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
                await self._follow()

    async def _activated(self) -> bool:
        """Activate the session, and return whether that was done; not if another process is about to write it."""
        try:
            await self.sources.activate(self)
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
        for _ in range(READS_MAX - 1):
            log = await self.log()
            try:
                return await read(log)
            except LogReplaced:
                told = self.actor is not None and self.actor.log is log
                if told and not read_only:
                    raise
        return await read(await self.log())

    async def _follow(self) -> None:
        """Read the log, or make an empty one of what it would be created with, and follow it from then on."""
        if self.sources.closing:
            raise HostClosed("the host is closed: open another one")
        with self.changing():
            follower = await Follower.open(self.sources.runtime, self.ref, self._empty_log())
            self._begin_following(follower)
            if follower.log.generation:
                self.exists()

    def _begin_following(self, follower: Follower) -> None:
        self._follower = follower
        follower.publish_to(self.feed)
        followed = self.sources.followed
        followed.add(self)
        if len(followed) > self.sources.runtime.limits.live_max:
            for other in list(followed):
                if other is not self:
                    other.rest()

    def _empty_log(self) -> OpenLog | None:
        """Return the log as it is before the first append; None if there is nothing to create it with."""
        creation = self.creation
        if creation is None:
            return None
        return OpenLog(self.sources.runtime, self.ref, creation.header, creation.dialect, "")

    # -- what is kept while it is live or followed

    def holds(self, log: object) -> bool:
        """Return whether this is the log that is in memory, and not one from before or elsewhere."""
        actor, follower = self.actor, self._follower
        return log is (actor.log if actor is not None else follower.log if follower is not None else self)

    def values(self) -> Values:
        """Return the values of the session's projections, which are kept while it is live or followed."""
        if self._values is None:
            self._values = Values(self.sources.runtime, self.ref)
        return self._values

    def keep_followed(self, reader: object) -> None:
        """Keep the log in memory for a read-only handle."""
        if self._readers is None:
            self._readers = WeakSet()
        self._readers.add(reader)

    def let_go(self, reader: object) -> None:
        """Note that a read-only handle was closed."""
        if self._readers is not None:
            self._readers.discard(reader)
            self.rest()

    def rest(self) -> bool:
        """Forget what was read of the log if nobody keeps it followed, and return whether that was done."""
        follower = self._follower
        if follower is None or self.feed is not None or self._readers or self._changed is not None:
            return False
        self._unfollow()
        return True

    def _unfollow(self) -> OpenLog | None:
        """Stop following the log, and return it as it was read last; None if it is not followed."""
        follower, self._follower, self._values = self._follower, None, None
        self.sources.followed.discard(self)
        if follower is None:
            return None
        follower.stop()
        return follower.log

    # -- subscribers

    def open_feed(self) -> Feed:
        """Return the feed, counting one more subscriber; the file is watched from the first one on if it is followed.

        Raises:
            HostClosed: The host is closed.
        """
        feed, runtime, follower = self.feed, self.sources.runtime, self._follower
        if runtime.touched.closed:
            raise HostClosed("the host is closed: open another one")
        if feed is None:
            feed = self.feed = Feed(runtime.limits.feed_events_max, runtime.limits.feed_bytes_max)
            if self.actor is not None:
                self.actor.log.attach(feed)
            elif follower is not None:
                follower.publish_to(feed)
                if self._changed is None:  # otherwise it is watched when that is over
                    follower.watch()
        feed.subscribers += 1
        return feed

    def close_feed(self, feed: Feed) -> None:
        """Count one subscriber less; the feed is discarded with the last one, if not already with its log."""
        feed.subscribers -= 1
        if feed.subscribers or self.feed is not feed:
            return
        self.feed = None
        if self.actor is not None:
            self.actor.log.feed = None
        if self._follower is not None:
            self._follower.pause()
            self._follower.publish_to(None)
            self.rest()

    async def ready(self) -> OpenLog:
        """Return the log that the feed publishes, caught up with the file."""
        return await self.log()

    # -- changing

    @contextmanager
    def changing(self) -> Generator[None]:
        """Let all others wait while what holds the log changes; the log is not watched meanwhile."""
        if self._follower is not None:
            self._follower.pause()
        done = self._changed = anyio.Event()
        self.sources.changing[self.ref] = self
        try:
            yield
        finally:
            del self.sources.changing[self.ref]
            self._changed = None
            done.set()
            if self._follower is not None and self.feed is not None:
                self._follower.watch()

    async def unchanging(self) -> None:
        """Wait until it is not changing."""
        while self._changed is not None:
            await self._changed.wait()

    @property
    def is_changing(self) -> bool:
        """Whether others have to wait."""
        return self._changed is not None

    async def open_actor(self) -> SessionActor:
        """Own the log, and return its actor; the source must be changing.

        Raises:
            SessionNotFound: The log does not exist, and there is nothing to create it with.
            SessionLocked: Another process or host owns the session.
        """
        lease = await self._acquire()
        try:
            self.actor = SessionActor(self.sources.runtime, await self._own(lease))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.sources.runtime.store.release([lease])
            raise
        self.sources.live_sources[self.ref] = self
        return self.actor

    async def _acquire(self) -> Lease:
        (lease,) = await self.sources.runtime.store.acquire([self.ref], self.sources.runtime.owner)
        if isinstance(lease, SessionLocked):
            raise lease
        return lease

    async def _own(self, lease: Lease) -> OwnedLog:
        """Take up the log of a lease where the follower left it, or from the beginning."""
        runtime, creation = self.sources.runtime, self.creation
        header_block: bytes | None = None
        followed = None if self._follower is None else self._follower.log
        if lease.header is not None and lease.dialect is not None:
            if followed is not None and _continues(followed, lease):
                log = followed
                await log.catch_up()
                await log.find_leaf()
            else:
                log = OpenLog(runtime, self.ref, lease.header, lease.dialect, lease.head.generation)
                await log.take_up()
            self.exists()
        elif creation is not None:
            log = OpenLog(runtime, self.ref, creation.header, creation.dialect, lease.head.generation)
            header_block = creation.dialect.encode_header(creation.header)
        elif self._was_deleted:
            raise SessionNotFound(f"session {self.ref!r} was deleted: load or create another one")
        else:
            raise SessionNotFound(
                f"there is no session {self.ref!r}, or no longer, or its file is empty: load or create another one"
            )
        values = self._values
        self._unfollow()
        self._values = values
        if self.feed is not None:
            log.attach(self.feed)
            if followed is not None and followed is not log:
                self.feed.resume((followed.cursor, followed.index.leaf), (log.cursor, log.index.leaf))
        return OwnedLog(runtime, lease, log, header_block)

    async def passivate(self) -> bool:
        """Give the log up, and return whether that was done: False if its actor is busy, or nothing of it is held."""
        actor = self.actor
        if actor is None:
            return self.rest()
        if not actor.idle or self._changed is not None:
            return False
        self._withdraw()
        with self.changing():
            await self._release(actor)
        return True

    def _withdraw(self) -> None:
        """Send nothing more to the actor."""
        self.actor = None
        del self.sources.live_sources[self.ref]

    async def _release(self, actor: SessionActor) -> None:
        """Release an idle actor, which was withdrawn, and what it holds."""
        sources = self.sources
        with anyio.CancelScope(shield=True):
            try:
                if actor.written:
                    self.creation = None
                if (self.feed is not None or self._readers) and not sources.closing:
                    self._begin_following(Follower(sources.runtime, self.ref, actor.log))
                if sources.before_passivation is not None:
                    sources.before_passivation(actor)
                values, self._values = self._values, None
                if values is not None and not actor.gone:
                    await values.save(actor.lease)
            finally:
                await actor.passivate()
        sources.runtime.counters.passivated += 1

    @asynccontextmanager
    async def without_actor(self) -> AsyncGenerator[None]:
        """Passivate the session and block its activation while its log is written in another way.

        Its actor first answers the commands that it has accepted. Later ones wait: a busy session would never be idle.

        Raises:
            HostClosed: The host is closing or closed.
        """
        await self.unchanging()
        with self.changing():
            actor = self.actor
            if actor is not None:
                self._withdraw()
                try:
                    await actor.quiet()
                except BaseException:
                    self._keep(actor)
                    raise
                await self._release(actor)
            if self.sources.closing:
                raise HostClosed("the host is closed: open another one")
            yield

    def _keep(self, actor: SessionActor) -> None:
        """Keep an actor live after all, with the subscribers that the session has by now."""
        self.actor = actor
        self.sources.live_sources[self.ref] = self
        if actor.log.feed is not self.feed:
            actor.log.attach(self.feed)

    @asynccontextmanager
    async def leased(self) -> AsyncGenerator[Lease]:
        """Own the log without an actor; the lease is released in any case.

        Raises:
            HostClosed: The host is closing or closed.
            SessionLocked: Another process or host owns the session.
        """
        async with self.without_actor():
            lease = await self._acquire()
            try:
                yield lease
            finally:
                if self._follower is not None:
                    self._follower.outdated = True
                with anyio.CancelScope(shield=True):
                    await self.sources.runtime.store.release([lease])

    async def answered(self) -> None:
        """Wait until every command that was accepted before this call has its reply."""
        if self.actor is not None:
            await self.actor.answered()
        elif self._changed is not None:  # its actor may be answering the last commands
            await self._changed.wait()

    # -- logs that changed without their actor

    def create(self, header: Header, dialect: Dialect) -> None:
        """Note what the log is to be created with if it does not exist when it is needed; others may have said that."""
        if self.creation is None:
            self.creation = Creation(header, dialect)

    def packed(self, generation: str) -> None:
        """Note that this host packed the log, whose lines are the same: subscribers start nothing again."""
        if self._follower is not None:
            self._follower.log.generation = generation

    def exists(self) -> None:
        """Note that the log exists by now, so that no handle creates it."""
        self.creation = None
        self._was_deleted = False

    def deleted(self) -> None:
        """Note that the log was deleted: no handle brings it back, and its subscriptions end.

        Later subscribers follow the log that has this name then.
        """
        self.creation = None
        self._was_deleted = True
        self._unfollow()
        feed, self.feed = self.feed, None
        if feed is not None:
            feed.close()

    def close(self) -> None:
        """End the subscriptions, when the host closes."""
        self._unfollow()
        if self.feed is not None:
            self.feed.close()


def _continues(log: OpenLog, lease: Lease) -> bool:
    """Return whether a log as it was read is the beginning of what is there now."""
    return log.generation == lease.head.generation and log.index.seen <= lease.head.seq


def _state_of(actor: SessionActor) -> State:
    if actor.gone:
        return State.GONE
    if actor.in_doubt:
        return State.IN_DOUBT
    return State.ARCHIVED if actor.archived else State.LIVE

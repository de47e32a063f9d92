"""Which sessions are live: takes up the actor of a session when somebody needs it, lets it go when nobody does.

A session without mail holds no task, no open file and no memory but its handle's. Sessions that were not used between
two rounds of the sweep are passivated; so is the one unused for longest when more than `live_max` are live. One session
is one actor per host: whoever asks while it comes or goes waits for that and gets the one that is there then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

import anyio
from msgspec import Struct

from ..events.dialects.base import Dialect
from ..events.entries import Header
from ..events.errors import HostClosed, SessionLocked, SessionNotFound
from ..events.stores.base import Cursor, Lease, Ref
from ..events.telemetry import failure_of, logger
from ..projections.feed import Feed
from .actor import SessionActor
from .open_log import OpenLog
from .runtime import Runtime


class Beginning:
    """Whether a log may still begin: all handles that are given for one that is not there yet share this.

    Attributes:
        over: It has begun, or was called off. A log that is gone by then was deleted, and no handle brings it back.
    """

    __slots__ = ("__weakref__", "over")

    def __init__(self) -> None:
        self.over = False


class Birth(Struct, frozen=True):
    """What a log that is not there yet will begin with, and whether it still may."""

    header: Header
    dialect: Dialect
    beginning: Beginning


class Registry:
    """The live actors of a host, by the names of their logs.

    Args:
        runtime: The seams, bounds and counters.
        before_release: What is to be saved of a session, under its lease, before it is let go.

    Attributes:
        parting: Is told of each session that is about to be let go.
        closing: Nothing is taken up any more.
    """

    def __init__(self, runtime: Runtime, before_release: Callable[[Lease], Awaitable[None]]) -> None:
        self._runtime = runtime
        self._before_release = before_release
        self._live: OrderedDict[Ref, SessionActor] = OrderedDict()
        self._moving: dict[Ref, anyio.Event] = {}
        self._feeds: dict[Ref, Feed] = {}
        self._beginnings: WeakValueDictionary[Ref, Beginning] = WeakValueDictionary()
        self.parting: Callable[[SessionActor], None] | None = None
        self.closing = False

    def __len__(self) -> int:
        return len(self._live)

    def live(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, which does not count as a use."""
        return self._live.get(ref)

    def use(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, and note that it is used."""
        actor = self._live.get(ref)
        if actor is not None:
            actor.recent = True
        return actor

    def actors(self) -> list[SessionActor]:
        """Return the live actors."""
        return list(self._live.values())

    # -- what is not written yet

    def birth(self, ref: Ref, header: Header, dialect: Dialect) -> Birth:
        """Return what a handle creates a log with, where it is not there when the handle needs it."""
        beginning = self._beginnings.get(ref)
        if beginning is None or beginning.over:
            beginning = self._beginnings[ref] = Beginning()
        return Birth(header, dialect, beginning)

    def is_spoken_for(self, ref: Ref) -> bool:
        """Tell whether somebody holds a handle of a log that is not there yet, and may still begin it."""
        beginning = self._beginnings.get(ref)
        return beginning is not None and not beginning.over

    def settle_beginning(self, ref: Ref) -> None:
        """Note that a log has begun, or was deleted: the handles that there are will not create it."""
        beginning = self._beginnings.get(ref)
        if beginning is not None:
            beginning.over = True

    # -- what became of a log apart from its actor

    def replaced(self, ref: Ref, head: Cursor) -> None:
        """Note that another log was written in the place of one: its subscribers begin anew."""
        feed = self._feeds.get(ref)
        if feed is not None:
            feed.replaced(head)

    def removed(self, ref: Ref) -> None:
        """Note that a log was deleted: no handle brings it back, and its subscribers are at their end.

        Whoever subscribes to a log that is there by this name later follows that one.
        """
        self.settle_beginning(ref)
        feed = self._feeds.pop(ref, None)
        if feed is not None:
            feed.close()

    # -- taking up

    async def actor(self, ref: Ref, birth: Birth | None = None) -> SessionActor:
        """Return a session's actor, taking it up where it is not live.

        Args:
            ref: The name of its log.
            birth: What to create the log with, where it is not there.

        Raises:
            SessionNotFound: The log is not there, and nothing was given to create it with, or it was there before.
            SessionLocked: Another process or host owns the session.
            HostClosed: The host takes up nothing any more.
        """
        while True:
            actor = self.use(ref)
            if actor is not None:
                return actor
            if self.closing:
                raise HostClosed("the host is closed: open another one")
            moving = self._moving.get(ref)
            if moving is None:
                break
            await moving.wait()
        with self._in_motion(ref):
            await self._make_room(coming=1)
            actor = await self._activate(ref, birth)
            self._live[ref] = actor
            await self._make_room(coming=0)  # others may have come at the same time
        self._runtime.counters.activated += 1
        return actor

    @contextmanager
    def _in_motion(self, ref: Ref) -> Generator[None]:
        """Have whoever wants the session meanwhile wait until it has come, or gone."""
        moved = self._moving[ref] = anyio.Event()
        try:
            yield
        finally:
            del self._moving[ref]
            moved.set()

    async def _acquire(self, ref: Ref) -> Lease:
        (lease,) = await self._runtime.store.acquire([ref], self._runtime.owner)
        if isinstance(lease, SessionLocked):
            raise lease
        return lease

    async def _activate(self, ref: Ref, birth: Birth | None) -> SessionActor:
        lease = await self._acquire(ref)
        try:
            return await self._open(lease, birth)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._runtime.store.release([lease])
            raise

    async def _open(self, lease: Lease, birth: Birth | None) -> SessionActor:
        runtime = self._runtime
        if lease.header is None or lease.dialect is None:
            if birth is None:
                raise SessionNotFound(f"there is no session {lease.ref!r}: create it, or look for it in another root")
            if birth.beginning.over:
                raise SessionNotFound(f"session {lease.ref!r} was deleted: create another one, and leave this handle")
            log = OpenLog(runtime, lease.ref, birth.header, birth.dialect, lease.head.generation)
            actor = SessionActor(runtime, lease, log, header_block=birth.dialect.encode_header(birth.header))
        else:
            self.settle_beginning(lease.ref)
            log = OpenLog(runtime, lease.ref, lease.header, lease.dialect, lease.head.generation)
            await log.take_up()
            actor = SessionActor(runtime, lease, log, header_block=None)
        feed = self._feeds.get(lease.ref)
        if feed is not None:
            log.attach(feed)
            feed.taken_up(log.cursor, log.index.leaf)
        return actor

    # -- letting go

    async def passivate(self, ref: Ref) -> bool:
        """Let a session's actor go; False where it is busy or not live."""
        actor = self._live.get(ref)
        if actor is None or not actor.idle or ref in self._moving:
            return False
        del self._live[ref]
        with self._in_motion(ref), anyio.CancelScope(shield=True):
            try:
                self._part_from(actor)
                await self._before_release(actor.lease)
            finally:
                await actor.passivate()
        self._runtime.counters.passivated += 1
        return True

    def _part_from(self, actor: SessionActor) -> None:
        """Note how a session stands that is let go."""
        ref = actor.log.ref
        if actor.written:
            self.settle_beginning(ref)
        feed = self._feeds.get(ref)
        if feed is not None:
            feed.let_go(actor.log.cursor, actor.log.index.leaf)
            actor.log.attach(None)
        if self.parting is not None:
            self.parting(actor)

    @asynccontextmanager
    async def apart(self, ref: Ref) -> AsyncGenerator[None]:
        """Let a session's actor go and take up none, while its log is written otherwise; whoever wants one waits.

        Raises:
            HostClosed: The host takes up nothing any more.
        """
        while ref in self._moving or ref in self._live:
            moving, actor = self._moving.get(ref), self._live.get(ref)
            if moving is not None:
                await moving.wait()
            elif actor is not None:
                await actor.quiet()
                await self.passivate(ref)
        if self.closing:
            raise HostClosed("the host is closed: open another one")
        with self._in_motion(ref):
            yield

    @asynccontextmanager
    async def leased(self, ref: Ref) -> AsyncGenerator[Lease]:
        """Own a session's log apart from its actor; what happens, the lease is given back.

        Raises:
            HostClosed: The host takes up nothing any more.
            SessionLocked: Another process or host owns it.
        """
        async with self.apart(ref):
            lease = await self._acquire(ref)
            try:
                yield lease
            finally:
                with anyio.CancelScope(shield=True):
                    await self._runtime.store.release([lease])

    async def _make_room(self, *, coming: int) -> None:
        """Passivate sessions that were not used lately until so many more fit."""
        chances = 2 * len(self._live)
        while len(self._live) + coming > self._runtime.limits.live_max and chances:
            chances -= 1
            ref, actor = next(iter(self._live.items()))
            if actor.recent or not actor.idle or ref in self._moving:
                actor.recent = False
                self._live.move_to_end(ref)
            else:
                await self.passivate_safely(actor)

    async def sweep(self) -> None:
        """Passivate idle sessions, round after round, until cancelled."""
        while True:
            await anyio.sleep(self._runtime.limits.idle_after_s)
            for actor in self.actors():
                if actor.recent:
                    actor.recent = False
                else:
                    await self.passivate_safely(actor)

    async def passivate_safely(self, actor: SessionActor) -> bool:
        """Let an actor go, one of many: what goes wrong is logged, and is no trouble of the others."""
        try:
            return await self.passivate(actor.log.ref)
        except Exception as error:  # noqa: BLE001 - one session that cannot be let go must not keep the others
            logger().error("passivation_failed", session_id=actor.log.index.header.id, **failure_of(error))
            return False

    async def drain(self) -> None:
        """Take up nothing any more, answer what was accepted, and let every session go."""
        self.closing = True
        while self._live or self._moving:
            for moving in list(self._moving.values()):
                await moving.wait()
            for actor in self.actors():
                await actor.quiet()
                await self.passivate_safely(actor)
        for feed in self._feeds.values():
            feed.close()
        self._runtime.touched.close()

    # -- feeds

    def open_feed(self, ref: Ref) -> Feed:
        """Return the feed of a session, beginning it with the first subscriber."""
        feed = self._feeds.get(ref)
        if feed is None:
            limits = self._runtime.limits
            feed = self._feeds[ref] = Feed(limits.feed_events_max, limits.feed_bytes_max)
            actor = self._live.get(ref)
            if actor is not None:
                actor.log.attach(feed)
        feed.subscribers += 1
        return feed

    def feed_of(self, ref: Ref) -> Feed | None:
        """Return the feed of a session, or None where nobody follows it."""
        return self._feeds.get(ref)

    def subscribers(self, ref: Ref) -> int:
        """Return how many follow a session."""
        feed = self._feeds.get(ref)
        return feed.subscribers if feed is not None else 0

    @property
    def subscribers_of_all(self) -> int:
        """How many follow the sessions of this host, live or not."""
        return sum(feed.subscribers for feed in self._feeds.values())

    def lag(self, ref: Ref) -> int:
        """Return how many events the slowest follower of a session is behind, as far as the feed knows."""
        feed = self._feeds.get(ref)
        return feed.lag_max if feed is not None else 0

    def close_feed(self, ref: Ref, feed: Feed) -> None:
        """Note that a subscriber is gone; the feed goes with the last one, where it did not go with the log."""
        feed.subscribers -= 1
        if not feed.subscribers and self._feeds.get(ref) is feed:
            del self._feeds[ref]
            actor = self._live.get(ref)
            if actor is not None:
                actor.log.feed = None

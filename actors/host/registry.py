"""The registry of live sessions: activates the actor of a session on demand, and passivates idle ones.

A session without pending commands holds no task, no open file and no memory but that of its handle. Sessions that were
not used between two rounds of the sweep are passivated; so is the least recently used one when more than `live_max` are
live. A host has at most one actor per session: callers that ask for it during activation or passivation wait until that
is over.

A passivated session may be appended to by others. While it has subscribers, its log is therefore followed, as for a
read-only handle; it then keeps its index, and a task that watches its file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from threading import get_ident
from weakref import WeakValueDictionary

import anyio
from msgspec import Struct

from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import HostClosed, SessionLocked, SessionNotFound
from ...events.stores.base import Lease, Ref
from ...events.telemetry import failure_of, logger
from ...projections.feed import Feed
from ..actor import SessionActor
from ..log.follower import Follower
from ..log.open_log import OpenLog
from ..log.owned_log import OwnedLog
from .runtime import Runtime


class Creation:
    """Whether a log may still be created; shared by all handles of a session that has no log yet.

    Attributes:
        settled: The log was created, or its creation was called off. If it is missing later, it was deleted, and no
            handle brings it back.
    """

    __slots__ = ("__weakref__", "settled")

    def __init__(self) -> None:
        self.settled = False


class NewLog(Struct, frozen=True):
    """What a log that does not exist yet is created with, and whether it still may be."""

    header: Header
    dialect: Dialect
    creation: Creation


class _Transition:
    """The end of a transition, for which others may wait; nobody does for most, which then cost no event."""

    __slots__ = ("_event", "_is_over")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_over = False

    async def wait(self) -> None:
        if not self._is_over:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def end(self) -> None:
        self._is_over = True
        if self._event is not None:
            self._event.set()


class Registry:
    """The live actors of a host, by the names of their logs.

    Args:
        runtime: The seams, bounds and counters.
        before_release: Saves what is to be kept of a session, under its lease, before it is passivated.

    Attributes:
        before_passivation: Called with each actor that is about to be passivated.
        closing: Whether no more sessions are activated.
        thread: The thread of the host's event loop.
    """

    def __init__(self, runtime: Runtime, before_release: Callable[[Lease], Awaitable[None]]) -> None:
        self._runtime = runtime
        self._before_release = before_release
        self._live: OrderedDict[Ref, SessionActor] = OrderedDict()
        self._transitions: dict[Ref, _Transition] = {}
        self._feeds: dict[Ref, Feed] = {}
        self._followers: dict[Ref, Follower] = {}  # of passivated sessions that have subscribers
        self._creations: WeakValueDictionary[Ref, Creation] = WeakValueDictionary()
        self.before_passivation: Callable[[SessionActor], None] | None = None
        self.closing = False
        self.thread = get_ident()

    def __len__(self) -> int:
        return len(self._live)

    def live(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, without counting that as a use."""
        return self._live.get(ref)

    def use(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, and mark it as recently used."""
        actor = self._live.get(ref)
        if actor is not None:
            actor.recent = True
        return actor

    def use_in_turn(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if a command can go to it right away, and mark it as recently used.

        Returns:
            None if the session is not live, others must go on first, or the host must refuse; see `HostCore.check`.
        """
        actor = self._live.get(ref)
        if actor is None or self.closing or get_ident() != self.thread or self._runtime.append_turns.is_over():
            return None
        actor.recent = True
        return actor

    def actors(self) -> list[SessionActor]:
        """Return the live actors."""
        return list(self._live.values())

    # -- sessions without a log

    def new_log(self, ref: Ref, header: Header, dialect: Dialect) -> NewLog:
        """Return what a handle creates a log with if it does not exist when the handle needs it."""
        creation = self._creations.get(ref)
        if creation is None or creation.settled:
            creation = self._creations[ref] = Creation()
        return NewLog(header, dialect, creation)

    def is_reserved(self, ref: Ref) -> bool:
        """Return whether a handle exists that may still create this log."""
        creation = self._creations.get(ref)
        return creation is not None and not creation.settled

    def settle_creation(self, ref: Ref) -> None:
        """Note that a log was created or deleted: existing handles will not create it."""
        creation = self._creations.get(ref)
        if creation is not None:
            creation.settled = True

    # -- logs that changed without their actor

    def packed(self, ref: Ref, generation: str) -> None:
        """Note that this host packed a passivated log, whose lines are the same: subscribers start nothing again."""
        follower = self._followers.get(ref)
        if follower is not None:
            follower.log.generation = generation

    def removed(self, ref: Ref) -> None:
        """Note that a log was deleted: no handle brings it back, and its subscriptions end.

        Later subscribers follow the log that has this name then.
        """
        self.settle_creation(ref)
        self._end_following(ref)
        feed = self._feeds.pop(ref, None)
        if feed is not None:
            feed.close()

    # -- activation

    async def actor(self, ref: Ref, new_log: NewLog | None = None) -> SessionActor:
        """Return a session's actor, activating the session if it is not live.

        Args:
            ref: The name of its log.
            new_log: What to create the log with if it does not exist.

        Raises:
            SessionNotFound: The log does not exist, and `new_log` is missing or the log existed before.
            SessionLocked: Another process or host owns the session.
            HostClosed: The host is closing or closed.
        """
        while True:
            actor = self.use(ref)
            if actor is not None:
                return actor
            if self.closing:
                raise HostClosed("the host is closed: open another one")
            transition = self._transitions.get(ref)
            if transition is None:
                break
            await transition.wait()
        with self._transition(ref):
            await self._make_room(coming=1)
            actor = await self._activate(ref, new_log)
            self._live[ref] = actor
            self._runtime.counters.activated += 1
            await self._make_room(coming=0)  # others may have been activated at the same time
        return actor

    async def log(self, ref: Ref, new_log: NewLog | None = None) -> OpenLog:
        """Return a session's log, caught up with the file, activating the session if it is not live; see `actor`."""
        actor = await self.actor(ref, new_log)
        await actor.refresh()
        return actor.log

    @contextmanager
    def _transition(self, ref: Ref) -> Generator[None]:
        """Block other callers while the session is activating or passivating, or its log is written without an actor.

        The log is not watched meanwhile.
        """
        follower = self._followers.get(ref)
        if follower is not None:
            follower.pause()
        transition = self._transitions[ref] = _Transition()
        try:
            yield
        finally:
            del self._transitions[ref]
            transition.end()
            follower = self._followers.get(ref)
            if follower is not None:
                follower.watch()

    async def _acquire(self, ref: Ref) -> Lease:
        (lease,) = await self._runtime.store.acquire([ref], self._runtime.owner)
        if isinstance(lease, SessionLocked):
            raise lease
        return lease

    async def _activate(self, ref: Ref, new_log: NewLog | None) -> SessionActor:
        lease = await self._acquire(ref)
        try:
            return await self._open(lease, new_log)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._runtime.store.release([lease])
            raise

    async def _open(self, lease: Lease, new_log: NewLog | None) -> SessionActor:
        runtime = self._runtime
        if lease.header is None or lease.dialect is None:
            if new_log is None:
                raise SessionNotFound(
                    f"there is no session {lease.ref!r}, or no longer, or its file is empty: load or create another one"
                )
            if new_log.creation.settled:
                raise SessionNotFound(f"session {lease.ref!r} was deleted: close this handle and create a new session")
            log = OpenLog(runtime, lease.ref, new_log.header, new_log.dialect, lease.head.generation)
            owned = OwnedLog(runtime, lease, log, new_log.dialect.encode_header(new_log.header))
        else:
            self.settle_creation(lease.ref)
            log = OpenLog(runtime, lease.ref, lease.header, lease.dialect, lease.head.generation)
            await log.take_up()
            owned = OwnedLog(runtime, lease, log)
        feed = self._feeds.get(lease.ref)
        if feed is not None:
            before = self._end_following(lease.ref)
            log.attach(feed)
            if before is not None:
                feed.resume((before.cursor, before.index.leaf), (log.cursor, log.index.leaf))
        return SessionActor(runtime, owned)

    async def answered(self, ref: Ref) -> None:
        """Wait until every command that a session accepted before this call has its reply."""
        transition, actor = self._transitions.get(ref), self._live.get(ref)
        if actor is not None:
            await actor.answered()
        elif transition is not None:  # its actor may be answering the last commands
            await transition.wait()

    async def all_answered(self) -> None:
        """Wait until every command that any session accepted before this call has its reply."""
        for ref in [*self._live, *self._transitions]:
            await self.answered(ref)

    # -- passivation

    async def passivate(self, ref: Ref) -> bool:
        """Passivate a session, and return whether that was done: False if it is busy or not live."""
        actor = self._live.get(ref)
        if actor is None or not actor.idle or ref in self._transitions:
            return False
        del self._live[ref]
        with self._transition(ref):
            await self._release(actor)
        return True

    async def _release(self, actor: SessionActor) -> None:
        """Release an idle actor, which is not live any more, and what it holds."""
        with anyio.CancelScope(shield=True):
            try:
                self._detach(actor)
                await self._before_release(actor.lease)
            finally:
                await actor.passivate()
        self._runtime.counters.passivated += 1

    def _detach(self, actor: SessionActor) -> None:
        """Record the state of a session that is about to be passivated, for its feed and the catalog."""
        ref = actor.log.ref
        if actor.written:
            self.settle_creation(ref)
        feed = self._feeds.get(ref)
        if feed is not None and not self.closing:
            follower = self._followers[ref] = Follower(self._runtime, ref, actor.log)
            follower.publish_to(feed)
        if self.before_passivation is not None:
            self.before_passivation(actor)

    @asynccontextmanager
    async def without_actor(self, ref: Ref) -> AsyncGenerator[None]:
        """Passivate a session and block its activation while its log is written in another way.

        Its actor first answers the commands that it has accepted. Later ones wait: a busy session would never be idle.

        Raises:
            HostClosed: The host is closing or closed.
        """
        while (transition := self._transitions.get(ref)) is not None:
            await transition.wait()
        with self._transition(ref):
            actor = self._live.pop(ref, None)
            if actor is not None:
                try:
                    await actor.quiet()
                except BaseException:
                    self._keep(actor)
                    raise
                await self._release(actor)
            if self.closing:
                raise HostClosed("the host is closed: open another one")
            yield

    def _keep(self, actor: SessionActor) -> None:
        """Keep an actor live after all, with the subscribers that the session has by now."""
        ref, log = actor.log.ref, actor.log
        self._live[ref] = actor
        feed = self._feeds.get(ref)
        if log.feed is not feed:
            log.attach(feed)

    @asynccontextmanager
    async def leased(self, ref: Ref) -> AsyncGenerator[Lease]:
        """Own a session's log without an actor; the lease is released in any case.

        Raises:
            HostClosed: The host is closing or closed.
            SessionLocked: Another process or host owns the session.
        """
        async with self.without_actor(ref):
            lease = await self._acquire(ref)
            try:
                yield lease
            finally:
                with anyio.CancelScope(shield=True):
                    await self._runtime.store.release([lease])

    async def _make_room(self, *, coming: int) -> None:
        """Passivate sessions that were not used recently until there is room for this many more."""
        chances = 2 * len(self._live)
        while len(self._live) + coming > self._runtime.limits.live_max and chances:
            chances -= 1
            ref, actor = next(iter(self._live.items()))
            if actor.recent or not actor.idle or ref in self._transitions:
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
        """Passivate a session, one of many: a failure is logged and does not affect the others."""
        try:
            return await self.passivate(actor.log.ref)
        except Exception as error:  # noqa: BLE001  # one session that fails to passivate must not hold up the others
            logger().error("passivation_failed", session_id=actor.log.index.header.id, **failure_of(error))
            return False

    async def drain(self) -> None:
        """Stop activating sessions, answer accepted commands, and passivate every session."""
        self.closing = True
        while self._live or self._transitions:
            for transition in list(self._transitions.values()):
                await transition.wait()
            for actor in self.actors():
                await actor.quiet()
                await self.passivate_safely(actor)
        for ref, feed in self._feeds.items():
            self._end_following(ref)
            feed.close()
        self._runtime.touched.close()

    # -- feeds

    def open_feed(self, ref: Ref) -> Feed:
        """Return the feed of a session, creating it for the first subscriber."""
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
        """Return the feed of a session, or None if it has no subscribers."""
        return self._feeds.get(ref)

    def subscribers(self, ref: Ref) -> int:
        """Return how many subscribers a session has."""
        feed = self._feeds.get(ref)
        return feed.subscribers if feed is not None else 0

    @property
    def subscribers_of_all(self) -> int:
        """How many subscribers the sessions of this host have, live or not."""
        return sum(feed.subscribers for feed in self._feeds.values())

    def lag(self, ref: Ref) -> int:
        """Return how many events the slowest subscriber of a session is behind, as far as the feed knows."""
        feed = self._feeds.get(ref)
        return feed.lag_max if feed is not None else 0

    def close_feed(self, ref: Ref, feed: Feed) -> None:
        """Count one subscriber less; the feed is discarded with the last one, if not already with its log."""
        feed.subscribers -= 1
        if not feed.subscribers and self._feeds.get(ref) is feed:
            del self._feeds[ref]
            self._end_following(ref)
            actor = self._live.get(ref)
            if actor is not None:
                actor.log.feed = None

    async def log_of_feed(self, ref: Ref, new_log: NewLog | None) -> OpenLog:
        """Return the log that a session's feed publishes, caught up with the file.

        A passivated session is activated only if its log is not followed, or does not exist yet.
        """
        while True:
            transition, follower = self._transitions.get(ref), self._followers.get(ref)
            if transition is not None:
                await transition.wait()
            elif follower is None or not follower.log.generation:
                return await self.log(ref, new_log)
            else:
                log = await follower.ready()
                if self._followers.get(ref) is follower:  # otherwise the feed publishes another log by now
                    return log

    def _end_following(self, ref: Ref) -> OpenLog | None:
        """Stop following the log of a passivated session, and return it; None if it is not followed."""
        follower = self._followers.pop(ref, None)
        if follower is None:
            return None
        follower.stop()
        return follower.log

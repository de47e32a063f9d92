"""What holds a log in this host: nobody, a follower or an actor, and the changes between them.

`source` draws the states, and reads through them. While a log is changing, all others wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from threading import get_ident
from weakref import WeakSet

import anyio
from msgspec import Struct

from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import HostClosed, LeaseLost, SessionLocked, SessionNotFound
from ...events.stores.base import Lease, Ref
from ...events.stores.waiting import acquired
from ...events.telemetry import logger
from ...projections.feed import Feed
from ...projections.running_texts import RunningTexts
from ..actor import SessionActor
from ..folds import Values
from ..host.runtime import Runtime
from .follower import Follower
from .open_log import OpenLog
from .owned_log import OwnedLog


class Creation(Struct, frozen=True):
    """What a log that does not exist yet is created with."""

    header: Header
    dialect: Dialect


class _Change:
    """A change of what holds a log, for whose end others may wait; nobody does for most, which then cost no event."""

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


class Holders:
    """What the holders of a host share.

    Attributes:
        runtime: The seams, bounds and counters.
        live_holders: Those that are live, the least recently used first.
        changing: Those that are changing.
        followed: Those that are followed.
        before_passivation: Called with each actor that is about to be passivated.
        closing: Whether no more sessions are activated.
        sends: Whether commands for a session that another host owns are sent to that host, so that nobody waits here.
        forwards: Whether all that is to be done with such a session is sent there.
        drained_to: Returns where other sessions than those that are held go, once this host is to take no more.
        thread: The thread of the host's event loop.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.live_holders: OrderedDict[Ref, Holder] = OrderedDict()
        self.changing: dict[Ref, Holder] = {}
        self.followed: WeakSet[Holder] = WeakSet()
        self.before_passivation: Callable[[SessionActor], None] | None = None
        self.closing = False
        self.sends = self.forwards = False
        self.drained_to: Callable[[], Awaitable[SessionLocked]] | None = None
        self.thread = get_ident()

    async def activate(self, holder: Holder, *, waits: bool = True) -> SessionActor:
        """Return the actor of a log, activating it within the bounds of the host if it is not live."""
        raise NotImplementedError


class Holder:
    """What holds one log.

    Args:
        holders: What it shares with those of the other logs of the host.
        ref: The name of the log.

    Attributes:
        ref: The name of the log.
        actor: The actor that owns the log, while it is live.
        creation: What to create the log with if it does not exist; None once it exists, or was deleted.
        feed: The feed of its subscribers, while there are any.
        recent: Whether it was used since the host last looked for idle sessions.
        holders: What it shares with those of the other logs of the host.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_follower",
        "_readers",
        "_texts",
        "_values",
        "_was_deleted",
        "actor",
        "creation",
        "feed",
        "holders",
        "recent",
        "ref",
    )

    def __init__(self, holders: Holders, ref: Ref) -> None:
        self.holders = holders
        self.ref = ref
        self.actor: SessionActor | None = None
        self.creation: Creation | None = None
        self.feed: Feed | None = None
        self.recent = True
        self._changed: _Change | None = None
        self._follower: Follower | None = None
        self._readers: WeakSet[object] | None = None
        self._texts: RunningTexts | None = None
        self._values: Values | None = None
        self._was_deleted = False

    # -- following

    @property
    def followed_log(self) -> OpenLog | None:
        """The log as it was last read, while it is followed."""
        return None if self._follower is None else self._follower.log

    async def follow(self) -> None:
        """Read the log, or make an empty one of what it would be created with, and follow it from then on."""
        if self.holders.closing:
            raise HostClosed("the host is closed: open another one")
        with self.changing():
            follower = await Follower.open(self.holders.runtime, self.ref, self._empty_log())
            self._begin_following(follower)
            if follower.log.generation:
                self.exists()

    def _begin_following(self, follower: Follower) -> None:
        self._follower = follower
        follower.publish_to(self.feed)
        followed, most = self.holders.followed, self.holders.runtime.limits.live_max
        followed.add(self)
        for other in list(followed) if len(followed) > most else ():
            if other is not self and len(followed) > most:
                other.rest()

    def _follow_from(self, actor: SessionActor) -> None:
        """Follow the log from where an actor leaves it."""
        self._begin_following(Follower(self.holders.runtime, self.ref, actor.log, gone=actor.owned.gone))

    def _empty_log(self) -> OpenLog | None:
        """Return the log as it is before the first append; None if there is nothing to create it with."""
        creation = self.creation
        if creation is None:
            return None
        return OpenLog(self.holders.runtime, self.ref, creation.header, creation.dialect, "")

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

    def _unfollow(self) -> None:
        """Stop following the log, if it is followed."""
        follower, self._follower, self._values = self._follower, None, None
        if follower is not None:
            self.holders.followed.discard(self)
            follower.stop()

    # -- changing

    @contextmanager
    def changing(self) -> Generator[None]:
        """Let all others wait while what holds the log changes; the log is not watched meanwhile."""
        self._begin_change()
        try:
            yield
        finally:
            self._end_change()

    def _begin_change(self) -> None:
        if self._follower is not None:
            self._follower.pause()
        self._changed = _Change()
        self.holders.changing[self.ref] = self

    def _end_change(self) -> None:
        change, self._changed = self._changed, None
        assert change is not None
        del self.holders.changing[self.ref]
        change.end()
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

    async def open_actor(self, *, waits: bool = True) -> SessionActor:
        """Own the log, and return its actor; it must be changing.

        Raises:
            SessionNotFound: The log does not exist, and there is nothing to create it with.
            SessionLocked: Another process or host owns the session.
        """
        lease = await self._acquire(waits=waits and not self.holders.sends)
        try:
            self.actor = SessionActor(self.holders.runtime, await self._own(lease))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.holders.runtime.store.release([lease])
            raise
        self.holders.live_holders[self.ref] = self
        self.holders.runtime.touched.stir(self.ref)
        return self.actor

    async def _acquire(self, *, waits: bool) -> Lease:
        """Acquire the log, unless this host is to take no more; wait for its owner if asked to."""
        if self.holders.drained_to is not None:
            raise await self.holders.drained_to()
        runtime = self.holders.runtime
        wait_s = max(runtime.limits.locked_wait_s, 0 if runtime.leases is None else runtime.leases.wait_s)
        return await acquired(runtime.store, self.ref, runtime.owner, wait_s if waits else 0)

    async def _own(self, lease: Lease) -> OwnedLog:
        """Take up the log of a lease where the follower left it, or from the beginning."""
        runtime, creation = self.holders.runtime, self.creation
        followed = None if self._follower is None else self._follower.log
        if lease.header is not None and lease.dialect is not None:
            if followed is not None and _continues(followed, lease):
                log = followed
                await log.catch_up()
                await log.find_leaf()
            else:
                log = OpenLog(runtime, self.ref, lease.header, lease.dialect, lease.head.generation)
                await log.take_up(lease.head.seq)
            self.exists()
        elif creation is not None:
            log = OpenLog(runtime, self.ref, creation.header, creation.dialect, lease.head.generation)
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
        return OwnedLog(runtime, lease, log)

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
        del self.holders.live_holders[self.ref]

    async def _release(self, actor: SessionActor) -> None:
        """Release an idle actor, which was withdrawn, and what it holds."""
        holders = self.holders
        with anyio.CancelScope(shield=True):
            try:
                if actor.owned.written:
                    self.creation, self._was_deleted = None, actor.owned.gone
                is_read = self.feed is not None or self._readers
                if is_read and self._follower is None and not holders.closing:
                    self._follow_from(actor)
                if self._texts is not None:
                    self._texts.so_far(actor.log.index)  # which forgets those that are over
                if holders.before_passivation is not None:
                    holders.before_passivation(actor)
                values, self._values = self._values, None
                if values is not None and not actor.owned.gone:
                    await values.save(actor.owned.lease)
                await actor.owned.save_snapshot()
            except LeaseLost:  # the host that took the log derives anew what is not saved here
                self._log_loss(actor)
            finally:
                await actor.leave()
        holders.runtime.counters.passivated += 1
        holders.runtime.touched.stir(self.ref)

    @asynccontextmanager
    async def leased(self) -> AsyncGenerator[Lease]:
        """Own the log without an actor, to write it in another way; the lease is released in any case.

        An actor first answers the commands that it has accepted. Later ones wait: a busy session would never be idle.

        Raises:
            HostClosed: The host is closing or closed.
            SessionLocked: Another process or host owns the session.
        """
        await self.unchanging()
        with self.changing():
            if self.actor is not None:
                await self._release_followed(self.actor)
            if self.holders.closing:
                raise HostClosed("the host is closed: open another one")
            lease = await self._acquire(waits=not self.holders.forwards)
            try:
                yield lease
            finally:
                if self._follower is not None:
                    self._follower.outdated = True
                with anyio.CancelScope(shield=True):
                    await self.holders.runtime.store.release([lease])
        self.rest()

    async def hand_over(self) -> None:
        """Release the log for others, once the commands that its actor has accepted have replies; later ones wait."""
        await self.unchanging()
        actor = self.actor
        if actor is None:
            return
        with self.changing():
            await self._release_followed(actor)

    def lose(self) -> None:
        """Leave a log that another host has taken: nothing of it is written any more, and the next use opens it anew.

        Commands that wait are refused by their actor. Subscribers go on with what the other host writes.
        """
        actor = self.actor
        if actor is None or self._changed is not None:
            return
        self._withdraw()
        self._begin_change()
        self._log_loss(actor)
        self.holders.runtime.spawn(partial(self._leave, actor))

    @staticmethod
    def _log_loss(actor: SessionActor) -> None:
        logger().warning("lease_lost", session_id=actor.log.index.header.id)

    async def _leave(self, actor: SessionActor) -> None:
        """Release a log that was lost, once its actor, which was withdrawn, has refused what waits."""
        holders = self.holders
        try:
            with anyio.CancelScope(shield=True):
                await actor.mailbox.quiet()
                self._values = None
                if actor.owned.written:
                    self.creation = None
                if (self.feed is not None or self._readers) and not holders.closing:
                    self._follow_from(actor)
                await actor.leave()
        finally:
            self._end_change()
        holders.runtime.touched.stir(self.ref)

    async def _release_followed(self, actor: SessionActor) -> None:
        """Release an actor once it is quiet, and follow the log meanwhile and afterwards.

        If the caller is cancelled before it is quiet, it stays live.
        """
        # Whoever is just being answered reads where its entries are, without waiting.
        self._follow_from(actor)
        self._withdraw()
        try:
            await actor.mailbox.quiet()
        except BaseException:
            self.actor = actor
            self.holders.live_holders[self.ref] = self
            self._unfollow()
            actor.log.attach(self.feed)  # there may be other subscribers by now
            raise
        await self._release(actor)

    async def answered(self) -> None:
        """Wait until every command that was accepted before this call has its reply."""
        if self.actor is not None:
            await self.actor.mailbox.answered()
        elif self._changed is not None:  # its actor may be answering the last commands
            await self._changed.wait()

    # -- subscribers

    def open_feed(self) -> Feed:
        """Return the feed, counting one more subscriber; the file is watched from the first one on if it is followed.

        Raises:
            HostClosed: The host is closed.
        """
        feed, runtime, follower = self.feed, self.holders.runtime, self._follower
        if runtime.touched.closed:
            raise HostClosed("the host is closed: open another one")
        if feed is None:
            limits = runtime.limits
            feed = self.feed = Feed(limits.feed_events_max, limits.feed_bytes_max, self.texts())
            if self.actor is not None:
                self.actor.log.attach(feed)
            elif follower is not None:
                follower.publish_to(feed)
                if self._changed is None:  # otherwise it is watched when that is over
                    follower.watch()
        feed.subscribers += 1
        return feed

    def texts(self) -> RunningTexts:
        """Return the texts of the session that are being written."""
        if self._texts is None:
            self._texts = RunningTexts()
        return self._texts

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

    # -- logs that changed without their actor

    def create(self, header: Header, dialect: Dialect) -> None:
        """Note what the log is to be created with if it does not exist when it is needed; others may have said that."""
        if self.creation is None:
            self.creation = Creation(header, dialect)

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

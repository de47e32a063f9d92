"""The registry of a host's sources: activates sessions on demand, and passivates idle ones.

A session without pending commands holds no task, no open file and no memory but that of its handle. Sessions that were
not used between two rounds of the sweep are passivated; so is the least recently used one when more than `live_max` are
live. What was read of other sessions is forgotten in the same way. A host has one source for each log, and so at most
one actor: callers that ask for it during activation or passivation wait until that is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio

from ...events.errors import HostClosed, SessionLocked, StoreUnavailable
from ...events.stores.base import Lease, Ref
from ...events.stores.capabilities import Leases
from ...events.stores.hosts import Hosts
from ...events.telemetry import failure_of, logger
from ...projections.feed import Feed
from ..actor import SessionActor
from ..log.holder import Holder, Holders
from ..log.source import Source
from .runtime import Runtime

T = TypeVar("T")

_RENEWALS = 3
"""How often a lease is renewed before it would end."""

_AT_ONCE = 256
"""How many sessions are passivated together when each waits for the store, which can release them together."""


class Registry(Holders):
    """The sources of a host, by the names of their logs.

    Args:
        runtime: The seams, bounds and counters.

    Attributes:
        hosts: The hosts that share the store, if this is one of them.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._sources: WeakValueDictionary[Ref, Source] = WeakValueDictionary()
        self.hosts: Hosts | None = None
        self._lost = anyio.Event()
        runtime.lost = self.lose

    def __len__(self) -> int:
        return len(self.live_holders)

    def source(self, ref: Ref) -> Source:
        """Return the source of a log, which exists as long as someone holds it, or it is live."""
        source = self._sources.get(ref)
        if source is None:
            source = self._sources[ref] = Source(self, ref)
        return source

    def live(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, without counting that as a use."""
        source = self.live_holders.get(ref)
        return None if source is None else source.actor

    async def present(self, ref: Ref) -> SessionActor | None:
        """Return a session's actor if it is live, and mark it as used; one whose log was deleted is passivated."""
        source = self.live_holders.get(ref)
        if source is None or source.actor is None:
            return None
        source.recent = True
        if source.actor.owned.gone:
            await source.passivate()
        return source.actor

    def actors(self) -> list[SessionActor]:
        """Return the live actors."""
        return [source.actor for source in self.live_holders.values() if source.actor is not None]

    def is_reserved(self, ref: Ref) -> bool:
        """Return whether a handle exists that may still create this log."""
        source = self._sources.get(ref)
        return source is not None and source.creation is not None

    # -- activation

    async def actor(self, ref: Ref) -> SessionActor:
        """Return a session's actor, activating the session if it is not live; see `activate`."""
        return await self.activate(self.source(ref))

    async def activate(self, holder: Holder, *, waits: bool = True) -> SessionActor:
        """Return the actor of a log, activating it within the bounds of the host if it is not live.

        It waits for who owns the log, as long as the host or the store says, unless it is told not to.

        Raises:
            SessionNotFound: The log does not exist, and there is nothing to create it with.
            SessionLocked: Another process or host owns the session.
            HostClosed: The host is closing or closed.
        """
        holder.recent = True
        while holder.actor is None:
            if self.closing:
                raise HostClosed("the host is closed: open another one")
            if holder.is_changing:
                await holder.unchanging()
                continue
            with holder.changing():
                await self._make_room(coming=1)
                actor = await holder.open_actor(waits=waits)
                self.runtime.counters.activated += 1
                await self._make_room(coming=0)  # others may have been activated at the same time
            return actor
        return holder.actor

    def leased(self, ref: Ref) -> AbstractAsyncContextManager[Lease]:
        """Own a session's log without an actor; see `Source.leased`."""
        return self.source(ref).leased()

    async def answered(self, ref: Ref) -> None:
        """Wait until every command that a session accepted before this call has its reply."""
        source = self._sources.get(ref)
        if source is not None:
            await source.answered()

    async def all_answered(self) -> None:
        """Wait until every command that any session accepted before this call has its reply."""
        for source in [*self.live_holders.values(), *self.changing.values()]:
            await source.answered()

    # -- passivation

    async def _make_room(self, *, coming: int) -> None:
        """Passivate sessions that were not used recently until there is room for this many more."""
        live = self.live_holders
        chances = 2 * len(live)
        while len(live) + coming > self.runtime.limits.live_max and chances:
            chances -= 1
            ref, source = next(iter(live.items()))
            actor = source.actor
            if source.recent or actor is None or not actor.idle or source.is_changing:
                source.recent = False
                live.move_to_end(ref)
            else:
                await self.passivate_safely(source)

    async def sweep(self) -> None:
        """Passivate idle sessions, and forget what was read of others, round after round, until cancelled."""
        while True:
            await anyio.sleep(self.runtime.limits.idle_after_s)
            for source in [*self.live_holders.values(), *self.followed]:
                if source.recent:
                    source.recent = False
                else:
                    await self.passivate_safely(source)

    def lose(self, ref: Ref) -> None:
        """Leave a session that another host took, and see soon whether others were taken with it."""
        source = self.live_holders.get(ref)
        if source is not None:
            source.lose()
        self._lost.set()

    async def keep_leases(self, leases: Leases) -> None:
        """Renew the leases of the live sessions, round after round, and leave those that were lost, until cancelled."""
        while True:
            held = [(source, source.actor) for source in self.live_holders.values()]
            renewing = [actor.owned.lease for _, actor in held if actor is not None]
            try:
                kept = await self.runtime.store.renew(renewing)
            except StoreUnavailable as error:
                logger().warning("leases_not_renewed", sessions=len(renewing), error=str(error))
            else:
                for (source, actor), is_kept in zip(held, kept, strict=True):
                    if not is_kept and source.actor is actor:
                        source.lose()
                if self.hosts is not None and self.hosts.draining:
                    await self._leave_to_others(self.hosts)
            with anyio.move_on_after(leases.lease_s / _RENEWALS):
                await self._lost.wait()
            self._lost = anyio.Event()

    async def _leave_to_others(self, hosts: Hosts) -> None:
        """Take no more sessions, and release those that are held, each when its accepted commands have replies."""

        async def refused() -> SessionLocked:
            others = await self.runtime.blocking(hosts.hosts)
            taking = [each for each in others if each.address and each.left_s > 0 and not each.draining]
            address = min(taking, key=lambda each: each.sessions).address if taking else None
            return SessionLocked(
                f"the host {hosts.host_name} takes no more sessions, since it is drained: ask another one",
                host=hosts.host_name,
                address=address,
            )

        if self.drained_to is None:
            logger().info("draining", sessions=len(self.live_holders))
        self.drained_to = refused
        await self._each_live(lambda holder: self._safely(holder, holder.hand_over))

    async def passivate_safely(self, holder: Holder) -> bool:
        """Passivate a session, one of many: a failure is logged and does not affect the others."""
        return bool(await self._safely(holder, holder.passivate))

    @staticmethod
    async def _safely(holder: Holder, release: Callable[[], Awaitable[T]]) -> T | None:
        actor = holder.actor
        try:
            return await release()
        except Exception as error:  # noqa: BLE001  # one session that fails to passivate must not hold up the others
            session_id = holder.ref if actor is None else actor.log.index.header.id
            logger().error("passivation_failed", session_id=session_id, **failure_of(error))
            return None

    async def passivate_idle(self) -> int:
        """Passivate all idle sessions now, and return how many there were."""
        were_idle: list[bool] = []

        async def passivate(holder: Holder) -> None:
            were_idle.append(await self.passivate_safely(holder))

        await self._each_live(passivate)
        return sum(were_idle)

    async def drain(self) -> None:
        """Stop activating sessions, answer accepted commands, and passivate every session."""
        self.closing = True
        while self.live_holders or self.changing:
            for source in list(self.changing.values()):
                await source.unchanging()
            await self._each_live(self._drain_one)
        for source in list(self._sources.values()):
            source.close()
        self.runtime.touched.close()

    async def _drain_one(self, holder: Holder) -> None:
        if holder.actor is not None:
            await holder.actor.mailbox.quiet()
            await self.passivate_safely(holder)

    async def _each_live(self, call: Callable[[Holder], Coroutine[Any, Any, object]]) -> None:
        """Call a function with each live session; many at a time if each would wait for the store."""
        live, leases = list(self.live_holders.values()), self.runtime.leases
        if leases is None or not leases.lease_s:
            for holder in live:
                await call(holder)
            return
        for begin in range(0, len(live), _AT_ONCE):
            async with anyio.create_task_group() as tasks:
                for holder in live[begin : begin + _AT_ONCE]:
                    tasks.start_soon(call, holder)

    # -- feeds

    def feed_of(self, ref: Ref) -> Feed | None:
        """Return the feed of a session, or None if it has no subscribers."""
        source = self._sources.get(ref)
        return None if source is None else source.feed

    def feeds(self) -> Iterator[Feed]:
        """Yield the feeds of all sessions that have subscribers."""
        for source in list(self._sources.values()):
            if source.feed is not None:
                yield source.feed

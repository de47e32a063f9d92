"""Subscriptions and searches as blocking iterators, which another thread may close."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Generic, Never, Protocol, Self, TypeVar

import anyio

from ...events.entries import Entry
from ...events.errors import Closed, HostClosed
from ...events.findings import Finding
from ...events.stores.base import Cursor
from ...projections.feed_events import LeafMove, Reset, Transient
from ...projections.subscriptions import EntryFollowing
from ..search.hits import Hit, Search
from .bridge import Bridge

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Shown = TypeVar("Shown", bound=Transient | LeafMove)


class Subscription(Protocol[T_co]):
    """The interface of an async subscription."""

    async def __aenter__(self) -> object:
        """Start the subscription."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End the subscription."""
        ...

    async def __anext__(self) -> T_co:
        """Wait for the next item."""
        ...


class SyncSubscription(Generic[T]):
    """The items of a subscription: `with session.subscribe("tree") as changes: for change in changes: ...`.

    Iteration ends when another thread calls `close`, when the host is closed, or when the session is deleted. An
    interrupt or a timeout while a thread waits loses no item.
    """

    def __init__(self, bridge: Bridge, subscription: Subscription[T]) -> None:
        self._bridge = bridge
        self._subscription = subscription
        self._ready: deque[T] = deque()
        self._pending: Future[None] | None = None
        self._turn: anyio.Lock | None = None
        self._scope: anyio.CancelScope | None = None
        self._opened = False
        self._closed = False
        self._exited = False

    def __enter__(self) -> Self:
        self._bridge.wait(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self.receive()
        except Closed:
            if not self._opened:
                raise
            raise StopIteration from None

    def receive(self, timeout_s: float | None = None) -> T:
        """Wait for the next item.

        Args:
            timeout_s: The maximum wait in seconds, including the wait for other threads that read from the
                subscription.

        Raises:
            TimeoutError: No item arrived in time.
            Closed: The subscription or the host was closed, and no items are left.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # `popleft` is atomic, so neither an interrupt nor another thread can leave a lock behind.
            with contextlib.suppress(IndexError):
                return self._ready.popleft()
            if not self._fill(deadline):
                raise TimeoutError(f"no item arrived within {timeout_s} s: wait longer, or try again")

    def _fill(self, deadline: float | None) -> bool:
        """Wait, until the deadline, for the call that fetches items; post one if none is pending."""
        pending = self._pending
        if pending is None:
            if self._closed:
                raise Closed("the subscription was closed: subscribe again")
            pending = self._pending = self._bridge.post(self._fetch)
        try:
            pending.result(None if deadline is None else _remaining(deadline))
        except CancelledError:
            raise HostClosed("the host's event loop ended: open another one") from None
        except TimeoutError:
            if not pending.done():
                return False
            pending.result()  # it finished at the last moment, or raised a TimeoutError of its own
        finally:
            # If only the wait ended, the call stays pending: the next `receive` gets its items.
            if pending.done() and self._pending is pending:
                self._pending = None
        return True

    def close(self) -> None:
        """End the subscription, and with it the wait of a thread that iterates over it; a second close does nothing."""
        with contextlib.suppress(HostClosed):
            self._bridge.wait(self._end)

    # -- in the event loop

    async def _begin(self) -> None:
        await self._subscription.__aenter__()
        self._opened = True

    async def _take(self) -> Sequence[T]:
        return (await self._subscription.__anext__(),)

    def _fetching(self) -> anyio.Lock:
        """Return the lock under which items are fetched; it is created in the event loop to which it belongs."""
        if self._turn is None:
            self._turn = anyio.Lock()
        return self._turn

    async def _fetch(self) -> None:
        """Wait for items and store them for the reading thread, whether it still waits or not."""
        if not self._opened:
            raise Closed("the subscription is not open: use it as `with session.subscribe() as items`")
        async with self._fetching():
            if self._ready or self._closed:
                return
            self._scope = anyio.CancelScope()
            items: Sequence[T] = ()
            with contextlib.suppress(StopAsyncIteration):
                items = await self._bridge.interruptible(self._scope, self._take)
            self._scope = None
            self._closed = self._closed or not items
            self._ready.extend(items)

    async def _end(self) -> None:
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()
        if self._opened and not self._exited:
            self._exited = True
            async with self._fetching():
                await self._subscription.__aexit__(None, None, None)


class SyncEntryFollowing(SyncSubscription[Entry | Reset | Shown]):
    """The common base of the two blocking subscriptions to entries."""

    def __init__(self, bridge: Bridge, subscription: EntryFollowing[Shown]) -> None:
        super().__init__(bridge, subscription)
        self._entries = subscription

    @property
    def cursor(self) -> Cursor:
        """See `EntrySubscription.cursor`."""

        def read() -> Cursor:
            left = tuple(self._ready)
            return self._entries.cursor_before(left) if left else self._entries.cursor

        return self._bridge.read(read)

    @property
    def lag(self) -> int:
        """See `EntrySubscription.lag`."""
        return self._bridge.read(lambda: self._entries.lag)

    def receive_many(self) -> Sequence[Entry | Reset | Shown]:
        """See `EntrySubscription.receive_many`."""
        items = [self.receive()]
        with contextlib.suppress(IndexError):
            while True:
                items.append(self._ready.popleft())
        return items

    async def _take(self) -> Sequence[Entry | Reset | Shown]:
        return await self._entries.receive_many()


class SyncEntrySubscription(SyncEntryFollowing[Never]):
    """The blocking twin of `EntrySubscription`."""


class SyncTransientSubscription(SyncEntryFollowing[Transient]):
    """The blocking twin of `TransientSubscription`."""


class SyncEventSubscription(SyncEntryFollowing[Transient | LeafMove]):
    """The blocking twin of `EventSubscription`."""


class SyncSearch(SyncSubscription[Hit]):
    """The hits of one search, as they are found: `for hit in host.search("timeout"): ...`; see `Search`.

    Several threads may share it: each hit goes to one of them. Closing it ends their waits. It needs no `with`.

    Attributes:
        findings: The sessions that could not be searched so far.
    """

    def __init__(self, bridge: Bridge, search: Search) -> None:
        super().__init__(bridge, search)
        self.findings: Sequence[Finding] = search.findings
        self._opened = True

    def __enter__(self) -> Self:
        return self


def _remaining(deadline: float) -> float:
    """Return the seconds until the deadline, at most what a lock can wait."""
    return min(max(deadline - time.monotonic(), 0), threading.TIMEOUT_MAX)

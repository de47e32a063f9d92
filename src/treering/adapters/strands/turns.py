"""Calls of threads that must not wait long: each in its turn, on the host's loop, by queues of the callers' making.

The framework's interface is blocking, and is called on the event loops of agents. A write is therefore waited for only
a moment there. One that takes longer goes on, what is asked for after it comes after it, and if it fails, the next call
says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...actors.host.host import SessionHost
from ...actors.sync.host import SyncHost
from ...events.errors import HostClosed
from ...events.telemetry import failure_of, logger
from ..hosting import Hosting, Work

T = TypeVar("T")

Turn = tuple[Callable[[SessionHost], Awaitable[Any]], "Future[Any]"]
"""Something to do with a host, and where its result goes."""


LATE_MAX = 1000
"""How many writes of a session may be under way that nobody waits for; the next one is waited for."""


class Turns:
    """The calls of threads to one host, in their order for each key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[Turn]] = {}
        self._late: dict[str, deque[Future[Any]]] = {}

    @staticmethod
    def of(hosting: Hosting) -> Turns:
        """Return the turns of a host, which all that use it share."""
        host = hosting.opened()
        with _finding:
            turns = _of_hosts.get(host)
            if turns is None:
                turns = _of_hosts[host] = Turns()
            return turns

    def ask(self, hosting: Hosting, key: str, work: Work[T]) -> T:
        """Do something, and return its result.

        Raises:
            TreeringError: It, or a write before it that took longer, failed.
        """
        asked = self._put(hosting, key, work)
        failed = asked.exception()  # waits
        self._raise_late(key)
        if failed is not None:
            raise failed
        return asked.result()

    def tell(self, hosting: Hosting, key: str, work: Work[T], wait_max_s: float) -> None:
        """Write something; on an event loop, wait for it no longer than so.

        Raises:
            TreeringError: It, or a write before it that took longer, failed.
        """
        self._raise_late(key)
        told = self._put(hosting, key, work)
        with self._lock:
            may_be_late = _is_on_a_loop() and len(self._late.get(key, ())) < LATE_MAX
        try:
            told.result(wait_max_s if may_be_late else None)
        except TimeoutError:
            if told.done():  # by now, or the write itself timed out
                told.result()
                return
            with self._lock:
                self._late.setdefault(key, deque()).append(told)
            told.add_done_callback(_log_failure)

    def _raise_late(self, key: str) -> None:
        """Raise what a write failed with that nobody waited for."""
        with self._lock:
            late = self._late.get(key)
            done = late.popleft() if late and late[0].done() else None
            if late is not None and not late:
                del self._late[key]
        if done is not None:
            done.result()
            self._raise_late(key)

    def _put(self, hosting: Hosting, key: str, work: Work[T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            queue = self._queues.get(key)
            begins = queue is None
            if queue is None:
                queue = self._queues[key] = deque()
            queue.append((work, future))
        if begins:
            try:
                hosting.begin(lambda host: self._serve(key, queue, host))
            except BaseException:
                self._end(key, queue)
                raise
        return future

    async def _serve(self, key: str, queue: deque[Turn], host: SessionHost) -> None:
        """Do what stands in a queue, in order, on the host's loop."""
        while True:
            with self._lock:
                if not queue:
                    del self._queues[key]
                    return
                work, future = queue.popleft()
            try:
                future.set_result(await work(host))
            except Exception as error:  # noqa: BLE001  # whatever it is, the caller gets it
                future.set_exception(error)
            except BaseException:  # the loop ends
                future.set_exception(_ended())
                self._end(key, queue)
                raise

    def _end(self, key: str, queue: deque[Turn]) -> None:
        """Answer what stands in a queue that nobody serves any more."""
        with self._lock:
            self._queues.pop(key, None)
            for _, future in queue:
                future.set_exception(_ended())


_of_hosts: WeakKeyDictionary[SessionHost | SyncHost, Turns] = WeakKeyDictionary()
_finding = threading.Lock()


def _ended() -> HostClosed:
    return HostClosed("the host's event loop ended before it answered: open another one")


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _log_failure(told: Future[Any]) -> None:
    error = None if told.cancelled() else told.exception()
    if error is not None:
        logger().error("late_write_failed", **failure_of(error))

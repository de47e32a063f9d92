"""The way from any thread to the event loop that a blocking facade runs, and back."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ...events.errors import HostClosed, WrongThread
from ..host import SessionHost

T = TypeVar("T")


class Bridge:
    """A thread in which a host and its event loop live, and the calls that others make into it.

    An interrupt (Ctrl-C) while a thread waits ends the waiting and nothing else: the call is carried out whole.
    """

    def __init__(self, host: SessionHost, backend: str, backend_options: Mapping[str, Any] | None) -> None:
        self._host = host
        self._backend = backend
        self._backend_options = None if backend_options is None else dict(backend_options)
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()
        self._pid = os.getpid()
        self._idle = threading.Condition()
        self._posting = 0
        self._closed = False
        self._waits: set[anyio.CancelScope] = set()
        self._stopping = False

    # -- from other threads

    def start(self) -> None:
        """Start the thread, and return when the host is open."""
        if self._thread is not None:
            raise HostClosed("the host was opened before: make another one")
        started: Future[None] = Future()
        # A program that never closes its host must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(started,), name="treering host", daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Take no more calls, end the waits of subscriptions, answer every call that was taken, and drain the host."""
        if os.getpid() != self._pid or self._thread is None:
            return
        with self._idle:
            first, self._closed = not self._closed, True
            self._idle.wait_for(lambda: not self._posting)
        if first and self._portal is not None:
            self._portal.start_task_soon(self._portal.stop)
        self._ended.result()
        self._thread.join()

    def post(self, call: Callable[[], Awaitable[T]]) -> Future[T]:
        """Hand a call to the event loop.

        Raises:
            HostClosed: The host is not open, or this process was forked from the one that it lives in.
            WrongThread: The caller is the event loop itself.
        """
        portal = self._portal
        if portal is None:
            raise HostClosed("the host is not open: use it as `with SyncHost(...) as host`")
        if os.getpid() != self._pid:
            raise HostClosed("the host belongs to the process that this one was forked from: open another one")
        if threading.current_thread() is self._thread:
            raise WrongThread("a blocking call inside the host's own event loop would never return: use the async twin")
        with self._idle:
            if self._closed:
                raise HostClosed("the host is closed: open another one")
            self._posting += 1
        # A call that was let in must reach the loop while it turns, or its thread would wait forever: `stop` waits.
        try:
            return portal.start_task_soon(call)
        finally:
            with self._idle:
                self._posting -= 1
                self._idle.notify_all()

    def wait(self, call: Callable[[], Awaitable[T]]) -> T:
        """Carry out a call in the event loop and return what it returns."""
        try:
            return self.post(call).result()
        except CancelledError:
            raise HostClosed("the host's event loop ended before it answered: open another one") from None

    def read(self, call: Callable[[], T]) -> T:
        """Carry out a call that does not wait in the event loop and return what it returns."""

        async def reading() -> T:
            return call()

        return self.wait(reading)

    # -- in the event loop

    async def interruptible(self, scope: anyio.CancelScope, take: Callable[[], Awaitable[Sequence[T]]]) -> Sequence[T]:
        """Wait for something that may never come: nothing, when the scope is cancelled or the bridge stops."""
        if self._stopping:
            return ()
        with scope:
            self._waits.add(scope)
            try:
                return await take()
            finally:
                self._waits.discard(scope)
        return ()

    async def _serve(self, started: Future[None]) -> None:
        async with self._host, BlockingPortal() as portal:
            self._portal = portal
            started.set_result(None)
            await portal.sleep_until_stopped()
            self._stopping = True
            for scope in self._waits:
                scope.cancel()

    def _run(self, started: Future[None]) -> None:
        try:
            anyio.run(self._serve, started, backend=self._backend, backend_options=self._backend_options)
        except BaseException as error:  # noqa: BLE001 -- the thread that waits gets it, whatever it is
            self._closed = True
            if started.done():
                self._ended.set_exception(error)
                return
            started.set_exception(error)
        self._ended.set_result(None)

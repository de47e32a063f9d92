"""The way from any thread to the event loop that a blocking facade runs, and back."""

from __future__ import annotations

import contextlib
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
        self._begun = threading.Lock()
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._pid = os.getpid()
        self._posting: dict[threading.Lock, int] = {}
        self._closed = False
        self._stopped = threading.Lock()
        self._waits: set[anyio.CancelScope] = set()
        self._stopping = False

    # -- from other threads

    def start(self) -> None:
        """Start the thread, and return when the host is open."""
        if self._thread is not None:
            raise HostClosed("the host was opened before: make another one")
        # A program that never closes its host must still be able to end.
        self._thread = threading.Thread(target=self._run, name="treering host", daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Take no more calls, end the waits of subscriptions, answer every call that was taken, and drain the host.

        An interrupt is raised when all that is done; a second one ends the waiting at once.
        """
        if os.getpid() != self._pid or self._thread is None:
            return
        try:
            self._end(self._thread)
        except BaseException:
            if not self._ended.done():
                self._end(self._thread)
            raise

    def _end(self, thread: threading.Thread) -> None:
        """Have the event loop ended and wait for it; where a wait for it was interrupted, the next goes on."""
        self._closed = True
        if self._begun.acquire(blocking=False):  # `start` was interrupted before its thread ran, and now it will not
            self._ended.set_result(None)
        # Handlers of signals raise in the main thread alone: what has to be done once and whole is done in another.
        closer = threading.Thread(target=self._close, args=(threading.get_ident(),), daemon=True)
        try:
            closer.start()
        except RuntimeError:  # an interpreter that ends starts no threads
            self._close(threading.get_ident())
        self._ended.result()
        if thread.is_alive():
            thread.join()

    def _close(self, stopping: int) -> None:
        """Let the event loop end, as soon as what other threads are handing to it is there."""
        if self._ended.done() or self._started.exception() is not None:
            return
        # A thread that stops hands over nothing more, even where it stops in a handler that ran amid a call.
        for posting, thread in list(self._posting.items()):
            if thread != stopping:
                with posting:
                    pass
        if self._portal is not None and self._stopped.acquire(blocking=False):
            with contextlib.suppress(RuntimeError):  # it ended by itself
                self._portal.start_task_soon(self._portal.stop)

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
        # A call that was let in must reach the loop while it turns, or its thread would wait forever: `stop` waits. An
        # interrupt may strike between any two steps here, so nothing is held that is not let go of on the way out.
        posting = threading.Lock()
        try:
            with posting:
                self._posting[posting] = threading.get_ident()
                if self._closed:
                    raise HostClosed("the host is closed: open another one")
                return portal.start_task_soon(call)
        finally:
            self._posting.pop(posting, None)

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

    async def _serve(self) -> None:
        async with self._host, BlockingPortal() as portal:
            self._portal = portal
            self._started.set_result(None)
            await portal.sleep_until_stopped()
            self._stopping = True
            for scope in self._waits:
                scope.cancel()

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            anyio.run(self._serve, backend=self._backend, backend_options=self._backend_options)
        except BaseException as error:  # noqa: BLE001 -- the thread that waits gets it, whatever it is
            self._closed = True
            if self._started.done():
                self._ended.set_exception(error)
                return
            self._started.set_exception(error)
        self._ended.set_result(None)

"""The connection between any thread and the event loop that the blocking facade runs, and what ends both: signals."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ...events.errors import HostClosed, WrongThread
from ..host.host import SessionHost

T = TypeVar("T")


class Bridge:
    """A thread that runs a host and its event loop, and the calls from other threads into it.

    An interrupt (Ctrl-C) while a thread waits ends only the wait: the call itself completes.
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
            raise HostClosed("the host was opened before: create a new one")
        # A program that never closes its host must still be able to end.
        self._thread = threading.Thread(target=self._run, name="treering host", daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Refuse new calls, end the waits of subscriptions, complete the calls in progress, and drain the host.

        An interrupt is raised once that is done; a second one ends the wait at once.
        """
        try:
            self._end()
        except BaseException:
            if not self._ended.done():
                self._end()
            raise

    def _end(self) -> None:
        """Stop the event loop and wait for it; if the wait was interrupted, another call resumes it."""
        thread = self._thread
        if os.getpid() != self._pid or thread is None:
            return
        self._closed = True
        if self._begun.acquire(blocking=False):  # `start` was interrupted before its thread ran: keep it from running
            self._ended.set_result(None)
        # Signal handlers raise in the main thread only, so work that must not be interrupted runs in another thread.
        closer = threading.Thread(target=self._close, args=(threading.get_ident(),), daemon=True)
        try:
            closer.start()
        except RuntimeError:  # an interpreter that is shutting down starts no threads
            self._close(threading.get_ident())
        self._ended.result()
        if thread.is_alive():
            thread.join()

    def _close(self, stopping: int) -> None:
        """Stop the event loop once it has received the calls that other threads are posting."""
        if self._ended.done() or self._started.exception() is not None:
            return
        # The stopping thread posts nothing more, even if it stops in a signal handler that ran during a `post`.
        for posting, thread in list(self._posting.items()):
            if thread != stopping:
                with posting:
                    pass
        if self._portal is not None and self._stopped.acquire(blocking=False):
            with contextlib.suppress(RuntimeError):  # the event loop has ended already
                self._portal.start_task_soon(self._portal.stop)

    def post(self, call: Callable[[], Awaitable[T]]) -> Future[T]:
        """Post a call to the event loop.

        Raises:
            HostClosed: The host is not open, or this process is a fork of the host's process.
            WrongThread: The caller is the event loop itself.
        """
        portal = self._portal
        if portal is None:
            raise HostClosed("the host is not open: use it as `with SyncHost(...) as host`")
        if os.getpid() != self._pid:
            raise HostClosed("the host belongs to the parent of this forked process: open a new one here")
        if threading.current_thread() is self._thread:
            raise WrongThread("a blocking call inside the host's own event loop would never return: use the async twin")
        # An accepted call must reach the loop while it runs, or its thread would wait forever: `_close` waits for that.
        # An interrupt may strike between any two steps here, so everything acquired is released on the way out.
        posting = threading.Lock()
        try:
            with posting:
                self._posting[posting] = threading.get_ident()
                if not self._closed:
                    with contextlib.suppress(RuntimeError):  # a signal handler has just stopped it, or its loop failed
                        return portal.start_task_soon(call)
        finally:
            self._posting.pop(posting, None)
        raise HostClosed("the host is closed: open another one")

    def wait(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run an async call in the event loop and return its result."""
        try:
            return self.post(call).result()
        except CancelledError:
            raise HostClosed("the host's event loop ended before it answered: open another one") from None

    def read(self, call: Callable[[], T]) -> T:
        """Run a synchronous call in the event loop and return its result."""

        async def run() -> T:
            return call()

        return self.wait(run)

    # -- in the event loop

    async def interruptible(self, scope: anyio.CancelScope, take: Callable[[], Awaitable[Sequence[T]]]) -> Sequence[T]:
        """Wait for items that may never come; return none if the scope is cancelled or the bridge stops."""
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
        except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
            self._closed = True
            (self._ended if self._started.done() else self._started).set_exception(error)
        if not self._ended.done():
            self._ended.set_result(None)


@contextmanager
def exit_on_signals(*numbers: signal.Signals) -> Generator[None]:
    """Raise `SystemExit` in the main thread on the first of the signals, so that its `with` blocks are left in order.

    Args:
        *numbers: The signals.

    Raises:
        WrongThread: This is not the main thread, the only one that receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WrongThread("signals reach only the main thread: open the host there, or without `signals`")

    def leave(number: int, _: FrameType | None) -> NoReturn:
        restore()
        raise SystemExit(128 + number)

    def restore() -> None:
        for each, handler in before.items():
            if signal.getsignal(each) is leave:
                signal.signal(each, handler)

    before = {each: signal.getsignal(each) or signal.SIG_DFL for each in numbers}
    for each in numbers:
        signal.signal(each, leave)
    try:
        yield
    finally:
        restore()

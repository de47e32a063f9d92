"""The way between the person's thread and the event loop: jobs go in, what is to be shown comes out, Ctrl-C stops a job.

A job runs in the loop and shows things by handing over callables, which the person's thread calls in their order. So the
loop never waits for a slow terminal, and holds no more than what one answer says.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import wait
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import TypeAlias, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ...actors.sync.signals import exit_on_signals

T = TypeVar("T")

Job: TypeAlias = Callable[[], Awaitable[None]]
"""What is carried out in the loop while the person waits."""

_Shown: TypeAlias = Callable[[], object]

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Front:
    """Carries out jobs in an event loop, one at a time, for the main thread.

    Args:
        portal: The way into the loop.

    Attributes:
        stopped: Whether the last job was stopped by Ctrl-C.
    """

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._items: SimpleQueue[_Shown | None] = SimpleQueue()
        self._scope: anyio.CancelScope | None = None
        self._working = False
        self.stopped = False

    # -- in the main thread

    @contextmanager
    def attending(self) -> Generator[None]:
        """Have Ctrl-C stop a running job, and the signals that end a program end it in order."""
        before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL
        with exit_on_signals(*_ENDING):
            signal.signal(signal.SIGINT, self._interrupted)
            try:
                yield
            finally:
                signal.signal(signal.SIGINT, before)

    def carry_out(self, job: Job) -> bool:
        """Run a job, show what it has to show, and return whether it was left to end by itself.

        A job that is stopped has ended when this returns: what it keeps on the way out is kept.
        """
        items = self._items = SimpleQueue()
        self.stopped, self._working = False, True
        future = self._portal.start_task_soon(self._run, job)
        future.add_done_callback(lambda _: items.put(None))
        cancelled = False
        try:
            while (show := items.get()) is not None:
                if not self.stopped:
                    show()
                elif not cancelled:
                    cancelled = True
                    self._portal.call(self._cancel)
        except BaseException:  # a signal, or nobody reads: what was said is kept before the session is let go
            self._portal.call(self._cancel)
            wait([future])
            raise
        finally:
            self._working = False
        future.result()
        return not self.stopped

    def _interrupted(self, number: int, _: FrameType | None) -> None:
        if not self._working:
            raise KeyboardInterrupt
        self.stopped = True
        self._items.put(_nothing)  # may be called in the midst of another `put`, or of a `get`

    # -- in the event loop

    def show(self, show: _Shown) -> None:
        """Have something called in the main thread, after what was handed over before."""
        self._items.put(show)

    async def ask(self, question: Callable[[], T]) -> T:
        """Have something called in the main thread that waits for the person, and return what it returns.

        Ctrl-C there stops the job.
        """
        answered, answers, items = anyio.Event(), list[T](), self._items

        def asking() -> None:
            self._working = False
            try:
                answers.append(question())
            except KeyboardInterrupt:
                self.stopped = True
                items.put(_nothing)
                return
            finally:
                self._working = True
            self._portal.call(answered.set)

        items.put(asking)
        await answered.wait()
        return answers[0]

    async def _run(self, job: Job) -> None:
        with anyio.CancelScope() as self._scope:
            await job()

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()


def _nothing() -> None:
    """Wake the main thread, and show nothing."""

"""The bridge between the main thread and the event loop: jobs go in, output comes out, Ctrl-C stops a job.

A job runs in the loop and hands over callables for its output, which the main thread calls in order. The loop therefore
never waits for a slow terminal, and buffers no more than one answer.
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

from ...actors.sync.bridge import exit_on_signals
from ..output import ENDING

T = TypeVar("T")

Job: TypeAlias = Callable[[], Awaitable[None]]
"""A job that runs in the loop while the person waits."""

_Show: TypeAlias = Callable[[], object]


class JobRunner:
    """Runs jobs in an event loop, one at a time, for the main thread.

    Args:
        portal: The portal into the loop.

    Attributes:
        stopped: Whether the last job was stopped by Ctrl-C.
    """

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._items: SimpleQueue[_Show | None] = SimpleQueue()
        self._scope: anyio.CancelScope | None = None
        self._working = False
        self.stopped = False

    # -- in the main thread

    @contextmanager
    def handling_signals(self) -> Generator[None]:
        """Make Ctrl-C stop a running job, and terminating signals exit cleanly."""
        before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL
        with exit_on_signals(*ENDING):
            signal.signal(signal.SIGINT, self._on_interrupt)
            try:
                yield
            finally:
                signal.signal(signal.SIGINT, before)

    def run_job(self, job: Job) -> bool:
        """Run a job, show its output, and return whether it ended without being stopped.

        A stopped job has ended when this returns, including the writes of its cleanup.
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
        except BaseException:  # a signal or a closed stdout: let the job store what was said before the session closes
            self._portal.call(self._cancel)
            wait([future])
            raise
        finally:
            self._working = False
        future.result()
        return not self.stopped

    def _on_interrupt(self, number: int, _: FrameType | None) -> None:
        if not self._working:
            raise KeyboardInterrupt
        self.stopped = True
        self._items.put(_nothing)  # safe even if the signal interrupts another `put` or a `get`

    # -- in the event loop

    def show(self, show: _Show) -> None:
        """Call something in the main thread, after everything handed over before."""
        self._items.put(show)

    async def ask(self, question: Callable[[], T]) -> T:
        """Call something in the main thread that waits for the person, and return its result.

        Ctrl-C during the call stops the job.
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
    """Wake the main thread without output."""

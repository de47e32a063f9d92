"""The task of a host: everything that a host runs lives below it, whichever task opened the host.

A task group belongs to the task that entered it. A host is opened in one task, closed in another, or never (a
notebook, the lifespan of a framework, a fixture), so its group is entered by a task that belongs to the event loop
alone: a system task in trio, an asyncio task elsewhere. This is the one module that names the loops.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from ...events.errors import HostClosed
from ...events.offload import seen_through
from ...events.telemetry import failure_of, logger
from .runtime import Runtime

_running: ContextVar[HostTask | None] = ContextVar("treering_host_task", default=None)
"""The task below which the present one was started; None for those of programs."""

_tasks: set[asyncio.Task[None]] = set()
"""The asyncio tasks of open hosts; the event loop itself keeps only weak references."""


class HostTask:
    """A task that runs the task group of a host until the host is closed, and then closes it.

    Args:
        name: What the task is called in a debugger.
        close: Closes the host; called once, on this task, out of reach of the cancellation of any scope.
        ended: Called once when the task has ended, with what went wrong if anything did, and whether it was asked to
            end: if not, the event loop ended, or something failed that should not.
    """

    def __init__(
        self, name: str, close: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None, bool], None]
    ) -> None:
        self._name = name
        self._close = close
        self._note_end = ended
        self._asked = anyio.Event()
        self._begun = anyio.Event()
        self._ended = anyio.Event()
        self._group: TaskGroup | None = None
        self._failure: BaseException | None = None

    async def start(self) -> None:
        """Begin the task in a copy of the caller's context, and return when it takes work."""
        _spawn(self._run, self._name)
        try:
            await _wait_through(self._begun)
        except BaseException:
            await self.end()
            raise

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something below this task.

        Raises:
            HostClosed: The task has ended, and closed the host.
        """
        if self._group is None or self._ended.is_set():
            raise HostClosed("the host is closed: open another one") from self._failure
        outside = _running.set(self)  # the new task gets a copy of this context
        try:
            self._group.start_soon(run)
        finally:
            _running.reset(outside)

    async def end(self) -> None:
        """Close the host on this task, or wait until it is closed if others do that already.

        A caller that is cancelled meanwhile still waits; a bare cancel of asyncio is raised when the host is closed.
        One that runs below this task does not wait: the host is closed when it has ended.

        Raises:
            BaseException: What ended the host before, or went wrong while it was closed; everyone who ends it gets it.
        """
        self._asked.set()
        if _running.get() is self:
            return
        await _wait_through(self._ended)
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        was_asked = False
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                self._begun.set()
                try:
                    await self._asked.wait()
                    was_asked = True
                finally:
                    await self._end(group)
        except anyio.get_cancelled_exc_class():
            raise  # the event loop ends
        except BaseException as error:  # noqa: BLE001  # for `end`: a loop would crash, or only log it
            self._failure = self._failure or error
        finally:
            self._ended.set()
            self._note_end(self._failure, was_asked)

    async def _end(self, group: TaskGroup) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self._close()
        except Exception as error:  # noqa: BLE001  # for `end`, without the wrapping of the group
            self._failure = error
        finally:
            group.cancel_scope.cancel()


async def _wait_through(event: anyio.Event) -> None:
    """Wait for an event that will surely come, through any cancellation, which is raised then."""
    cancellation = await seen_through(event.wait, event.is_set)
    if cancellation is not None:
        raise cancellation


def _spawn(run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Start a task that belongs to the event loop, with a copy of the caller's context."""
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_task():
            trio.lowlevel.spawn_system_task(run, name=name, context=copy_context())
            return
    task = asyncio.get_running_loop().create_task(run(), name=name)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


T = TypeVar("T")


async def on_own_task(runtime: Runtime, run: Callable[[], Awaitable[T]]) -> T:
    """Run something on a task of the host, and return its result.

    If the caller is cancelled, the work is cancelled too, unless it shields itself; the cancellation is raised when the
    work has ended.

    Raises:
        HostClosed: The host ended before the work did.
    """
    work = _Work(run)
    runtime.spawn(work)
    try:
        await work.ended.wait()
    except anyio.get_cancelled_exc_class():
        work.scope.cancel()
        await seen_through(work.ended.wait, work.ended.is_set)  # if cancelled again, the first one is raised
        raise
    return work.outcome()


class _Work(Generic[T]):
    """A call that may be awaited on another task than its caller's."""

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run = run
        self._result: list[T] = []
        self._error: Exception | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    async def __call__(self) -> None:
        try:
            with self.scope:
                self._result.append(await self._run())
        except Exception as error:  # noqa: BLE001  # it is the caller's, and must not end the host
            self._error = error
        finally:
            self.ended.set()

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        if not self._result:
            raise HostClosed("the host was closed meanwhile: open another one, and look what was done")
        return self._result[0]


WAIT_S = 1.0
"""How many seconds to wait after a failure, doubled after each further failure that follows soon."""

WAIT_MAX_S = 60.0
"""The longest wait in seconds. Work that ran this long before it failed starts over with `WAIT_S`."""


async def attempt(work: str, run: Callable[[], Awaitable[object]]) -> bool:
    """Run something once, and return whether it succeeded; an error is logged.

    Args:
        work: Its name in the log.
        run: The work.
    """
    try:
        await run()
    except Exception as error:  # noqa: BLE001  # a bug in background work must not end the program
        logger().error("background_failed", work=work, **failure_of(error))
        return False
    return True


async def keep_running(work: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run something until it returns by itself, and restart it after a wait whenever it fails.

    Args:
        work: Its name in the log.
        run: The work.
    """
    wait_s = WAIT_S
    while True:
        began = anyio.current_time()
        if await attempt(work, run):
            return
        if anyio.current_time() - began > WAIT_MAX_S:
            wait_s = WAIT_S
        await anyio.sleep(wait_s)
        wait_s = min(2 * wait_s, WAIT_MAX_S)

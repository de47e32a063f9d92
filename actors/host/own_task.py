"""Work of a caller that must not be left half done, on a task of the host's own.

A bare `asyncio.Task.cancel` raises within the task that it cancels, whatever shields that task holds. Work on another
task is out of its reach: there it arrives as the cancellation of a scope, which shields stop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from ...events.errors import HostClosed
from .runtime import Runtime

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
        with anyio.CancelScope(shield=True):
            while not work.ended.is_set():
                try:
                    await work.ended.wait()
                except anyio.get_cancelled_exc_class():  # a bare cancel again; the first one is raised
                    continue
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

"""Interrupting a call at each of its pauses, by a cancel scope or by asyncio itself."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Generator
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import pytest

T = TypeVar("T")

PAUSES_MAX = 200

ON_ASYNCIO = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        id="uvloop",
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop does not run here"),
    ),
]
"""For tests that cancel a task through asyncio itself, without a cancel scope."""


class CountingPauses(Generic[T]):
    """Awaits a coroutine and calls `interrupt` at the n-th suspension, for each n of `at`; counts them."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], at: Container[int], interrupt: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._at = at
        self._interrupt = interrupt
        self.count = 0

    def __await__(self) -> Generator[Any, Any, T]:
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                awaited = self._coroutine.send(sent) if raised is None else self._coroutine.throw(raised)
            except StopIteration as stop:
                value: T = stop.value
                return value
            self.count += 1
            if self.count in self._at:
                self._interrupt()
            try:
                sent, raised = (yield awaited), None
            except BaseException as error:  # noqa: BLE001  # the coroutine decides what to do with it
                raised = error


async def cancelled_by_asyncio(
    coroutine: Coroutine[Any, Any, T], nth: int, *, times: int = 1
) -> tuple[bool, asyncio.Task[T]]:
    """Run a call on a task that asyncio cancels at its n-th pause, and at the next ones, until it has ended.

    Returns:
        Whether the call paused that often, and the task.
    """
    task: asyncio.Task[T]
    pauses = CountingPauses(coroutine, range(nth, nth + times), lambda: task.cancel())

    async def run() -> T:
        return await pauses

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    return pauses.count >= nth, task

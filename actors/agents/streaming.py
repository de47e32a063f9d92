"""Streaming a turn: it runs in a task of its own, and its events wait in a bounded channel for their reader."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from ...events.errors import Closed
from .events import AgentEvent, Turn
from .turns import Work


class TurnStream:
    """The events of one turn: `async with agent.stream("Hello") as events: async for event in events: ...`.

    The turn begins when the block is entered and waits for its reader when too many events wait. An error of the turn is
    raised where the iteration would end. Leaving the block before the turn's end cancels it.

    Args:
        work: The turn.
        events_max: How many events may wait.
    """

    def __init__(self, work: Work, events_max: int) -> None:
        self._work = work
        self._events_max = events_max
        self._group: TaskGroup | None = None
        self._turn: Turn | None = None
        self._failed: BaseException | None = None
        self._failure: BaseException | None = None
        self._left = False

    @property
    def turn(self) -> Turn:
        """What the turn came to.

        Raises:
            Closed: The turn is not over, or did not end well.
        """
        if self._turn is not None:
            return self._turn
        if self._failed is not None:
            raise Closed(f"the turn came to nothing, as it failed: {type(self._failed).__name__}") from self._failed
        if self._left:
            raise Closed("the turn was cancelled, as its block was left early: read its events to the end next time")
        raise Closed("the turn is not over: read its events to the end first")

    async def __aenter__(self) -> Self:
        self._send, self._receive = anyio.create_memory_object_stream[AgentEvent](self._events_max)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._left = True
        self._receive.close()
        self._group.cancel_scope.cancel()
        # The program's own error passes as it is; only a cancellation is the task group's to judge.
        ended = (kind, error, trace) if isinstance(error, anyio.get_cancelled_exc_class()) else (None, None, None)
        try:
            await self._group.__aexit__(*ended)
        finally:
            self._send.close()
        if error is None or not isinstance(self._failure, Exception):
            self._raise_failure()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._group is None:
            raise Closed("the stream is not open: use it as `async with agent.stream(...) as events`")
        if self._left:
            raise Closed("the stream is over, as its block was left: read its events within the block")
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            self._raise_failure()
            raise StopAsyncIteration from None

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _run(self) -> None:
        with self._send:
            try:
                self._turn = await self._work(self._tell)
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - its reader gets it, whatever it is
                self._failed = self._failure = error

    async def _tell(self, event: AgentEvent) -> None:
        with suppress(anyio.BrokenResourceError):  # nobody reads any more: the turn is about to be cancelled
            await self._send.send(event)

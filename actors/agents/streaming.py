"""Stream a turn: run it in a task of its own, and buffer its events in a bounded channel for the reader."""

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

    The turn starts when the block is entered, and waits for the reader while the buffer is full. An error of the turn
    is raised where the iteration would end. Leaving the block before the end of the turn cancels it.

    Args:
        work: The turn.
        events_max: The maximum number of buffered events.
    """

    def __init__(self, work: Work, events_max: int) -> None:
        self._work = work
        self._events_max = events_max
        self._group: TaskGroup | None = None
        self._turn: Turn | None = None
        self._turn_error: BaseException | None = None
        self._unraised_error: BaseException | None = None
        self._exited = False

    @property
    def turn(self) -> Turn:
        """The finished turn.

        Raises:
            Closed: The turn is not over, failed, or was cancelled.
        """
        if self._turn is not None:
            return self._turn
        if self._turn_error is not None:
            raise Closed(f"the turn failed: {type(self._turn_error).__name__}") from self._turn_error
        if self._exited:
            raise Closed("the turn was cancelled, because its block was left early: read the events to the end")
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
        self._exited = True
        self._receive.close()
        self._group.cancel_scope.cancel()
        # An error raised in the block propagates unwrapped; only a cancellation concerns the task group.
        exit_args = (kind, error, trace) if isinstance(error, anyio.get_cancelled_exc_class()) else (None, None, None)
        try:
            await self._group.__aexit__(*exit_args)
        finally:
            self._send.close()
        if error is None or not isinstance(self._unraised_error, Exception):
            self._raise_turn_error()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._group is None:
            raise Closed("the stream is not open: use it as `async with agent.stream(...) as events`")
        if self._exited:
            raise Closed("the stream is closed, because its block was left: read its events within the block")
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            self._raise_turn_error()
            raise StopAsyncIteration from None

    def _raise_turn_error(self) -> None:
        error, self._unraised_error = self._unraised_error, None
        if error is not None:
            raise error

    async def _run(self) -> None:
        with self._send:
            try:
                self._turn = await self._work(self._emit)
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  # raised to the reader
                self._turn_error = self._unraised_error = error

    async def _emit(self, event: AgentEvent) -> None:
        with suppress(anyio.BrokenResourceError):  # the reader has left: the turn is about to be cancelled
            await self._send.send(event)

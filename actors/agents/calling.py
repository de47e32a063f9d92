"""Execute the calls of one answer concurrently, up to a limit, and hand on each result as it arrives.

A failure of a tool becomes the result that the model gets, and never ends the turn: an unknown tool, invalid arguments,
an error of the handler, a timeout, or a cancellation from elsewhere. `SystemExit` and `KeyboardInterrupt` propagate.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType

import anyio
from anyio import to_thread
from msgspec import Struct

from ...events.content import ToolUse, tool_result
from ...events.entries import Message
from ...events.errors import InvalidEntry, InvalidInput
from ...events.telemetry import failure_of, logger
from .model import malformed_arguments
from .options import AgentOptions
from .tool import Suspend, Tool, ToolOutput

GRACE_S = 5.0
"""The seconds allowed for storing finished work after a turn is cancelled."""


class Finished(Struct, frozen=True):
    """A call that was executed.

    Attributes:
        call: The call.
        output: Its result.
        duration_ms: How long it took, in milliseconds; None if it was executed elsewhere.
    """

    call: ToolUse
    output: ToolOutput
    duration_ms: float | None = None

    def message(self) -> Message:
        """Return the result as a message for the model."""
        output = self.output
        return Message(
            "tool",
            (tool_result(self.call.id, output.content, is_error=output.is_error),),
            tool_name=self.call.name or None,
        )


class Waiting(Struct, frozen=True):
    """A call that waits for an external result, with the `Suspend` that its tool raised."""

    call: ToolUse
    suspend: Suspend


async def carry_out(
    calls: Sequence[ToolUse],
    tools: Mapping[str, Tool],
    options: AgentOptions,
    keep: Callable[[Finished], Awaitable[None]],
    *,
    session_id: str | None,
) -> list[Waiting]:
    """Execute calls, and return those that wait for external results, in the order of the calls.

    Args:
        calls: The calls of one answer.
        tools: The tools by name.
        options: How many calls run at once, and how long each may take.
        keep: Receives the results one at a time, in order of arrival. When it raises, the running calls are cancelled.
            When the turn is cancelled, it still receives the results that have arrived.
        session_id: The session, for the program's logs; None without one.
    """
    execution = _Execution(tools, options, keep, session_id)
    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(execution.run, call, group.cancel_scope)
            await execution.keep_outcomes(len(calls), group.cancel_scope)
    finally:
        if execution.failure is not None:
            raise execution.failure
    return sorted(execution.waiting, key=lambda each: calls.index(each.call))


class _Execution:
    """The execution of the calls of one answer; its arguments are those of `carry_out`.

    Attributes:
        waiting: The calls that wait for external results.
        failure: What to raise once all calls have ended. A task group would wrap it.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        options: AgentOptions,
        keep: Callable[[Finished], Awaitable[None]],
        session_id: str | None,
    ) -> None:
        self._tools = tools
        self._keep = keep
        self._session_id = session_id
        self._timeout_s = options.tool_timeout_s
        self._gate = anyio.Semaphore(options.parallel_calls_max)
        # A memory channel would lose an item that it handed to a reader whose task is cancelled before it wakes.
        self._outcomes: deque[Finished | Waiting] = deque()
        self._outcome_arrived = anyio.Event()
        self.waiting: list[Waiting] = []
        self.failure: BaseException | None = None

    async def run(self, call: ToolUse, scope: anyio.CancelScope) -> None:
        """Execute a call; if the program is to exit, cancel the scope."""
        async with self._gate:
            try:
                self._outcomes.append(await self._outcome(call))
            except (KeyboardInterrupt, SystemExit) as error:
                self.failure = error
                scope.cancel()
            self._outcome_arrived.set()

    async def _outcome(self, call: ToolUse) -> Finished | Waiting:
        started = anyio.current_time()
        try:
            output = await self._output(call)
        except Suspend as suspend:
            return Waiting(call, suspend)
        taken_ms = (anyio.current_time() - started) * 1000
        return Finished(call, output, taken_ms if output.duration_ms is None else output.duration_ms)

    async def _output(self, call: ToolUse) -> ToolOutput:
        tools, timeout_s = self._tools, self._timeout_s
        tool = tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(tools)) or "none"
            return ToolOutput.failed(f"There is no tool {call.name!r}. The tools are: {known}.")
        malformed = malformed_arguments(call)
        if malformed is not None:
            return ToolOutput.failed(f"The arguments are not a JSON object: {malformed}")
        log_fields: dict[str, object] = {"session_id": self._session_id, "call_id": call.id, "tool": call.name}
        try:
            with anyio.move_on_after(timeout_s):
                return await tool(call.input)
        except Suspend:
            raise
        except anyio.get_cancelled_exc_class() as error:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # This call was not cancelled: asyncio raises the same error when the tool awaits a task that was cancelled.
            logger().warning("tool_cancelled", **log_fields, **failure_of(error, trace_in_tool(error)))
            return ToolOutput.failed("The tool was cancelled before it answered.")
        except Exception as error:  # noqa: BLE001  # a tool may raise anything, and the model gets it as the result
            if isinstance(error, InvalidInput) and not isinstance(error, InvalidEntry):
                return ToolOutput.failed(str(error))
            logger().warning("tool_failed", **log_fields, **failure_of(error, trace_in_tool(error)))
            name = type(error).__name__
            return ToolOutput.failed(f"{name}: {error}" if str(error) else name)
        logger().warning("tool_timed_out", **log_fields, timeout_s=timeout_s)
        return ToolOutput.failed(f"The tool gave no answer within {timeout_s} seconds.")

    async def keep_outcomes(self, count: int, scope: anyio.CancelScope) -> None:
        """Handle this many outcomes as they arrive; if one cannot be kept, cancel the scope."""
        try:
            for _ in range(count):
                while not self._outcomes:
                    self._outcome_arrived = anyio.Event()
                    await self._outcome_arrived.wait()
                await self._handle(self._outcomes.popleft())
        except anyio.get_cancelled_exc_class():
            await self._keep_arrived()
            raise
        except Exception as error:  # noqa: BLE001  # `carry_out` raises it
            self.failure = self.failure or error
            scope.cancel()

    async def _keep_arrived(self) -> None:
        """Handle the outcomes that had arrived when the turn was cancelled."""
        try:
            with anyio.move_on_after(GRACE_S, shield=True):
                while self._outcomes:
                    await self._handle(self._outcomes.popleft())
        except Exception as error:  # noqa: BLE001  # `carry_out` raises it
            self.failure = self.failure or error

    async def _handle(self, outcome: Finished | Waiting) -> None:
        if isinstance(outcome, Waiting):
            self.waiting.append(outcome)
        else:
            await self._keep(outcome)


_CALLERS = frozenset({f"{__package__}.calling", f"{__package__}.tool"})
"""The modules through which an agent calls a tool."""


def trace_in_tool(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error that a call raised, from the tool's first frame on.

    The way to it, through the agent and its threads, explains nothing:

        calling.py, tool.py                         the agent calls the tool
        anyio's `run_sync` and frames of the loop   only for a tool that runs in a thread
        tool.py                                     likewise
        the tool                                    everything from here on

    If the tool has no frame in it, as when its return value was refused, this is the innermost frame.
    """
    trace = error.__traceback__
    enters_thread = False
    while trace is not None and trace.tb_next is not None:
        if trace.tb_frame.f_globals.get("__name__") in _CALLERS:
            enters_thread = False
        elif trace.tb_frame.f_code is to_thread.run_sync.__code__:
            enters_thread = True
        elif not enters_thread:
            break
        trace = trace.tb_next
    return trace

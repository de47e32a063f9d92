"""Execute the calls of one answer concurrently, up to a limit, and hand on each result as it arrives.

A failure of a tool becomes the result that the model gets, and never ends the turn: an unknown tool, invalid arguments, an
error of the handler, a timeout, or a cancellation from elsewhere. `SystemExit` and `KeyboardInterrupt` propagate.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
from msgspec import Struct

from ...events.content import ToolUse, tool_result
from ...events.entries import Message
from ...events.errors import InvalidEntry, InvalidInput
from ...events.telemetry import failure_of, logger
from .model import malformed_arguments
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
    keep: Callable[[Finished], Awaitable[None]],
    *,
    session_id: str | None,
    parallel_max: int,
    timeout_s: float | None,
) -> list[Waiting]:
    """Execute calls, and return those that wait for external results, in the order of the calls.

    Args:
        calls: The calls of one answer.
        tools: The tools by name.
        keep: Receives the results one at a time, in order of arrival. When it raises, the running calls are cancelled.
            When the turn is cancelled, it still receives the results that have arrived.
        session_id: The session, for the program's logs; None without one.
        parallel_max: The maximum number of calls that run at once.
        timeout_s: Seconds after which a tool is cancelled; None sets no timeout.
    """
    waiting: list[Waiting] = []
    failure: BaseException | None = None
    gate = anyio.Semaphore(parallel_max)
    # A memory channel would lose an item that it handed to a reader whose task is cancelled before it wakes.
    outcomes: deque[Finished | Waiting] = deque()
    outcome_arrived = anyio.Event()

    async def run(call: ToolUse) -> None:
        nonlocal failure
        async with gate:
            try:
                outcomes.append(await _outcome(call, tools, session_id, timeout_s))
            except (KeyboardInterrupt, SystemExit) as error:
                failure = error
                group.cancel_scope.cancel()
            outcome_arrived.set()

    async def handle(outcome: Finished | Waiting) -> None:
        if isinstance(outcome, Waiting):
            waiting.append(outcome)
        else:
            await keep(outcome)

    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(run, call)
            try:
                for _ in calls:
                    while not outcomes:
                        outcome_arrived = anyio.Event()
                        await outcome_arrived.wait()
                    await handle(outcomes.popleft())
            except anyio.get_cancelled_exc_class():
                try:
                    with anyio.move_on_after(GRACE_S, shield=True):
                        while outcomes:
                            await handle(outcomes.popleft())
                except Exception as error:  # noqa: BLE001 - as below
                    failure = failure or error
                raise
            except Exception as error:  # noqa: BLE001 - raised below, outside the task group, which would wrap it
                failure = failure or error
                group.cancel_scope.cancel()
    finally:
        if failure is not None:
            raise failure
    return sorted(waiting, key=lambda each: calls.index(each.call))


async def _outcome(
    call: ToolUse, tools: Mapping[str, Tool], session_id: str | None, timeout_s: float | None
) -> Finished | Waiting:
    started = anyio.current_time()
    try:
        output = await _output(call, tools, session_id, timeout_s)
    except Suspend as suspend:
        return Waiting(call, suspend)
    return Finished(call, output, (anyio.current_time() - started) * 1000)


async def _output(
    call: ToolUse, tools: Mapping[str, Tool], session_id: str | None, timeout_s: float | None
) -> ToolOutput:
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(tools)) or "none"
        return ToolOutput.failed(f"There is no tool {call.name!r}. The tools are: {known}.")
    malformed = malformed_arguments(call)
    if malformed is not None:
        return ToolOutput.failed(f"The arguments are not a JSON object: {malformed}")
    log_fields: dict[str, object] = {"session_id": session_id, "call_id": call.id, "tool": call.name}
    try:
        with anyio.move_on_after(timeout_s):
            return await tool(call.input)
    except Suspend:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # This call was not cancelled: asyncio raises the same error when the tool awaits a task that was cancelled.
        logger().warning("tool_cancelled", **log_fields, **failure_of(error))
        return ToolOutput.failed("The tool was cancelled before it answered.")
    except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model gets it as the result
        if isinstance(error, InvalidInput) and not isinstance(error, InvalidEntry):
            return ToolOutput.failed(str(error))
        logger().warning("tool_failed", **log_fields, **failure_of(error))
        name = type(error).__name__
        return ToolOutput.failed(f"{name}: {error}" if str(error) else name)
    logger().warning("tool_timed_out", **log_fields, timeout_s=timeout_s)
    return ToolOutput.failed(f"The tool gave no answer within {timeout_s} seconds.")

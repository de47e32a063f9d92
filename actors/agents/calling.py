"""Carrying out the calls of one answer: side by side within a bound, each result handed on as it comes.

Whatever goes wrong with a tool is told to the model as its result, and never ends the turn: a tool that is not there,
arguments that do not fit, an error of the handler, a handler that takes too long or that somebody else cancelled. What ends
a whole program (`SystemExit`, `KeyboardInterrupt`) passes.
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
"""How many seconds what is done already may take to be kept, when a turn is cancelled."""


class Finished(Struct, frozen=True):
    """A call that was carried out.

    Attributes:
        call: The call.
        output: What came of it.
        duration_ms: How long that took, in milliseconds; None where it was not carried out here.
    """

    call: ToolUse
    output: ToolOutput
    duration_ms: float | None = None

    def message(self) -> Message:
        """Return the result as the model is told it."""
        output = self.output
        return Message(
            "tool",
            (tool_result(self.call.id, output.content, is_error=output.is_error),),
            tool_name=self.call.name or None,
        )


class Waiting(Struct, frozen=True):
    """A call that waits for something outside, and what its tool said of that."""

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
    """Carry out calls, and return those that wait for something outside, in the order of the calls.

    Args:
        calls: The calls of one answer.
        tools: The tools by name.
        keep: Takes each result, one at a time, in the order in which they come. When it raises, what is still running is
            cancelled. When the turn is cancelled, it still gets what had come by then.
        session_id: The session, for the program's logs; None where there is none.
        parallel_max: How many run at once.
        timeout_s: After how many seconds a tool is given up; None lets it run.
    """
    waiting: list[Waiting] = []
    failure: BaseException | None = None
    gate = anyio.Semaphore(parallel_max)
    # No channel: what one has handed to a reader is lost when the reader's task is cancelled before it wakes.
    outcomes: deque[Finished | Waiting] = deque()
    came = anyio.Event()

    async def run(call: ToolUse) -> None:
        nonlocal failure
        async with gate:
            try:
                outcomes.append(await _outcome(call, tools, session_id, timeout_s))
            except (KeyboardInterrupt, SystemExit) as error:
                failure = error
                group.cancel_scope.cancel()
            came.set()

    async def take(outcome: Finished | Waiting) -> None:
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
                        came = anyio.Event()
                        await came.wait()
                    await take(outcomes.popleft())
            except anyio.get_cancelled_exc_class():
                try:
                    with anyio.move_on_after(GRACE_S, shield=True):
                        while outcomes:
                            await take(outcomes.popleft())
                except Exception as error:  # noqa: BLE001 - as below
                    failure = failure or error
                raise
            except Exception as error:  # noqa: BLE001 - it is raised below, outside of the group that would wrap it
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
    written = malformed_arguments(call)
    if written is not None:
        return ToolOutput.failed(f"The arguments are no JSON object: {written}")
    told: dict[str, object] = {"session_id": session_id, "call_id": call.id, "tool": call.name}
    try:
        with anyio.move_on_after(timeout_s):
            return await tool(call.input)
    except Suspend:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Nobody cancelled the call: asyncio raises the same where the tool waits for a task that somebody else cancelled.
        logger().warning("tool_cancelled", **told, **failure_of(error))
        return ToolOutput.failed("The tool was cancelled before it answered.")
    except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model is the one to be told
        if isinstance(error, InvalidInput) and not isinstance(error, InvalidEntry):
            return ToolOutput.failed(str(error))
        logger().warning("tool_failed", **told, **failure_of(error))
        name = type(error).__name__
        return ToolOutput.failed(f"{name}: {error}" if str(error) else name)
    logger().warning("tool_timed_out", **told, timeout_s=timeout_s)
    return ToolOutput.failed(f"The tool gave no answer within {timeout_s} seconds.")

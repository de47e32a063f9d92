"""What the tests of agents share: messages as lines, checks of calls and results, tools, a session of three methods."""

from collections.abc import Sequence

import anyio
import pytest

from treering import AgentSession, Message, Tool, Usage, plain_text
from treering.entries import ToolResultPart, ToolUsePart

from ..loops import ASYNCIO

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", [ASYNCIO])
"""For tests of what only asyncio does to tasks."""


def as_lines(messages: Sequence[Message]) -> list[str]:
    """Shorten messages to lines such as `user: Hello`."""
    return [f"{each.role}: {_content_line(each)}" for each in messages]


def _content_line(message: Message) -> str:
    parts: list[str] = []
    for part in message.content:
        if isinstance(part, ToolUsePart):
            parts.append(f"calls {part.tool_use.name} {part.tool_use.id}")
        elif isinstance(part, ToolResultPart):
            parts.append(f"{'!' if part.tool_result.is_error else ''}{part.tool_result.text}")
        else:
            parts.append(plain_text((part,)))
    return " | ".join(parts)


def strictly_paired(messages: Sequence[Message]) -> bool:
    """Check messages as the strictest provider does: each result directly follows the message with its call."""
    waiting: list[str] = []
    results_allowed = False
    for message in messages:
        calls = [part.tool_use.id for part in message.content if isinstance(part, ToolUsePart)]
        results = [part.tool_result.tool_use_id for part in message.content if isinstance(part, ToolResultPart)]
        if calls and (message.role != "assistant" or waiting or len(set(calls)) < len(calls)):
            return False
        if results and (not results_allowed or message.role == "assistant" or len(message.content) > len(results)):
            return False
        if not results and waiting:
            return False
        for call_id in results:
            if call_id not in waiting:
                return False
            waiting.remove(call_id)
        if message.role == "assistant":
            waiting, results_allowed = calls, True
        elif not results:
            results_allowed = False
    return not waiting


def results_of(messages: Sequence[Message]) -> dict[str, tuple[bool, str]]:
    """Return the results by call id: whether it is an error, and the text."""
    return {
        part.tool_result.tool_use_id: (part.tool_result.is_error, part.tool_result.text)
        for each in messages
        for part in each.content
        if isinstance(part, ToolResultPart)
    }


def giving(name: str, value: object) -> Tool:
    """Make a tool without parameters that returns a value, or raises it."""

    async def run() -> object:
        if isinstance(value, BaseException):
            raise value
        return value

    return Tool.of(run, name=name)


class Work:
    """A tool that waits: it has `begun`, and gives its result once it is `done`."""

    def __init__(self, name: str = "work") -> None:
        self.begun, self.done = anyio.Event(), anyio.Event()
        self.tool = Tool.of(self._run, name=name)

    async def _run(self) -> str:
        self.begun.set()
        await self.done.wait()
        return "worked"


async def at_once(seconds: float) -> None:
    """Sleep no time, for `AgentOptions(sleep=...)`."""


async def respond_and_cancel(agent: AgentSession, reached: anyio.Event, prompt: str = "Hello") -> None:
    """Start a turn, and cancel it at what it waits for after the event is set."""
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, prompt)
        await reached.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


class PlainSession:
    """A conversation that has the three required methods only, and records its calls in `log`."""

    def __init__(self, id: str = "plain", messages: Sequence[Message] = ()) -> None:
        self.id = id
        self.turns: list[tuple[list[Message], Usage | None]] = []
        self._before = list(messages)
        self.log: list[str] = []

    async def messages(self) -> list[Message]:
        self.log.append("load")
        return [*self._before, *(each for turn, _ in self.turns for each in turn)]

    async def save_turn(self, messages: Sequence[Message], usage: Usage | None) -> None:
        self.log.append("save")
        self.turns.append((list(messages), usage))

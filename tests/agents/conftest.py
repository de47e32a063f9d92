"""What the tests of agents share: a host on the disk, a session, tools, a strict validator of calls and results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from treering import Message, Session, SessionHost, Tool, ToolResultPart, ToolUsePart, Usage, plain_text, tool

Validator = Callable[[Sequence[Message]], bool]


class Kept:
    """A session of three methods, and no more."""

    def __init__(self, id: str = "kept", messages: Sequence[Message] = ()) -> None:
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


@pytest.fixture
def kept() -> Callable[..., Kept]:
    return Kept


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "sessions") as host:
        yield host


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main", cwd="/work/project")


@pytest.fixture
def add() -> Tool:
    @tool
    async def add(a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    return add


@pytest.fixture
def told() -> Callable[[Sequence[Message]], list[str]]:
    """Show messages in short: `user: Hello`."""

    def told(messages: Sequence[Message]) -> list[str]:
        return [f"{each.role}: {_shown(each)}" for each in messages]

    return told


def _shown(message: Message) -> str:
    parts: list[str] = []
    for part in message.content:
        if isinstance(part, ToolUsePart):
            parts.append(f"calls {part.tool_use.name} {part.tool_use.id}")
        elif isinstance(part, ToolResultPart):
            parts.append(f"{'!' if part.tool_result.is_error else ''}{part.tool_result.text}")
        else:
            parts.append(plain_text((part,)))
    return " | ".join(parts)


@pytest.fixture
def strictly_paired() -> Validator:
    """Hold messages against what the strictest provider asks for: every result right behind the turn that called."""

    def valid(messages: Sequence[Message]) -> bool:
        waiting: list[str] = []
        results_may_come = False
        for message in messages:
            calls = [part.tool_use.id for part in message.content if isinstance(part, ToolUsePart)]
            results = [part.tool_result.tool_use_id for part in message.content if isinstance(part, ToolResultPart)]
            if calls and (message.role != "assistant" or waiting or len(set(calls)) < len(calls)):
                return False
            if results and (not results_may_come or message.role == "assistant" or len(message.content) > len(results)):
                return False
            if not results and waiting:
                return False
            for call_id in results:
                if call_id not in waiting:
                    return False
                waiting.remove(call_id)
            if message.role == "assistant":
                waiting, results_may_come = calls, True
            elif not results:
                results_may_come = False
        return not waiting

    return valid

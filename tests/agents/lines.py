"""What the tests of agents share: messages as lines, a check of calls and results, a session of three methods."""

from __future__ import annotations

from collections.abc import Sequence

from treering import Message, ToolResultPart, ToolUsePart, Usage, plain_text


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

"""Calls and their results in what is sent: providers refuse one without the other.

An assistant's neighbouring messages are one turn. The results of its calls stand right after it, before anything else is
said. `paired` brings messages into that form, whatever a crash, an aborted turn, an edit or another program left behind;
storage stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec.structs import replace

from ...events.content import Content, ToolResultPart, ToolUse, ToolUsePart, plain_text, tool_result
from ...events.entries import Message
from ...events.providers.rendering import rendered
from ..context import ContextMessage

NO_RESULT = "[no result: the turn ended before the tool answered]"
"""What stands in for the result of a call that has none."""


def paired(messages: Sequence[ContextMessage]) -> tuple[ContextMessage, ...]:
    """Return the messages that a provider can be told, each call with its result and each result with its call.

    Results without a call are left out, as are second results of one call, and messages in which nothing is left. A call
    without a result gets one that says so. Results move up to their calls where something was said between. Messages
    that no provider is told are left out.
    """
    shown = (each for each in messages if _is_told(each.message))
    told: list[ContextMessage] = []
    turn: list[ContextMessage] = []
    for speaks, run in groupby(shown, _is_assistant):
        if speaks:
            turn = list(run)
        else:
            told += _turn(turn, list(run))
            turn = []
    return (*told, *_turn(turn, ()))


def pairing_fault(messages: Sequence[ContextMessage]) -> str | None:
    """Say what is wrong with the calls and results of messages that are about to be sent, or None."""
    waiting: set[str] = set()
    previous = ""
    for each in messages:
        role = each.role
        if role == "assistant" and previous != "assistant" and waiting:
            break
        for part in each.content:
            if isinstance(part, ToolUsePart):
                if role != "assistant" or part.tool_use.id in waiting:
                    return f"call {part.tool_use.id!r} is made twice, or not by an assistant"
                waiting.add(part.tool_use.id)
            elif isinstance(part, ToolResultPart):
                if role == "assistant" or part.tool_result.tool_use_id not in waiting:
                    return f"the result of call {part.tool_result.tool_use_id!r} has no call before it"
                waiting.discard(part.tool_result.tool_use_id)
        previous = role
    return f"call {min(waiting)!r} has no result" if waiting else None


def unanswered(messages: Sequence[Message]) -> list[tuple[int, ToolUse]]:
    """Return the calls of the assistant's last turn that have no result, each with the position of its message.

    Those of earlier turns do not count: after something else was answered, a provider could not be told their results.
    """
    waiting: dict[str, tuple[int, ToolUse]] = {}
    previous = ""
    for position, each in enumerate(messages):
        if rendered(each) is None:
            continue
        if each.role == "assistant" and previous != "assistant":
            waiting = {}
        for part in each.content:
            if isinstance(part, ToolUsePart) and each.role == "assistant":
                waiting.setdefault(part.tool_use.id, (position, part.tool_use))
            elif isinstance(part, ToolResultPart) and each.role != "assistant":
                waiting.pop(part.tool_result.tool_use_id, None)
        previous = each.role
    return list(waiting.values())


def closing(call_id: str, name: str) -> Message:
    """Return the result that closes a call which nothing will answer."""
    return Message("tool", (tool_result(call_id, NO_RESULT, is_error=True),), tool_name=name or None)


def has_results(message: Message) -> bool:
    """Tell whether a message holds results of tools."""
    return any(isinstance(part, ToolResultPart) for part in message.content)


def is_request(message: Message) -> bool:
    """Tell whether a user says something in a message: one that only carries results is a tool's."""
    return message.role == "user" and any(not isinstance(part, ToolResultPart) for part in message.content)


def safe_start(messages: Sequence[ContextMessage], position: int) -> int:
    """Return the last position up to the given one at which paired messages can be cut.

    An assistant's turn with all of its calls and results is one unit.
    """
    while 0 < position < len(messages) and not _may_begin(messages, position):
        position -= 1
    return position


def safe_starts(messages: Sequence[ContextMessage]) -> list[int]:
    """Return what `safe_start` says of each position."""
    starts: list[int] = []
    for position in range(len(messages)):
        begins = not position or _may_begin(messages, position)
        starts.append(position if begins else starts[-1])
    return starts


def next_start(messages: Sequence[ContextMessage], position: int) -> int:
    """Return the first position after the given one at which paired messages can be cut; their number if there is none."""
    position += 1
    while position < len(messages) and not _may_begin(messages, position):
        position += 1
    return min(position, len(messages))


def _may_begin(messages: Sequence[ContextMessage], position: int) -> bool:
    if _is_assistant(messages[position]):
        return not _is_assistant(messages[position - 1])
    return not has_results(messages[position].message)


def _is_told(message: Message) -> bool:
    if message.role == "compactionSummary" and not plain_text(message.content):
        return False  # it stands for what was cut off without a summary
    return rendered(message) is not None


def _is_assistant(each: ContextMessage) -> bool:
    return each.role == "assistant"


def _turn(turn: Sequence[ContextMessage], after: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Pair an assistant's turn with what follows it up to the next."""
    calls: dict[str, str] = {}
    said: list[ContextMessage] = []
    for each in turn:
        parts: list[Content] = []
        for part in each.content:
            if isinstance(part, ToolUsePart):
                if part.tool_use.id in calls:
                    continue
                calls[part.tool_use.id] = part.tool_use.name
            if not isinstance(part, ToolResultPart):
                parts.append(part)
        said.append(_with(each, parts))
    answers: list[ContextMessage] = []
    others: list[ContextMessage] = []
    for each in after:
        parts = []
        for part in each.content:
            if isinstance(part, ToolResultPart):
                if calls.pop(part.tool_result.tool_use_id, None) is not None:
                    parts.append(part)
            elif not isinstance(part, ToolUsePart):
                parts.append(part)
        kept = _with(each, parts)
        if has_results(kept.message):
            answers.append(kept)
        elif each.role != "tool":
            others.append(kept)
    answers += [ContextMessage("", closing(call_id, name)) for call_id, name in calls.items()]
    return [each for each in (*said, *answers, *others) if each.content]


def _with(each: ContextMessage, parts: list[Content]) -> ContextMessage:
    if len(parts) == len(each.content):
        return each
    return ContextMessage(each.entry_id, replace(each.message, content=tuple(parts)))

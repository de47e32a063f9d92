"""What becomes of a model's answer before it is kept and its calls are carried out: the log shows what is run."""

from __future__ import annotations

from itertools import count
from uuid import uuid4

from msgspec.structs import replace

from ...events.content import Content, ToolUse, ToolUsePart
from ...events.entries import Message


def calls_of(answer: Message) -> list[ToolUse]:
    """Return the calls that an answer makes."""
    return [part.tool_use for part in answer.content if isinstance(part, ToolUsePart)]


def told_apart(answer: Message) -> Message:
    """Return the answer with an id for each of its calls, as results name their calls by them: a repeated one gets a new one.

    A call that stands there twice, its tool and arguments too, is one call.
    """
    calls = calls_of(answer)
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and "" not in ids:
        return answer
    given: list[ToolUse] = []
    parts: list[Content] = []
    for part in answer.content:
        if not isinstance(part, ToolUsePart):
            parts.append(part)
            continue
        call = part.tool_use
        namesakes = [each for each in given if each.id == call.id]
        if any((each.name, each.input) == (call.name, call.input) for each in namesakes):
            continue
        given.append(call)
        if namesakes or not call.id:
            base = call.id or f"call_{uuid4().hex}"
            fresh = next(name for number in count(2) if (name := f"{base}_{number}") not in ids)
            ids.add(fresh)
            call = replace(call, id=fresh)
        parts.append(ToolUsePart(call))
    return replace(answer, content=tuple(parts))


def completed(made: Message, answer: Message) -> Message:
    """Return what a hook made of an answer, with who gave it, what it took and why it ended, where the hook left that out."""
    return replace(
        made,
        provider=made.provider or answer.provider,
        model=made.model or answer.model,
        usage=answer.usage if made.usage is None else made.usage,
        stop_reason=made.stop_reason or answer.stop_reason,
    )

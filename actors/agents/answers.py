"""Normalize a model's answer before it is stored and its calls are executed, so that the log shows what was executed."""

from __future__ import annotations

from itertools import count
from uuid import uuid4

from msgspec.structs import replace

from ...events.content import Content, ToolUse, ToolUsePart
from ...events.entries import Message


def calls_of(answer: Message) -> list[ToolUse]:
    """Return the calls that an answer makes."""
    return [part.tool_use for part in answer.content if isinstance(part, ToolUsePart)]


def with_unique_call_ids(answer: Message) -> Message:
    """Return the answer with a unique id for each of its calls, since results refer to calls by id.

    A missing or repeated id is replaced. A call that is repeated with the same tool and arguments counts as one call.
    """
    calls = calls_of(answer)
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and "" not in ids:
        return answer
    seen: list[ToolUse] = []
    parts: list[Content] = []
    for part in answer.content:
        if not isinstance(part, ToolUsePart):
            parts.append(part)
            continue
        call = part.tool_use
        same_id = [each for each in seen if each.id == call.id]
        if any((each.name, each.input) == (call.name, call.input) for each in same_id):
            continue
        seen.append(call)
        if same_id or not call.id:
            base = call.id or f"call_{uuid4().hex}"
            new_id = next(name for number in count(2) if (name := f"{base}_{number}") not in ids)
            ids.add(new_id)
            call = replace(call, id=new_id)
        parts.append(ToolUsePart(call))
    return replace(answer, content=tuple(parts))


def with_missing_fields(transformed: Message, answer: Message) -> Message:
    """Return a hook's message, with provider, model, usage and stop reason taken from the answer if the hook left them out."""
    return replace(
        transformed,
        provider=transformed.provider or answer.provider,
        model=transformed.model or answer.model,
        usage=answer.usage if transformed.usage is None else transformed.usage,
        stop_reason=transformed.stop_reason or answer.stop_reason,
    )

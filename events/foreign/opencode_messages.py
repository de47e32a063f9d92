"""opencode: what one message and its parts say.

An assistant's message may hold several steps: what the model said and called, the results, and what it said then. Each
becomes a message of its own, with the results of its calls behind it, since a model is told them in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from ..content import Content, ImagePart, TextPart, ToolUse, ToolUsePart, raw_json, text, thinking, tool_result
from ..entries import Custom, Message, Payload, ToolExecution, Usage
from ..providers.reading import image_at
from .json_lines import Notes
from .opencode_storage import Record
from .values import Object, as_arguments, as_count, as_number, as_object, as_objects, as_text, as_time

_BOOKKEEPING = frozenset({"step-start", "snapshot", "patch", "compaction"})
_ENDED = frozenset({"completed", "error"})


class Said(Struct, frozen=True):
    """Something that a message says, and when."""

    payload: Payload
    time: datetime | None


class _Step(Struct):
    time: datetime | None
    parts: list[Content] = field(default_factory=list[Content])
    after: list[Said] = field(default_factory=list[Said])
    called: bool = False
    usage: Usage | None = None


def model_of(info: Object) -> tuple[str, str]:
    """Return the provider and the model that a message names; empty where it names none."""
    named = as_object(info.get("model"))
    provider = as_text(info.get("providerID")) or as_text(named.get("providerID"))
    return provider, as_text(info.get("modelID")) or as_text(named.get("modelID"))


def created(value: Object) -> datetime | None:
    """Return when a message, a part or a session began."""
    time = as_object(value.get("time"))
    return as_time(time.get("created", time.get("start")))


def read_user(record: Record, notes: Notes) -> Iterator[Said]:
    """Read a person's message."""
    time = created(record.info)
    shown: list[Content] = []
    rest: list[Said] = []
    for part in record.parts:
        kind = as_text(part.get("type"))
        if kind == "text" and part.get("ignored") is not True:
            shown.append(text(as_text(part.get("text"))))
        elif kind == "file":
            shown.append(_file(part))
        elif kind in _BOOKKEEPING:
            notes.skip(f"part {kind}")
        else:
            rest.append(Said(Custom(f"opencode.{kind or 'part'}", raw_json(part)), time))
    if shown or not record.parts:
        yield Said(Message("user", tuple(shown)), time)
    yield from rest


def read_answer(record: Record, notes: Notes) -> Iterator[Said]:
    """Read the model's message: an answer for each step, each followed by the results of its calls."""
    provider, model = model_of(record.info)
    steps = _steps(record, notes)
    tokens = record.info.get("tokens")
    if isinstance(tokens, dict) and all(step.usage is None for step in steps):
        steps[-1].usage = _usage(tokens, record.info)
    failure = as_object(record.info.get("error"))
    said = as_text(as_object(failure.get("data")).get("message"))
    error = ": ".join(filter(None, (as_text(failure.get("name")), said))) or None
    for position, step in enumerate(steps):
        last = position == len(steps) - 1
        answer = Message(
            "assistant",
            tuple(step.parts),
            model=model or None,
            provider=provider or None,
            usage=step.usage,
            stop_reason=as_text(record.info.get("finish")) or None if last else None,
            error=error if last else None,
        )
        yield Said(answer, step.time)
        yield from step.after


def read_summary(record: Record) -> str:
    """Return the text of a message that summarizes what came before it."""
    return "\n".join(as_text(part.get("text")) for part in record.parts if part.get("type") == "text")


def _steps(record: Record, notes: Notes) -> list[_Step]:
    steps = [_Step(created(record.info))]
    for part in record.parts:
        kind = as_text(part.get("type"))
        step = steps[-1]
        if kind in ("text", "reasoning", "file") and step.called:
            steps.append(_Step(created(part) or step.time))
        step = steps[-1]
        if kind == "text" and part.get("ignored") is not True:
            step.parts.append(text(as_text(part.get("text"))))
        elif kind == "reasoning":
            step.parts.append(thinking(as_text(part.get("text"))))
        elif kind == "file":
            step.parts.append(_file(part))
        elif kind == "tool":
            _call(step, part)
        elif kind == "step-finish":
            step.usage = _usage(as_object(part.get("tokens")), part)
        elif kind in _BOOKKEEPING:
            notes.skip(f"part {kind}")
        else:
            step.after.append(Said(Custom(f"opencode.{kind or 'part'}", raw_json(part)), created(part)))
    return steps


def _call(step: _Step, part: Object) -> None:
    """Add a call to a step, and its result and the record of its run, where there is a result."""
    state = as_object(part.get("state"))
    call_id, name = as_text(part.get("callID")) or as_text(part.get("id")), as_text(part.get("tool")) or "unknown"
    arguments = as_arguments(state.get("input"))
    step.parts.append(ToolUsePart(ToolUse(call_id, name, arguments)))
    step.called = True
    if as_text(state.get("status")) not in _ENDED:
        return
    failed = state.get("status") == "error"
    told = as_text(state.get("error")) if failed else as_text(state.get("output"))
    shown = [each for each in map(_file, as_objects(state.get("attachments"))) if isinstance(each, ImagePart)]
    body: str | list[TextPart | ImagePart] = [text(told), *shown] if shown else told
    times = as_object(state.get("time"))
    start, end = as_number(times.get("start")), as_number(times.get("end"))
    exit_code = as_number(as_object(state.get("metadata")).get("exit"))
    run = ToolExecution(
        call_id or "unknown",
        name,
        arguments,
        success=not failed,
        error=told if failed else None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=None if start is None or end is None else max(0.0, end - start),
    )
    ended = as_time(times.get("end"))
    step.after.append(Said(Message("tool", (tool_result(call_id, body, is_error=failed),), tool_name=name), ended))
    step.after.append(Said(run, ended))


def _file(part: Object) -> TextPart | ImagePart:
    url, media_type = as_text(part.get("url")), as_text(part.get("mime"))
    if media_type.startswith("image/") and url:
        return image_at(url, media_type)
    return text(f"[file: {as_text(part.get('filename')) or url}]")


def _usage(tokens: Object, holder: Object) -> Usage:
    cache = as_object(tokens.get("cache"))
    read, written = as_count(cache.get("read")), as_count(cache.get("write"))
    given, answered = as_count(tokens.get("input")), as_count(tokens.get("output")) + as_count(tokens.get("reasoning"))
    return Usage(
        input_tokens=given,
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=written,
        total_tokens=given + answered + read + written,
        cost=as_number(holder.get("cost")) or 0.0,
    )

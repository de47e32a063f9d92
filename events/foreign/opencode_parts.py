"""opencode: what one part of a message says: a text, a thought, a file, a call with its result, and what it used."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..content import (
    ImagePart,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolUse,
    ToolUsePart,
    text,
    tool_result,
)
from ..entries import Message, Payload, ToolExecution, Usage
from ..providers.reading import image_at
from .values import Object, as_arguments, as_count, as_number, as_object, as_objects, as_text, as_time

_ENDED = frozenset({"completed", "error"})
_SIGNATURES = ("signature", "thoughtSignature")


class Said(Struct, frozen=True):
    """Something that a message says, and when.

    Attributes:
        payload: What it says.
        time: When that was said, where it is known.
        beginning: The part of the message with which it begins; what comes behind that may not be there yet. Else "".
    """

    payload: Payload
    time: datetime | None
    beginning: str = ""


def created(value: Object) -> datetime | None:
    """Return when a message, a part or a session began."""
    time = as_object(value.get("time"))
    return as_time(time.get("created", time.get("start")))


def text_of(part: Object) -> TextPart:
    """Return a text, with what its provider signed it with."""
    return TextPart(Text(as_text(part.get("text")), _signed(part, *_SIGNATURES)))


def thought_of(part: Object) -> ThinkingPart:
    """Return a thought, with what its provider signed it with; of one that was sealed, what it was sealed in."""
    sealed = _signed(part, "redactedData")
    if sealed is not None:
        return ThinkingPart(Thinking(as_text(part.get("text")), sealed, redacted=True))
    return ThinkingPart(Thinking(as_text(part.get("text")), _signed(part, *_SIGNATURES)))


def file_of(part: Object) -> TextPart | ImagePart:
    """Return an image; any other file is named in words."""
    url, media_type = as_text(part.get("url")), as_text(part.get("mime"))
    if media_type.startswith("image/") and url:
        return image_at(url, media_type)
    where = media_type if url.startswith("data:") else url  # a name, and not all that the file holds
    return text(f"[file: {as_text(part.get('filename')) or where}]")


def call_of(part: Object) -> ToolUsePart:
    """Return a call of a tool."""
    arguments = as_arguments(as_object(part.get("state")).get("input"))
    return ToolUsePart(ToolUse(_call_id(part), _tool(part), arguments, _signed(part, *_SIGNATURES)))


def result_of(part: Object) -> tuple[Said, ...]:
    """Return the result of a call, and the record of its run; nothing where it has not ended."""
    state = as_object(part.get("state"))
    if as_text(state.get("status")) not in _ENDED:
        return ()
    call_id, name = _call_id(part), _tool(part)
    failed = state.get("status") == "error"
    told = as_text(state.get("error")) if failed else as_text(state.get("output"))
    shown = [*map(file_of, as_objects(state.get("attachments")))]
    body: str | list[TextPart | ImagePart] = [text(told), *shown] if shown else told
    times = as_object(state.get("time"))
    start, end = as_number(times.get("start")), as_number(times.get("end"))
    exit_code = as_number(as_object(state.get("metadata")).get("exit"))
    run = ToolExecution(
        call_id or "unknown",
        name,
        as_arguments(state.get("input")),
        success=not failed,
        error=told if failed else None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=None if start is None or end is None else max(0.0, end - start),
    )
    ended = as_time(times.get("end"))
    result = Message("tool", (tool_result(call_id, body, is_error=failed),), tool_name=name)
    return Said(result, ended), Said(run, ended)


def usage_of(tokens: Object, holder: Object) -> Usage:
    """Return what was used; `holder` tells what it cost."""
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


def _call_id(part: Object) -> str:
    return as_text(part.get("callID")) or as_text(part.get("id"))


def _tool(part: Object) -> str:
    return as_text(part.get("tool")) or "unknown"


def _signed(part: Object, *names: str) -> str | None:
    """Return the first of these members that a part's metadata has, which stand there by the name of the provider."""
    for given in as_object(part.get("metadata")).values():
        for name in names:
            found = as_text(as_object(given).get(name))
            if found:
                return found
    return None

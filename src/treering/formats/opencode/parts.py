"""opencode: reading one part of a message: a text, a thought, a file, or a call with its result; and usage."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...events.content import (
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
from ...events.entries import Message, Payload, ToolExecution, Usage
from ...events.providers.common import image_at
from ..values import Object, as_arguments, as_count, as_number, as_object, as_objects, as_text, as_time, as_words

_ENDED = frozenset({"completed", "error"})
_SIGNATURES = ("signature", "thoughtSignature")


class Item(Struct, frozen=True):
    """A payload read from a message, and its time.

    Attributes:
        payload: The payload of the entry to make.
        time: When it was written; None if unknown.
        beginning: The id of the first part, if later parts may still be missing; "" otherwise.
        cleared: When opencode cleared this result: it is stored, but no longer sent; None if it was not cleared.
    """

    payload: Payload
    time: datetime | None
    beginning: str = ""
    cleared: datetime | None = None


def created(value: Object) -> datetime | None:
    """Return the time at which a message, a part or a session began."""
    time = as_object(value.get("time"))
    return as_time(time.get("created", time.get("start")))


def text_of(part: Object) -> TextPart:
    """Return a text part with its provider's signature."""
    return TextPart(Text(as_words(part.get("text")), _provider_metadata(part, *_SIGNATURES)))


def thought_of(part: Object) -> ThinkingPart:
    """Return a thinking part with its provider's signature, or with the encrypted data if it is redacted."""
    redacted = _provider_metadata(part, "redactedData")
    if redacted is not None:
        return ThinkingPart(Thinking(as_words(part.get("text")), redacted, redacted=True))
    return ThinkingPart(Thinking(as_words(part.get("text")), _provider_metadata(part, *_SIGNATURES)))


def file_of(part: Object) -> TextPart | ImagePart:
    """Return an image part; for any other file, a text that names it."""
    url, media_type = as_text(part.get("url")), as_text(part.get("mime"))
    if media_type.startswith("image/") and url:
        return image_at(url, media_type)
    name = media_type if url.startswith("data:") else url  # a data URL would repeat the file's content
    return text(f"[file: {as_text(part.get('filename')) or name}]")


def call_of(part: Object) -> ToolUsePart:
    """Return a tool call part."""
    arguments = as_arguments(as_object(part.get("state")).get("input"))
    return ToolUsePart(ToolUse(_call_id(part), _tool(part), arguments, _provider_metadata(part, *_SIGNATURES)))


def result_of(part: Object) -> tuple[Item, ...]:
    """Return the result of a call and the record of its run; () if the call has not ended.

    The result of a call that was interrupted is the output until then, if the tool kept it.
    """
    state = as_object(part.get("state"))
    if as_text(state.get("status")) not in _ENDED:
        return ()
    call_id, name = _call_id(part), _tool(part)
    failed = state.get("status") == "error"
    metadata, error = as_object(state.get("metadata")), as_words(state.get("error"))
    kept_output = metadata.get("output") if failed and metadata.get("interrupted") is True else None
    is_error = failed and not isinstance(kept_output, str)
    output = error if is_error else as_words(kept_output if failed else state.get("output"))
    attachments = [*map(file_of, as_objects(state.get("attachments")))]
    body: str | list[TextPart | ImagePart] = [text(output), *attachments] if attachments else output
    times = as_object(state.get("time"))
    start, end = as_number(times.get("start")), as_number(times.get("end"))
    exit_code = as_number(metadata.get("exit"))
    run = ToolExecution(
        call_id or "unknown",
        name,
        as_arguments(state.get("input")),
        success=not failed,
        error=error if failed else None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=None if start is None or end is None else max(0.0, end - start),
    )
    ended = as_time(times.get("end"))
    result = Message("tool", (tool_result(call_id, body, is_error=is_error),), tool_name=name)
    cleared = as_time(times["compacted"]) if times.get("compacted") and not failed else None
    return Item(result, ended, cleared=cleared), Item(run, ended)


def usage_of(tokens: Object, holder: Object) -> Usage:
    """Return the usage given by `tokens`; `holder` gives the cost."""
    cache = as_object(tokens.get("cache"))
    read, written = as_count(cache.get("read")), as_count(cache.get("write"))
    input_tokens = as_count(tokens.get("input"))
    output_tokens = as_count(tokens.get("output")) + as_count(tokens.get("reasoning"))
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        total_tokens=input_tokens + output_tokens + read + written,
        cost=as_number(holder.get("cost")) or 0.0,
    )


def _call_id(part: Object) -> str:
    return as_text(part.get("callID")) or as_text(part.get("id"))


def _tool(part: Object) -> str:
    return as_text(part.get("tool")) or "unknown"


def _provider_metadata(part: Object, *names: str) -> str | None:
    """Return the first of the named members in a part's metadata, which is grouped by provider; None without one."""
    for members in as_object(part.get("metadata")).values():
        for name in names:
            value = as_text(as_object(members).get(name))
            if value:
                return value
    return None

"""Cline: its messages, whose content is typed parts as in Anthropic's API, and the results of its own tools."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolUse,
    ToolUsePart,
    file_text,
    image,
    text,
    tool_result,
)
from ...events.entries import Message, Usage
from ...events.json_values import JSON
from ..json_lines import Notes
from ..messages import Preambles, marks_of, opened, tagged
from ..values import Object, as_arguments, as_count, as_items, as_object, as_objects, as_text, as_words, kept_json

NAME = "cline"

_MESSAGE_FIELDS = frozenset({"content", "id", "metadata", "metrics", "modelInfo", "role", "ts"})
_PART_FIELDS = {
    "text": frozenset({"text"}),
    "thinking": frozenset({"signature", "thinking"}),
    "redacted_thinking": frozenset({"data"}),
    "image": frozenset({"data", "mediaType", "source"}),
    "file": frozenset({"content", "path"}),
    "tool_use": frozenset({"id", "input", "name", "signature"}),
    "tool_result": frozenset({"content", "is_error", "name", "tool_use_id"}),
}
_RUN_FIELDS = frozenset({"error", "query", "result", "success"})
"""The fields of what a tool of Cline's own did; `query` repeats the call."""

_WRAPPED = re.compile(r"<user_input\b[^>]*>(.*?)</user_input>", re.DOTALL)
_TAGS = ("environment_details", "mode_notice")
_PREAMBLES = Preambles(tagged(*_TAGS), opened(*_TAGS))
"""What Cline writes itself in messages of the user."""


def read_message(source: Object, notes: Notes) -> list[Message] | None:
    """Read a message: an answer; or the results in one of the user, then what else is in it; None without a role."""
    role, results, parts = as_text(source.get("role")), list[Message](), list[Content]()
    if role not in ("assistant", "system", "user"):
        return None
    notes.check_fields("message", source, _MESSAGE_FIELDS)
    for each in as_items(source.get("content")):
        part: Object = {"type": "text", "text": each} if isinstance(each, str) else as_object(each)
        kind = as_text(part.get("type"))
        if kind == "tool_result":
            results.append(_result(part, notes))
        elif (found := _part(kind, part)) is not None:
            parts.append(found)
        else:
            notes.leave_out(f"part of kind {kind or 'unknown'}", each)
            continue
        notes.check_fields("part", part, _PART_FIELDS.get(kind, frozenset()) | {"type"})
    if not parts:
        return results
    if role == "assistant":
        return [*results, _answer(source, parts)]
    return [*results, _prompt(role, parts)]


def _answer(source: Object, parts: list[Content]) -> Message:
    model, metrics = as_object(source.get("modelInfo")), as_object(source.get("metrics"))
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    sent, answered, cached, written = (as_count(metrics.get(name)) for name in names)
    usage = Usage(max(0, sent - cached - written), answered, cached, written, sent + answered)
    return Message(
        "assistant",
        tuple(parts),
        model=as_text(model.get("id")) or None,
        provider=as_text(model.get("provider")) or None,
        usage=usage if metrics else None,
    )


def _prompt(role: str, parts: list[Content]) -> Message:
    """Return a message as the person wrote it, without the tags in which Cline wraps it."""
    shown = tuple(
        text(_WRAPPED.sub(lambda found: found[1], part.text.content)) if isinstance(part, TextPart) else part
        for part in parts
    )
    marks = marks_of(shown, lambda _, part: _PREAMBLES.length(part.text.content)) if role == "user" else {}
    message = Message(role, shown)
    return replace(message, raw_metadata=kept_json(marks)) if marks else message


def _part(kind: str, part: Object) -> Content | None:
    match kind:
        case "text":
            return text(as_words(part.get("text")))
        case "thinking":
            return ThinkingPart(Thinking(as_words(part.get("thinking")), as_text(part.get("signature")) or None))
        case "redacted_thinking":
            return ThinkingPart(Thinking("", as_text(part.get("data")) or None, redacted=True))
        case "image":
            return _image(part)
        case "file":
            return file_text(as_text(part.get("path")), as_words(part.get("content")))
        case "tool_use" if as_text(part.get("name")):
            call = ToolUse(as_text(part.get("id")), as_text(part["name"]), as_arguments(part.get("input")))
            return ToolUsePart(call)
        case _:
            return None


def _image(part: Object) -> ImagePart | None:
    source = as_object(part.get("source"))
    data = as_text(part.get("data")) or as_text(source.get("data"))
    media_type = as_text(part.get("mediaType")) or as_text(source.get("media_type"))
    return image(data, media_type) if data and media_type.startswith("image/") else None


def _result(part: Object, notes: Notes) -> Message:
    content, call = part.get("content"), as_text(part.get("tool_use_id"))
    runs = as_objects(content)
    is_error = part.get("is_error") is True or any(each.get("success") is False for each in runs)
    body: str | list[TextPart | ImagePart] = as_words(content)
    if runs and len(runs) == len(as_items(content)):
        body = [found for each in runs for found in _shown(each, notes)]
    elif content == []:
        body = ""
    name = as_text(part.get("name")) or None
    return Message("tool", (tool_result(call, body, is_error=is_error),), tool_name=name)


def _shown(run: Object, notes: Notes) -> list[TextPart | ImagePart]:
    """Return what a part of a result shows: a text, an image, or what a tool of Cline's own did."""
    if run.get("type") == "text":
        notes.check_fields("part", run, _PART_FIELDS["text"] | {"type"})
        return [text(as_words(run.get("text")))]
    if run.get("type") == "image" and (picture := _image(run)) is not None:
        return [picture]
    if "result" not in run and "error" not in run:
        return [text(as_words(run))]
    notes.check_fields("result", run, _RUN_FIELDS)
    results: JSON = run.get("result")
    shown = [found for each in as_objects(results) for found in _shown(each, notes)]
    said = [] if shown else [text(words)] if (words := as_words(results)) else []
    error = as_words(run.get("error"))
    return [*shown, *said, *([text(error)] if error and error not in str(results) else [])]

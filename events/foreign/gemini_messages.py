"""Gemini CLI: what one message says.

    {"type":"user","content":[{"text":"Say hello."}]}
    {"type":"gemini","content":"Hello!","thoughts":[{"subject":"...","description":"..."}],"model":"...","tokens":{...},
     "toolCalls":[{"id":"c1","name":"run_shell_command","args":{...},"status":"success","result":[{"functionResponse":{...}}]}]}

An answer's calls and their results stand in one record, since the record is replaced when the results come.
"""

from __future__ import annotations

from datetime import datetime

from ..content import (
    JSON,
    Content,
    ImagePart,
    TextPart,
    ToolUse,
    ToolUsePart,
    image,
    text,
    thinking,
    tool_result,
)
from ..entries import Message, Usage
from ..providers.reading import image_at
from .values import Object, as_arguments, as_count, as_json_text, as_object, as_objects, as_text, as_time

ASSISTANTS = frozenset({"gemini", "model"})
"""The types of the model's messages."""

_FAILED = frozenset({"error", "cancelled"})


def read_user(given: Object) -> Message:
    """Read a person's message."""
    return Message("user", (*_shown(given),))


def read_answer(given: Object, model: str) -> tuple[Message, list[tuple[Message, datetime | None]]]:
    """Read the model's message, and the results of its calls with their times."""
    parts: list[Content] = []
    for thought in as_objects(given.get("thoughts")):
        told = filter(None, (as_text(thought.get("subject")), as_text(thought.get("description"))))
        parts.append(thinking("\n\n".join(told)))
    parts += (part for part in _shown(given) if not isinstance(part, TextPart) or part.text.content)
    results: list[tuple[Message, datetime | None]] = []
    for position, call in enumerate(as_objects(given.get("toolCalls"))):
        name = as_text(call.get("name")) or "unknown"
        call_id = as_text(call.get("id")) or f"{as_text(given.get('id'))}.{position}"
        parts.append(ToolUsePart(ToolUse(call_id, name, as_arguments(call.get("args")))))
        result = _result(call, call_id, name)
        if result is not None:
            results.append((result, as_time(call.get("timestamp"))))
    tokens = given.get("tokens")
    answer = Message(
        "assistant",
        tuple(parts) or (text(""),),
        model=model or None,
        provider="google" if model else None,
        usage=_usage(tokens) if isinstance(tokens, dict) else None,
    )
    return answer, results


def _shown(given: Object) -> list[TextPart | ImagePart]:
    content = given.get("content")
    if content is None or content == "":
        content = given.get("parts", "")
    return _parts(content)


def _parts(value: JSON) -> list[TextPart | ImagePart]:
    if isinstance(value, str):
        return [text(value)]
    shown: list[TextPart | ImagePart] = []
    for part in [value] if isinstance(value, dict) else (value if isinstance(value, list) else []):
        given = as_object(part)
        inline, file = as_object(given.get("inlineData")), as_object(given.get("fileData"))
        if isinstance(part, str):
            shown.append(text(part))
        elif isinstance(given.get("text"), str):
            shown.append(text(as_text(given["text"])))
        elif inline:
            shown.append(image(as_text(inline.get("data")), as_text(inline.get("mimeType"))))
        elif file:
            shown.append(image_at(as_text(file.get("fileUri")), as_text(file.get("mimeType")) or None))
        elif given:
            shown.append(text(as_json_text(given)))
    return shown


def _result(call: Object, call_id: str, name: str) -> Message | None:
    """Return the result of a call, or None while there is none."""
    given = call.get("result")
    failed = as_text(call.get("status")) in _FAILED
    if given is None and not failed:
        return None
    body: list[TextPart | ImagePart] = []
    for part in [given] if isinstance(given, (str, dict)) else as_objects(given):
        response = as_object(as_object(as_object(part).get("functionResponse")).get("response"))
        if not response:
            body += _parts(part)
            continue
        told = response.get("output", response.get("error"))
        failed = failed or "error" in response
        body.append(text(as_json_text(response if told is None else told)))
    said = [part.text.content for part in body if isinstance(part, TextPart)]
    content = "\n".join(said) if len(said) == len(body) else body
    return Message("tool", (tool_result(call_id, content, is_error=failed),), tool_name=name)


def _usage(tokens: Object) -> Usage:
    given, cached = as_count(tokens.get("input")), as_count(tokens.get("cached"))
    answered = as_count(tokens.get("output")) + as_count(tokens.get("thoughts"))
    return Usage(
        input_tokens=max(0, given - cached) + as_count(tokens.get("tool")),
        output_tokens=answered,
        cache_read_tokens=cached,
        total_tokens=as_count(tokens.get("total")) or given + answered,
    )

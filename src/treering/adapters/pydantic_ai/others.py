"""What pydantic-ai is given of messages that something else wrote: programs, people, other frameworks, summaries."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    plain_text,
    shown_text,
)
from ...events.entries import Message
from ...events.json_values import JSON
from ...events.providers.common import rendered
from .messages import URL_SAFE, Data


def made_of(message: Message, time: str | None, names: MutableMapping[str, str]) -> Data | None:
    """Return the message of pydantic-ai that says what a message says; None if a model must not see it.

    Args:
        message: The message.
        time: When it was written.
        names: The tools of the calls so far by the ids of these, to which its own are added.
    """
    spoken = rendered(message)
    if spoken is None:
        return None
    timed: Data = {} if time is None else {"timestamp": time}
    if spoken.role == "assistant":
        for part in spoken.content:
            if isinstance(part, ToolUsePart):
                names[part.tool_use.id] = part.tool_use.name
        return {"kind": "response", "parts": [_answer(part, spoken) for part in spoken.content], **_by(spoken), **timed}
    parts = _asked(spoken, names)
    return {"kind": "request", "parts": [part | timed for part in parts], **timed}


def _asked(message: Message, names: Mapping[str, str]) -> list[Data]:
    """Return the parts of a request: the results of tools, and what else is said."""
    parts: list[Data] = []
    said: list[Content] = []
    for part in message.content:
        if isinstance(part, ToolResultPart):
            result = part.tool_result
            name = names.get(result.tool_use_id) or message.tool_name or "tool"
            content: JSON = result.content if isinstance(result.content, str) else _items(result.content)
            outcome = "failed" if result.is_error else "success"
            called: Data = {"tool_name": name, "tool_call_id": result.tool_use_id}
            parts.append({"part_kind": "tool-return", **called, "content": content, "outcome": outcome})
        else:
            said.append(part)
    if message.role == "system":
        parts.append({"part_kind": "system-prompt", "content": plain_text(said)})
    elif said or not parts:
        parts.append({"part_kind": "user-prompt", "content": _items(said)})
    return parts


def _items(parts: Sequence[Content]) -> JSON:
    """Return what is said as a text, or as a list of texts and images."""
    if all(isinstance(part, TextPart) for part in parts):
        return plain_text(parts)
    return [_image(part) if isinstance(part, ImagePart) else shown_text(part) for part in parts]


def _image(part: ImagePart) -> Data:
    source = part.image.source
    if source.type == "url":
        return {"kind": "image-url", "url": source.data}
    return {"kind": "binary", "data": source.data.translate(URL_SAFE), "media_type": source.media_type}


def _answer(part: Content, message: Message) -> Data:
    match part:
        case ThinkingPart(thinking=thought):
            sealed: Data = {"signature": thought.signature, "provider_name": message.provider}
            return {"part_kind": "thinking", "content": thought.content, **sealed}
        case ToolUsePart(tool_use=call):
            called: Data = {"tool_name": call.name, "tool_call_id": call.id}
            return {"part_kind": "tool-call", **called, "args": call.input}
        case ImagePart(image=seen) if seen.source.type == "base64":
            return {"part_kind": "file", "content": _image(part)}
    return {"part_kind": "text", "content": shown_text(part)}


def _by(message: Message) -> Data:
    """Return who answered, and what it took."""
    by: Data = {"model_name": message.model, "provider_name": message.provider}
    if message.usage is not None:
        usage = message.usage
        by["usage"] = {
            "input_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        }
    return by

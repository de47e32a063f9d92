"""Messages of Microsoft's Agent Framework as messages, and back.

    {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Hello", "additional_properties": {}}]}

A message becomes one message. What that has no place for (ids, names, kinds of contents that no other provider knows)
is kept in its metadata: a message comes back equal to what it was, and one that something else wrote is one of the
framework's, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    text,
    thinking,
    tool_result,
    tool_use,
)
from ...events.entries import Message, Usage
from ...events.json_values import JSON, json_object, json_text, raw_object, same_json
from ...events.providers.common import image_at, result_text, url_of
from ..values import as_count

Data: TypeAlias = dict[str, JSON]
"""A message or a content as JSON."""

KEPT = "agent_framework"
"""The key of a message's metadata below which the rest of one of the framework's is kept."""

_ROLES = frozenset({"user", "assistant", "tool", "system", "developer"})
_BARE: Data = {"additional_properties": {}}


def message_of(data: Mapping[str, object]) -> Message:
    """Return the message of one of the framework's, as its `to_dict` gives it.

    Raises:
        InvalidEntry: It holds something that is no JSON.
    """
    decoded = json_object(raw_object(data, "a message"))
    contents = decoded.get("contents")
    contents = contents if isinstance(contents, list) else []
    role = decoded.get("role")
    parts: list[Content] = []
    rest: list[JSON] = []
    for content in contents:
        part = _part(content)
        parts += [] if part is None else [part]
        rest.append(None if part is not None and same_json(content, _written(part)) else content)
    message = Message(
        role if isinstance(role, str) and role else "assistant",
        tuple(parts),
        usage=_usage([each for each in contents if isinstance(each, dict)]),
    )
    kept: Data = {**decoded, "contents": rest}
    if same_json(kept, _plain(message)):
        return message
    return msgspec.structs.replace(message, raw_metadata=raw_object({KEPT: kept}, "a message"))


def data_of(message: Message) -> Data | None:
    """Return what the framework's `Message.from_dict` makes its message of; None for a role that is not for a model."""
    kept = message.metadata.get(KEPT) if message.raw_metadata is not None else None
    if not isinstance(kept, dict):
        kept = _plain(message)
        if message.role not in _ROLES:
            if message.role not in ("custom", "branchSummary", "compactionSummary", "bashExecution"):
                return None
            kept["role"] = "user"
    rest, parts = kept.get("contents"), iter(message.content)
    contents: list[JSON] = []
    for content in rest if isinstance(rest, list) else []:
        part = next(parts, None) if content is None or _part(content) is not None else None
        contents.append(content if content is not None else None if part is None else _written(part))
    return {**kept, "contents": [each for each in contents if each is not None]}


def identity_of(data: Data) -> bytes:
    """Return by what the framework tells messages apart: the id, or else what the message says and who says it."""
    named = data.get("message_id")
    about: JSON = {"id": named} if named is not None else {"role": data.get("role"), "contents": data.get("contents")}
    return msgspec.json.encode(about, order="deterministic")


def has_id(data: Data) -> bool:
    """Return whether a message has an id of its own."""
    return data.get("message_id") is not None


def _plain(message: Message) -> Data:
    """Return what is kept of a message that has nothing to keep."""
    rest: list[JSON] = [None] * len(message.content)
    return {"type": "message", "role": message.role, "contents": rest, **_BARE}


# -- a content as a part


def _part(content: JSON) -> Content | None:
    """Return the part of a content; None for one that says nothing, such as usage."""
    if not isinstance(content, dict):
        return text(json_text(content))
    kind, words, call_id = content.get("type"), content.get("text"), content.get("call_id")
    address = content.get("uri")
    if kind == "usage":
        return None
    if kind == "text":
        return text(words if isinstance(words, str) else "")
    if kind == "text_reasoning":
        sealed = content.get("protected_data")
        return thinking(words if isinstance(words, str) else "", signature=sealed if isinstance(sealed, str) else None)
    if kind == "function_call" and isinstance(call_id, str) and call_id:
        name = content.get("name")
        return tool_use(call_id, name if isinstance(name, str) and name else "tool", _input(content.get("arguments")))
    if kind == "function_result" and isinstance(call_id, str) and call_id:
        result = content.get("result")
        return tool_result(
            call_id,
            result if isinstance(result, str) else json_text(result),
            is_error=content.get("exception") is not None,
        )
    media = content.get("media_type")
    if kind in ("data", "uri") and isinstance(address, str) and str(media).startswith("image/"):
        return image_at(address, str(media))
    if kind == "data" or isinstance(address, str):
        return text(f"[{media or kind}]" if kind == "data" else f"[{address}]")
    said = content.get("message", words)
    return text(said if isinstance(said, str) else json_text({name: value for name, value in content.items() if value}))


def _input(arguments: JSON) -> Raw:
    """Return the arguments of a call as a JSON object; those that are none stand in one."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except ValueError:
            arguments = {"input": arguments}
    whole: JSON = arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}
    return raw_object(whole, "the arguments")


def _usage(contents: Sequence[Data]) -> Usage | None:
    total: Usage | None = None
    for content in contents:
        counted = content.get("usage_details")
        if content.get("type") == "usage" and isinstance(counted, dict):
            cached = as_count(counted.get("cache_read_input_token_count"))
            usage = Usage(
                input_tokens=max(as_count(counted.get("input_token_count")) - cached, 0),
                output_tokens=as_count(counted.get("output_token_count")),
                cache_read_tokens=cached,
                cache_write_tokens=as_count(counted.get("cache_creation_input_token_count")),
                total_tokens=as_count(counted.get("total_token_count")),
            )
            total = usage if total is None else total + usage
    return total


# -- a part as a content


def _written(part: Content) -> Data:
    """Return a part as the framework writes it."""
    match part:
        case TextPart(text=said):
            return {"type": "text", "text": said.content, **_BARE}
        case ThinkingPart(thinking=thought):
            sealed: Data = {} if thought.signature is None else {"protected_data": thought.signature}
            return {"type": "text_reasoning", "text": thought.content, **sealed, **_BARE}
        case ToolUsePart(tool_use=call):
            called: Data = {"call_id": call.id, "name": call.name, "arguments": call.input_text, "hosted": False}
            return {"type": "function_call", **called, **_BARE}
        case ToolResultPart(tool_result=result):
            words = result_text(result)
            failed: Data = {"exception": words} if result.is_error else {}
            items: list[JSON] = [{"type": "text", "text": words, **_BARE}]
            answered: Data = {"call_id": result.tool_use_id, "result": words, "items": items, **failed}
            return {"type": "function_result", **answered, **_BARE}
        case ImagePart(image=shown):
            kind = "uri" if shown.source.type == "url" else "data"
            return {"type": kind, "uri": url_of(part), "media_type": shown.source.media_type, **_BARE}
    raise AssertionError(part)

"""LangChain's messages as treering's, for people, searches and other programs; what they hold more is kept elsewhere.

They are told by their `type`, as LangChain's own readers do, so nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeAlias

import msgspec
from msgspec.msgpack import Ext

from ...events.content import ImagePart, TextPart, ThinkingPart, text, thinking, tool_result, tool_use
from ...events.entries import Message, Usage
from ...events.providers.common import image_at

Value: TypeAlias = object
"""A value as LangGraph's serializer wrote it, in which objects are extensions: what a class is made with."""

_PYDANTIC = 5  # LangGraph's number of the extension for a model: its module, its name, its fields, ...
_MESSAGES = "langchain_core.messages"

decode = msgspec.msgpack.Decoder(ext_hook=lambda code, data: Ext(code, bytes(data))).decode
"""Returns what the serializer wrote. Whatever that names, nothing is imported or called for it."""

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


def message_of(value: Any) -> Message | None:  # noqa: ANN401  # a graph keeps whatever it likes
    """Return the message that a value shows, or None if it is no message of LangChain."""
    role = _ROLES.get(str(getattr(value, "type", "")))
    if role is None or not hasattr(value, "content") or not hasattr(value, "additional_kwargs"):
        return None
    parts = _parts(value.content)
    if role == "tool":
        shown = [part for part in parts if not isinstance(part, ThinkingPart)]
        call_id = str(getattr(value, "tool_call_id", None) or getattr(value, "name", None) or "")
        return Message("tool", (tool_result(call_id, shown, is_error=getattr(value, "status", "") == "error"),))
    calls = getattr(value, "tool_calls", None) or []
    used = [tool_use(str(each.get("id") or ""), str(each.get("name") or "tool"), each.get("args")) for each in calls]
    return Message(role, (*parts, *used), usage=_usage(getattr(value, "usage_metadata", None)))


def _parts(content: object) -> list[TextPart | ImagePart | ThinkingPart]:
    if isinstance(content, str):
        return [text(content)] if content else []
    parts: list[TextPart | ImagePart | ThinkingPart] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            parts.append(text(block))
        elif isinstance(block, dict):
            parts += _block(block)
    return parts


def _block(block: Mapping[str, Any]) -> list[TextPart | ImagePart | ThinkingPart]:
    """Return what a block of content shows; calls stand in the message's list of calls as well."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return [text(block["text"])]
        case "thinking" | "reasoning":
            said = block.get("thinking") or block.get("reasoning")
            return [thinking(said)] if isinstance(said, str) and said else []
        case "image_url" | "image":
            address = block.get("image_url") or block.get("url")
            address = address.get("url") if isinstance(address, dict) else address
            return [image_at(address)] if isinstance(address, str) and address else []
        case _:
            return []


def _usage(counted: object) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    names = ("input_tokens", "output_tokens", "total_tokens")
    given = {name: counted[name] for name in names if isinstance(counted.get(name), int) and counted[name] >= 0}
    return Usage(**given) if given else None


# -- messages in what the serializer wrote


def shown(value: Value) -> Value:
    """Return a message with what it holds; anything else as it is."""
    fields: object = None
    if isinstance(value, Ext) and value.code == _PYDANTIC:
        try:
            parts = decode(value.data)
        except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
            return value
        if isinstance(parts, list) and len(parts) > 2 and str(parts[0]).startswith(_MESSAGES):
            fields = parts[2]
    elif isinstance(value, Mapping) and value.get("type") == "constructor":  # of early versions
        named = value.get("id")
        if isinstance(named, list) and named[:1] in (["langchain"], ["langchain_core"]):
            fields = value.get("kwargs")
    return SimpleNamespace(**{str(name): each for name, each in fields.items()}) if isinstance(fields, dict) else value

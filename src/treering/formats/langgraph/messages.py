"""LangChain's messages as treering's, for people, searches and other programs; what they hold more is kept elsewhere.

They are told by their `type`, as LangChain's own readers do, so nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeGuard, cast

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
    calls = map(fields_in, items_in(getattr(value, "tool_calls", None)))
    used = [tool_use(str(each.get("id") or ""), str(each.get("name") or "tool"), _arguments(each)) for each in calls]
    return Message(role, (*parts, *used), usage=_usage(getattr(value, "usage_metadata", None)))


def _arguments(call: Mapping[object, Value]) -> dict[str, Value]:
    return {str(name): value for name, value in fields_in(call.get("args")).items()}


def _parts(content: object) -> list[TextPart | ImagePart | ThinkingPart]:
    if isinstance(content, str):
        return [text(content)] if content else []
    parts: list[TextPart | ImagePart | ThinkingPart] = []
    for block in items_in(content):
        parts += [text(block)] if isinstance(block, str) else _block(fields_in(block))
    return parts


def _block(block: Mapping[object, object]) -> list[TextPart | ImagePart | ThinkingPart]:
    """Return what a block of content shows; calls stand in the message's list of calls as well."""
    match block.get("type"):
        case "text":
            said = block.get("text")
            return [text(said)] if isinstance(said, str) else []
        case "thinking" | "reasoning":
            said = block.get("thinking") or block.get("reasoning")
            return [thinking(said)] if isinstance(said, str) and said else []
        case "image_url" | "image":
            address = block.get("image_url") or block.get("url")
            address = fields_in(address).get("url", address)
            return [image_at(address)] if isinstance(address, str) and address else []
        case _:
            return []


def _usage(counted: object) -> Usage | None:
    counts = fields_in(counted)
    names = ("input_tokens", "output_tokens", "total_tokens")
    given = {name: count for name in names if isinstance(count := counts.get(name), int) and count >= 0}
    return Usage(**given) if given else None


def fields_in(value: Value) -> Mapping[object, Value]:
    """Return a value that is a mapping; an empty one for any other."""
    return cast("dict[object, Value]", value) if isinstance(value, dict) else {}  # what is in it, nobody knows


def items_in(value: Value) -> Sequence[Value]:
    """Return a value that is a list; an empty one for any other."""
    return value if is_list(value) else []


def is_list(value: Value) -> TypeGuard[list[Value]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


# -- messages in what the serializer wrote


def shown(value: Value) -> Value:
    """Return a message with what it holds; anything else as it is."""
    fields: Mapping[object, Value] = {}
    if isinstance(value, Ext) and value.code == _PYDANTIC:
        try:
            parts = items_in(decode(value.data))
        except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
            return value
        if len(parts) > 2 and str(parts[0]).startswith(_MESSAGES):
            fields = fields_in(parts[2])
    else:  # early versions wrote JSON
        made = fields_in(value)
        if made.get("type") == "constructor" and items_in(made.get("id"))[:1] in (["langchain"], ["langchain_core"]):
            fields = fields_in(made.get("kwargs"))
    return SimpleNamespace(**{str(name): each for name, each in fields.items()}) if fields else value

"""Items of OpenAI's Responses API as messages, and back: what its agents keep in their sessions.

    {"role": "user", "content": "List the files"}
    {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"}
    {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"}

An item becomes one message. What the message has no place for (ids, annotations, kinds of items that no other provider
knows) is kept in its metadata, as the difference to what can be made of the message alone: an item comes back equal to
what it was, and a message that something else wrote has its items, too. The fields are those of the API's reference
for input items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ..content import (
    Content,
    ImagePart,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
    plain_text,
    text,
    tool_result,
)
from ..entries import Message
from ..json_values import JSON, json_object, raw_object
from .common import image_at, readable_by, rendered, url_of

Item: TypeAlias = dict[str, JSON]
"""An item, decoded."""

KEPT = "response_item"
"""The key of a message's metadata below which the rest of its item is kept."""

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "developer"}
_ANNOTATED: Item = {"annotations": []}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_FORMS = ("plain", "item", "input", "output", "logged")


def message_of(item: Mapping[str, object]) -> Message:
    """Return the message of an item.

    Raises:
        InvalidEntry: The item is not a JSON object.
    """
    decoded = _decoded(item)
    message = _read(decoded)
    written = _written(message)
    residue = _residue(decoded, message, written, "plain")
    if residue == {"form": "plain"}:  # as most are
        return message
    others = (_residue(decoded, message, written, form) for form in _FORMS[1:])
    residue = min((residue, *others), key=lambda each: len(msgspec.json.encode(each)))
    return msgspec.structs.replace(message, raw_metadata=raw_object({KEPT: residue}, "the item"))


def items_of(message: Message) -> list[Item]:
    """Return the items of a message: the one that it was made of, or as many as its parts need."""
    kept = message.metadata.get(KEPT) if message.raw_metadata is not None else None
    if isinstance(kept, dict):
        item = _restored(kept, message)
        if item is not None:
            return [item]
    return _written(message)


def _decoded(item: Mapping[str, object]) -> Item:
    return json_object(raw_object(item, "an item"))


# -- an item as a message


def _read(item: Item) -> Message:
    """Return the message that an item shows, without what it has no place for."""
    kind = item.get("type")
    role = item.get("role")
    if isinstance(role, str) and kind in (None, "message"):
        return Message(_ROLES.get(role, role), tuple(_parts(item.get("content"))))
    call_id = item.get("call_id")
    if isinstance(kind, str) and isinstance(call_id, str) and call_id:
        if kind.endswith("_output"):
            return _output(item, call_id)
        return Message("assistant", (ToolUsePart(ToolUse(call_id, _name(item, kind), _input(item, kind))),))
    if kind == "reasoning":
        words = "\n\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
        sealed = item.get("encrypted_content")
        sealed = sealed if isinstance(sealed, str) and sealed else None
        return Message("assistant", (ThinkingPart(Thinking(words, sealed, redacted=not words and sealed is not None)),))
    return Message("assistant", (text(_shown(item)),))


def _parts(content: JSON) -> list[TextPart | ImagePart]:
    if isinstance(content, str):
        return [text(content)] if content else []
    parts: list[TextPart | ImagePart] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            parts += _part(part)
    return parts


def _part(part: Item) -> list[TextPart | ImagePart]:
    words = part.get("text", part.get("refusal", part.get("transcript")))
    if isinstance(words, str):
        return [text(words)]
    address = part.get("image_url")
    if isinstance(address, str) and address:
        return [image_at(address)]
    name = part.get("filename") or part.get("file_id") or part.get("file_url") or part.get("type")
    return [text(f"[{name}]")] if isinstance(name, str) else []


def _texts(segments: JSON) -> list[str]:
    found = [each.get("text") for each in segments if isinstance(each, dict)] if isinstance(segments, list) else []
    return [words for words in found if isinstance(words, str) and words]


def _name(item: Item, kind: str) -> str:
    name = item.get("name")
    return name if isinstance(name, str) and name else kind.removesuffix("_call")


def _input(item: Item, kind: str) -> Raw:
    """Return the arguments of a call as a JSON object; those that are none stand in one."""
    value = item.get(_CALLS.get(kind, ""), item.get("action", item.get("operation", item.get("arguments"))))
    if isinstance(value, str):
        value = _decoded_text(value)
    given: dict[str, JSON] = {} if value is None else value if isinstance(value, dict) else {"input": value}
    return raw_object(given, "the arguments")


def _decoded_text(words: str) -> JSON:
    try:
        value: JSON = msgspec.json.decode(words)
    except ValueError:
        return words
    return value


def _output(item: Item, call_id: str) -> Message:
    output = item.get("output", item.get("tools", item.get("result")))
    if isinstance(output, str):
        return Message("tool", (tool_result(call_id, output),))
    parts = _parts([output] if isinstance(output, dict) else output)
    return Message("tool", (tool_result(call_id, parts or _json(output)),))


def _shown(item: Item) -> str:
    """Return the words of an item that no message has a form for, such as a search that the provider ran."""
    hidden = {"encrypted_content", "result"} if item.get("type") != "mcp_call" else {"encrypted_content"}
    return _json({name: value for name, value in item.items() if name not in hidden})


def _json(value: JSON) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()  # so that it does not change on its way


# -- a message as items


def _written(message: Message) -> list[Item]:
    """Return the items that say what a message says, without the thinking of other providers: the API refuses it."""
    items: list[Item] = []
    spoken: list[Content] = []
    said = message if message.role in _ROLES else rendered(message) or message
    for part in readable_by(said, "openai").content:
        match part:
            case ToolUsePart(tool_use=call):
                told = {"call_id": call.id, "name": call.name, "arguments": call.input_text}
                items.append({"type": "function_call", **told})
            case ToolResultPart(tool_result=result):
                output = result.content if isinstance(result.content, str) else _inputs(result.content)
                items.append({"type": "function_call_output", "call_id": result.tool_use_id, "output": output})
            case ThinkingPart(thinking=thought):
                summary: list[JSON] = [{"type": "summary_text", "text": thought.content}] if thought.content else []
                reasoning: Item = {"type": "reasoning", "summary": summary}
                items.append(reasoning | ({"encrypted_content": thought.signature} if thought.signature else {}))
            case _:
                spoken.append(part)
    if spoken or not items:
        role = message.role if message.role in _ROLES else "user"
        first = sum(1 for item in items if item["type"] == "reasoning")
        items.insert(first, {"role": role, "content": _content(spoken)})
    return items


def _content(parts: Sequence[Content]) -> JSON:
    if all(isinstance(part, TextPart) for part in parts):
        return plain_text(parts)
    return _inputs(parts)


def _inputs(parts: Sequence[Content]) -> list[JSON]:
    return [
        {"type": "input_image", "image_url": url_of(part)}
        if isinstance(part, ImagePart)
        else {"type": "input_text", "text": plain_text((part,))}
        for part in parts
    ]


# -- the rest of an item


def _base(message: Message, written: Sequence[Item], form: str) -> Item:
    """Return an item that a message gives by itself, in one of the forms in which programs write it."""
    base = written[0] if len(written) == 1 else {}
    if form == "plain" or "content" not in base:
        return base
    if form == "item":
        return {**base, "type": "message"}
    texts = [part.text.content for part in message.content if isinstance(part, TextPart)]
    if form == "input":
        return {**base, "content": _inputs(message.content)}
    logged: Item = {"logprobs": []} if form == "logged" else {}
    parts: list[JSON] = [{"type": "output_text", "text": words, **_ANNOTATED, **logged} for words in texts]
    return {**base, "type": "message", "status": "completed", "content": parts}


def _residue(item: Item, message: Message, written: Sequence[Item], form: str) -> Item:
    """Return what leads from the item that a message gives by itself to this one."""
    base = _base(message, written, form)
    fields: Item = {name: value for name, value in item.items() if name not in base or not _same(base[name], value)}
    without: list[JSON] = [name for name in base if name not in item]
    residue: Item = {"form": form}
    if fields:
        residue["fields"] = fields
    if without:
        residue["without"] = without
    return residue


def _restored(residue: Item, message: Message) -> Item | None:
    """Return the item of a message, or None if the message was changed since, or the residue is none of ours."""
    form, fields, without = residue.get("form"), residue.get("fields", {}), residue.get("without", [])
    if form not in _FORMS or not isinstance(fields, dict) or not isinstance(without, list):
        return None
    base = _base(message, _written(message), str(form))
    item: Item = {name: value for name, value in base.items() if name not in without} | fields
    return item if _read(item).content == message.content else None


def _same(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal, with numbers and booleans told apart."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")

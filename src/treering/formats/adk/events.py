"""Events of Google's Agent Development Kit as entries, and back.

    {"id": "e1", "invocationId": "i1", "author": "user", "content": {"role": "user", "parts": [{"text": "Hello"}]}}

An event that says something becomes one message, any other one a custom entry. What a message has no place for is kept
in its metadata: the event without the parts that its message gives by itself. An event comes back equal to what it was,
and a message that something else wrote is an event, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    plain_text,
    shown_text,
    text,
)
from ...events.entries import Custom, CustomEntry, Entry, Message, MessageEntry, Payload, Usage
from ...events.errors import InvalidEntry
from ...events.json_values import JSON, raw_object
from ...events.providers.google import from_google
from ..values import as_count, as_object

Event: TypeAlias = dict[str, JSON]
"""An event as JSON, with the names of its fields in camel case and without those that have their default."""

EVENT = "adk_event"
"""The type of the custom entry of an event, and the key of a message's metadata below which the rest of one is kept."""

_URL_SAFE = str.maketrans("+/", "-_")
_ROLES = {"user": "user", "assistant": "model", "tool": "user"}


class Kept(msgspec.Struct, frozen=True):
    """What is kept of an event beside its message, and for one that rewinds the entry of the last event before it."""

    event: dict[str, Any]  # msgspec knows no type that contains itself
    after: str | None = None


def payload_of(event: Event, after: str | None = None) -> Payload:
    """Return the payload of an event's entry.

    Args:
        event: The event.
        after: For an event that rewinds, the entry of the last event before it, which is not the one above it.

    Raises:
        InvalidEntry: The event cannot be written as JSON.
    """
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    failed = event.get("errorMessage") or event.get("errorCode")
    if not isinstance(content, dict) or not isinstance(parts, list) or not parts:
        if not failed:
            return Custom(EVENT, raw_object(_residue(event, after), "the event"))
        content, parts = None, []
    message = _read(event, content or {}, parts)
    rest: Event = event
    if content is not None:
        kept: list[JSON] = [
            None if part == _written(shown, message.tool_name) else part
            for part, shown in zip(parts, message.content, strict=True)
        ]
        rest = {**event, "content": {**content, "parts": kept}}
    model = _word(event.get("modelVersion"))
    return msgspec.structs.replace(
        message,
        model=model,
        provider="google" if model is not None and model.startswith("gemini") else None,
        usage=_usage(event.get("usageMetadata")),
        stop_reason=_word(event.get("finishReason")),
        error=_word(failed),
        raw_metadata=raw_object({EVENT: _residue(rest, after)}, "the event"),
    )


def _residue(event: Event, after: str | None) -> dict[str, JSON]:
    return {"event": event} if after is None else {"event": event, "after": after}


def event_of(entry: Entry, author: str) -> Event | None:
    """Return the event of an entry; None if it has none.

    Args:
        entry: The entry.
        author: The agent that is said to have written a message that something else wrote.
    """
    kept = kept_of(entry)
    if kept is None:
        return _made(entry, author) if isinstance(entry, MessageEntry) and entry.message.role in _ROLES else None
    event: Event = kept.event
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(entry, MessageEntry) or not isinstance(content, dict) or not isinstance(parts, list):
        return event
    shown, tool = entry.message.content, entry.message.tool_name
    if len(shown) != len(parts):  # something else wrote it
        return _made(entry, author)
    filled: list[JSON] = [_written(shown[at], tool) if part is None else part for at, part in enumerate(parts)]
    return {**event, "content": {**content, "parts": filled}}


def kept_of(entry: Entry) -> Kept | None:
    """Return what an entry keeps of an event beside its message; None if it is not one of the kit's."""
    if isinstance(entry, CustomEntry) and entry.custom.custom_type == EVENT:
        kept: object = entry.custom.data
    elif isinstance(entry, MessageEntry) and entry.message.raw_metadata is not None:
        kept = entry.message.metadata.get(EVENT)
    else:
        return None
    try:
        return msgspec.convert(kept, Kept)
    except msgspec.ValidationError:
        return None  # something else uses the same name


# -- an event as the kit stores it: with the names of its own fields, where others see camel case


_Fields: TypeAlias = Mapping[str, "_Fields | None"]
"""The fields that hold others with names of the kit's."""

_LEAF: _Fields = {}
_PART: _Fields = {
    "function_call": _LEAF,
    "function_response": _LEAF,
    "inline_data": _LEAF,
    "file_data": _LEAF,
    "code_execution_result": _LEAF,
    "executable_code": _LEAF,
}
_EVENT: _Fields = {"content": {"parts": _PART}, "actions": _LEAF, "usage_metadata": _LEAF}


def named(stored: Event) -> Event:
    """Return a stored event with the names that its fields have elsewhere, without what the kit leaves out there.

    Names are changed as far as an event's message shows what they name. What is below that stays as it is: the kit
    reads both forms, and the names in arguments, responses and states are not its own.
    """
    event = _named(stored, _EVENT)
    actions: Event = {name: value for name, value in as_object(event.pop("actions", None)).items() if value}
    if actions:
        event["actions"] = actions
    return {name: value for name, value in event.items() if value is not None}


def _named(value: JSON, fields: _Fields) -> Event:
    return {_camel(name): _within(each, fields.get(name)) for name, each in as_object(value).items()}


def _within(value: JSON, fields: _Fields | None) -> JSON:
    if fields is None:
        return value
    if isinstance(value, list):
        return [_within(each, fields) for each in value]
    return _named(value, fields) if isinstance(value, dict) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


# -- an event as a message


def _read(event: Event, content: Mapping[str, JSON], parts: list[JSON]) -> Message:
    """Return the message of an event's content, with one part for each of its own."""
    role = content.get("role")
    if role not in ("user", "model", "system"):
        role = "user" if event.get("author") == "user" else "model"
    if not parts:
        return Message("user" if role == "user" else "assistant")
    prefix = f"call_{event.get('id')}"
    try:
        return from_google({"role": role, "parts": parts}, prefix=prefix)
    except InvalidEntry:  # one of them has no equivalent, or several at once, such as a call and a file
        read = tuple(_part(part, f"{prefix}_{at}") for at, part in enumerate(parts))
        return Message({"model": "assistant"}.get(role, role), read)


def _part(part: JSON, prefix: str) -> Content:
    """Return the equivalent of a part, or the words for one that has none."""
    try:
        return from_google({"role": "model", "parts": [part]}, prefix=prefix).content[0]
    except InvalidEntry:
        members = part if isinstance(part, dict) else {}
        for member, field in (("executableCode", "code"), ("codeExecutionResult", "output")):
            of = members.get(member)
            words = of.get(field) if isinstance(of, dict) else None
            if isinstance(words, str):
                return text(words)
        for of in members.values():
            name = (of.get("displayName") or of.get("mimeType")) if isinstance(of, dict) else None
            if isinstance(name, str):
                return text(f"[{name}]")
        return text(f"[{next(iter(members), 'part')}]")


def _usage(counted: JSON) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    prompt, cached = as_count(counted.get("promptTokenCount")), as_count(counted.get("cachedContentTokenCount"))
    return Usage(
        input_tokens=max(prompt + as_count(counted.get("toolUsePromptTokenCount")) - cached, 0),
        output_tokens=as_count(counted.get("candidatesTokenCount")) + as_count(counted.get("thoughtsTokenCount")),
        cache_read_tokens=cached,
        total_tokens=as_count(counted.get("totalTokenCount")),
    )


def _word(value: JSON) -> str | None:
    return value if isinstance(value, str) and value else None


# -- a message as an event


def _made(entry: MessageEntry, author: str) -> Event:
    """Return the event that says what a message says that something else wrote."""
    message = entry.message
    parts: list[JSON] = [_written(part, message.tool_name) for part in message.content]
    return {
        "id": entry.id,
        "invocationId": entry.id,
        "author": "user" if message.role == "user" else author,
        "timestamp": entry.timestamp.timestamp(),
        "content": {"role": _ROLES[message.role], "parts": parts},
    }


def _written(part: Content, tool_name: str | None) -> JSON:
    """Return a part as the kit writes it."""
    match part:
        case TextPart(text=said):
            return _signed({"text": said.content}, said.signature)
        case ThinkingPart(thinking=thought):
            return _signed({"text": thought.content, "thought": True}, thought.signature)
        case ToolUsePart(tool_use=call):
            return _signed({"functionCall": {"id": call.id, "args": call.input, "name": call.name}}, call.signature)
        case ToolResultPart(tool_result=result):
            words = result.content if isinstance(result.content, str) else plain_text(result.content)
            name = tool_name or result.tool_use_id
            return {
                "functionResponse": {
                    "id": result.tool_use_id,
                    "name": name,
                    "response": _response(words, is_error=bool(result.is_error)),
                }
            }
        case ImagePart(image=shown):
            source = shown.source
            if source.type == "url":
                return {"fileData": {"fileUri": source.data, "mimeType": source.media_type}}
            return {"inlineData": {"data": source.data.translate(_URL_SAFE), "mimeType": source.media_type}}
    return {"text": shown_text(part)}


def _response(words: str, *, is_error: bool) -> JSON:
    """Return what a tool answered: the object that its words are, or an object with them."""
    if not is_error and words.startswith("{"):
        try:
            decoded: JSON = msgspec.json.decode(words)
        except ValueError:
            decoded = None
        if isinstance(decoded, dict):
            return decoded
    return {"error" if is_error else "output": words}


def _signed(part: Event, signature: str | None) -> Event:
    return part if signature is None else part | {"thoughtSignature": signature}

"""Messages of Strands Agents as messages, and back.

    {"message": {"role": "user", "content": [{"text": "Hello"}]}, "message_id": 0, "created_at": "2026-01-01T09:00:00Z"}

What the framework keeps of a message, a record, becomes one message. What that has no place for (the record's number
and times, kinds of blocks that no other provider knows) is kept in its metadata: a record comes back equal to what it
was, and a message that something else wrote has one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    image,
    plain_text,
    text,
    thinking,
    tool_result,
    tool_use,
)
from ...events.entries import Message, MessageEntry, Usage
from ...events.json_values import JSON, json_text, raw_object, same_json
from ...events.providers.common import rendered
from ..values import as_count

Data: TypeAlias = dict[str, JSON]
"""A record, a message or a block as JSON, in which bytes are as the framework writes them."""

SESSION = "strands.session"
AGENT = "strands.agent"
MULTI_AGENT = "strands.multi_agent"
UPDATE = "strands.message"
"""The types of the custom entries: a session, an agent, several agents together, and a message as it is now."""

KEPT = "strands"
"""The key of a message's metadata below which the rest of a record is kept."""


def key_of(*names: str) -> str:
    """Return the key of a session, or of the conversation of one of its agents."""
    return "/".join(quote(each, safe="") for each in names)


def message_of(record: Data) -> Message:
    """Return the message of a record, as its `to_dict` gives it: what it shows, so what it was redacted to.

    Raises:
        InvalidEntry: It holds something that is no JSON.
    """
    said = shown_in(record)
    blocks = _blocks(said)
    parts = parts_of(said)
    role = str(said.get("role") or "user")
    if role == "user" and parts and all(isinstance(part, ToolResultPart) for part in parts):
        role = "tool"
    metadata = said.get("metadata")
    message = Message(role, parts, usage=_usage(metadata.get("usage") if isinstance(metadata, dict) else None))
    rest: list[JSON] = []
    for block in blocks:
        part = _part(block)
        rest.append(None if part is not None and same_json(_written(part), block) else block)
    kept: Data = {**record, "message": {**said, "content": rest}}
    if record.get("redact_message") is not None or not same_json(_record(message, kept), record):
        kept = {"whole": record}
    return msgspec.structs.replace(message, raw_metadata=raw_object({KEPT: kept}, "a message"))


def parts_of(message: Data) -> tuple[Content, ...]:
    """Return what a message of the framework says."""
    return tuple(part for part in map(_part, _blocks(message)) if part is not None)


def shown_in(record: Data) -> Data:
    """Return the message that a record shows."""
    redacted, said = record.get("redact_message"), record.get("message")
    return redacted if isinstance(redacted, dict) else said if isinstance(said, dict) else {}


def number_of(message: Message) -> int | None:
    """Return the number that the framework gave a message; None if something else wrote it."""
    kept = _kept(message)
    whole = None if kept is None else kept.get("whole", kept)
    number = whole.get("message_id") if isinstance(whole, dict) else None
    return number if isinstance(number, int) else None


def is_shown(message: Message) -> bool:
    """Return whether a message that something else wrote is one of the framework's, which has no system's ones."""
    told = rendered(message)
    return told is not None and told.role != "system" and bool(told.content)


def record_of(entry: MessageEntry, number: int) -> Data:
    """Return the record of a message.

    Args:
        entry: The message.
        number: Its number, if something else wrote it.
    """
    kept = _kept(entry.message)
    if kept is not None:
        return _record(entry.message, kept)
    told = rendered(entry.message) or entry.message
    time = entry.timestamp.isoformat()
    role = "assistant" if told.role == "assistant" else "user"
    said: Data = {"role": role, "content": [_written(part) for part in told.content]}
    return {"message": said, "message_id": number, "redact_message": None, "created_at": time, "updated_at": time}


def _kept(message: Message) -> Data | None:
    kept = message.metadata.get(KEPT) if message.raw_metadata is not None else None
    return kept if isinstance(kept, dict) else None


def _record(message: Message, kept: Data) -> Data:
    whole = kept.get("whole")
    if isinstance(whole, dict):
        return whole
    said, parts = kept.get("message"), iter(message.content)
    blocks: list[JSON] = []
    for block in _rest(said):
        part = next(parts, None) if block is None or _part(block) is not None else None
        blocks.append(block if block is not None or part is None else _written(part))
    return {**kept, "message": {**(said if isinstance(said, dict) else {}), "content": blocks}}


def _rest(said: JSON) -> Sequence[JSON]:
    rest = said.get("content") if isinstance(said, dict) else None
    return rest if isinstance(rest, list) else []


def _blocks(message: Data) -> list[Data]:
    return [block for block in _rest(message) if isinstance(block, dict)]


# -- a block as a part


def _part(block: JSON) -> Content | None:
    """Return the part of a block; None for a mark that says nothing."""
    if not isinstance(block, dict) or "cachePoint" in block:
        return None
    said, call, answered = block.get("text"), block.get("toolUse"), block.get("toolResult")
    if isinstance(said, str):
        return text(said)
    if isinstance(call, dict) and isinstance(call_id := call.get("toolUseId"), str) and call_id:
        given = call.get("input")
        return tool_use(
            call_id, str(call.get("name") or "tool"), given if isinstance(given, dict) else {"input": given}
        )
    if isinstance(answered, dict) and isinstance(call_id := answered.get("toolUseId"), str) and call_id:
        return _result(call_id, answered)
    thought = block.get("reasoningContent")
    if isinstance(thought, dict):
        reasoning = thought.get("reasoningText")
        words = reasoning.get("text") if isinstance(reasoning, dict) else None
        sealed = reasoning.get("signature") if isinstance(reasoning, dict) else None
        return thinking(str(words or ""), signature=sealed if isinstance(sealed, str) else None)
    return _media(block)


def _result(call_id: str, answered: Data) -> ToolResultPart:
    failed = answered.get("status") == "error"
    content = answered.get("content")
    parts = [_media(block) for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if len(parts) == 1 and isinstance(only := parts[0], TextPart):
        return tool_result(call_id, only.text.content, is_error=failed)
    return tool_result(call_id, parts, is_error=failed)


def _media(block: Data) -> TextPart | ImagePart:
    """Return what a block says that is neither a call nor a result nor a thought."""
    said, shown = block.get("text"), block.get("image")
    if isinstance(said, str):
        return text(said)
    if "json" in block:
        return text(json_text(block["json"]))
    source = shown.get("source") if isinstance(shown, dict) else None
    encoded = source.get("bytes") if isinstance(source, dict) else None
    if isinstance(shown, dict) and isinstance(encoded, dict) and isinstance(data := encoded.get("data"), str):
        return image(data, f"image/{shown.get('format')}")
    guarded, cited = block.get("guardContent"), block.get("citationsContent")
    if isinstance(guarded, dict) and isinstance(inner := guarded.get("text"), dict):
        return text(str(inner.get("text") or ""))
    if isinstance(cited, dict) and isinstance(content := cited.get("content"), list):
        return text("".join(str(each.get("text") or "") for each in content if isinstance(each, dict)))
    name, value = next(iter(block.items()), ("block", None))
    named = (value.get("name") or value.get("format")) if isinstance(value, dict) else None
    return text(f"[{name}: {named}]" if named else f"[{name}]")


def _usage(counted: JSON) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    cached, stored = as_count(counted.get("cacheReadInputTokens")), as_count(counted.get("cacheWriteInputTokens"))
    return Usage(
        input_tokens=as_count(counted.get("inputTokens")),
        output_tokens=as_count(counted.get("outputTokens")),
        cache_read_tokens=cached,
        cache_write_tokens=stored,
        total_tokens=as_count(counted.get("totalTokens")),
    )


# -- a part as a block


def _written(part: Content) -> Data:
    """Return a part as the framework writes it."""
    match part:
        case TextPart(text=said):
            return {"text": said.content}
        case ThinkingPart(thinking=thought):
            signed: Data = {} if thought.signature is None else {"signature": thought.signature}
            return {"reasoningContent": {"reasoningText": {"text": thought.content, **signed}}}
        case ToolUsePart(tool_use=call):
            return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.input}}
        case ToolResultPart(tool_result=result):
            words = result.content
            content: list[JSON] = [{"text": words}] if isinstance(words, str) else [_written(each) for each in words]
            status = "error" if result.is_error else "success"
            return {"toolResult": {"toolUseId": result.tool_use_id, "status": status, "content": content}}
        case ImagePart(image=seen) if seen.source.type == "base64":
            data: Data = {"__bytes_encoded__": True, "data": seen.source.data}
            return {"image": {"format": seen.source.media_type.removeprefix("image/"), "source": {"bytes": data}}}
        case _:
            return {"text": plain_text((part,)) or "[image]"}

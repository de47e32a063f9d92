"""dive's messages and events: reading a message, and writing a path as a header and one line per event.

    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "t1", ...}]}

Messages have the format of Anthropic's API, less strict than what the API accepts. A part that a treering message
cannot hold (a document, a call of a server-side tool) does not invalidate the others: it is kept in the message's
metadata under `left_out`, and written back from there.

What is written, dive's own store reads. A usage record defines a turn; messages without a record form a turn from one
user message to the next. A compaction event defines the history from there on, so it repeats the messages that the
compaction kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from ...events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, text
from ...events.entries import CompactionEntry, Entry, Header, Message, SessionInfoEntry, Usage, UsageEntry
from ...events.errors import InvalidEntry
from ...events.json_values import JSON
from ...events.providers.anthropic import from_anthropic
from ..chain import derived_id
from ..messages import is_empty_answer, message_of
from ..values import Object, as_list, as_text, iso, kept_json, shallow

TURN = "turn"
COMPACTION = "compaction"

LEFT_OUT = "left_out"
"""The metadata field that holds the parts that a message cannot hold."""

_ROLES = frozenset({"user", "assistant", "system"})


def read_message(source: Object) -> Message | None:
    """Read a message; return None if it has no known role."""
    role = as_text(source.get("role"))
    if role not in _ROLES:
        return None
    message: Object = {"role": role, "content": source.get("content") or ""}
    try:
        return from_anthropic(message)
    except InvalidEntry:
        content = source.get("content")
        return _read_blocks(role, content if isinstance(content, list) else [content])


def _read_blocks(role: str, blocks: list[JSON]) -> Message:
    """Read a message block by block, and keep the blocks that cannot be read in its metadata."""
    parts: list[Content] = []
    left_out: list[JSON] = []
    for block in blocks:
        try:
            parts += from_anthropic({"role": role, "content": [shallow(block, 2)]}).content
        except InvalidEntry:
            left_out.append(block)
    only_results = bool(parts) and all(isinstance(part, ToolResultPart) for part in parts)
    message_role = "tool" if role == "user" and only_results else role
    return Message(message_role, tuple(parts), raw_metadata=kept_json({LEFT_OUT: left_out}, 3) if left_out else None)


def write_message(message: Message) -> Object:
    """Encode a message as the model receives it, part by part; tool results get the role `user`."""
    content: list[JSON] = [_block(part) for part in message.content]
    content += as_list(message.metadata.get(LEFT_OUT))
    return {"role": "user" if message.role == "tool" else message.role, "content": content}


def _block(part: Content) -> Object:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text.content}
        case ImagePart():
            return _image_block(part)
        case ToolUsePart():
            call = part.tool_use
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultPart():
            return _result_block(part)
        case ThinkingPart():
            return _thinking_block(part)


def _image_block(part: ImagePart) -> Object:
    source = part.image.source
    if source.type == "url":
        return {"type": "image", "source": {"type": "url", "url": source.data}}
    return {"type": "image", "source": {"type": "base64", "media_type": source.media_type, "data": source.data}}


def _result_block(part: ToolResultPart) -> Object:
    result = part.tool_result
    content: JSON = result.content if isinstance(result.content, str) else [_block(each) for each in result.content]
    block: Object = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": content}
    if result.is_error:
        block["is_error"] = True
    return block


def _thinking_block(part: ThinkingPart) -> Object:
    thinking = part.thinking
    if thinking.redacted:
        return {"type": "redacted_thinking", "data": thinking.signature or ""}
    block: Object = {"type": "thinking", "thinking": thinking.content}
    if thinking.signature is not None:
        block["signature"] = thinking.signature
    return block


class _Turn(Struct):
    """Messages that are saved together, and their usage record if they have one."""

    messages: list[tuple[Entry, Message]]
    record: UsageEntry | None = None


def dive_document(header: Header, entries: Sequence[Entry]) -> bytes:
    """Encode a session as a dive file.

    Args:
        header: The session's header.
        entries: The path to write, from its root.

    Returns:
        The lines, each with its newline.
    """
    title, metadata = header.title, Object()
    for entry in entries:
        if isinstance(entry, SessionInfoEntry):
            info = entry.session_info
            title = title if info.name is None else info.name
            metadata.update(info.metadata)
    data: Object = {
        "id": header.id,
        "title": title or "",
        "created_at": iso(header.timestamp),
        "updated_at": iso(max(header.timestamp, entries[-1].timestamp) if entries else header.timestamp),
    }
    if header.parent_session is not None:
        data["forked_from"] = header.parent_session
    if metadata:
        data["metadata"] = metadata
    lines = [_line("header", data), *(_line("event", event) for event in _events(entries))]
    return b"".join(lines)


def _line(kind: str, data: Object) -> bytes:
    return msgspec.json.encode({"line_type": kind, "data": data}) + b"\n"


def _events(entries: Sequence[Entry]) -> Iterator[Object]:
    written: list[tuple[Entry, Message]] = []
    hidden = 0
    for event_count, each in enumerate(_turns(entries)):
        if isinstance(each, CompactionEntry):
            ids = [entry.id for entry, _ in written]
            details: Object = {"original_event_count": event_count, "original_message_count": len(written) - hidden}
            hidden = _position(entries, each.compaction.first_kept_entry_id, ids)
            summary, system = each.compaction.summary, each.compaction.system_message
            messages = [] if system is None else [system]
            messages += [Message("user", (text(summary),))] if summary else []
            # What a compaction stores repeats the system messages before it.
            messages += [message for _, message in written[hidden:] if system is None or message.role != "system"]
            yield _event(each.id, COMPACTION, each.timestamp, messages, details)
        else:
            written += each.messages
            yield _turn_event(each)


def _position(entries: Sequence[Entry], first_kept: str | None, ids: list[str | None]) -> int:
    """Return the position in the history of the first message at or after the first kept entry."""
    if first_kept is None:
        return len(ids)
    start = next((position for position, entry in enumerate(entries) if entry.id == first_kept), len(entries))
    kept_ids = {entry.id for entry in entries[start:]}
    return next((position for position, entry_id in enumerate(ids) if entry_id in kept_ids), len(ids))


def _turns(entries: Sequence[Entry]) -> Iterator[_Turn | CompactionEntry]:
    """Yield the turns and compactions of a path, in order."""
    pending: list[tuple[Entry, Message]] = []
    for entry in entries:
        message = message_of(entry)
        if message is not None:
            pending.append((entry, message))
        elif isinstance(entry, CompactionEntry):
            yield from _turns_without_record(pending)
            pending = []
            yield entry
        elif isinstance(entry, UsageEntry) and entry.usage.kind == TURN and entry.usage.messages is not None:
            size = min(entry.usage.messages, len(pending))
            yield from _turns_without_record(pending[: len(pending) - size])
            yield _Turn(pending[len(pending) - size :], entry)
            pending = []
    yield from _turns_without_record(pending)


def _turns_without_record(messages: Sequence[tuple[Entry, Message]]) -> Iterator[_Turn]:
    """Yield the turns of messages without a record."""
    turn = _Turn([])
    for entry, message in messages:
        if message.role == "user" and turn.messages:
            yield turn
            turn = _Turn([])
        turn.messages.append((entry, message))
    if turn.messages:
        yield turn


def _turn_event(turn: _Turn) -> Object:
    messages = [message for _, message in turn.messages]
    if turn.record is not None:
        record = turn.record.usage
        event = _event(turn.record.id, TURN, turn.record.timestamp, messages, record.metadata)
        usage = record.usage
    else:
        last = turn.messages[-1][0]
        event = _event(derived_id("dive", last.id or ""), TURN, last.timestamp, messages, {})
        usage = sum((message.usage for message in messages if message.usage is not None), Usage())
    if usage != Usage():
        event["usage"] = _usage(usage)
    return event


def _event(event_id: str, kind: str, time: datetime, messages: Sequence[Message], metadata: Object) -> Object:
    event: Object = {
        "id": event_id,
        "type": kind,
        "timestamp": iso(time),
        "messages": [write_message(message) for message in messages if not is_empty_answer(message)],
    }
    if metadata:
        event["metadata"] = metadata
    return event


def _usage(usage: Usage) -> Object:
    counts: Object = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if usage.cache_write_tokens:
        counts["cache_creation_input_tokens"] = usage.cache_write_tokens
    if usage.cache_read_tokens:
        counts["cache_read_input_tokens"] = usage.cache_read_tokens
    return counts

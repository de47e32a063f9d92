"""nanocoder: reading one line or one summary file of a session's folder.

The design gives two forms, a draft with flat fields and a schema with nested ones, and both are read::

    {"id":"m1","seq":1,"parentId":null,"timestamp":"...","role":"user","content":"Hello","tokens":{"count":2,"cumulative":2}}
    {"id":"m1","parentId":null,"timestamp":"...","role":"user","content":"Hello","tokenCount":2,"cumulativeTokens":2}
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...events.content import Content, text, tool_result
from ...events.entries import Compaction, Custom, Message, Payload, ToolExecution
from ...events.json_values import JSON, raw_json
from ..json_lines import Line, Notes, names_in
from ..messages import check_call, read_call
from ..values import Object, as_arguments, as_count, as_number, as_object, as_objects, as_text, as_time, as_words

SUMMARY_TYPE = "treering.summary"
"""The custom type of the entries that keep summaries for reuse."""

_MESSAGE_FIELDS = names_in(
    "assistant content cumulativeTokens id metadata parentId role seq timestamp tokenCount tokens tool toolCallId",
    "toolCalls toolName",
)
"""The fields of a line of messages.jsonl that are read, and its metadata."""

_ANSWER_FIELDS = names_in("durationMs finishReason model toolCalls")
_RESULT_FIELDS = frozenset({"callId", "name"})
_RUN_FIELDS = names_in(
    "args arguments durationMs id messageId result resultTokens seq timestamp tokens tool toolCallId"
)
_OUTPUT_FIELDS = names_in("content error exitCode success")
_SUMMARY_FIELDS = names_in("compressionRatio createdAt id originalTokens range summary")
_TEXT_FIELDS = names_in("content model tokens")

_ROLES = names_in("user assistant system tool")


class Run(Struct, frozen=True):
    """A line of tools.jsonl: its id, the record of a tool's run, the tool's output, and the time."""

    id: str
    record: ToolExecution
    content: str
    time: datetime | None


class SeqCheck:
    """A check that each line's `seq` is one more than that of the line before."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._last = 0

    def check(self, line: Line) -> None:
        """Report a `seq` that does not follow the previous one; a line without one is ignored."""
        seq, last = line.value.get("seq"), self._last
        if not isinstance(seq, int) or isinstance(seq, bool):
            return
        if seq <= last:
            self._notes.at(line, "seq", "warning", f"number {seq} follows number {last}: two lines claim one place")
        elif seq > last + 1:
            self._notes.at(
                line, "seq", "warning", f"number {seq} follows number {last}: lines between them are missing"
            )
        self._last = max(last, seq)


def read_message(raw: Object) -> Message | None:
    """Read a line of messages.jsonl; return None if it has no known role, or is a tool result without a call id."""
    role = as_text(raw.get("role"))
    content = as_words(raw.get("content"))
    if role == "tool":
        tool = as_object(raw.get("tool"))
        call_id = answered_call(raw)
        name = as_text(tool.get("name")) or as_text(raw.get("toolName")) or None
        return Message("tool", (tool_result(call_id, content),), tool_name=name) if call_id else None
    if role not in _ROLES:
        return None
    details = as_object(raw.get("assistant"))
    calls = [read_call(each) for each in as_objects(details.get("toolCalls", raw.get("toolCalls")))]
    call_parts: list[Content] = [call for call in calls if call is not None]
    parts: list[Content] = call_parts if call_parts and not content else [text(content), *call_parts]
    return Message(
        role,
        tuple(parts),
        model=as_text(details.get("model")) or None,
        stop_reason=as_text(details.get("finishReason")) or None,
        duration_ms=as_number(details.get("durationMs")),
    )


def answered_call(raw: Object) -> str:
    """Return the id of the call whose result a line of messages.jsonl is; "" if it names none."""
    return as_text(as_object(raw.get("tool")).get("callId")) or as_text(raw.get("toolCallId"))


def note_unread_of_message(raw: Object, notes: Notes, *, line: int, byte: int) -> None:
    """Note what a line of messages.jsonl holds that carries text and is not read."""
    details, tool = as_object(raw.get("assistant")), as_object(raw.get("tool"))
    calls: JSON = details.get("toolCalls", raw.get("toolCalls"))
    notes.check_fields("message", raw, _MESSAGE_FIELDS, line=line, byte=byte)
    notes.check_fields("assistant", details, _ANSWER_FIELDS, line=line, byte=byte)
    notes.check_fields("tool", tool, _RESULT_FIELDS, line=line, byte=byte)
    notes.check_items("call without a name", calls, line=line, byte=byte)
    for call in as_objects(calls):
        if read_call(call) is None:
            notes.leave_out("call without a name", call, line=line, byte=byte)
        else:
            check_call(call, notes)
    if calls and as_text(raw.get("role")) == "tool":
        notes.leave_out("result field toolCalls", calls, line=line, byte=byte)


def note_unread_of_run(raw: Object, notes: Notes) -> None:
    """Note what a line of tools.jsonl holds that carries text and is not read."""
    notes.check_fields("run", raw, _RUN_FIELDS)
    notes.check_items("result of an unknown form", [raw.get("result")])
    notes.check_fields("result", as_object(raw.get("result")), _OUTPUT_FIELDS)


def note_unread_of_summary(raw: Object, notes: Notes) -> None:
    """Note what a stored summary holds that carries text and is not read."""
    notes.check_fields("summary", raw, _SUMMARY_FIELDS)
    notes.check_items("summary of an unknown form", [raw.get("summary")])
    notes.check_fields("summary", as_object(raw.get("summary")), _TEXT_FIELDS)


def read_tokens(raw: Object) -> tuple[int, int] | None:
    """Return the tokens of a message and the total of the path to it; None if the line does not give both."""
    tokens = as_object(raw.get("tokens"))
    count = tokens.get("count", raw.get("tokenCount"))
    cumulative = tokens.get("cumulative", raw.get("cumulativeTokens"))
    if as_number(count) is None or as_number(cumulative) is None:
        return None
    return as_count(count), as_count(cumulative)


def read_run(raw: Object) -> Run:
    """Read a line of tools.jsonl; in the draft's form, which names no call, the call id is ""."""
    result = as_object(raw.get("result"))
    exit_code = as_number(result.get("exitCode"))
    record = ToolExecution(
        as_text(raw.get("toolCallId")),
        as_text(raw.get("tool")) or "unknown",
        as_arguments(raw.get("arguments", raw.get("args"))),
        success=result.get("success") is not False,
        error=as_words(result.get("error")) or None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=as_number(raw.get("durationMs")),
        tokens=as_count(raw.get("tokens", raw.get("resultTokens"))),
        message_id=as_text(raw.get("messageId")) or None,
    )
    return Run(as_text(raw.get("id")), record, as_words(result.get("content")), as_time(raw.get("timestamp")))


class Summary:
    """A summary stored beside the messages, which tracks the reading to find the place where it belongs.

    The summary that the metadata names is active and becomes a compaction; others are kept for reuse.

    Attributes:
        id: Its id.
        created: When it was made.
        is_past_range: Whether the last of the summarized messages has been read.
    """

    def __init__(self, key: str, raw: Object, end_of_active: str) -> None:
        range_fields, summary = as_object(raw.get("range")), as_object(raw.get("summary"))
        self.id = as_text(raw.get("id"))
        self.created = as_time(raw.get("createdAt"))
        self.is_past_range = False
        self._end_id = as_text(range_fields.get("endMessageId"))
        self._is_active = self._end_id == end_of_active
        self._first_kept: str | None = None
        self._text = as_words(summary.get("content"))
        self._tokens_before = as_count(raw.get("originalTokens"))
        self._stored: Object = {
            "key": key,
            "start_id": as_text(range_fields.get("startMessageId")),
            "end_id": self._end_id,
            "message_count": as_count(range_fields.get("messageCount")),
            "content": self._text,
            "tokens": as_count(summary.get("tokens")),
            "summarizer": as_text(summary.get("model")),
            "original_tokens": self._tokens_before,
            "compression_ratio": as_number(raw.get("compressionRatio")) or 0.0,
        }

    def note_message(self, source_id: str, entry_id: str) -> None:
        """Note that a message was read, given its own id and the id of its entry."""
        if self.is_past_range and self._first_kept is None:
            self._first_kept = entry_id
        self.is_past_range = self.is_past_range or (source_id != "" and source_id == self._end_id)

    def is_due(self, time: datetime | None) -> bool:
        """Return whether it was made before a message with this time, and the messages that it summarizes were read."""
        return self.is_past_range and self.created is not None and time is not None and self.created < time

    def payload(self) -> Payload:
        """Return the payload of its entry."""
        if self._is_active:
            return Compaction(self._text, self._first_kept, self._tokens_before)
        return Custom(SUMMARY_TYPE, raw_json(self._stored))

"""nanocoder's folder of one session: what one line or one summary file says.

The design gives two shapes, a draft with flat fields and a schema with nested ones, and both are read::

    {"id":"m1","seq":1,"parentId":null,"timestamp":"...","role":"user","content":"Hello","tokens":{"count":2,"cumulative":2}}
    {"id":"m1","parentId":null,"timestamp":"...","role":"user","content":"Hello","tokenCount":2,"cumulativeTokens":2}
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..content import Content, raw_json, text, tool_result
from ..entries import Compaction, Custom, Message, Payload, ToolExecution
from .chat_messages import read_call
from .json_lines import Line, Notes
from .values import Object, as_arguments, as_count, as_number, as_object, as_objects, as_text, as_time

SUMMARY_TYPE = "treering.summary"
"""The custom type of the entries that keep summaries to be used again."""

_ROLES = frozenset({"user", "assistant", "system", "tool"})


class Run(Struct, frozen=True):
    """A line of tools.jsonl: its id, the record of a tool's run, what the tool answered, and when."""

    id: str
    record: ToolExecution
    content: str
    time: datetime | None


class Numbers:
    """Watches the numbers that lines carry: each is to be one more than the last."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._last = 0

    def check(self, line: Line) -> None:
        """Note a number that does not follow the last one; a line without one says nothing."""
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


def read_message(given: Object) -> Message | None:
    """Read a line of messages.jsonl; None where it has no role, or answers no call."""
    role = as_text(given.get("role"))
    said = as_text(given.get("content"))
    if role == "tool":
        told = as_object(given.get("tool"))
        call_id = as_text(told.get("callId")) or as_text(given.get("toolCallId"))
        name = as_text(told.get("name")) or as_text(given.get("toolName")) or None
        return Message("tool", (tool_result(call_id, said),), tool_name=name) if call_id else None
    if role not in _ROLES:
        return None
    details = as_object(given.get("assistant"))
    calls = [read_call(each) for each in as_objects(details.get("toolCalls", given.get("toolCalls")))]
    made: list[Content] = [call for call in calls if call is not None]
    parts: list[Content] = made if made and not said else [text(said), *made]
    return Message(
        role,
        tuple(parts),
        model=as_text(details.get("model")) or None,
        stop_reason=as_text(details.get("finishReason")) or None,
        duration_ms=as_number(details.get("durationMs")),
    )


def read_tokens(given: Object) -> tuple[int, int] | None:
    """Return the tokens of a message, and of the path down to it; None where the line does not say."""
    counted = as_object(given.get("tokens"))
    count = counted.get("count", given.get("tokenCount"))
    cumulative = counted.get("cumulative", given.get("cumulativeTokens"))
    if as_number(count) is None or as_number(cumulative) is None:
        return None
    return as_count(count), as_count(cumulative)


def read_run(given: Object) -> Run:
    """Read a line of tools.jsonl; the draft's shape does not say which call it was, whose id is "" then."""
    result = as_object(given.get("result"))
    exit_code = as_number(result.get("exitCode"))
    record = ToolExecution(
        as_text(given.get("toolCallId")),
        as_text(given.get("tool")) or "unknown",
        as_arguments(given.get("arguments", given.get("args"))),
        success=result.get("success") is not False,
        error=as_text(result.get("error")) or None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=as_number(given.get("durationMs")),
        tokens=as_count(given.get("tokens", given.get("resultTokens"))),
        message_id=as_text(given.get("messageId")) or None,
    )
    return Run(as_text(given.get("id")), record, as_text(result.get("content")), as_time(given.get("timestamp")))


class Summary:
    """A summary that is stored beside the messages, and how far reading has come to where it belongs.

    The one that the metadata names is in force, which makes it a compaction; others are kept to be used again.

    Attributes:
        id: Its id.
        created: When it was made.
        passed: The last of the summarized messages has been read.
    """

    def __init__(self, key: str, given: Object, last_in_force: str) -> None:
        limits, told = as_object(given.get("range")), as_object(given.get("summary"))
        self.id = as_text(given.get("id"))
        self.created = as_time(given.get("createdAt"))
        self.passed = False
        self._last = as_text(limits.get("endMessageId"))
        self._in_force = self._last == last_in_force
        self._first_kept: str | None = None
        self._text = as_text(told.get("content"))
        self._tokens_before = as_count(given.get("originalTokens"))
        self._stored: Object = {
            "key": key,
            "start_id": as_text(limits.get("startMessageId")),
            "end_id": self._last,
            "message_count": as_count(limits.get("messageCount")),
            "content": self._text,
            "tokens": as_count(told.get("tokens")),
            "summarizer": as_text(told.get("model")),
            "original_tokens": self._tokens_before,
            "compression_ratio": as_number(given.get("compressionRatio")) or 0.0,
        }

    def see(self, original: str, entry_id: str) -> None:
        """Take notice of a message, by its own id and that of its entry."""
        if self.passed and self._first_kept is None:
            self._first_kept = entry_id
        self.passed = self.passed or (original != "" and original == self._last)

    def due(self, time: datetime | None) -> bool:
        """Tell whether it was made before a message of this time, and after the messages that it summarizes."""
        return self.passed and self.created is not None and time is not None and self.created < time

    def payload(self) -> Payload:
        """Return what it says as an entry does."""
        if self._in_force:
            return Compaction(self._text, self._first_kept, self._tokens_before)
        return Custom(SUMMARY_TYPE, raw_json(self._stored))

"""nanocoder: the lines and summaries of a session's folder, built from a path.

Tokens are counted per message; the running total of a message is the total of its parent plus its own count. A tool run
without a record of its own is derived from its call and its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from ...events.content import ToolUse, text
from ...events.entries import CompactionEntry, CustomEntry, Entry, Message, ToolExecution, ToolExecutionEntry
from ..base import CountTokens
from ..chain import derived_id
from ..messages import SimpleMessage, simple_messages
from ..values import Object, as_count, as_number, as_object, as_text, iso
from .lines import SUMMARY_TYPE


def _derived_run_id(answer_id: str) -> str:
    """Return the id of a tool run that has no record of its own, derived from the id of its result's message."""
    return derived_id("nanocoder", "run", answer_id)


def is_derived_run(entry: Entry) -> bool:
    """Return whether an entry is such a run, which says nothing that the messages do not say."""
    return isinstance(entry, ToolExecutionEntry) and entry.id == _derived_run_id(entry.parent_id or "")


class Records:
    """The lines and summaries of a path.

    Attributes:
        sources: The messages, in order.
        messages: Their lines.
        runs: The lines of the tool runs.
        summaries: The summaries, by the hash of their range.
        context: Which summary is active; empty if none is.
    """

    def __init__(self, entries: Sequence[Entry], count: CountTokens) -> None:
        self._count = count
        self.sources = list(simple_messages(entries))
        self.messages: list[Object] = []
        self.runs: list[Object] = []
        self.summaries: dict[str, Object] = {}
        self.context: Object = {}
        self._totals = [0]
        self._calls: dict[str, tuple[SimpleMessage, ToolUse]] = {}  # the last of each id, which may be used again
        self._answered: dict[str, tuple[SimpleMessage, ToolUse] | None] = {}  # the calls of results, by their ids
        for source in self.sources:
            self._add_message(source)
        self._add_runs(entries)
        self._add_summaries(entries)

    @property
    def tokens(self) -> int:
        """The number of tokens of all messages."""
        return self._totals[-1]

    # -- messages

    def _add_message(self, source: SimpleMessage) -> None:
        count = self._count(source.message)
        self._totals.append(self._totals[-1] + count)
        line: Object = {
            "id": source.id,
            "seq": len(self.messages) + 1,
            "parentId": as_text(self.messages[-1]["id"]) if self.messages else None,
            "timestamp": iso(source.time),
            "role": source.role,
            "content": source.text,
            "tokens": {"count": count, "cumulative": self._totals[-1]},
        }
        if source.result is not None:
            call_id = source.result.tool_use_id
            line["tool"] = {"callId": call_id, "name": self._tool_name(source)}
            self._answered[source.id] = self._calls.get(call_id)
        elif source.role == "assistant":
            line["assistant"] = self._assistant_fields(source)
        self.messages.append(line)

    def _assistant_fields(self, source: SimpleMessage) -> Object:
        fields: Object = {"model": source.message.model or ""}
        if source.calls:
            fields["toolCalls"] = [
                {"id": call.id, "name": call.name, "arguments": call.input_text} for call in source.calls
            ]
            self._calls.update((call.id, (source, call)) for call in source.calls)
        if source.message.stop_reason is not None:
            fields["finishReason"] = source.message.stop_reason
        if source.message.duration_ms is not None:
            fields["durationMs"] = source.message.duration_ms
        return fields

    def _tool_name(self, source: SimpleMessage) -> str:
        call = self._calls.get(source.result.tool_use_id) if source.result else None
        return source.message.tool_name or (call[1].name if call else "unknown")

    # -- runs of tools

    def _add_runs(self, entries: Sequence[Entry]) -> None:
        recorded: dict[str, list[ToolExecutionEntry]] = {}
        for entry in entries:
            if isinstance(entry, ToolExecutionEntry):
                recorded.setdefault(entry.tool_execution.tool_call_id, []).append(entry)
        calls = [(each, each.result.tool_use_id) for each in self.sources if each.result and each.result.tool_use_id]
        own = {source.id: recorded[call].pop() for source, call in reversed(calls) if recorded.get(call)}
        for source, _ in calls:
            if source.id in own:
                self._add_run(own[source.id].id, own[source.id].timestamp, own[source.id].tool_execution, source)
            else:
                self._add_run(_derived_run_id(source.id), source.time, self._derived_run(source), source)
        for each in (each for left in recorded.values() for each in left):
            self._add_run(each.id, each.timestamp, each.tool_execution)

    def _derived_run(self, source: SimpleMessage) -> ToolExecution:
        """Return the record of a run, derived from its call and its result."""
        result = source.result
        if result is None:
            raise TypeError("the message is not a tool result")
        caller = self._answered[source.id]
        duration_ms = source.message.duration_ms
        if duration_ms is None and caller is not None:
            duration_ms = max(0.0, (source.time - caller[0].time).total_seconds() * 1000)
        error = result.text if result.is_error else None
        return ToolExecution(
            result.tool_use_id,
            self._tool_name(source),
            success=not result.is_error,
            error=error,
            duration_ms=duration_ms,
        )

    def _add_run(self, run_id: str, time: datetime, record: ToolExecution, answer: SimpleMessage | None = None) -> None:
        caller = self._answered[answer.id] if answer is not None else self._calls.get(record.tool_call_id)
        result: Object = {"success": record.success, "content": answer.text if answer else ""}
        if record.error is not None:
            result["error"] = record.error
        if record.exit_code is not None:
            result["exitCode"] = record.exit_code
        tokens = record.tokens
        if tokens is None:
            tokens = self._count(answer.message) if answer else 0
        self.runs.append(
            {
                "id": run_id,
                "seq": len(self.runs) + 1,
                "timestamp": iso(time),
                "messageId": caller[0].id if caller else record.message_id or "",
                "toolCallId": record.tool_call_id,
                "tool": record.tool_name,
                "arguments": as_object(record.arguments) or (dict(caller[1].input) if caller else {}),
                "result": result,
                "tokens": tokens,
                "durationMs": record.duration_ms or 0,
            }
        )

    # -- summaries

    def _add_summaries(self, entries: Sequence[Entry]) -> None:
        before: dict[str, int] = {}
        position = 0
        for entry in entries:
            before[entry.id or ""] = position
            while position < len(self.sources) and self.sources[position].entry_id == entry.id:
                position += 1
            if isinstance(entry, CompactionEntry) and entry.compaction.summary:
                self._add_compaction(entry, before.get(entry.compaction.first_kept_entry_id or "", position))
            elif isinstance(entry, CustomEntry) and entry.custom.custom_type == SUMMARY_TYPE:
                self._add_stored(entry)

    def _add_compaction(self, entry: CompactionEntry, kept: int) -> None:
        if not kept:  # it summarizes none of the messages on this path, and hides what an earlier one summarizes
            self.context = {}
            return
        summary = entry.compaction.summary
        tokens = self._count(Message("system", (text(summary),)))
        key = sha256(f"{self.sources[0].id}\n{self.sources[kept - 1].id}".encode()).hexdigest()[:16]
        summary_fields: Object = {"content": summary, "tokens": tokens, "model": ""}
        self._add_summary(key, entry.id, entry.timestamp, (0, kept - 1), summary_fields, self._totals[kept])
        self.context = {"lastSummaryAt": iso(entry.timestamp), "summaryMessageId": self.sources[kept - 1].id}

    def _add_stored(self, entry: CustomEntry) -> None:
        stored = as_object(entry.custom.data)
        places = {source.entry_id: place for place, source in enumerate(self.sources)}
        start, end = places.get(as_text(stored.get("start_id"))), places.get(as_text(stored.get("end_id")))
        key = as_text(stored.get("key"))
        if start is None or end is None or not key or "/" in key:
            return  # it covers messages that are not on this path
        summary_fields: Object = {
            "content": as_text(stored.get("content")),
            "tokens": as_count(stored.get("tokens")),
            "model": as_text(stored.get("summarizer")),
        }
        original = as_count(stored.get("original_tokens"))
        self._add_summary(key, entry.id, entry.timestamp, (start, end), summary_fields, original)

    def _add_summary(
        self, key: str, summary_id: str, time: datetime, limits: tuple[int, int], summary_fields: Object, original: int
    ) -> None:
        start, end = limits
        tokens = as_number(summary_fields["tokens"]) or 0
        self.summaries[key] = {
            "id": summary_id,
            "createdAt": iso(time),
            "range": {
                "startMessageId": self.sources[start].id,
                "endMessageId": self.sources[end].id,
                "startSeq": start + 1,
                "endSeq": end + 1,
                "messageCount": end - start + 1,
            },
            "summary": summary_fields,
            "originalTokens": original,
            "compressionRatio": tokens / original if original else 0.0,
        }

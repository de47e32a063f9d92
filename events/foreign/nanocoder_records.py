"""nanocoder's folder of one session: the lines and summaries that a path becomes, as values.

Tokens are counted message by message; the running total of a message is that of the message above it and its own count.
A tool's run that has no record of its own is told from its call and its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TypeAlias

from ..content import ToolUse, text
from ..entries import CompactionEntry, CustomEntry, Entry, Message, ToolExecution, ToolExecutionEntry
from .chain import derived_id
from .nanocoder_lines import SUMMARY_TYPE
from .spoken import Said, spoken
from .values import Object, as_count, as_number, as_object, as_text, iso

Counter: TypeAlias = Callable[[Message], int]
"""Says how many tokens a message takes."""


def untold_run(answer_id: str) -> str:
    """Return the id of a run that only its result tells of, by the id of that message."""
    return derived_id("nanocoder", "run", answer_id)


class Records:
    """What a path becomes.

    Attributes:
        said: The messages, in order.
        messages: Their lines.
        runs: The lines of the runs of tools.
        summaries: The summaries, by the hash of their range.
        context: Which summary is in force; empty where none is.
    """

    def __init__(self, entries: Sequence[Entry], count: Counter) -> None:
        self._count = count
        self.said = list(spoken(entries))
        self.messages: list[Object] = []
        self.runs: list[Object] = []
        self.summaries: dict[str, Object] = {}
        self.context: Object = {}
        self._totals = [0]
        self._calls: dict[str, tuple[Said, ToolUse]] = {}
        self._answers: dict[str, Said] = {}
        for said in self.said:
            self._add_message(said)
        self._add_runs(entries)
        self._add_summaries(entries)

    @property
    def tokens(self) -> int:
        """How many tokens all messages take."""
        return self._totals[-1]

    # -- messages

    def _add_message(self, said: Said) -> None:
        count = self._count(said.message)
        self._totals.append(self._totals[-1] + count)
        line: Object = {
            "id": said.id,
            "seq": len(self.messages) + 1,
            "parentId": as_text(self.messages[-1]["id"]) if self.messages else None,
            "timestamp": iso(said.time),
            "role": said.role,
            "content": said.text,
            "tokens": {"count": count, "cumulative": self._totals[-1]},
        }
        if said.result is not None:
            call_id = said.result.tool_use_id
            line["tool"] = {"callId": call_id, "name": self._tool_name(said)}
            self._answers[call_id] = said
        elif said.role == "assistant":
            line["assistant"] = self._answered(said)
        self.messages.append(line)

    def _answered(self, said: Said) -> Object:
        told: Object = {"model": said.message.model or ""}
        if said.calls:
            told["toolCalls"] = [
                {"id": call.id, "name": call.name, "arguments": bytes(call.raw_input).decode()} for call in said.calls
            ]
            self._calls.update((call.id, (said, call)) for call in said.calls)
        if said.message.stop_reason is not None:
            told["finishReason"] = said.message.stop_reason
        if said.message.duration_ms is not None:
            told["durationMs"] = said.message.duration_ms
        return told

    def _tool_name(self, said: Said) -> str:
        call = self._calls.get(said.result.tool_use_id) if said.result else None
        return said.message.tool_name or (call[1].name if call else "unknown")

    # -- runs of tools

    def _add_runs(self, entries: Sequence[Entry]) -> None:
        recorded = {
            entry.tool_execution.tool_call_id: entry for entry in entries if isinstance(entry, ToolExecutionEntry)
        }
        for said in self.said:
            call_id = said.result.tool_use_id if said.result else ""
            if call_id and call_id not in recorded:
                run_id = untold_run(said.id)
                self._add_run(run_id, said.time, self._told(said))
            elif call_id and self._answers[call_id] is said:
                entry = recorded.pop(call_id)
                self._add_run(entry.id, entry.timestamp, entry.tool_execution)
        for entry in recorded.values():
            self._add_run(entry.id, entry.timestamp, entry.tool_execution)

    def _told(self, said: Said) -> ToolExecution:
        """Return the record of a run of which only the call and the result are known."""
        result = said.result
        if result is None:
            raise TypeError("only a result tells of a run")
        caller = self._calls.get(result.tool_use_id)
        took = said.message.duration_ms
        if took is None and caller is not None:
            took = max(0.0, (said.time - caller[0].time).total_seconds() * 1000)
        error = result.text if result.is_error else None
        return ToolExecution(
            result.tool_use_id, self._tool_name(said), success=not result.is_error, error=error, duration_ms=took
        )

    def _add_run(self, run_id: str, time: datetime, record: ToolExecution) -> None:
        caller, answer = self._calls.get(record.tool_call_id), self._answers.get(record.tool_call_id)
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
            while position < len(self.said) and self.said[position].entry_id == entry.id:
                position += 1
            if isinstance(entry, CompactionEntry) and entry.compaction.summary:
                self._add_compaction(entry, before.get(entry.compaction.first_kept_entry_id or "", position))
            elif isinstance(entry, CustomEntry) and entry.custom.custom_type == SUMMARY_TYPE:
                self._add_stored(entry)

    def _add_compaction(self, entry: CompactionEntry, kept: int) -> None:
        if not kept:
            return  # it stands for no message that is here
        summary = entry.compaction.summary
        tokens = self._count(Message("system", (text(summary),)))
        key = sha256(f"{self.said[0].id}\n{self.said[kept - 1].id}".encode()).hexdigest()[:16]
        told: Object = {"content": summary, "tokens": tokens, "model": ""}
        self._add_summary(key, entry.id, entry.timestamp, (0, kept - 1), told, self._totals[kept])
        self.context = {"lastSummaryAt": iso(entry.timestamp), "summaryMessageId": self.said[kept - 1].id}

    def _add_stored(self, entry: CustomEntry) -> None:
        stored = as_object(entry.custom.data)
        places = {said.entry_id: place for place, said in enumerate(self.said)}
        start, end = places.get(as_text(stored.get("start_id"))), places.get(as_text(stored.get("end_id")))
        key = as_text(stored.get("key"))
        if start is None or end is None or not key or "/" in key:
            return  # it is of messages that are not on this path
        told: Object = {
            "content": as_text(stored.get("content")),
            "tokens": as_count(stored.get("tokens")),
            "model": as_text(stored.get("summarizer")),
        }
        original = as_count(stored.get("original_tokens"))
        self._add_summary(key, entry.id, entry.timestamp, (start, end), told, original)

    def _add_summary(
        self, key: str, summary_id: str, time: datetime, limits: tuple[int, int], told: Object, original: int
    ) -> None:
        start, end = limits
        tokens = as_number(told["tokens"]) or 0
        self.summaries[key] = {
            "id": summary_id,
            "createdAt": iso(time),
            "range": {
                "startMessageId": self.said[start].id,
                "endMessageId": self.said[end].id,
                "startSeq": start + 1,
                "endSeq": end + 1,
                "messageCount": end - start + 1,
            },
            "summary": told,
            "originalTokens": original,
            "compressionRatio": tokens / original if original else 0.0,
        }

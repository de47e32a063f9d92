"""Kimi Code: one pass through the records of an agent.

A step is one request of the model: its answer, and the results of its calls. It is yielded when it ends, when something
else begins, or at the end of the file, where it may still be going on. Its usage is recorded before its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct, field

from ...events.content import Content, ImagePart, TextPart, Thinking, ThinkingPart, ToolUse, ToolUsePart, text
from ...events.content import tool_result as result_part
from ...events.entries import (
    Compaction,
    Custom,
    Header,
    KnownEntry,
    Message,
    ModelChange,
    Payload,
    ThinkingLevel,
    Usage,
    UsageRecord,
)
from ...events.json_values import JSON
from ...events.providers.common import image_at
from ..chain import Chain, Names
from ..json_lines import Line, Notes, carries_text, names_in
from ..messages import read_call
from ..values import (
    Object,
    as_arguments,
    as_count,
    as_items,
    as_number,
    as_object,
    as_text,
    as_time,
    as_words,
    kept_json,
)

NAME = "kimi"
_MESSAGE_FIELDS = names_in("content id isError name origin role toolCallId toolCalls")
_PART_FIELDS = names_in("encrypted imageUrl text think type")
_RECORD_FIELDS = names_in("agentId event message time type")
_EVENT_FIELDS = names_in(
    "args description display extras finishReason messageId name parentUuid part providerFinishReason rawFinishReason",
    "result step stepUuid toolCallId turnId type usage uuid",
)
_RESULT_FIELDS = names_in("durationMs isError output")
_COMPACTION_FIELDS = names_in(
    "agentId compactedCount contextSummary keptUserMessageCount summary summaryOutputTokens time tokensAfter",
    "tokensBefore type wireLines",
)
_ROLES = names_in("assistant system tool user")
_PERSON = "user"
_FOR_AGENT = "subagent"  # the prompt that another agent wrote

_BOOKKEEPING = names_in(
    "agent.message.appended agent.switched context.undone llm.tools_snapshot metadata profile.bind subagent.completed",
    "subagent.failed subagent.spawned subagent.started tools.update_store",
)
"""Records that repeat what others say, and the program's own instructions."""

_BOOKKEEPING_OF = ("permission.", "prompt.", "token_counting.")


class _Step(Struct):
    """A request of the model."""

    id: str
    time: datetime | None
    parts: list[Content] = field(default_factory=list[Content])
    results: list[tuple[Message, str, datetime | None]] = field(
        default_factory=list[tuple[Message, str, datetime | None]]
    )
    usage: Usage | None = None


class Wire:
    """Reader of the records of one agent.

    Args:
        header: The header of its session.
        notes: Collects what is left out.
    """

    def __init__(self, header: Header, notes: Notes) -> None:
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._notes = notes
        self._names = Names()
        self._step: _Step | None = None
        self._provider, self._model, self._level = "", "", ""
        self._turns: list[str | None] = []  # the leaf before each prompt
        self._asked: dict[str, Object] = {}  # the prompts that no message repeats so far, by their words

    def entries(self, lines: Iterable[Line]) -> Iterator[KnownEntry]:
        """Yield the entries that the records become."""
        for line in lines:
            record, kind = line.value, as_text(line.value.get("type"))
            time = as_time(record.get("time"))
            if not kind:
                self._notes.leave_out("line that is no record", record, line=line.number, byte=line.byte)
            elif kind == "context.append_loop_event":
                self._notes.check_fields("record", record, _RECORD_FIELDS, line=line.number, byte=line.byte)
                yield from self._loop(as_object(record.get("event")), time)
            elif kind == "usage.record" and self._step is not None:
                self._step.usage = _usage(record)
            else:
                yield from self._record(kind, record, time)
        yield from self._end_step()
        for each in self._asked.values():
            self._notes.leave_out("prompt that was not sent so far", each)
        self._notes.close()

    def _record(self, kind: str, record: Object, time: datetime | None) -> Iterator[KnownEntry]:
        match kind:
            case "context.append_message":
                yield from self._end_step()
                self._notes.check_fields("record", record, _RECORD_FIELDS)
                yield from self._message(as_object(record.get("message")), time)
            case "turn.prompt" | "turn.steer":
                self._asked[_said_in(record.get("input"))] = record
                self._notes.skip(kind)
            case "llm.request":
                yield from self._settings(record, time)
            case "usage.record":
                scope, model = as_text(record.get("usageScope")) or "response", self._model or None
                yield self._add(UsageRecord(scope, _usage(record), self._provider or None, model), "", time)
            case "context.apply_compaction":
                yield from self._end_step()
                self._notes.check_fields("compaction", record, _COMPACTION_FIELDS)
                summary = as_words(record.get("summary"))
                yield self._add(Compaction(summary, None, as_count(record.get("tokensBefore"))), "", time)
            case "context.clear":
                yield from self._end_step()
                yield self._add(Compaction("", None, 0), "", time)
            case "context.undo":
                yield from self._end_step()
                count = min(as_count(record.get("count")), len(self._turns))
                if count:
                    self._chain.leaf = self._turns[-count]
                    del self._turns[-count:]
                yield self._add(Custom(f"{NAME}.undo", kept_json({"count": count})), "", time)
            case _:
                if kind in _BOOKKEEPING or kind.startswith(_BOOKKEEPING_OF) or not carries_text(record):
                    self._notes.skip(kind)
                else:
                    self._notes.leave_out(f"record of kind {kind}", record)

    def _add(self, payload: Payload, id: str, time: datetime | None) -> KnownEntry:
        return self._chain.add(self._names.named(payload), id=id, time=time)

    def _settings(self, request: Object, time: datetime | None) -> Iterator[KnownEntry]:
        """Yield the model and the thinking level of a request where they change."""
        provider, model = as_text(request.get("provider")), as_text(request.get("model"))
        if provider and model and (provider, model) != (self._provider, self._model):
            self._provider, self._model = provider, model
            yield self._add(ModelChange(provider, model), "", time)
        level = as_text(request.get("thinkingEffort"))
        if level and level != self._level:
            self._level = level
            yield self._add(ThinkingLevel(level), "", time)

    # -- messages

    def _message(self, message: Object, time: datetime | None) -> Iterator[KnownEntry]:
        self._notes.check_fields("message", message, _MESSAGE_FIELDS)
        role, origin = as_text(message.get("role")), as_object(message.get("origin"))
        if role not in _ROLES:
            self._notes.leave_out("message of an unknown role", message)
            return
        self._asked.pop(_said_in(message.get("content")), None)
        parts = self._parts(message.get("content"))
        if role == "tool":
            call = as_text(message.get("toolCallId"))
            body = [part for part in parts if isinstance(part, (TextPart, ImagePart))]
            parts = list[Content]([result_part(call, body, is_error=message.get("isError") is True)])
        for each in as_items(message.get("toolCalls")):
            if (tool_call := read_call(as_object(each))) is not None:
                parts.append(tool_call)
            else:
                self._notes.leave_out("call without a name", each)
        is_prompt = not origin or origin.get("kind") == _PERSON or origin.get("name") == _FOR_AGENT
        if role == "user" and is_prompt:
            self._turns.append(self._chain.leaf)
        marks: Object = {"is_meta": True} if role == "user" and not is_prompt else {}
        raw = kept_json(marks) if marks else None
        yield self._add(Message(role, tuple(parts), raw_metadata=raw), as_text(message.get("id")), time)

    def _parts(self, content: JSON) -> list[Content]:
        found: list[Content] = []
        for each in as_items(content):
            part: Object = {"type": "text", "text": each} if isinstance(each, str) else as_object(each)
            read = _part(part)
            if read is None:
                self._notes.leave_out(f"part of kind {as_text(part.get('type')) or 'unknown'}", each)
            else:
                found.append(read)
                self._notes.check_fields("part", part, _PART_FIELDS)
        return found

    # -- steps

    def _loop(self, event: Object, time: datetime | None) -> Iterator[KnownEntry]:
        kind = as_text(event.get("type"))
        step_id = as_text(event.get("uuid" if kind in ("step.begin", "step.end") else "stepUuid"))
        if kind == "step.begin":
            yield from self._end_step()
            self._step = _Step(step_id, time)
            return
        if kind in ("content.part", "tool.call", "tool.result"):
            if self._step is None or (step_id and step_id != self._step.id):  # its beginning is missing
                yield from self._end_step()
                self._step = _Step(step_id, time)
            self._take(kind, event, self._step, time)
        elif kind == "step.end":
            self._notes.check_fields("event", event, _EVENT_FIELDS)
            yield from self._end_step()
        elif carries_text(event):
            self._notes.leave_out(f"event of kind {kind or 'unknown'}", event)
        else:
            self._notes.skip(f"event {kind}")

    def _take(self, kind: str, event: Object, step: _Step, time: datetime | None) -> None:
        """Add a part, a call or a result to a step."""
        self._notes.check_fields("event", event, _EVENT_FIELDS)
        if kind == "content.part":
            step.parts += self._parts([event.get("part")])
        elif kind == "tool.call":
            name = as_text(event.get("name")) or "unknown"
            call = ToolUse(as_text(event.get("toolCallId")), name, as_arguments(event.get("args")))
            step.parts.append(ToolUsePart(call))
        else:
            result = event.get("result")
            fields = as_object(result)
            self._notes.check_fields("result", fields, _RESULT_FIELDS)
            output = fields.get("output") if isinstance(result, dict) else result
            shown = [part for part in self._parts(output) if isinstance(part, (TextPart, ImagePart))]
            body = as_words(output) if not isinstance(output, list) else shown
            call_id, is_error = as_text(event.get("toolCallId")), fields.get("isError") is True
            message = Message(
                "tool",
                (result_part(call_id, body, is_error=is_error),),
                duration_ms=as_number(fields.get("durationMs")),
            )
            step.results.append((message, as_text(event.get("parentUuid")), time))

    def _end_step(self) -> Iterator[KnownEntry]:
        """Yield the entries of the current step."""
        step, self._step = self._step, None
        if step is None:
            return
        if step.parts:
            model, provider = self._model or None, self._provider or None
            answer = Message("assistant", tuple(step.parts), model=model, provider=provider, usage=step.usage)
            yield self._add(answer, step.id, step.time)
        for result, result_id, time in step.results:
            yield self._add(result, result_id, time)


def _part(part: Object) -> Content | None:
    match part.get("type"):
        case "text":
            return text(as_words(part.get("text")))
        case "think":
            return ThinkingPart(Thinking(as_words(part.get("think")), as_text(part.get("encrypted")) or None))
        case "image_url":
            address = as_text(as_object(part.get("imageUrl")).get("url"))
            return image_at(address) if address else None
        case _:
            return None


def _said_in(content: JSON) -> str:
    return "\n".join(as_words(as_object(each).get("text")) for each in as_items(content))


def _usage(record: Object) -> Usage:
    usage = as_object(record.get("usage"))
    names = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
    sent, answered, cached, written = (as_count(usage.get(name)) for name in names)
    return Usage(sent, answered, cached, written, sent + answered + cached + written)

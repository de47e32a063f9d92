"""GitHub Copilot CLI: one pass through the events of a session, or of one of its sub-agents.

The usage of a request comes before the answer, under the id of the request. An answer may come in several messages; the
first has the usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec.structs import replace

from ...events.content import ToolUse, ToolUsePart, text
from ...events.entries import (
    Compaction,
    Custom,
    Header,
    KnownEntry,
    Message,
    ModelChange,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ToolExecution,
    Usage,
    UsageRecord,
)
from ..chain import Chain, Names
from ..json_lines import Line, Notes, carries_text, names_in
from ..values import Object, as_count, as_object, as_text, as_time, as_words, kept_json
from .parts import PROVIDER, exit_code, read_answer, read_result, read_shell, read_usage, read_user

NAME = "copilot"
ENVELOPE = names_in("agentId data ephemeral id parentId timestamp type")

_BOOKKEEPING = names_in(
    "abort assistant.turn_end assistant.turn_start session.compaction_start session.context_changed session.info",
    "session.mode_changed session.plan_changed session.shutdown session.task_complete session.truncation",
    "session.usage_checkpoint session.warning session.workspace_file_changed subagent.completed subagent.configured",
    "subagent.failed subagent.started system.message tool.execution_start tool.user_requested",
)
"""Events that repeat what others say, or say it only to people, and the program's own instructions."""

_BOOKKEEPING_OF = ("hook.", "permission.", "session.schedule_")
_COMPACTION_FIELDS = names_in(
    "behaviorModelId checkpointNumber checkpointPath compactionAttemptId compactionTokensUsed conversationTokens",
    "customInstructions error failureReason initialModel messagesRemoved model outcome outcomeReason",
    "postCompactionTokens preCompactionMessagesLength preCompactionTokens requestId responsesReasoning",
    "serviceRequestId statusCode success summaryContent switchTargetModel systemTokens targetPromptTokenLimit",
    "tokenAccountingBasis tokenLimit tokensRemoved toolDefinitionsTokens trigger",
)
_CONVERSATION = "conversation-"
_FIELDS = {
    "assistant.reasoning": frozenset({"content", "reasoningId"}),
    "session.error": frozenset({"errorCode", "errorType", "message", "providerCallId", "stack", "statusCode", "url"}),
    "system.notification": frozenset({"content", "kind"}),
    "tool.execution_complete": frozenset({"error", "result", "toolDescription", "toolTelemetry"}),
}
"""The fields with words that are read, or only repeat others, of events that are read in one place."""


class Events:
    """Reader of the events of one session.

    Args:
        header: The session's header.
        notes: Collects what is left out.
    """

    def __init__(self, header: Header, notes: Notes) -> None:
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._notes = notes
        self._names = Names()
        self._places: dict[str, str | None] = {}  # the leaf after each event
        self._assets: dict[str, Object] = {}
        self._usages: dict[str, Usage] = {}
        self._calls: dict[str, ToolUse] = {}
        self._requested: dict[str, Object] = {}
        self._model, self._level, self._thought = "", "", ""
        self._is_compacting = False
        self._first_kept: str | None = None

    def entries(self, lines: Iterable[Line], name: str) -> Iterator[KnownEntry]:
        """Yield the entries that events become, and the name that the user gave the session."""
        for line in lines:
            event, data = line.value, line.value.get("data")
            self._notes.check_fields("event", event, ENVELOPE, line=line.number, byte=line.byte)
            kind, event_id, parent = (as_text(event.get(each)) for each in ("type", "id", "parentId"))
            if not kind or not isinstance(data, dict):
                self._notes.leave_out("line that is no event", event, line=line.number, byte=line.byte)
                continue
            if parent in self._places:
                self._chain.leaf = self._places[parent]
            for payload in self._payloads(kind, data):
                yield self._add(payload, event_id, as_time(event.get("timestamp")))
            self._places[event_id] = self._chain.leaf
        if name:
            yield self._chain.describe(SessionInfo(name=name))
        for _ in self._usages:
            self._notes.skip("usage of a request without an answer so far")
        for each in self._requested.values():
            self._notes.leave_out("command of the user without its result so far", each)
        self._leave_thought()
        self._notes.close()

    def _add(self, payload: Payload, event_id: str, time: datetime | None) -> KnownEntry:
        """Add an entry: what an event stands for has its id, and what else it tells has a derived one."""
        if isinstance(payload, Message):
            payload = self._names.named(payload)
            for part in payload.content:
                if isinstance(part, ToolUsePart):
                    self._calls[part.tool_use.id] = part.tool_use
        is_main = isinstance(payload, (Message, Compaction, UsageRecord))
        entry = self._chain.add(payload, id=event_id if is_main else "", time=time)
        if self._is_compacting and isinstance(payload, Message):
            self._first_kept = self._first_kept or entry.id
        return entry

    def _payloads(self, kind: str, data: Object) -> Iterator[Payload]:
        self._notes.check_fields(kind, data, _FIELDS.get(kind, data.keys()))
        match kind:
            case "user.message":
                self._leave_thought()
                yield read_user(data, self._assets, self._notes)
            case "assistant.message":
                answer, self._thought = read_answer(data, self._thought, self._notes), ""
                if answer is None:
                    self._notes.skip("assistant.message, empty")
                    return
                yield from self._settings(data.get("model"), None)
                usage = self._usages.pop(as_text(data.get("apiCallId")), None)
                yield replace(answer, usage=usage)
            case "assistant.reasoning":
                self._thought = "\n\n".join(filter(None, (self._thought, as_words(data.get("content")))))
            case "tool.user_requested":
                self._requested[as_text(data.get("toolCallId"))] = data
            case "tool.execution_complete":
                yield from self._result(data)
            case "session.usage_record":
                yield from self._usage(as_object(data.get("usage")))
            case "session.start" | "session.resume":
                yield from self._settings(data.get("selectedModel"), data.get("reasoningEffort"))
            case "session.model_change":
                yield from self._settings(data.get("newModel"), data.get("reasoningEffort"))
            case "session.binary_asset":
                self._assets[as_text(data.get("assetId"))] = data
            case "session.error":
                error = as_words(data.get("message")) or as_text(data.get("errorType"))
                model = self._model or None
                yield Message("assistant", model=model, provider=PROVIDER, stop_reason="error", error=error)
            case "system.notification" | "skill.context_delivered":
                words = text(as_words(data.get("content")))
                yield Message("user", (words,), raw_metadata=kept_json({"is_meta": True}))
            case "skill.invoked":
                yield Custom(f"{NAME}.{kind}", kept_json(data))
            case "session.compaction_complete":
                yield from self._compaction(data)
            case "session.context_cleared":
                self._notes.check_fields(kind, data, frozenset({"messagesCleared"}))
                yield Compaction("", None, 0)
            case _:
                self._skip(kind, data)

    def _leave_thought(self) -> None:
        if self._thought:
            self._notes.leave_out("thinking without an answer", self._thought)
        self._thought = ""

    def _skip(self, kind: str, data: Object) -> None:
        if kind == "session.compaction_start":
            self._is_compacting, self._first_kept = True, None
        if kind in _BOOKKEEPING or kind.startswith(_BOOKKEEPING_OF) or not carries_text(data):
            self._notes.skip(kind)
        else:
            self._notes.leave_out(f"event of kind {kind}", data)

    def _settings(self, model: object, level: object) -> Iterator[Payload]:
        if isinstance(model, str) and model and model != self._model:
            self._model = model
            yield ModelChange(PROVIDER, model)
        if isinstance(level, str) and level and level != self._level:
            self._level = level
            yield ThinkingLevel(level)

    def _result(self, data: Object) -> Iterator[Payload]:
        call_id, code = as_text(data.get("toolCallId")), exit_code(data)
        requested = self._requested.pop(call_id, None)
        if requested is not None:
            yield read_shell(requested, data, self._notes)
            return
        yield read_result(data, self._notes)
        call = self._calls.get(call_id)
        if call is not None and call_id and code is not None:
            success = data.get("success") is not False and code == 0
            yield ToolExecution(call_id, call.name, call.raw_input, success, exit_code=code)

    def _usage(self, usage: Object) -> Iterator[Payload]:
        request = as_text(usage.get("apiCallId"))
        if request and as_text(usage.get("interactionType")).startswith(_CONVERSATION):
            self._usages[request] = read_usage(usage)
            return
        kind = as_text(usage.get("interactionType")) or "response"
        yield UsageRecord(kind, read_usage(usage), PROVIDER, as_text(usage.get("model")) or None)

    def _compaction(self, data: Object) -> Iterator[Payload]:
        """Yield the compaction: nothing of the history before its start is kept."""
        self._notes.check_fields("compaction", data, _COMPACTION_FIELDS)
        self._is_compacting = False
        if data.get("success") is not True:
            self._notes.skip("session.compaction_complete, failed")
            return
        spent = as_object(data.get("compactionTokensUsed"))
        summary, before = as_words(data.get("summaryContent")), as_count(data.get("preCompactionTokens"))
        yield Compaction(summary, self._first_kept, before, usage=read_usage(spent) if spent else None)

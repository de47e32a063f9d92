"""Codex: one pass through the lines of a rollout.

The model's output between two inputs, from tools or from the user, is collected in a step: an assistant message, the
results of its calls, and the records of their runs. A step is yielded when the next one begins; its usage is known by
then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from ...events.content import Content, ToolUse, ToolUsePart, plain_text, text
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
from ..json_lines import Line, Notes, carries_text, unheard
from ..messages import Preambles, marks_of, opened, tagged
from ..values import Object, as_count, as_object, as_objects, as_text, as_time, kept_json
from .items import (
    ASIDE,
    COMPACTED_FIELDS,
    ENVELOPE,
    EVENTS,
    ITEM_FIELDS,
    LINES,
    ROLES,
    SESSION_FIELDS,
    TURN_FIELDS,
    call_id,
    check_item,
    failure_of,
    from_agent,
    read_call,
    read_content,
    read_output,
    read_reasoning,
    read_usage,
    run_of,
    run_of_call,
)

_TAGS = (
    *("additional_context", "agent_message_board_notification", "environment_context", "goal_context", "hook_prompt"),
    *("internal_model_context", "recommended_plugins", "skill", "subagent_notification", "turn_aborted"),
    *("user_instructions", "user_shell_command"),
)
_PREAMBLES = Preambles(
    "|".join(
        (
            tagged(*_TAGS),
            r"# AGENTS\.md instructions[^\n]*\n+<INSTRUCTIONS>.*?</INSTRUCTIONS>",
            r"# Context from my IDE setup:.*?## My request for Codex:",
        )
    ),
    rf"{opened(*_TAGS)}|# AGENTS\.md ",
)
"""What messages with the role `user` hold or begin with that the user did not write."""

_REPEATED_BYTES = 4 * 20_000
"""How much of the prompts Codex repeats after a summary: 20,000 tokens, which it estimates at four bytes each."""


class Part(Struct, frozen=True):
    """One file of a session, which may continue from the middle of an earlier one.

    Attributes:
        lines: Its lines.
        notes: Collects what is left out of it.
        start: The position of that earlier file among the parts, and the byte offset in it; None if there is none.
        reference: What the file says about that place.
        time: When the file was begun.
    """

    lines: Iterable[Line]
    notes: Notes
    start: tuple[int, int] | None = None
    reference: Object = {}
    time: datetime | None = None


class _Turn(Struct, frozen=True):
    """A turn of the user: the parent of its entry, and its prompt."""

    parent_id: str | None
    prompt: str


class _ReaderState(Struct, frozen=True):
    """The state of the reader at a place in the history."""

    leaf: str | None
    turns: tuple[_Turn, ...]
    model: str
    level: str


class _Step(Struct):
    """A message of the model, and what followed from it."""

    id: str = ""
    time: datetime | None = None
    parts: list[Content] = field(default_factory=list[Content])
    following: list[tuple[Payload, str, datetime | None]] = field(
        default_factory=list[tuple[Payload, str, datetime | None]]
    )
    calls: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    runs: dict[str, tuple[ToolExecution, datetime | None]] = field(
        default_factory=dict[str, tuple[ToolExecution, datetime | None]]
    )
    unanswered: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    usage: Usage | None = None


class Rollout:
    """Reader of the lines of one rollout.

    Args:
        header: The session's header.
        provider: The provider of the model.
        notes: Collects what is left out of the last file.
    """

    def __init__(self, header: Header, provider: str, notes: Notes) -> None:
        self._chain = Chain("codex", header.id, header.timestamp)
        self._notes = notes
        self._names = Names()
        self._provider = provider
        self._model = ""
        self._level = ""
        self._step = _Step()
        self._turns: list[_Turn] = []
        self._last_total: int | None = None
        self._usage_first: bool | None = None
        self._context_tokens = 0
        self._has_header = False

    def entries(self, parts: Sequence[Part]) -> Iterator[KnownEntry]:
        """Yield the entries that the lines of a session's files become."""
        states: dict[tuple[int, int], _ReaderState] = {}
        for index, part in enumerate(parts):
            self._notes = part.notes
            state = None if part.start is None else states.get(part.start)
            if state is not None and state.leaf != self._chain.leaf:
                self._chain.leaf, self._turns = state.leaf, [*state.turns]
                self._model, self._level = state.model, state.level
                yield self._chain.add(Custom("codex.history_base", kept_json(part.reference)), time=part.time)
            ends = sorted({each.start[1] for each in parts if each.start is not None and each.start[0] == index})
            for passed, lines in _between(ends, part.lines):
                yield from self._lines(lines)
                if part is not parts[-1]:
                    self._step.runs.clear()
                    yield from self._end_step()
                    here = _ReaderState(self._chain.leaf, (*self._turns,), self._model, self._level)
                    states |= {(index, end): here for end in ends[passed:]}
        for _ in range(len(self._step.runs)):
            self._notes.skip("run whose output is not in the file")
        self._step.runs.clear()  # the output may still be written, and comes before the run
        yield from self._end_step()
        self._notes.close()

    def _lines(self, lines: Iterable[Line]) -> Iterator[KnownEntry]:
        last: Line | None = None
        for line in lines:
            if last is not None and "ordinal" in line.value and line.data == last.data:
                self._notes.at(line, "duplicate", "warning", "the line was written twice")
                continue
            last = line
            kind = as_text(line.value.get("type"))
            payload = line.value.get("payload")
            time = as_time(line.value.get("timestamp"))
            if isinstance(payload, dict):
                self._notes.check_fields("line", line.value, ENVELOPE, line=line.number, byte=line.byte)
                yield from self._line(kind, payload, time)
            else:
                yield from self._line("response_item" if kind else "session_meta", line.value, time)

    def _line(self, kind: str, payload: Object, time: datetime | None) -> Iterator[KnownEntry]:
        match kind:
            case "response_item":
                yield from self._item(payload, time)
            case "event_msg":
                yield from self._event(payload, time)
            case "turn_context":
                self._notes.check_fields("turn", payload, TURN_FIELDS)
                yield from self._note_settings(payload, time)
            case "compacted":
                yield from self._compacted(payload, time)
            case "session_meta" if not self._has_header:
                self._has_header = True
                self._notes.check_fields("session", payload, SESSION_FIELDS)
            case "inter_agent_communication":
                yield from self._add(from_agent(kind, payload, self._notes), payload, time)
            case "token_usage_record":
                yield from self._add_usage(as_object(payload.get("usage")), time)
            case _ if kind in LINES:
                self._notes.skip(kind)
            case _:
                self._notes.leave_out(f"line of kind {kind or 'unknown'}", payload)

    # -- steps

    def _end_step(self) -> Iterator[KnownEntry]:
        """Yield the entries of the current step, and begin a new one."""
        step, self._step = self._step, _Step()
        if step.parts:
            message = Message(
                "assistant",
                tuple(step.parts),
                model=self._model or None,
                provider=self._provider,  # even without a model: only its provider can read what it sealed
                usage=step.usage,
            )
            message = self._names.named(message)
            # The file may still grow by more parts and the usage, so the id is derived from the first part.
            yield self._chain.add(message, id=step.id, time=step.time, beginning=step.parts[0])
        for payload, entry_id, time in step.following:
            yield self._chain.add(self._names.named(payload), id=entry_id, time=time)
        for run, time in step.runs.values():
            yield self._chain.add(run, time=time)

    def _add_part(self, part: Content, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        """Add a part to the step, or to a new one if the step has results.

        A call that comes while other calls still lack their results was made in parallel with them.
        """
        if self._step.answered and not (isinstance(part, ToolUsePart) and self._step.unanswered):
            yield from self._end_step()
        step = self._step
        step.id = step.id or as_text(item.get("id"))
        step.time = step.time or time
        step.parts.append(part)
        if isinstance(part, ToolUsePart):
            step.calls[part.tool_use.id] = part.tool_use
            step.unanswered.add(part.tool_use.id)

    def _add(self, payload: Payload, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        """Add an entry that is not part of the conversation, after the message that the model is writing."""
        if self._step.parts:
            self._step.following.append((payload, as_text(item.get("id")), time))
        else:
            yield self._chain.add(payload, id=as_text(item.get("id")), time=time)

    # -- items

    def _item(self, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        kind = as_text(item.get("type"))
        check_item(kind, item, self._notes)
        call, result = read_call(item), read_output(item, self._notes)
        if call is not None:
            yield from self._add_part(call, item, time)
        elif result is not None:
            step = self._step
            step.answered.add(result.tool_result.tool_use_id)
            step.unanswered.discard(result.tool_result.tool_use_id)
            step.following.append((Message("tool", (result,)), as_text(item.get("id")), time))
            run = step.runs.pop(result.tool_result.tool_use_id, None)
            if run is not None:
                step.following.append((run[0], "", run[1]))
        elif kind == "message":
            yield from self._message(item, time)
        elif kind == "reasoning":
            yield from self._add_part(read_reasoning(item, self._notes), item, time)
        elif kind == "agent_message":
            yield from self._add(from_agent(kind, item, self._notes), item, time)
        elif kind == "ghost_snapshot":
            self._notes.skip(f"response_item {kind}")
        else:
            if kind not in ASIDE:
                self._notes.leave_out(f"item of kind {kind or 'unknown'}", item, kept=True)
            yield from self._add(Custom(f"codex.{kind or 'item'}", kept_json(item)), item, time)

    def _message(self, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        role = ROLES.get(as_text(item.get("role")))
        content = read_content(item.get("content"), self._notes)
        if role is None:
            self._notes.leave_out("message of an unknown role", item, kept=True)
            yield from self._add(Custom("codex.message", kept_json(item)), item, time)
        elif role == "assistant":
            for part in content:
                yield from self._add_part(part, item, time)
        else:
            yield from self._end_step()
            prompt = plain_text(content)
            original = Message(role, (*content,))
            message = original
            marks = marks_of(content, lambda _, part: _PREAMBLES.length(part.text.content)) if role == "user" else {}
            if marks:
                message = replace(original, raw_metadata=kept_json(marks))
            if role == "user" and "is_meta" not in marks:
                self._turns.append(_Turn(self._chain.leaf, prompt))
            yield self._chain.add(message, id=as_text(item.get("id")), time=time, beginning=original)

    # -- events

    def _event(self, event: Object, time: datetime | None) -> Iterator[KnownEntry]:
        kind = as_text(event.get("type"))
        if kind == "token_count" and isinstance(event.get("info"), dict):
            yield from self._add_usage(as_object(event["info"]), time)
        elif kind == "thread_name_updated":
            self._notes.check_strings("event", event, "thread_name")
            yield from self._add(SessionInfo(name=as_text(event.get("thread_name"))), {}, time)
        elif kind == "error":
            yield from self._add(failure_of(event, self._model, self._provider), {}, time)
        elif kind == "thread_rolled_back":
            yield from self._end_step()
            self._roll_back(as_count(event.get("num_turns")))
            yield self._chain.add(Custom("codex.thread_rolled_back", kept_json(event)), time=time)
        elif (run := run_of(kind, event)) is not None and call_id(run) in self._step.calls:
            self._add_run(run, time)
        elif kind in EVENTS or not carries_text(event):
            self._notes.skip(f"event_msg {kind}")
        else:
            self._notes.leave_out(f"event of kind {kind or 'unknown'}", event)

    def _add_usage(self, info: Object, time: datetime | None) -> Iterator[KnownEntry]:
        usage, total = read_usage(info)
        if total is not None and total == self._last_total:
            self._notes.skip("event_msg token_count, repeated")
            return
        self._last_total, self._context_tokens = total, usage.total_tokens
        if self._usage_first is None:
            # One version writes the usage before the message, which may not be in the file yet.
            self._usage_first = not self._step.parts
        if self._step.parts and self._step.usage is None and not self._usage_first:
            self._step.usage = usage
        else:
            model = self._model or None
            yield from self._add(UsageRecord("response", usage, self._provider if model else None, model), {}, time)

    def _roll_back(self, turns: int) -> None:
        """Roll back the last turns of the user: the next entry goes below the parent of the first of them."""
        if turns and self._turns:
            position = max(0, len(self._turns) - turns)
            self._chain.leaf = self._turns[position].parent_id
            del self._turns[position:]

    def _add_run(self, event: Object, time: datetime | None) -> None:
        """Keep the record of a tool's run until its result comes, or put it after the result if that came first."""
        call = self._step.calls[call_id(event)]
        run = run_of_call(call, event)
        if call.id in self._step.answered:
            self._step.following.append((run, "", time))
        else:
            self._step.runs[call.id] = (run, time)

    def _note_settings(self, context: Object, time: datetime | None) -> Iterator[KnownEntry]:
        model, level = as_text(context.get("model")), as_text(context.get("effort"))
        if (model and model != self._model) or (level and level != self._level):
            yield from self._end_step()
        if model and model != self._model:
            self._model = model
            yield self._chain.add(ModelChange(self._provider, model), time=time)
        if level and level != self._level:
            self._level = level
            yield self._chain.add(ThinkingLevel(level), time=time)

    # -- compactions

    def _compacted(self, compaction: Object, time: datetime | None) -> Iterator[KnownEntry]:
        yield from self._end_step()
        summary = as_text(compaction.get("message"))
        self._notes.check_fields("compacted", compaction, COMPACTED_FIELDS)
        self._notes.check_strings("compacted", compaction, "message")
        self._notes.check_items("item of an unknown form", compaction.get("replacement_history"))
        yield self._chain.add(Compaction(summary, None, self._context_tokens), time=time)
        if not isinstance(compaction.get("replacement_history"), list):
            for prompt in self._repeated_prompts():
                yield self._chain.add(Message("user", (text(prompt),)), time=time)
            return
        turns = len(self._turns)
        for item in as_objects(compaction["replacement_history"]):
            if not summary or read_content(item.get("content"), unheard()) != [text(summary)]:
                yield from self._item(item, time)
            else:  # the summary again
                self._notes.check_fields("message", item, ITEM_FIELDS)
                read_content(item.get("content"), self._notes)
        yield from self._end_step()
        del self._turns[turns:]  # the replacement history does not count as turns of the user

    def _repeated_prompts(self) -> list[str]:
        """Return the prompts that Codex repeats after a compaction for which it recorded no replacement history."""
        prompts: list[str] = []
        remaining = _REPEATED_BYTES
        for turn in reversed(self._turns):
            prompt = turn.prompt.encode()
            prompts.append(prompt[:remaining].decode(errors="ignore"))
            remaining -= len(prompt)
            if remaining <= 0:
                break
        return prompts[::-1]


def _between(places: Sequence[int], lines: Iterable[Line]) -> Iterator[tuple[int, Iterator[Line]]]:
    """Split lines at byte offsets; yield the lines between two of them, with the number of offsets before these."""
    return groupby(lines, lambda line: bisect_right(places, line.byte))

"""Codex: one pass through the lines of a rollout.

What the model says between two answers, of tools or of people, is gathered in a step: an assistant's message, the results
of its calls, and the records of their runs. A step is told when the next one begins, by which time its usage is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..content import Content, ToolUse, ToolUsePart, plain_text, text
from ..entries import (
    Compaction,
    Custom,
    CustomMessage,
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
from ..wording import counted
from .chain import Chain, Names
from .codex_items import ROLES, call_id, read_call, read_content, read_output, read_reasoning, read_usage
from .json_lines import Line, Notes
from .values import Object, as_count, as_number, as_object, as_objects, as_text, as_time, kept_json

_RUNS = frozenset({"exec_command_end", "mcp_tool_call_end", "patch_apply_end"})
_NOT_A_TURN = (
    "<environment_context>",
    "<user_instructions>",
    "<additional_context>",
    "<skill>",
    "<recommended_plugins>",
    "<subagent_notification>",
    "<agent_message_board_notification>",
    "<turn_aborted>",
    "<user_shell_command>",
    "# agents.md ",
)
"""How messages begin that stand in the user's place, and that the user did not write; in lower case."""

_OWN = Raw(b'{"is_meta":true}')
"""The metadata of such a message."""

_RETOLD_BYTES = 4 * 20_000
"""How much of the prompts Codex tells again behind a summary: 20,000 tokens, which it takes for four bytes each."""


class _Turn(Struct, frozen=True):
    """A turn of the user's: the entry that it hangs below, and what was asked."""

    above: str | None
    asked: str


class _Step(Struct):
    """What the model said, and what came of it."""

    id: str = ""
    time: datetime | None = None
    parts: list[Content] = field(default_factory=list[Content])
    after: list[tuple[Payload, str, datetime | None]] = field(
        default_factory=list[tuple[Payload, str, datetime | None]]
    )
    calls: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    runs: dict[str, tuple[ToolExecution, datetime | None]] = field(
        default_factory=dict[str, tuple[ToolExecution, datetime | None]]
    )
    waiting: set[str] = field(default_factory=set[str])
    answers: set[str] = field(default_factory=set[str])
    usage: Usage | None = None


class Rollout:
    """Reads the lines of one rollout.

    Args:
        header: The session.
        provider: Who answers.
        notes: Where to say what is left out.
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
        self._total: int | None = None
        self._ahead: bool | None = None
        self._size = 0
        self._left_out = Counter[str]()
        self._begun = False

    def entries(self, lines: Iterable[Line]) -> Iterator[KnownEntry]:
        """Yield what the lines say."""
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
                yield from self._line(kind, payload, time)
            else:
                yield from self._line("response_item" if kind else "session_meta", line.value, time)
        yield from self._told()
        for kind, count in sorted(self._left_out.items()):
            what = f"{counted(count, 'part')} of kind {kind} left out: there is no such part of a message here"
            self._notes.add("part_left_out", "warning", what)
        self._notes.close()

    def _line(self, kind: str, payload: Object, time: datetime | None) -> Iterator[KnownEntry]:
        match kind:
            case "response_item":
                yield from self._item(payload, time)
            case "event_msg":
                yield from self._event(payload, time)
            case "turn_context":
                yield from self._settings(payload, time)
            case "compacted":
                yield from self._compacted(payload, time)
            case "session_meta" if not self._begun:
                self._begun = True
            case "inter_agent_communication":
                yield from self._add(_from_agent(kind, payload, self._left_out), payload, time)
            case "token_usage_record":
                yield from self._used(as_object(payload.get("usage")), time)
            case _:
                self._notes.skip(kind)

    # -- steps

    def _told(self) -> Iterator[KnownEntry]:
        """Yield the step that is over."""
        step, self._step = self._step, _Step()
        if step.parts:
            message = Message(
                "assistant",
                tuple(step.parts),
                model=self._model or None,
                provider=self._provider if self._model else None,
                usage=step.usage,
            )
            # What it says may go on, and its usage may come: its id follows from how it begins.
            named = self._names.named(message)
            yield self._chain.add(named, id=step.id, time=step.time, beginning=step.parts[0])
        for payload, entry_id, time in step.after:
            yield self._chain.add(self._named(payload), id=entry_id, time=time)
        for run, time in step.runs.values():
            yield self._chain.add(run, time=time)

    def _named(self, payload: Payload) -> Payload:
        return self._names.named(payload) if isinstance(payload, Message) else payload

    def _say(self, part: Content, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        """Add a part to the step, or to a new one where the step was answered.

        A call that comes while others still wait for their results was made together with them.
        """
        if self._step.answers and not (isinstance(part, ToolUsePart) and self._step.waiting):
            yield from self._told()
        step = self._step
        step.id = step.id or as_text(item.get("id"))
        step.time = step.time or time
        step.parts.append(part)
        if isinstance(part, ToolUsePart):
            step.calls[part.tool_use.id] = part.tool_use
            step.waiting.add(part.tool_use.id)

    def _add(self, payload: Payload, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        """Add what is no part of the conversation, behind what the model is saying."""
        if self._step.parts:
            self._step.after.append((payload, as_text(item.get("id")), time))
        else:
            yield self._chain.add(payload, id=as_text(item.get("id")), time=time)

    # -- items

    def _item(self, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        kind = as_text(item.get("type"))
        call, result = read_call(item), read_output(item, self._left_out)
        if call is not None:
            yield from self._say(call, item, time)
        elif result is not None:
            step = self._step
            step.answers.add(result.tool_result.tool_use_id)
            step.waiting.discard(result.tool_result.tool_use_id)
            step.after.append((Message("tool", (result,)), as_text(item.get("id")), time))
            run = step.runs.pop(result.tool_result.tool_use_id, None)
            if run is not None:
                step.after.append((run[0], "", run[1]))
        elif kind == "message":
            yield from self._message(item, time)
        elif kind == "reasoning":
            yield from self._say(read_reasoning(item), item, time)
        elif kind == "agent_message":
            yield from self._add(_from_agent(kind, item, self._left_out), item, time)
        elif kind == "ghost_snapshot":
            self._notes.skip(f"response_item {kind}")
        else:
            yield from self._add(Custom(f"codex.{kind or 'item'}", kept_json(item)), item, time)

    def _message(self, item: Object, time: datetime | None) -> Iterator[KnownEntry]:
        role = ROLES.get(as_text(item.get("role")))
        content = read_content(item.get("content"), self._left_out)
        if role is None:
            yield from self._add(Custom("codex.message", kept_json(item)), item, time)
        elif role == "assistant":
            for part in content:
                yield from self._say(part, item, time)
        else:
            yield from self._told()
            asked = plain_text(content)
            message = Message(role, (*content,))
            told = message
            if role == "user" and asked.lstrip().lower().startswith(_NOT_A_TURN):
                told = replace(message, raw_metadata=_OWN)
            elif role == "user":
                self._turns.append(_Turn(self._chain.leaf, asked))
            yield self._chain.add(told, id=as_text(item.get("id")), time=time, beginning=message)

    # -- events

    def _event(self, event: Object, time: datetime | None) -> Iterator[KnownEntry]:
        kind = as_text(event.get("type"))
        if kind == "token_count" and isinstance(event.get("info"), dict):
            yield from self._used(as_object(event["info"]), time)
        elif kind == "thread_name_updated":
            yield from self._add(SessionInfo(name=as_text(event.get("thread_name"))), {}, time)
        elif kind == "thread_rolled_back":
            yield from self._told()
            self._go_back(as_count(event.get("num_turns")))
            yield self._chain.add(Custom("codex.thread_rolled_back", kept_json(event)), time=time)
        elif (ran := _run_of(kind, event)) is not None and call_id(ran) in self._step.calls:
            self._run(ran, time)
        else:
            self._notes.skip(f"event_msg {kind}")

    def _used(self, info: Object, time: datetime | None) -> Iterator[KnownEntry]:
        usage, total = read_usage(info)
        if total is not None and total == self._total:
            self._notes.skip("event_msg token_count, told before")
            return
        self._total, self._size = total, usage.total_tokens
        if self._ahead is None:  # one version tells the usage before what was said, which may not be in the file yet
            self._ahead = not self._step.parts
        if self._step.parts and self._step.usage is None and not self._ahead:
            self._step.usage = usage
        else:
            model = self._model or None
            yield from self._add(UsageRecord("response", usage, self._provider if model else None, model), {}, time)

    def _go_back(self, turns: int) -> None:
        """Go back to before the last turns of the user; the next entry hangs where the first of them hung."""
        if turns and self._turns:
            position = max(0, len(self._turns) - turns)
            self._chain.leaf = self._turns[position].above
            del self._turns[position:]

    def _run(self, event: Object, time: datetime | None) -> None:
        """Keep the record of a tool's run until its result comes, or put it behind the result that is there."""
        call = self._step.calls[call_id(event)]
        took, exit_code = as_object(event.get("duration")), as_number(event.get("exit_code"))
        failed = (
            exit_code not in (None, 0)
            or event.get("success") is False
            or event.get("status") == "failed"
            or "Err" in as_object(event.get("result"))
        )
        run = ToolExecution(
            call.id,
            call.name,
            call.raw_input,
            success=not failed,
            exit_code=None if exit_code is None else int(exit_code),
            duration_ms=as_count(took.get("secs")) * 1000 + as_count(took.get("nanos")) / 1e6 if took else None,
        )
        if call.id in self._step.answers:
            self._step.after.append((run, "", time))
        else:
            self._step.runs[call.id] = (run, time)

    def _settings(self, context: Object, time: datetime | None) -> Iterator[KnownEntry]:
        model, level = as_text(context.get("model")), as_text(context.get("effort"))
        if (model and model != self._model) or (level and level != self._level):
            yield from self._told()
        if model and model != self._model:
            self._model = model
            yield self._chain.add(ModelChange(self._provider, model), time=time)
        if level and level != self._level:
            self._level = level
            yield self._chain.add(ThinkingLevel(level), time=time)

    # -- compactions

    def _compacted(self, given: Object, time: datetime | None) -> Iterator[KnownEntry]:
        yield from self._told()
        summary = as_text(given.get("message"))
        yield self._chain.add(Compaction(summary, None, self._size), time=time)
        if not isinstance(given.get("replacement_history"), list):
            for asked in self._retold():
                yield self._chain.add(Message("user", (text(asked),)), time=time)
            return
        turns = len(self._turns)
        for item in as_objects(given["replacement_history"]):
            if not summary or read_content(item.get("content"), Counter()) != [text(summary)]:  # which is told already
                yield from self._item(item, time)
        yield from self._told()
        del self._turns[turns:]  # what was put in the place of the history is no turn of the user's

    def _retold(self) -> list[str]:
        """Return the prompts that Codex tells again where it did not write down what it put in the place of the history."""
        told: list[str] = []
        left = _RETOLD_BYTES
        for turn in reversed(self._turns):
            asked = turn.asked.encode()
            told.append(asked[:left].decode(errors="ignore"))
            left -= len(asked)
            if left <= 0:
                break
        return told[::-1]


def _run_of(kind: str, event: Object) -> Object | None:
    """Return what tells of a tool's run; None where an event is of something else."""
    if kind in _RUNS:
        return event
    item = as_object(event.get("item")) if kind == "item_completed" else {}
    return item if item.get("type") == "CommandExecution" else None


def _from_agent(kind: str, said: Object, left_out: Counter[str]) -> CustomMessage:
    """Make the message that another agent sent, whom its details name."""
    return CustomMessage(f"codex.{kind}", (*read_content(said.get("content"), left_out),), raw_details=kept_json(said))

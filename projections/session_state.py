"""The state of a session: what its agent is doing, since when, and what it said last, in one word and one line.

It follows from the path to the last entry that was not appended aside, by the first rule that holds:

    archived, or the status "done" with no message after it                            done
    calls are open that wait on purpose, or whose tool asks a person                   waits
    calls are open                                                                     working, with the first as `tool`
    the last result is an error, or the last answer failed                             error
    the last message is a user's, or a result                                          working
    otherwise: an answer without calls, a summary of a branch, nothing yet             idle

Moving the leaf writes nothing and changes no state. Only the entries from the last answer on are read for it: `needed`
names them, and `StateFold` folds them. Whether a host holds the session active is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..events.content import TextPart, ToolResultPart, ToolUse, ToolUsePart, plain_text
from ..events.entries import (
    BranchSummaryEntry,
    CustomEntry,
    Entry,
    Message,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
    ToolExecutionEntry,
)
from ..events.index import LogIndex
from ..events.json_values import UNDECODABLE, json_object
from ..events.kinds import Kind
from ..events.texts import preview

Word: TypeAlias = Literal["working", "waits", "error", "idle", "done"]
"""What a session is doing, in one word."""

SUSPENDED_TYPE = "treering.suspended"
"""The custom type of the entries that list the calls that wait for something outside."""

DONE = "done"
"""The status by which a program says that a session is finished."""

LINE_CHARS_MAX = 160
"""The greatest length of the line that was said last."""

ARGUMENT_CHARS_MAX = 80
"""The greatest length of the argument that is shown of a call."""

ASKING = frozenset(
    {
        *("askuser", "askuserquestion", "askquestion", "askfollowupquestion", "askhuman", "humaninput", "getuserinput"),
        *("requestapproval", "requestpermission", "requestuserinput", "askpermission", "exitplanmode"),
    }
)
"""The names of tools that ask a person, without case and punctuation."""

_TELLING: Final = (
    *("command", "cmd", "path", "file_path", "filePath", "filename", "file", "pattern", "query", "url", "question"),
    *("description", "prompt", "name", "text"),
)
_DECODED_MAX = 64 * 1024
_TAIL = 4096
_MESSAGES_MAX = 1024
_ASKED_MAX = 64  # so many messages without an answer say no more about the answer before them
_CUSTOM_MAX = 64
_WHOLE = frozenset({Kind.ASSISTANT, Kind.BRANCH_SUMMARY})
"""The kinds with which a state begins: nothing before them changes it."""
_READ = frozenset(
    {
        *(Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.OTHER_MESSAGE),
        *(Kind.BRANCH_SUMMARY, Kind.CUSTOM, Kind.SESSION_INFO, Kind.TOOL_EXECUTION),
    }
)


class CalledTool(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call of a tool: its id, the tool, and the argument that says most, on one line."""

    id: str
    name: str
    argument: str = ""


class SessionState(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What a session is doing.

    Attributes:
        state: The word; see the module's table.
        since: When this state began, or the call in it.
        entry: The entry that says so: for an error the one that failed. None in an empty session.
        tool: The first open call, or the one that failed.
        open: The number of open calls.
        line: The last line that anyone said, a tool included; "" if it has no words.
        tokens: The size of the context when the last answer was given, as the provider counted it; None if it did not.
        window: How many tokens the model accepts, if the session says so.
        error: What went wrong.
    """

    state: Word
    since: datetime
    entry: str | None = None
    tool: CalledTool | None = None
    open: int = 0
    line: str = ""
    tokens: int | None = None
    window: int | None = None
    error: str | None = None


class _Failure(Struct, frozen=True, gc=False):
    """A result or an answer that failed."""

    error: str
    tool: CalledTool | None


class StateFold:
    """The fold of the state over a path from its last answer on, entry by entry.

    Args:
        created: The time of a session without entries.

    Attributes:
        tip: The id of the last entry that was folded; None before the first.
    """

    __slots__ = (
        "_calls",
        "_decisive",
        "_failure",
        "_is_answered",
        "_is_archived",
        "_is_done",
        "_said",
        "_since",
        "_tokens",
        "_waiting",
        "tip",
    )

    def __init__(self, created: datetime) -> None:
        self._since = created
        self._calls: dict[str, CalledTool] = {}
        self._waiting: dict[str, str] = {}
        self._failure: _Failure | None = None
        self._is_archived = self._is_done = False
        self._is_answered = True
        self._said = ""  # its last line is looked for when a state is made: most words are followed by others before
        self._tokens: int | None = None
        self._decisive: str | None = None
        self.tip: str | None = None

    def state(self, index: LogIndex) -> SessionState:
        """Return the state, with what the index of the log knows."""
        info, calls = index.info, self._calls
        tool = next(iter(calls.values()), None)
        asking = next((call for call in calls.values() if call.id in self._waiting or asks(call.name)), None)
        failure = None
        word: Word
        if self._is_done or self._is_archived or info.archived:
            word, tool = "done", None
        elif asking is not None:
            word, tool = "waits", asking
        elif calls:
            word = "working"
        elif self._failure is not None:
            word, failure = "error", self._failure
            tool = failure.tool
        else:
            word = "idle" if self._is_answered else "working"
        reason = "" if asking is None or word != "waits" else self._waiting.get(asking.id, "")
        return SessionState(
            state=word,
            since=self._since,
            entry=self._decisive,
            tool=tool,
            open=len(calls),
            line=last_line(reason) or last_line(self._said),
            tokens=self._tokens,
            window=None if info.provider is None else info.provider.context_window or None,
            error=None if failure is None else failure.error,
        )

    def add(self, entry: Entry) -> None:
        """Fold the next entry of the path."""
        self.tip = entry.id
        if isinstance(entry, MessageEntry):
            self._add_message(entry, entry.message)
        elif isinstance(entry, BranchSummaryEntry):
            self._begin(entry)
            self._is_answered, self._said, self._tokens = True, _end_of(entry.branch_summary.summary), None
        elif isinstance(entry, CustomEntry):
            if entry.custom.custom_type == SUSPENDED_TYPE:
                self._waiting = {each.id: each.reason for each in suspended_calls(entry)}
                self._decide(entry)
        elif isinstance(entry, SessionInfoEntry):
            self._add_info(entry, entry.session_info)
        elif isinstance(entry, ToolExecutionEntry):
            self._add_execution(entry)

    def _decide(self, entry: Entry) -> None:
        self._since, self._decisive = entry.timestamp, entry.id

    def _begin(self, entry: Entry) -> None:
        """Forget the calls and failures of before."""
        self._calls, self._waiting, self._failure = {}, {}, None
        self._is_archived = self._is_done = False
        self._decide(entry)

    def _add_message(self, entry: MessageEntry, message: Message) -> None:
        if message.role == "assistant":
            self._add_answer(entry, message)
            return
        results = [part for part in message.content if isinstance(part, ToolResultPart)]
        words = _end_of(plain_text(message.content))
        if results:
            self._add_results(entry, message, results)
        if message.role == "user" and (words or not results):
            self._begin(entry)
            self._is_answered, self._said = False, words

    def _add_answer(self, entry: MessageEntry, message: Message) -> None:
        self._begin(entry)
        self._is_answered = True
        self._said = _end_of(plain_text(message.content))
        self._tokens = context_tokens(message)
        if message.stop_reason == "error" or message.error:
            self._failure = _Failure(last_line(message.error or "") or "the answer failed", None)
        elif message.stop_reason != "aborted":
            calls = [part.tool_use for part in message.content if isinstance(part, ToolUsePart)]
            self._calls = {call.id: called(call) for call in calls}

    def _add_results(self, entry: MessageEntry, message: Message, results: Sequence[ToolResultPart]) -> None:
        first = next(iter(self._calls), None)
        self._failure, self._is_answered = None, False
        for part in results:
            result = part.tool_result
            call = self._calls.pop(result.tool_use_id, None)
            words = _end_of(result.text)
            self._said = words or self._said
            if result.is_error:
                tool = call or CalledTool(result.tool_use_id, message.tool_name or "")
                self._failure = _Failure(message.error or last_line(words) or "the call failed", tool)
        if self._failure is not None or next(iter(self._calls), None) != first:
            self._decide(entry)

    def _add_execution(self, entry: ToolExecutionEntry) -> None:
        record = entry.tool_execution
        call = self._calls.pop(record.tool_call_id, None)
        if not record.success:
            code = "" if record.exit_code is None else f"exit code {record.exit_code}"
            known = None if self._failure is None else self._failure.tool
            tool = call or (known if known is not None and known.id == record.tool_call_id else None)
            error = last_line(record.error or "") or code or "the call failed"
            self._failure = _Failure(error, tool or CalledTool(record.tool_call_id, record.tool_name))
            if call is not None:
                self._decide(entry)
        elif call is not None:
            self._is_answered = False
            self._decide(entry)

    def _add_info(self, entry: SessionInfoEntry, info: SessionInfo) -> None:
        before = self._is_done or self._is_archived
        if info.status is not None:
            self._is_done = info.status == DONE
        if info.archives is not None:
            self._is_archived = info.archives
        if (self._is_done or self._is_archived) != before:
            self._decide(entry)


def context_tokens(message: Message) -> int | None:
    """Return the size of the context with an answer, as its provider counted it; None if it did not."""
    usage = message.usage
    if usage is None:
        return None
    counted = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens
    return counted or usage.total_tokens or None


def needed(index: LogIndex, seq: int | None = None) -> list[int]:
    """Return the seqs of the entries that say what the state is, from the root down: those from the last answer on.

    Args:
        index: The log's index.
        seq: The end of the path; by default the last entry that was not appended aside.
    """
    kinds = index.kinds
    seqs: list[int] = []
    messages = custom = 0
    at = index.tip if seq is None else seq
    while at > 0 and messages < _MESSAGES_MAX:
        kind = kinds[at]
        if kind == Kind.CUSTOM:
            custom += 1
        if kind in _READ and (kind != Kind.CUSTOM or custom <= _CUSTOM_MAX):
            seqs.append(at)
            messages += kind in _WHOLE or kind in (Kind.USER, Kind.TOOL, Kind.OTHER_MESSAGE)
            if kind in _WHOLE or (kind == Kind.USER and messages >= _ASKED_MAX):
                break
        at = index.parents[at]
    seqs.reverse()
    return seqs


def folded(index: LogIndex, entries: Iterable[Entry]) -> StateFold:
    """Return the fold over the entries that `needed` names."""
    fold = StateFold(index.header.timestamp)
    for entry in entries:
        fold.add(entry)
    return fold


def state_of(index: LogIndex, entries: Iterable[Entry]) -> SessionState:
    """Return the state of a session from the entries that `needed` names."""
    return folded(index, entries).state(index)


# -- calls, and what is shown of them


class SuspendedCall(Struct, frozen=True):
    """A call that waits for something outside, and why, as an entry of the type `SUSPENDED_TYPE` lists it."""

    id: str
    name: str
    reason: str = ""


class _Suspension(Struct, frozen=True):
    calls: tuple[SuspendedCall, ...]


def suspended_calls(entry: CustomEntry) -> tuple[SuspendedCall, ...]:
    """Return the calls that an entry lists; data of another program under the same name lists none."""
    raw = entry.custom.raw_data
    try:
        return () if raw is None else msgspec.json.decode(raw, type=_Suspension).calls
    except UNDECODABLE:
        return ()


def asks(tool: str) -> bool:
    """Tell whether a tool asks a person, by its name."""
    return "".join(filter(str.isalnum, tool)).lower() in ASKING


def called(call: ToolUse) -> CalledTool:
    """Return what is shown of a call."""
    return CalledTool(call.id, call.name, argument_of(call))


def argument_of(call: ToolUse) -> str:
    """Return the argument of a call that says most: the command, the path, the question; else the first text."""
    raw = bytes(call.raw_input)
    if raw in (b"{}", b""):
        return ""
    if len(raw) > _DECODED_MAX:  # nobody waits for the content of a file to be decoded
        return ""
    arguments = json_object(call.raw_input)
    texts = [arguments[name] for name in _TELLING if name in arguments] or list(arguments.values())
    return next((preview(each, ARGUMENT_CHARS_MAX) for each in texts if isinstance(each, str) and each.strip()), "")


def last_line(words: str) -> str:
    """Return the last line of a text that has a letter or a digit in it, shortened."""
    end = _end_of(words)
    for line in reversed(end.splitlines()):
        if any(map(str.isalnum, line)):
            return preview(line.strip(), LINE_CHARS_MAX)
    return preview(end, LINE_CHARS_MAX)


def _end_of(words: str) -> str:
    """Return the end of a text, in which its last line is looked for; "" if there are no words in it."""
    return words[-_TAIL:].strip()


def first_words(parts: Iterable[object]) -> str:
    """Return how the first text among the parts of a message begins, on one line."""
    words = (part.text.content for part in parts if isinstance(part, TextPart))
    return next((preview(each, LINE_CHARS_MAX) for each in words if each.strip()), "")

"""Qwen Code: the entries of one session, line by line.

Each line follows its parent, and lines that become no entry are passed over, since they are links of the tree too. Two
processes that write one file make branches. A line whose parent is missing follows the line before it: the program
itself would lose everything before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ...events.content import ToolResultPart, plain_text
from ...events.entries import Compaction, Custom, Header, KnownEntry, Message, Payload, SessionInfo, Usage, UsageRecord
from ...events.json_values import JSON
from ...events.texts import counted
from ..chain import Chain
from ..google_messages import Call, read_answer, read_responses, read_user
from ..google_unread import note_unread_of_message
from ..json_lines import Line, Notes, carries_text, names_in
from ..values import Object, as_count, as_items, as_object, as_objects, as_text, as_time, kept_json
from .preambles import marks_of_user

NAME = "qwen"
TITLED = b"custom_title"
ROLES = frozenset({"user", "model"})

_LINE_FIELDS = names_in(
    "agentColor agentId agentName contextWindowSize cwd externalInputKind gitBranch goalContext isSidechain message",
    "model parentUuid provenance sessionId subtype systemPayload timestamp toolCallResult treering type usageMetadata",
    "uuid version",
)
_MESSAGE_FIELDS = names_in("content parts role")
_OF_PROGRAM = names_in("background_task_completed cron goal_runtime notification")
_BOOKKEEPING = names_in(
    "agent_bootstrap agent_retry agent_session_ready at_command attribution_snapshot branch_checkpoint",
    "file_history_snapshot goal_state goal_turn_end managed_session_commit_v1 managed_session_event_v1",
    "managed_session_header_v1 omni_recall parent_session session_artifact_event session_artifact_snapshot",
    "session_model session_source session_sources_snapshot turn_result ui_telemetry",
)
_KEPT = names_in("agent_launch_prompt rewind slash_command")
_FAILED = frozenset({"cancelled", "error"})
_ERROR = "qwen-code.api_error"
_ACKNOWLEDGED = "Got it. Thanks for the additional context!"
_PLACE = {"cwd": "cwd", "git_branch": "gitBranch", "version": "version"}


class Title(NamedTuple):
    """A title, and whether the program made it."""

    name: str
    is_automatic: bool


def title_in(value: Object) -> Title | None:
    """Return the title that a line gives the session; None if it gives none."""
    payload = as_object(value.get("systemPayload"))
    name = as_text(payload.get("customTitle"))
    if value.get("subtype") != "custom_title" or not name:
        return None
    return Title(name, payload.get("titleSource") == "auto")


class _Said(NamedTuple):
    """A message on the path: the message above it, its first entry, and what tells its content from others."""

    above: _Said | None
    entry_id: str
    digest: bytes


class _Parent(NamedTuple):
    """Where the children of a line go: the last entry, and the last message, of the line or of those above it."""

    entry_id: str | None
    said: _Said | None


_ROOT = _Parent(None, None)


class Records:
    """The lines of one file.

    Args:
        header: The header of the session.
        notes: Gets what is left out.
    """

    def __init__(self, header: Header, notes: Notes) -> None:
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._notes = notes
        self._parents: dict[str, _Parent] = {}
        self._said: _Said | None = None
        self._last = _ROOT
        self._lost: Line | None = None
        self._lost_count = 0
        self._calls: Sequence[Call] = ()
        self._written_place: Object = {}
        self._title = ""

    def entries(self, lines: Iterable[Line]) -> Iterator[KnownEntry]:
        """Yield the entries, parents first."""
        for line in lines:
            uuid = as_text(line.value.get("uuid"))
            self._go_to(line, uuid)
            yield from self._line(line.value, uuid)
            self._last = _Parent(self._chain.leaf, self._said)
            if uuid:
                self._parents[uuid] = self._last
        if self._lost is not None:
            message = f"{counted(self._lost_count, 'line')} with a parent that is not in the file: "
            self._notes.at(self._lost, "parent_missing", "warning", f"{message}placed after the preceding line")
        self._notes.close()

    def _go_to(self, line: Line, uuid: str) -> None:
        """Go to where a line goes; a later line with the id of an earlier one is its continuation."""
        parent = line.value.get("parentUuid", "")
        found = self._parents.get(uuid) if uuid else None
        if found is None and parent is None:
            found = _ROOT
        elif found is None:
            found = self._parents.get(as_text(parent))
            if found is None and self._parents:
                self._lost, self._lost_count = self._lost or line, self._lost_count + 1
        self._chain.leaf, self._said = found or self._last

    def _line(self, raw: Object, uuid: str) -> Iterator[KnownEntry]:
        time = as_time(raw.get("timestamp"))
        message, subtype = as_object(raw.get("message")), as_text(raw.get("subtype"))
        self._notes.check_fields("line", raw, _LINE_FIELDS)
        title = title_in(raw)
        if message and raw.get("type") != "system":
            yield from self._message(raw, message, uuid)
        elif title is not None:
            if title.name != self._title and not title.is_automatic:
                leaf = self._chain.leaf
                yield replace(self._chain.add(SessionInfo(name=title.name), id=uuid, time=time), aside=True)
                self._chain.leaf = leaf
            self._title = title.name
        elif subtype == "chat_compression":
            yield from self._compaction(as_object(raw.get("systemPayload")), uuid, raw)
        elif raw.get("type") == "system":
            payload = self._aside(subtype, as_object(raw.get("systemPayload")))
            if payload is not None:
                yield self._chain.add(payload, id=uuid, time=time)
        elif (usage := _usage(raw)) is not None:
            yield self._chain.add(UsageRecord("answer", usage, model=as_text(raw.get("model")) or None), time=time)
        elif raw.get("type") != "assistant":  # an answer that was cut off before it began has no message
            self._notes.leave_out(f"line of kind {as_text(raw.get('type')) or 'unknown'}", raw)

    # -- messages

    def _message(self, raw: Object, message: Object, uuid: str) -> Iterator[KnownEntry]:
        self._notes.check_fields("message", message, _MESSAGE_FIELDS)
        parts: Object = {"parts": [*as_items(message.get("parts")), *as_items(message.get("content"))]}
        is_answer = message.get("role") == "model"
        note_unread_of_message(parts, self._notes, is_answer=is_answer)
        payloads = [*self._answer(raw, parts, uuid)] if is_answer else [*self._from_user(raw, parts, uuid)]
        entries = [
            self._chain.add(each, id=self._id(uuid, at), time=as_time(raw.get("timestamp")))
            for at, each in enumerate(payloads)
        ]
        if entries:
            self._said = _Said(self._said, entries[0].id, _digest(message))
        yield from entries

    def _id(self, uuid: str, at: int) -> str:
        return uuid if at == 0 and uuid not in self._chain else ""

    def _answer(self, raw: Object, parts: Object, uuid: str) -> Iterator[Message]:
        answer = read_answer(parts, uuid, as_text(raw.get("model")))
        self._calls = answer.calls
        metadata = self._metadata(raw)
        yield replace(
            answer.message, provider=None, usage=_usage(raw), raw_metadata=kept_json(metadata) if metadata else None
        )

    def _from_user(self, raw: Object, parts: Object, uuid: str) -> Iterator[Message]:
        shown = as_object(raw.get("toolCallResult"))
        if shown.get("resultDisplay"):
            self._notes.skip("display of a result")
        metadata = self._metadata(raw)
        for result in read_responses(parts, uuid, self._calls):
            yield _with_status(result, shown)
        message = read_user(parts)
        if message is not None:
            of_program = as_text(raw.get("subtype")) in _OF_PROGRAM or bool(raw.get("externalInputKind"))
            metadata |= {"is_meta": True} if of_program else marks_of_user(message)
            yield replace(message, raw_metadata=kept_json(metadata) if metadata else None)

    def _metadata(self, raw: Object) -> Object:
        """Return the folder, the branch and the version, if any of them is another than before."""
        place: Object = {name: raw[field] for name, field in _PLACE.items() if isinstance(raw.get(field), str)}
        if place == self._written_place:
            return {}
        self._written_place = place
        return {**place}

    # -- the program's own lines

    def _aside(self, subtype: str, payload: Object) -> Payload | None:
        """Return what a line of the program's own becomes; None if it is left out."""
        event = as_object(payload.get("uiEvent"))
        if event.get("event.name") == _ERROR and not event.get("subagent_name"):
            return Message(
                "assistant",
                (),
                model=as_text(event.get("model")) or None,
                stop_reason="error",
                error=as_text(event.get("error_message")) or as_text(event.get("error")) or "unknown",
            )
        if subtype in _BOOKKEEPING:
            self._notes.skip(subtype)
            return None
        if subtype not in _KEPT:
            if not carries_text(payload):
                self._notes.skip(subtype or "system")
                return None
            self._notes.leave_out(f"line of kind {subtype or 'system'}", payload, kept=True)
        return Custom(f"{NAME}.{subtype or 'system'}", kept_json(payload))

    def _compaction(self, payload: Object, uuid: str, raw: Object) -> Iterator[KnownEntry]:
        """Yield a compaction, and below it what the program put in the place of the history, unless that was kept."""
        time = as_time(raw.get("timestamp"))
        self._notes.check_items("content of an unknown form", payload.get("compressedHistory"))
        contents = as_objects(payload.get("compressedHistory"))
        first, *others = contents or [{}]
        summary = read_user({"parts": first.get("parts", [])}) if first.get("role") == "user" else None
        others = others if summary is not None else contents
        if others and plain_text(read_answer(others[0], "", "").message.content) == _ACKNOWLEDGED:
            others = others[1:]
        kept = self._kept(others)
        tokens = as_count(as_object(payload.get("info")).get("originalTokenCount"))
        words = "" if summary is None else plain_text(summary.content)
        compaction = Compaction(words, None if kept is None else kept.entry_id, tokens)
        yield self._chain.add(compaction, id=self._id(uuid, 0), time=time)
        for each in others if kept is None else ():
            line: Object = {"timestamp": raw.get("timestamp")}
            yield from self._message(line, each, "")

    def _kept(self, contents: Sequence[Object]) -> _Said | None:
        """Return the first of the messages above that a new history repeats; None if it holds others."""
        said, first = self._said, None
        for each in reversed(contents):
            if said is None or said.digest != _digest(each):
                return None
            said, first = said.above, said
        return first


def _with_status(message: Message, shown: Object) -> Message:
    """Return a result, as failed if the program recorded that its call failed."""
    failed = as_text(shown.get("status")) in _FAILED
    content = tuple(
        replace(part, tool_result=replace(part.tool_result, is_error=True))
        if failed and isinstance(part, ToolResultPart) and part.tool_result.tool_use_id == shown.get("callId")
        else part
        for part in message.content
    )
    return replace(message, content=content)


def _usage(raw: Object) -> Usage | None:
    """Return the usage of an answer; the thinking counts among the output or beside it, as the total tells."""
    tokens = raw.get("usageMetadata")
    if not isinstance(tokens, dict):
        return None
    prompt, cached = as_count(tokens.get("promptTokenCount")), as_count(tokens.get("cachedContentTokenCount"))
    output, total = as_count(tokens.get("candidatesTokenCount")), as_count(tokens.get("totalTokenCount"))
    if total > prompt + output:
        output += as_count(tokens.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=max(0, prompt - cached),
        output_tokens=output,
        cache_read_tokens=cached,
        total_tokens=total or prompt + output,
    )


def _digest(content: JSON) -> bytes:
    return blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).digest()

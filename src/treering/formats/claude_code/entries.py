"""The entries of one conversation of Claude Code, made on demand, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from ...events.content import Content, TextPart, plain_text
from ...events.entries import (
    Compaction,
    CompactionEntry,
    KnownEntry,
    Message,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
)
from ...events.errors import ForeignFormatError, Where
from ...events.json_values import JSON, raw_json
from ...events.texts import counted
from ..chain import derived_id
from ..json_lines import Notes, replaced_in
from ..values import as_time
from .attachments import note_unknown_attachment, note_unknown_fields, read_attachment
from .content import Reading, marks_of_user, stop_reason_of, text_of, usage_of
from .lines import Line, Tokens, line_of, unread_in
from .scan import BUFFER, RESULT, Node, Scan
from .steps import Conversation, Step


class _Metadata(Struct, omit_defaults=True):
    """What a line says besides its message; folder, branch and version are given only when they changed."""

    message_id: str | None = None
    request_id: str | None = None
    is_meta: bool = False
    asked: JSON = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None


_NOTHING = _Metadata()
_SYNTHETIC = "<synthetic>"  # the model of answers that Claude Code itself makes, such as API errors
_encode = msgspec.json.Encoder().encode


class Entries:
    """The entries of a conversation in a file, as an iterable.

    Args:
        scan: The file that holds it.
        conversation: The conversation.
        session: The id of its session.
        started: When it began.
        titles: The titles that the user gave it, in order.
        notes: Collects what is left out.
    """

    def __init__(
        self, scan: Scan, conversation: Conversation, session: str, started: datetime, titles: list[str], notes: Notes
    ) -> None:
        self._path = scan.path
        self._conversation = conversation
        self._session = session
        self._titles = titles
        self._notes = notes
        self._maker = EntryMaker(started, notes)
        self._offset = 0

    def __iter__(self) -> Iterator[KnownEntry]:
        last: str | None = None
        early = set(self._conversation.early())
        if early:
            message = (
                f"{counted(len(early), 'message')} sent along with calls whose results are not in the file so far: "
                "left out until they are; import the file again then"
            )
            self._notes.add("skipped", "note", message)
        with self._path.open("rb", buffering=BUFFER) as file:
            for step in self._conversation.in_order():
                if step in early:
                    continue
                yield self._maker.entry(step, self._lines(file, step))
                last = step.id
        yield from self._title_entries(last)
        self._maker.close()

    def _lines(self, file: BinaryIO, step: Step) -> Iterator[bytes]:
        for node in step.nodes:
            if node.byte != self._offset:
                file.seek(node.byte)
            data = file.read(node.size)
            self._offset = node.byte + node.size
            if len(data) < node.size:
                where = Where(str(self._path), node.number, node.byte)
                raise ForeignFormatError("the file was truncated while it was read: import it again", where=where)
            yield data

    def _title_entries(self, last: str | None) -> Iterator[KnownEntry]:
        """Yield the titles that the user gave the session, as entries aside from the conversation."""
        previous: str | None = None
        for number, title in enumerate(self._titles):
            if title != previous:
                entry_id = derived_id(self._session, "custom-title", str(number), title)
                time, info = self._maker.time, SessionInfo(name=title)
                yield SessionInfoEntry(id=entry_id, parent_id=last, timestamp=time, aside=True, session_info=info)
                previous = title


class EntryMaker:
    """What makes an entry of each step of a conversation.

    Args:
        started: When the conversation began.
        notes: Collects what is left out.

    Attributes:
        time: When the last entry was written.
    """

    def __init__(self, started: datetime, notes: Notes) -> None:
        self.time = started
        self._notes = notes
        self._reading = Reading(notes)
        self._place: tuple[str | None, str | None, str | None] = (None, None, None)

    def entry(self, step: Step, lines: Iterable[bytes]) -> KnownEntry:
        """Make the entry of a step; it says of folder, branch and version what is new since the entry made before.

        Args:
            step: The step.
            lines: Its lines.
        """
        parent = step.parent
        return self._entry(step, parent.id if parent is not None else None, self._read(step, lines))

    def close(self) -> None:
        """Report what was left out."""
        self._notes.close()

    def _read(self, step: Step, data_of_lines: Iterable[bytes]) -> list[Line]:
        lines: list[Line] = []
        for node, data in zip(step.nodes, data_of_lines, strict=True):
            line, is_exact = line_of(data)
            lines.append(line)
            if step.kind != "words":  # that line was read for its results
                note_unknown_fields(data, node.number, node.byte, self._notes)
            if step.kind in ("attached", "queued"):
                note_unknown_attachment(data, node.number, node.byte, self._notes)
            if not is_exact and step.kind != "words":
                for name, value in unread_in(data):
                    self._notes.check_fields("odd", {name: value}, frozenset(), line=node.number, byte=node.byte)
            if not is_exact and step.kind != "words" and (problem := replaced_in(data)):
                self._notes.add("replaced", "warning", f"the line {problem}", line=node.number, byte=node.byte)
        return lines

    def _entry(self, step: Step, parent: str | None, lines: list[Line]) -> KnownEntry:
        time = self.time = time_of(step.boundary or step.nodes[0]) or self.time
        if step.kind == "compaction":
            payload = self._compaction(step, lines)
            return CompactionEntry(id=step.id, parent_id=parent, timestamp=time, compaction=payload)
        make = self._answer if step.kind == "assistant" else self._message
        return MessageEntry(id=step.id, parent_id=parent, timestamp=time, message=make(step, lines))

    def _answer(self, step: Step, lines: list[Line]) -> Message:
        parts: list[Content] = []
        error: list[Content] = []
        model: str | None = None
        synthetic = False
        usage: Tokens | None = None
        stop_reason: str | None = None
        for node, line in zip(step.nodes, lines, strict=True):
            message = line.message
            if message is not None:
                found = self._reading.parts(message.content, node.uuid)
                if line.is_error is True:  # its text is Claude Code's own, which it never sends to the model
                    error += [part for part in found if isinstance(part, TextPart)]
                    found = [part for part in found if not isinstance(part, TextPart)]
                parts += found
                if message.model == _SYNTHETIC:
                    synthetic = True
                else:
                    model = model or message.model
                usage = message.usage or usage  # the last line has the totals
                stop_reason = message.stop_reason or stop_reason
        failed = any(line.is_error is True for line in lines)
        if failed or any(line.is_aborted is True for line in lines):
            stop_reason = "error" if failed else "aborted"
        return Message(
            "assistant",
            tuple(parts if len(lines) == 1 else _without_repeats(parts)),
            model=model,
            provider=None if synthetic and model is None else "anthropic",
            usage=usage_of(usage) if usage is not None else None,
            stop_reason=stop_reason_of(stop_reason),
            error=plain_text(error) if failed else None,
            raw_metadata=self._metadata(lines[0], step.nodes[0], is_meta=lines[0].is_meta is True),
        )

    def _message(self, step: Step, lines: list[Line]) -> Message:
        node, line = step.nodes[0], lines[0]
        if step.kind == "attached" and line.attachment is not None:
            parts = read_attachment(line.attachment)
            return Message("user", tuple(parts), raw_metadata=self._metadata(line, node, is_meta=True))
        if step.kind == "queued":
            content = line.attachment.prompt if line.attachment is not None else None
        elif step.kind == "command":
            content = line.content or ""
        else:
            content = line.message.content if line.message is not None else None
        role, name = "user", None
        if step.kind == "results":
            role = "tool"
            if step.answer is not None:
                calls = step.answer.calls
                name = next((calls[call] for call in node.results if call in calls), None)
        if isinstance(content, list) and node.words:
            content = [part for part in content if (part.type == RESULT) == (step.kind == "results")]
        parts = self._reading.parts(content, node.uuid, step.unnamed)
        marks = marks_of_user(parts) if role == "user" else {}
        is_meta = line.is_meta is True or step.kind == "command" or "is_meta" in marks
        metadata = self._metadata(line, node, is_meta=is_meta, asked=marks.get("asked"))
        return Message(role, tuple(parts), tool_name=name or None, raw_metadata=metadata)

    def _compaction(self, step: Step, lines: list[Line]) -> Compaction:
        facts = step.boundary.facts if step.boundary is not None else None
        summary = "\n".join(text_of(line.message.content) for line in lines if line.message is not None)
        return Compaction(
            summary,
            step.kept.id if step.kept is not None else None,
            max(facts.tokens_before or 0, 0) if facts is not None else 0,
            raw_details=raw_json({"trigger": facts.trigger}) if facts is not None and facts.trigger else None,
        )

    def _metadata(self, line: Line, node: Node, *, is_meta: bool, asked: JSON = None) -> Raw | None:
        place = (line.cwd, line.branch, line.version)
        metadata = _Metadata(node.message or None, line.request, is_meta, asked)
        if place != self._place:
            metadata.cwd, metadata.git_branch, metadata.version = self._place = place
        return None if metadata == _NOTHING else Raw(_encode(metadata))


def time_of(node: Node) -> datetime | None:
    """Return when a line was written; None if it does not say."""
    return as_time(node.time)


def _without_repeats(parts: list[Content]) -> list[Content]:
    """Return the distinct parts of an answer: some versions of Claude Code repeat parts in later lines."""
    distinct: dict[bytes, Content] = {}
    for part in parts:
        distinct.setdefault(_encode(part), part)
    return list(distinct.values())

"""The entries of one conversation of Claude Code, made line by line as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from ..content import Content, plain_text, raw_json
from ..entries import (
    Compaction,
    CompactionEntry,
    KnownEntry,
    Message,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
)
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from ..wording import counted
from .chain import derived_id
from .claude_content import Reading, stop_reason_of, text_of, usage_of
from .claude_lines import Line, Tokens, line_of
from .claude_scan import BUFFER, Node, Scan
from .claude_tree import Conversation, Step
from .values import as_time


class _Metadata(Struct, omit_defaults=True):
    """What a message's line says beside the message; the place and program only where they changed."""

    message_id: str | None = None
    request_id: str | None = None
    is_meta: bool = False
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None


_NOTHING = _Metadata()
_SYNTHETIC = "<synthetic>"  # the model of answers that Claude Code gives itself, such as errors of the API
_encode = msgspec.json.Encoder().encode


class Entries:
    """Makes the entries of a conversation.

    Args:
        scan: The file that it is in.
        talk: The conversation.
        session: The id that its session has.
        started: When it began.
        titles: The titles that a person gave it, one after the other.
        findings: Where to say what could not be taken over.
    """

    def __init__(
        self,
        scan: Scan,
        talk: Conversation,
        session: str,
        started: datetime,
        titles: list[str],
        findings: list[Finding],
    ) -> None:
        self._path = scan.path
        self._talk = talk
        self._session = session
        self._time = started
        self._titles = titles
        self._findings = findings
        self._reading = Reading()
        self._at = 0
        self._place: tuple[str | None, str | None, str | None] = (None, None, None)

    def __iter__(self) -> Iterator[KnownEntry]:
        last: str | None = None
        with self._path.open("rb", buffering=BUFFER) as file:
            for step in self._talk.in_order():
                parent = step.parent
                yield self._entry(step, parent.id if parent is not None else None, self._lines(file, step))
                last = step.id
        yield from self._named(last)
        for kind, count in sorted(self._reading.left_out.items()):
            what = f"{counted(count, 'part')} of kind {kind} left out: there is no such part of a message here"
            self._findings.append(Finding(str(self._path), None, None, "part_left_out", "warning", what))

    def _lines(self, file: BinaryIO, step: Step) -> list[Line]:
        read: list[Line] = []
        for node in step.nodes:
            if node.byte != self._at:
                file.seek(node.byte)
            data = file.read(node.size)
            self._at = node.byte + node.size
            if len(data) < node.size:
                where = Where(str(self._path), node.number, node.byte)
                raise ForeignFormatError("the file was shortened while it was read: import it again", where=where)
            read.append(line_of(data))
        return read

    def _entry(self, step: Step, parent: str | None, lines: list[Line]) -> KnownEntry:
        time = self._time = time_of(step.boundary or step.nodes[0]) or self._time
        if step.kind == "compaction":
            payload = self._compaction(step, lines)
            return CompactionEntry(id=step.id, parent_id=parent, timestamp=time, compaction=payload)
        make = self._answer if step.kind == "assistant" else self._message
        return MessageEntry(id=step.id, parent_id=parent, timestamp=time, message=make(step, lines))

    def _answer(self, step: Step, lines: list[Line]) -> Message:
        parts: list[Content] = []
        model: str | None = None
        synthetic = False
        usage: Tokens | None = None
        stopped: str | None = None
        failed = False
        for node, line in zip(step.nodes, lines, strict=True):
            said = line.message
            if said is not None:
                parts += self._reading.parts(said.content, node.uuid)
                if said.model == _SYNTHETIC:
                    synthetic = True
                else:
                    model = model or said.model
                usage = said.usage or usage  # the last line tells all of it
                stopped = said.stop_reason or stopped
            failed = failed or line.is_error is True
        return Message(
            "assistant",
            tuple(parts if len(lines) == 1 else _once(parts)),
            model=model,
            provider=None if synthetic and model is None else "anthropic",
            usage=usage_of(usage) if usage is not None else None,
            stop_reason="error" if failed else stop_reason_of(stopped),
            error=plain_text(parts) if failed else None,
            raw_metadata=self._metadata(lines[0], step.nodes[0]),
        )

    def _message(self, step: Step, lines: list[Line]) -> Message:
        node, line = step.nodes[0], lines[0]
        if step.kind == "queued":
            content = line.attachment.prompt if line.attachment is not None else None
        else:
            content = line.message.content if line.message is not None else None
        role, name = "user", None
        if step.kind == "results":
            role = "tool"
            if step.answer is not None:
                called = step.answer.calls
                name = next((called[call] for call in node.results if call in called), None)
        parts = self._reading.parts(content, node.uuid, step.unnamed)
        return Message(role, tuple(parts), tool_name=name or None, raw_metadata=self._metadata(line, node))

    def _compaction(self, step: Step, lines: list[Line]) -> Compaction:
        facts = step.boundary.facts if step.boundary is not None else None
        summary = "\n".join(text_of(line.message.content) for line in lines if line.message is not None)
        return Compaction(
            summary,
            step.kept.id if step.kept is not None else None,
            max(facts.tokens_before or 0, 0) if facts is not None else 0,
            raw_details=raw_json({"trigger": facts.trigger}) if facts is not None and facts.trigger else None,
        )

    def _metadata(self, line: Line, node: Node) -> Raw | None:
        place = (line.cwd, line.branch, line.version)
        noted = _Metadata(node.message or None, line.request, line.is_meta is True)
        if place != self._place:
            noted.cwd, noted.git_branch, noted.version = self._place = place
        return None if noted == _NOTHING else Raw(_encode(noted))

    def _named(self, last: str | None) -> Iterator[KnownEntry]:
        """Say what a person called the session, beside the conversation."""
        before: str | None = None
        for number, title in enumerate(self._titles):
            if title != before:
                own = derived_id(self._session, "custom-title", str(number), title)
                yield SessionInfoEntry(
                    id=own, parent_id=last, timestamp=self._time, aside=True, session_info=SessionInfo(name=title)
                )
                before = title


def time_of(node: Node) -> datetime | None:
    """Return when a line was written, where it says so."""
    return as_time(node.time)


def _once(parts: list[Content]) -> list[Content]:
    """Leave out what an answer says word for word twice: versions of Claude Code repeat parts in later lines of it."""
    found: dict[bytes, Content] = {}
    for part in parts:
        found.setdefault(_encode(part), part)
    return list(found.values())

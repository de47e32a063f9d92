"""dive: a header line, then one line per event: a turn's messages with their usage, or a compaction.

    {"line_type":"header","data":{"id":"demo","title":"Demo","created_at":"...","updated_at":"...","forked_from":"..."}}
    {"line_type":"event","data":{"id":"evt-1","type":"turn","timestamp":"...","messages":[...],"usage":{"input_tokens":10,...}}}
    {"line_type":"event","data":{"id":"evt-2","type":"compaction","timestamp":"...","messages":[{...summary...}]}}

Messages are in the format of Anthropic's API. A turn becomes a batch: its messages, and a usage record with the event's
id. A compaction defines the history from there on; earlier entries stay. A last line that was cut off is left out. The
plain list of messages that dive's own tools exchange is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from msgspec import Raw

from ...events.content import TextPart, plain_text
from ...events.entries import (
    NATIVE_VERSION,
    Batch,
    Compaction,
    Custom,
    Entry,
    Header,
    KnownEntry,
    Message,
    MessageEntry,
    SessionInfo,
    Usage,
    UsageRecord,
)
from ...events.errors import ForeignFormatError, Where
from ...events.json_values import JSON, raw_json
from ..base import ForeignSession, Format
from ..chain import Chain, Names, derived_id
from ..json_lines import Line, Notes, beginning, decoded, document, first_item, objects, unheard
from ..messages import is_empty_answer, message_of
from ..opening import modified_at
from ..values import Object, as_count, as_list, as_object, as_objects, as_text, as_time, kept_json
from .events import COMPACTION, LEFT_OUT, TURN, dive_document, read_message, write_message

NAME = "dive"

_START = b'{"line_type"'
_LIST_START = re.compile(
    rb'\[\s*\{\s*("id"\s*:\s*"[^"\\]*"\s*,\s*)?"role"\s*:\s*"(user|assistant|system)"\s*,\s*'
    rb'"content"\s*:\s*\[\s*\{\s*"type"\s*:'
)
# Fields of other programs' lists, which may begin like dive's.
_FOREIGN_FIELDS = re.compile(rb'"(tool_calls|tool_call_id)"\s*:|"type"\s*:\s*"image_url"')
_LINE_FIELDS = frozenset({"data", "line_type"})
_EVENT_FIELDS = frozenset({"agent", "id", "messages", "metadata", "timestamp", "type", "usage"})
_MESSAGE_FIELDS = frozenset({"content", "id", "role"})
_BLOCK_FIELDS = {
    "text": frozenset({"text"}),
    "image": frozenset({"source"}),
    "tool_use": frozenset({"id", "input", "name"}),
    "tool_result": frozenset({"content", "is_error", "tool_use_id"}),
    "thinking": frozenset({"signature", "thinking"}),
    "redacted_thinking": frozenset({"data"}),
}
"""The fields of parts that are read."""

_BESIDE = frozenset({"cache_control", "citations", "type"})
"""The fields of parts that say nothing to a model by themselves."""

_HEADER_KEYS = frozenset({"id", "title", "created_at", "updated_at", "forked_from", "metadata"})


class DiveFormat(Format):
    """Lines of its store, and lists of messages whose content is typed parts."""

    name = NAME
    title = "dive"
    checked = "files of the program"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a session of dive or a list of its messages."""
        return _is_log(head) or _is_list(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))

    def write(self, header: Header, entries: Sequence[Entry]) -> bytes:
        """Return a path as lines of dive's store; see `WritesFile.write`."""
        return dive_document(header, entries)


def _is_log(head: bytes) -> bool:
    line = beginning(head).partition(b"\n")[0]
    value = decoded(line)
    if value is None:
        return line.startswith(_START)
    return isinstance(value.get("line_type"), str) and isinstance(value.get("data"), dict)


def _is_list(head: bytes) -> bool:
    if _LIST_START.match(beginning(head)) is None or _FOREIGN_FIELDS.search(head) is not None:
        return False
    first = first_item(head)
    return first is None or first.keys() <= _MESSAGE_FIELDS


def _read(path: Path) -> ForeignSession:
    with path.open("rb") as file:
        head = file.read(4096)
    if not _is_log(head) and beginning(head).startswith(b"["):
        return _read_list(path)
    data = _header_of(path)
    session = as_text(data.get("id")) or path.stem
    modified = modified_at(path)
    created = as_time(data.get("created_at")) or as_time(data.get("updated_at")) or _first_time(path) or modified
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=created,
        parent_session=as_text(data.get("forked_from")) or None,
        title=as_text(data.get("title")) or None,
    )
    notes = Notes(path)
    entries = _Reading(Chain(NAME, session, created), notes).log(path, data)
    return ForeignSession(header=header, entries=entries, findings=notes.findings, restate=restated)


def _header_of(path: Path) -> Object:
    """Return the data of the first header; an empty object if there are events but no header.

    Raises:
        ForeignFormatError: The file has no line of this format.
    """
    has_event = False
    for line in objects(path, unheard(), _START):
        if line.value.get("line_type") == "header":
            return as_object(line.value.get("data"))
        if line.value.get("line_type") == "event":
            has_event = True
    if has_event:
        return {}
    raise ForeignFormatError("the file contains no lines of a dive session", where=Where(str(path)))


def _first_time(path: Path) -> datetime | None:
    data = (as_object(line.value.get("data")) for line in objects(path, unheard(), _START))
    return next(filter(None, (as_time(event.get("timestamp")) for event in data)), None)


def _read_list(path: Path) -> ForeignSession:
    messages = as_list(document(path))
    if not any(isinstance(as_object(each).get("content"), list) and "role" in as_object(each) for each in messages):
        raise ForeignFormatError("the list contains no messages", where=Where(str(path)))
    if any("tool_calls" in each or "tool_call_id" in each for each in as_objects(messages)):
        raise ForeignFormatError(
            "these are not messages of dive: they list tool calls outside their content", where=Where(str(path))
        )
    session = derived_id(NAME, sha256(path.read_bytes()).hexdigest())
    created = modified_at(path)
    header = Header(id=session, version=NATIVE_VERSION, timestamp=created)
    notes = Notes(path)
    entries = _Reading(Chain(NAME, session, created), notes).messages([as_object(each) for each in messages])
    return ForeignSession(header=header, entries=entries, findings=notes.findings)


class _Reading:
    """One pass through a session."""

    def __init__(self, chain: Chain, notes: Notes) -> None:
        self._chain = chain
        self._notes = notes
        self._names = Names()
        self._history: list[MessageEntry] = []  # the current history in dive's sense
        self._all: list[MessageEntry] = []

    def messages(self, sources: list[Object], line: Line | None = None) -> Iterator[KnownEntry]:
        """Yield the entries of messages that do not belong to a turn."""
        for message in self._read(sources, line):
            yield self._add(message, None, None)
        self._notes.close()

    def log(self, path: Path, header: Object) -> Iterator[KnownEntry]:
        """Yield the entries of a file with a header and events."""
        metadata = header.get("metadata")
        if isinstance(metadata, dict):
            yield self._chain.add(SessionInfo(raw_metadata=kept_json(metadata)))
        rest = {key: value for key, value in header.items() if key not in _HEADER_KEYS}
        if rest:
            yield self._chain.add(Custom("dive.header", kept_json(rest)))
        if not header:
            self._notes.add("damaged", "error", "the header is missing: the session is named after the file")
        self._check_forms("session", header)
        self._notes.check_strings("session", header, "title")
        headers = 0
        for line in objects(path, self._notes, _START):
            self._notes.check_fields("line", line.value, _LINE_FIELDS, line=line.number, byte=line.byte)
            self._notes.check_items("data of an unknown form", [line.value.get("data")])
            kind, data = as_text(line.value.get("line_type")), as_object(line.value.get("data"))
            if kind == "header":
                headers += 1
                if headers > 1:
                    self._notes.skip("second header")
            elif kind != "event":
                self._notes.leave_out(f"line of kind {kind or 'unknown'}", line.value, line=line.number, byte=line.byte)
            else:
                self._notes.check_fields("event", data, _EVENT_FIELDS, line=line.number, byte=line.byte)
                self._check_forms("event", data)
                yield from (self._compaction if data.get("type") == COMPACTION else self._turn)(data, line)
        self._notes.close()

    def _check_forms(self, holder: str, data: Object) -> None:
        """Note metadata that is no object, and messages that are none."""
        if not isinstance(data.get("metadata"), dict):
            self._notes.check_fields(holder, data, data.keys() - {"metadata"})
        self._notes.check_items("message of an unknown form", data.get("messages"))

    def _turn(self, data: Object, line: Line) -> Iterator[KnownEntry]:
        time = as_time(data.get("timestamp"))
        messages = list(self._read([as_object(each) for each in as_list(data.get("messages"))], line))
        event, size = as_text(data.get("id")), len(messages) + 1
        batch = event or derived_id(NAME, self._chain.session, str(line.number))
        for position, message in enumerate(messages):
            yield self._add(message, time, Batch(self._chain.session, batch, position, size))
        metadata = data.get("metadata")
        record = UsageRecord(
            TURN,
            _usage(as_object(data.get("usage"))),
            messages=len(messages),
            raw_metadata=kept_json(metadata) if isinstance(metadata, dict) else None,
        )
        yield self._chain.add(record, id=event, time=time, batch=Batch(self._chain.session, batch, size - 1, size))

    def _compaction(self, data: Object, line: Line) -> Iterator[KnownEntry]:
        time = as_time(data.get("timestamp"))
        messages = list(self._read([as_object(each) for each in as_list(data.get("messages"))], line))
        summary, kept = "", self._end_of_history(messages)
        system: Raw | None = None
        if not kept and messages and messages[0].role == "system":
            system = raw_json(write_message(messages.pop(0)))
            kept = self._end_of_history(messages, without_system=True)
        begins_with_text = bool(messages) and all(isinstance(part, TextPart) for part in messages[0].content)
        if not kept and begins_with_text and messages[0].role == "user":
            source = messages.pop(0)
            summary = plain_text(source.content)
            for each in as_list(source.metadata.get(LEFT_OUT)):
                self._notes.leave_out("part of a summary", each, line=line.number, byte=line.byte)
            kept = self._end_of_history(messages, without_system=system is not None)
        details = data.get("metadata")
        first_kept = kept[0].id if kept else None
        raw_details = kept_json(details) if isinstance(details, dict) else None
        compaction = Compaction(summary, first_kept, 0, raw_details, raw_system_message=system)
        yield self._chain.add(compaction, id=as_text(data.get("id")), time=time)
        self._history = kept
        for message in () if kept else messages:
            yield self._add(message, time, None)

    def _end_of_history(self, messages: list[Message], *, without_system: bool = False) -> list[MessageEntry]:
        """Return the last entries of the history if they hold these messages, otherwise an empty list.

        A compaction of treering may also keep messages that an earlier compaction left out.
        """
        for history in (self._history, self._all) if messages else ():
            entries = [each for each in history if not (without_system and each.message.role == "system")]
            end = entries[max(0, len(entries) - len(messages)) :]
            if [entry.message for entry in end] == messages:
                return end
        return []

    def _read(self, sources: list[Object], line: Line | None) -> Iterator[Message]:
        for position, source in enumerate(sources):
            self._notes.check_fields("message", source, _MESSAGE_FIELDS)
            message = read_message(source)
            if message is None:
                place = (line.number, line.byte) if line else (None, None)
                problem = f"messages[{position}] has no known role: it was left out"
                self._notes.add("damaged", "error", problem, line=place[0], byte=place[1])
            else:
                self._check_blocks(source.get("content"), as_list(message.metadata.get(LEFT_OUT)))
                yield self._names.named(message)

    def _check_blocks(self, blocks: JSON, kept: list[JSON]) -> None:
        """Note the fields of parts that are not read; parts that the message keeps whole have none."""
        for block in as_objects([blocks] if isinstance(blocks, dict) else blocks):
            known = _BLOCK_FIELDS.get(as_text(block.get("type")))
            if known is not None and block not in kept:
                self._notes.check_fields("part", block, known | _BESIDE)
                self._check_blocks(block.get("content"), kept)

    def _add(self, message: Message, time: datetime | None, batch: Batch | None) -> KnownEntry:
        entry = self._chain.add(message, time=time, batch=batch)
        if isinstance(entry, MessageEntry):
            self._history.append(entry)
            self._all.append(entry)
        return entry


def restated(entry: Entry) -> Iterator[Message]:
    """Yield the message that is read back after an entry was written for dive; see `Restate`."""
    message = message_of(entry)
    if message is None or is_empty_answer(message):
        return
    read_back = read_message(write_message(message))
    if read_back is not None:
        yield read_back


def _usage(source: Object) -> Usage:
    sent, answered = as_count(source.get("input_tokens")), as_count(source.get("output_tokens"))
    read, written = as_count(source.get("cache_read_input_tokens")), as_count(source.get("cache_creation_input_tokens"))
    return Usage(sent, answered, read, written, sent + answered + read + written)

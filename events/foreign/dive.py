"""dive: a header line, then a line an event: the messages of a turn with what it used, or a compaction.

    {"line_type":"header","data":{"id":"demo","title":"Demo","created_at":"...","updated_at":"...","forked_from":"..."}}
    {"line_type":"event","data":{"id":"evt-1","type":"turn","timestamp":"...","messages":[...],"usage":{"input_tokens":10,...}}}
    {"line_type":"event","data":{"id":"evt-2","type":"compaction","timestamp":"...","messages":[{...summary...}]}}

Messages are in the shape of Anthropic's interface. A turn becomes a batch: its messages, and its record with the event's
id. A compaction says what the history is from there on; what came before it stays. A last line that was cut off is left
out. The plain list of messages that dive's own tools exchange is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ..content import TextPart, plain_text
from ..entries import (
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
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .block_messages import read_message, write_message
from .chain import Chain, Names, derived_id
from .json_lines import Line, Notes, beginning, document, objects
from .spoken import message_of
from .values import Object, as_count, as_list, as_object, as_objects, as_text, as_time, kept_json

NAME = "dive"
TURN = "turn"
COMPACTION = "compaction"

_START = b'{"line_type"'
_BEGINS = re.compile(
    rb'\[\s*\{\s*("id"\s*:\s*"[^"\\]*"\s*,\s*)?"role"\s*:\s*"(user|assistant|system)"\s*,\s*'
    rb'"content"\s*:\s*\[\s*\{\s*"type"\s*:'
)
_OTHERS = re.compile(rb'"(tool_calls|tool_call_id)"\s*:|"type"\s*:\s*"image_url"')  # such lists may begin as dive's do
_HEADER_KEYS = frozenset({"id", "title", "created_at", "updated_at", "forked_from", "metadata"})


class DiveFormat:
    """Sessions of dive."""

    name = NAME
    title = "dive"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether this is a session of dive, or a list of its messages."""
        return _is_log(head) or _is_list(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))


def _is_log(head: bytes) -> bool:
    return b'"line_type"' in head.partition(b"\n")[0]


def _is_list(head: bytes) -> bool:
    return _BEGINS.match(beginning(head)) is not None and _OTHERS.search(head) is None


def _read(path: Path) -> ForeignSession:
    with path.open("rb") as file:
        head = file.read(4096)
    if not _is_log(head) and beginning(head).startswith(b"["):
        return _read_list(path)
    findings: list[Finding] = []
    given = _header_of(path)
    session = as_text(given.get("id")) or path.stem
    modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    created = as_time(given.get("created_at")) or as_time(given.get("updated_at")) or _first_time(path) or modified
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=created,
        parent_session=as_text(given.get("forked_from")) or None,
        title=as_text(given.get("title")) or None,
    )
    reading = _Reading(Chain(NAME, session, created), Notes(path, findings))
    entries = reading.log(path, given)
    return ForeignSession(header=header, entries=entries, findings=findings, restate=restated)


def _header_of(path: Path) -> Object:
    """Return the data of the first header; an empty object where the events have none.

    Raises:
        ForeignFormatError: There is no line of this format.
    """
    found = False
    for line in objects(path, Notes(path, []), _START):
        if line.value.get("line_type") == "header":
            return as_object(line.value.get("data"))
        if line.value.get("line_type") == "event":
            found = True
    if found:
        return {}
    raise ForeignFormatError("there is no line of a session of dive in this file", where=Where(str(path)))


def _first_time(path: Path) -> datetime | None:
    data = (as_object(line.value.get("data")) for line in objects(path, Notes(path, []), _START))
    return next(filter(None, (as_time(event.get("timestamp")) for event in data)), None)


def _read_list(path: Path) -> ForeignSession:
    findings: list[Finding] = []
    messages = as_list(document(path))
    if not any(isinstance(as_object(each).get("content"), list) and "role" in as_object(each) for each in messages):
        raise ForeignFormatError("there is no message in this list", where=Where(str(path)))
    if any("tool_calls" in each or "tool_call_id" in each for each in as_objects(messages)):
        raise ForeignFormatError(
            "these messages are not of dive: they name calls beside their content", where=Where(str(path))
        )
    session = derived_id(NAME, sha256(path.read_bytes()).hexdigest())
    created = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    header = Header(id=session, version=NATIVE_VERSION, timestamp=created)
    reading = _Reading(Chain(NAME, session, created), Notes(path, findings))
    return ForeignSession(
        header=header, entries=reading.messages([as_object(each) for each in messages]), findings=findings
    )


class _Reading:
    """One pass through a session."""

    def __init__(self, chain: Chain, notes: Notes) -> None:
        self._chain = chain
        self._notes = notes
        self._names = Names()
        self._history: list[MessageEntry] = []  # what the history is, as dive counts it

    def messages(self, given: list[Object], line: Line | None = None) -> Iterator[KnownEntry]:
        """Yield the entries of messages that belong to no turn."""
        for message in self._read(given, line):
            yield self._add(message, None, None)

    def log(self, path: Path, header: Object) -> Iterator[KnownEntry]:
        """Yield the entries of a file of lines."""
        metadata = header.get("metadata")
        if isinstance(metadata, dict):
            yield self._chain.add(SessionInfo(raw_metadata=kept_json(metadata)))
        rest = {key: value for key, value in header.items() if key not in _HEADER_KEYS}
        if rest:
            yield self._chain.add(Custom("dive.header", kept_json(rest)))
        if not header:
            self._notes.add("damaged", "error", "there is no header: the session is named after the file")
        headers = 0
        for line in objects(path, self._notes, _START):
            kind, data = as_text(line.value.get("line_type")), as_object(line.value.get("data"))
            if kind == "header":
                headers += 1
                if headers > 1:
                    self._notes.skip("second header")
            elif kind != "event":
                self._notes.skip(kind or "line without a type")
            elif data.get("type") == COMPACTION:
                yield from self._compaction(data, line)
            else:
                yield from self._turn(data, line)
        self._notes.close()

    def _turn(self, data: Object, line: Line) -> Iterator[KnownEntry]:
        time = as_time(data.get("timestamp"))
        messages = list(self._read([as_object(each) for each in as_list(data.get("messages"))], line))
        event, size = as_text(data.get("id")), len(messages) + 1
        batch = event or derived_id(NAME, self._chain.session, str(line.number))
        for position, message in enumerate(messages):
            yield self._add(message, time, Batch(self._chain.session, batch, position, size))
        given = data.get("metadata")
        record = UsageRecord(
            TURN,
            _usage(as_object(data.get("usage"))),
            messages=len(messages),
            raw_metadata=kept_json(given) if isinstance(given, dict) else None,
        )
        yield self._chain.add(record, id=event, time=time, batch=Batch(self._chain.session, batch, size - 1, size))

    def _compaction(self, data: Object, line: Line) -> Iterator[KnownEntry]:
        time = as_time(data.get("timestamp"))
        messages = list(self._read([as_object(each) for each in as_list(data.get("messages"))], line))
        summary = ""
        if messages and messages[0].role == "user" and all(isinstance(part, TextPart) for part in messages[0].content):
            summary = plain_text(messages.pop(0).content)
        kept = self._history[len(self._history) - len(messages) :]
        same = bool(messages) and [entry.message for entry in kept] == messages
        details = data.get("metadata")
        compaction = Compaction(
            summary, kept[0].id if same else None, 0, kept_json(details) if isinstance(details, dict) else None
        )
        yield self._chain.add(compaction, id=as_text(data.get("id")), time=time)
        self._history = kept if same else []
        for message in () if same else messages:
            yield self._add(message, time, None)

    def _read(self, given: list[Object], line: Line | None) -> Iterator[Message]:
        for position, each_message in enumerate(given):
            message = read_message(each_message)
            if message is None:
                place = (line.number, line.byte) if line else (None, None)
                what = f"messages[{position}] has no role: it is left out"
                self._notes.add("damaged", "error", what, line=place[0], byte=place[1])
            else:
                yield self._names.named(message)

    def _add(self, message: Message, time: datetime | None, batch: Batch | None) -> KnownEntry:
        entry = self._chain.add(message, time=time, batch=batch)
        if isinstance(entry, MessageEntry):
            self._history.append(entry)
        return entry


def restated(entry: Entry) -> Iterator[Message]:
    """Yield the message of dive that an entry becomes; see `Restate`."""
    message = message_of(entry)
    again = None if message is None else read_message(write_message(message))
    return iter(()) if again is None else iter((again,))


def _usage(given: Object) -> Usage:
    asked, answered = as_count(given.get("input_tokens")), as_count(given.get("output_tokens"))
    read, written = as_count(given.get("cache_read_input_tokens")), as_count(given.get("cache_creation_input_tokens"))
    return Usage(asked, answered, read, written, asked + answered + read + written)

"""picoclaw: one JSON document per session, or its successor: lines of messages, and a sidecar with the metadata.

    {"key":"telegram:123456","messages":[{"role":"user","content":"Hello!"}],"summary":"","created":"...","updated":"..."}

    telegram_123456.jsonl       {"role":"user","content":"Hello!","created_at":"..."}
    telegram_123456.meta.json   {"key":"telegram:123456","summary":"...","skip":2,"count":4,
                                 "created_at":"...","updated_at":"..."}

The first `skip` messages, counting damaged lines, are no longer active. They are kept, and a compaction without a
summary hides them from contexts. If that would separate a tool result from its call, the cut moves back to before the
call. The summary is metadata of the session rather than a message, like the one that `Session.set_summary` sets.

`picoclaw_document` writes only what a context shows, since such a document has no place for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from ..events.content import ToolResultPart, ToolUse, ToolUsePart
from ..events.entries import (
    NATIVE_VERSION,
    Compaction,
    CompactionEntry,
    Entry,
    Header,
    KnownEntry,
    Message,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
)
from ..events.errors import ForeignFormatError, Where
from ..events.json_values import JSON
from ..events.providers.common import url_of
from .base import ForeignSession, Format
from .chain import Chain, Names, derived_id
from .json_lines import (
    Line,
    Notes,
    beginning,
    decoded,
    document,
    document_beside,
    first_object,
    names_in,
    objects,
    objects_of,
    unheard,
)
from .messages import SimpleMessage, is_system, read_message, simple_messages
from .opening import modified_at
from .values import Object, as_count, as_list, as_object, as_text, as_time, iso

NAME = "picoclaw"
META_SUFFIX = ".meta.json"

_START = b'{"role"'
_DOCUMENT = re.compile(rb'\{\s*"key"\s*:\s*"[^"]*"\s*,\s*"messages"\s*:\s*\[')
_DOCUMENT_FIELDS = names_in("created summary updated")
_SESSION_FIELDS = _DOCUMENT_FIELDS | {"count", "created_at", "key", "messages", "skip", "updated_at"}
_MESSAGE_FIELDS = names_in(
    "attachments content content_parts created_at media model_name name reasoning_content role system_parts",
    "tool_call_id tool_calls thought_signature",
)


class PicoclawFormat(Format):
    """`<key>.json`, and `<key>.jsonl` with its `.meta.json`."""

    name = NAME
    title = "picoclaw"
    checked = "files of the program"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a picoclaw session."""
        is_sidecar = (first_object(head) or {}).keys() >= {"key", "skip"}
        return is_sidecar or _is_document(head) or _is_line(path, head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))

    def write(self, header: Header, entries: Sequence[Entry]) -> bytes:
        """Return a path as picoclaw's JSON document; see `WritesFile.write`."""
        return picoclaw_document(header, entries)


def _is_document(head: bytes) -> bool:
    value = first_object(head)
    if value is None:  # the document is longer than the head
        return _DOCUMENT.match(beginning(head)) is not None
    return {"key", "messages"} <= value.keys() and not _DOCUMENT_FIELDS.isdisjoint(value)


def _is_line(path: Path, head: bytes) -> bool:
    """Return whether a file begins with a message of picoclaw; other programs' lines have no such time or sidecar."""
    line = beginning(head).partition(b"\n")[0]
    value = decoded(line)
    if not line.startswith(_START) or (
        value is not None and not {"role", "content"} <= value.keys() <= _MESSAGE_FIELDS
    ):
        return False
    return b'"created_at"' in line or path.with_name(path.stem + META_SUFFIX).is_file()


def _read(path: Path) -> ForeignSession:
    if path.name.endswith(META_SUFFIX):
        path = path.with_name(path.name.removesuffix(META_SUFFIX) + ".jsonl")
        if not path.is_file():
            raise ForeignFormatError("the messages file of this sidecar is missing", where=Where(str(path)))
    notes, counter = Notes(path), _MessageCounter()
    sidecar = path.with_name(path.stem + META_SUFFIX)
    if path.suffix == ".jsonl":
        without = "the key is taken from the file's name, and all messages count"
        meta = document_beside(sidecar, notes, "sidecar", "sidecar", without)
        created, updated = as_time(meta.get("created_at")), as_time(meta.get("updated_at"))
        first = next((line for line in objects(path, unheard(), _START) if read_message(line.value, unheard())), None)
        if first is None:
            raise ForeignFormatError("the file contains no messages", where=Where(str(path)))
        created = created or as_time(first.value.get("created_at"))
        lines = counter.lines(path, notes)
    else:
        meta = as_object(document(path))
        if not isinstance(meta.get("messages"), list):
            raise ForeignFormatError("this is not a picoclaw session: it has no messages", where=Where(str(path)))
        created, updated = as_time(meta.get("created")), as_time(meta.get("updated"))
        notes.check_items("message of an unknown form", meta["messages"])
        lines = counter.values(as_list(meta["messages"]))
    key = as_text(meta.get("key")) or path.stem
    header = Header(
        id=derived_id(NAME, key), version=NATIVE_VERSION, timestamp=created or updated or modified_at(path), key=key
    )
    entries = _entries(header, lines, counter, meta, updated, notes)
    beside = (sidecar,) if path.suffix == ".jsonl" else ()
    return ForeignSession(header=header, entries=entries, findings=notes.findings, restate=restated, beside=beside)


class _MessageCounter:
    """A counter of the messages read, which counts damaged lines as picoclaw does.

    Attributes:
        stored: How many messages have been read so far.
    """

    def __init__(self) -> None:
        self.stored = 0

    def lines(self, path: Path, notes: Notes) -> Iterator[Line]:
        """Yield the messages of a file of lines."""
        with path.open("rb") as file:
            yield from objects_of(self._counted_lines(file), notes, _START)

    def values(self, values: list[JSON]) -> Iterator[Line]:
        """Yield the messages of a document."""
        for value in values:
            self.stored += 1
            yield Line(1, 0, b"", as_object(value))

    def _counted_lines(self, file: Iterable[bytes]) -> Iterator[bytes]:
        for line in file:
            self.stored += bool(line.rstrip(b"\r\n"))
            yield line


def _entries(
    header: Header,
    lines: Iterator[Line],
    counter: _MessageCounter,
    meta: Object,
    updated: datetime | None,
    notes: Notes,
) -> Iterator[KnownEntry]:
    notes.check_fields("session", meta, _SESSION_FIELDS)
    notes.check_strings("session", meta, "summary")
    chain = Chain(NAME, header.id, header.timestamp)
    skip = as_count(meta.get("skip"))
    start = _HistoryStart(skip)
    names = Names()
    for line in lines:
        notes.check_fields("message", line.value, _MESSAGE_FIELDS, line=line.number, byte=line.byte)
        message = read_message(line.value, notes)
        if message is None:
            notes.at(
                line,
                "damaged",
                "error",
                f"message {counter.stored} has no role, or is a tool result without a call id, so it is left out",
            )
            continue
        entry = chain.add(names.named(message), time=as_time(line.value.get("created_at")))
        start.note_message(entry, counter.stored)
        yield entry
    count, stored = meta.get("count"), counter.stored
    if count is not None and as_count(count) != stored:
        notes.add("count", "warning", f"the sidecar counts {as_count(count)} messages, but {stored} were found")
    summary = as_text(meta.get("summary"))
    if summary:
        yield chain.describe(SessionInfo(summary=summary), time=updated)
    if skip:
        if start.moved:
            text = f"skipping {skip} messages would separate a tool result from its call, so the call is kept as well"
            notes.add("unsafe_cut", "warning", text, entry_id=start.first_kept)
        yield chain.describe(Compaction("", start.first_kept, 0), time=updated)
    notes.close()


class _HistoryStart:
    """A search for the first message that is still active.

    Attributes:
        first_kept: The id of its entry; None if no message is active.
        moved: Whether it precedes the position given by `skip`.
    """

    def __init__(self, skip: int) -> None:
        self.first_kept: str | None = None
        self.moved = False
        self._skip = skip
        self._call_places: dict[str, int] = {}
        self._skipped: list[str] = []
        self._place = 0

    def note_message(self, entry: KnownEntry, stored: int) -> None:
        """Note a message that was read, and how many messages are stored up to and including it."""
        if not isinstance(entry, MessageEntry):
            return
        if stored <= self._skip:
            for part in entry.message.content:
                if isinstance(part, ToolUsePart):
                    self._call_places[part.tool_use.id] = len(self._skipped)
            self._skipped.append(entry.id)
            self._place = len(self._skipped)
            return
        if self.first_kept is None:
            self.first_kept = entry.id
        for part in entry.message.content:
            if isinstance(part, ToolResultPart):
                place = self._call_places.get(part.tool_result.tool_use_id, self._place)
                if place < self._place:
                    self._place, self.first_kept, self.moved = place, self._skipped[place], True


def picoclaw_document(header: Header, entries: Sequence[Entry]) -> bytes:
    """Write a session as picoclaw's JSON document.

    Args:
        header: The session's header; its key, or else its id, is the document's key.
        entries: The path to write, starting at its root. What its latest compaction left out is not written, except for
            system messages, since the document has no place for what a context does not show.

    Returns:
        The document, with a newline at the end.
    """
    summary, first_kept = "", 0
    places = {entry.id: place for place, entry in enumerate(entries)}
    for place, entry in enumerate(entries):
        if isinstance(entry, CompactionEntry):
            first_kept = places.get(entry.compaction.first_kept_entry_id, place)
            summary = entry.compaction.summary or summary
        elif isinstance(entry, SessionInfoEntry) and entry.session_info.summary is not None:
            summary = entry.session_info.summary
    shown = [*filter(is_system, entries[:first_kept]), *entries[first_kept:]]
    session_document: Object = {
        "key": header.key or header.id,
        "messages": [_message(source) for source in simple_messages(shown)],
        "summary": summary,
        "created": iso(header.timestamp),
        "updated": iso(entries[-1].timestamp if entries else header.timestamp),
    }
    return msgspec.json.format(msgspec.json.encode(session_document), indent=2) + b"\n"


def restated(entry: Entry) -> Iterator[Message]:
    """Yield the picoclaw messages to which an entry is converted; see `Restate`."""
    return filter(None, (read_message(_message(source), unheard()) for source in simple_messages((entry,))))


def _message(source: SimpleMessage) -> Object:
    message: Object = {"role": source.role, "content": source.words}
    images: list[JSON] = [url_of(part) for part in source.images]
    if images:
        message["media"] = images
    if source.thought:
        message["reasoning_content"] = source.thought
    if source.calls:
        message["tool_calls"] = [_call(call) for call in source.calls]
    if source.result is not None:
        message["tool_call_id"] = source.result.tool_use_id
    return message


def _call(call: ToolUse) -> Object:
    function: Object = {"name": call.name, "arguments": call.input_text}
    written: Object = {"id": call.id, "type": "function", "function": function}
    if call.signature is not None:
        written["extra_content"] = {"google": {"thought_signature": call.signature}}
    return written

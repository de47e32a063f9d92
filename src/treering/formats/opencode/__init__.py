"""opencode: sessions of messages made of parts, in a tree of files, a database or an exported file.

A path may name the storage tree, the file of one session, the database, or a file written by `opencode export`. A
message that summarizes earlier messages becomes a compaction, unless it failed. If messages were reverted, they stay on
their branch, and the leaf is an entry that records the revert, below the entry before them. When such a session
continues, opencode deletes them.

What opencode stores but no longer sends, context edits leave out: the results that it cleared, from when it cleared
them, and answers that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ...events.content import text
from ...events.entries import NATIVE_VERSION, ContextEdit, Custom, Entry, Header, KnownEntry, Message, ModelChange
from ...events.errors import ForeignFormatError, Where
from ..base import ForeignSession, Format
from ..chain import Chain, is_derived
from ..databases import HEAD, beside_database
from ..json_lines import Notes, beginning, decoded, document, names_in
from ..opening import modified_at, read_each
from ..values import Object, as_list, as_object, as_text, as_time, kept_json
from .messages import (
    Item,
    check_info,
    created,
    is_finished,
    is_hidden,
    is_summary,
    model_of,
    read_answer,
    read_summary,
    read_user,
)
from .storage import (
    InFile,
    InTree,
    Record,
    StoredSession,
    ends_in_database,
    in_database,
    is_database,
    is_in_first_tree,
    is_tree,
)

NAME = "opencode"
_DATABASE = "opencode.db"
_STORAGE = "storage"

_CLEARED = "[Old tool result content cleared]"  # what opencode sends instead
_MESSAGE_PREFIX = "msg_"
_AT_THE_END = names_in("finish error tokens cost")
"""What a message gets when it ends, after its last part."""

_SESSION_FIELDS = names_in(
    "agent cost directory id metadata model parentID path permission projectID revert share slug summary time title",
    "tokens version workspaceID",
)

_UNTITLED = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")
"""The title of a session that has none so far."""

_SESSION = re.compile(rb'\{\s*"id"\s*:\s*"')
_EXPORT = re.compile(rb'\{\s*"info"\s*:\s*\{')
_EXPORT_ID = re.compile(_EXPORT.pattern + rb'\s*"id"\s*:\s*"')


class OpencodeFormat(Format):
    """The storage tree, also of the first versions, a session's file in it, `opencode.db`, an exported file."""

    name = NAME
    title = "opencode"
    home = "~/.local/share/opencode"
    checked = "the program, 1.18.33"
    moved_by = ("XDG_DATA_HOME", "~/.local/share")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is an opencode session, storage tree, or database."""
        if path.is_dir():
            return is_tree(path)
        if head.startswith(HEAD):
            return is_database(path)
        start = beginning(head)
        return _is_session(start, is_in_first_tree(path)) or _is_export(start)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session, or all sessions of a storage; see `Format.read`."""
        if path.is_dir():
            files = sorted(path.glob("session/*/*.json"))
            return read_each(files, lambda file: _read(InTree(file)), "the folder holds no opencode session")
        with path.open("rb") as file:
            head = file.read(len(HEAD))
        if head == HEAD:
            beside = (*beside_database(path), path.with_name(_STORAGE))  # with the older tree, which was moved into it
            return in_database(path, lambda stored: replace(_read(stored), beside=beside))
        data = as_object(document(path))
        return iter((_read(InFile(path, data) if "messages" in data else InTree(path)),))

    def may_hold(self, folder: Path, path: Path, *, is_folder: bool) -> bool:
        """Return whether this is the database, or, if there is none, lies in the tree of sessions."""
        if (folder / _DATABASE).exists():  # the tree was moved into it
            return path == folder / _DATABASE
        sessions = folder / _STORAGE / "session"
        if is_folder:
            return path in (sessions, sessions.parent) or sessions in path.parents
        return sessions in path.parents and path.suffix == ".json"

    def holder_of(self, folder: Path, path: Path) -> Path:
        """Return the database of its log, and the session of a message."""
        if path.name.startswith(f"{_DATABASE}-"):
            return path.with_name(_DATABASE)
        return path

    def has_ends(self, path: Path) -> bool:
        """Return whether this is a database, or a session's file in a storage tree; see `ReadsEnds.has_ends`."""
        return path.suffix == ".db" or (path.parent.parent.name == "session" and path.suffix == ".json")

    def read_ends(self, path: Path, since: datetime | None) -> Iterator[ForeignSession | str]:
        """Read how sessions begin and end; see `ReadsEnds.read_ends`."""
        if path.suffix == ".json":
            return iter((_read(InTree(path, ends_only=True)),))
        since_ms = 0 if since is None else int(since.timestamp() * 1000)
        return ends_in_database(path, _read, since_ms)

    def read_one(self, path: Path, session_id: str) -> Iterator[ForeignSession]:
        """Read a session; see `ReadsEnds.read_one`."""
        if path.suffix == ".json":
            return iter((_read(InTree(path)),))
        return in_database(path, _read, only=session_id)


def _is_session(start: bytes, is_first: bool) -> bool:
    names = ("id", "time") if is_first else ("id", "projectID", "directory", "time")
    if not (start.startswith(b"{") and all(b'"%b"' % name.encode() in start for name in names)):
        return False
    data = decoded(start)
    if data is None:  # damaged, or longer than `start`: opencode writes the id first
        return _SESSION.match(start) is not None
    return bool(as_text(data.get("id"))) and all(name in data for name in names)


def _is_export(start: bytes) -> bool:
    if _EXPORT.match(start) is None:
        return False
    data = decoded(start)
    if data is None:
        return _EXPORT_ID.match(start) is not None
    messages = data.get("messages")
    are_messages = all(isinstance(message, dict) and "info" in message for message in as_list(messages))
    return isinstance(messages, list) and are_messages and bool(as_text(as_object(data.get("info")).get("id")))


def _read(stored: StoredSession) -> ForeignSession:
    info = stored.info()
    session, where = as_text(info.get("id")), Where(str(stored.path))
    if not session:
        raise ForeignFormatError("this is not an opencode session: it has no id", where=where)
    notes = Notes(stored.path)
    notes.check_fields("session", info, _SESSION_FIELDS)
    notes.check_strings("session", info, "title")
    records = list(stored.records(notes))
    times = (created(info), *(created(record.info) for record in records))
    modified = modified_at(stored.path)
    title = as_text(info.get("title"))
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=next(filter(None, times), modified),
        cwd=_folder(info, records) or None,
        parent_session=as_text(info.get("parentID")) or None,
        title=None if _UNTITLED.match(title) else title or None,
    )
    reading = _Reading(header, notes)
    kept, reverted = _parted(records, as_object(info.get("revert")))
    entries, updated = [*reading.all_entries(kept)], as_time(as_object(info.get("time")).get("updated"))
    if reverted:
        entries += reading.reverted(reverted, updated)
    notes.close()
    return ForeignSession(
        header=header,
        entries=iter(entries),
        findings=notes.findings,
        leaf_id=entries[-1].id if reverted else None,
        is_of_source=_is_of_opencode,
        changed=updated,
        origin=as_object(info.get("metadata")),
    )


def _is_of_opencode(entry: Entry) -> bool:
    return entry.id is not None and (entry.id.startswith(_MESSAGE_PREFIX) or is_derived(entry))


def _parted(records: Sequence[Record], revert: Object) -> tuple[Sequence[Record], Sequence[Record]]:
    """Return the messages before the point to which a session was reverted, and those from there on.

    The point may be within a message, which is then parted. Ids of messages ascend, so the point is also known if its
    message is missing.
    """
    message, part = as_text(revert.get("messageID")), as_text(revert.get("partID"))
    if not message:
        return records, ()
    ids = [as_text(record.info.get("id")) for record in records]
    position = ids.index(message) if message in ids else sum(each < message for each in ids)
    if not part or ids[position : position + 1] != [message]:
        return records[:position], records[position:]
    record = records[position]
    before = next((at for at, each in enumerate(record.parts) if each.get("id") == part), len(record.parts))
    whole = {name: value for name, value in record.info.items() if name not in _AT_THE_END}
    parts = Record(whole, record.parts[:before]), Record({**record.info, "id": ""}, record.parts[before:])
    later = parts[1:] if parts[1].parts else ()
    return (*records[:position], parts[0] if later else record), (*later, *records[position + 1 :])


def _folder(info: Object, records: Sequence[Record]) -> str:
    """Return the working directory of a session, which the first versions store with each answer."""
    answer_folders = (as_text(as_object(record.info.get("path")).get("cwd")) for record in records)
    return as_text(info.get("directory")) or next(filter(None, answer_folders), "")


class _Cleared(NamedTuple):
    time: datetime
    entry_id: str


class _Reading:
    """A conversion of the messages of one session."""

    def __init__(self, header: Header, notes: Notes) -> None:
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._notes = notes
        self._model = ("", "")
        self._first_kept: str | None = None
        self._cleared: list[_Cleared] = []  # a heap of those without an edit so far

    def all_entries(self, records: Iterable[Record]) -> Iterator[KnownEntry]:
        """Yield the entries of messages, and all edits of their results."""
        for record in records:
            yield from self.entries(record)
        yield from self.edits()

    def entries(self, record: Record) -> Iterator[KnownEntry]:
        """Yield the entries of a message."""
        info, time = record.info, created(record.info)
        message, role = as_text(info.get("id")), as_text(info.get("role"))
        check_info(info, self._notes)
        if time is not None:
            yield from self.edits(time)
        for part in record.parts:
            if part.get("type") == "compaction":
                self._first_kept = as_text(part.get("tail_start_id")) or None
        if role not in ("user", "assistant"):
            self._notes.add("damaged", "error", f"the message {message!r} has no known role, so it is left out")
            return
        model = model_of(info)
        if all(model) and model != self._model:
            self._model = model
            yield self._chain.add(ModelChange(*model), time=time)
        if is_summary(info):
            kept = self._first_kept if self._first_kept and self._first_kept in self._chain else None
            self._first_kept = None
            if is_finished(record):
                yield self._chain.add(read_summary(record, kept, self._notes), id=message, time=time)
                return
            if not info.get("error"):
                message = ""  # the id is reserved for the compaction that the message becomes once it is finished
        items = read_user(record, self._notes) if role == "user" else read_answer(record, self._notes)
        hidden: list[KnownEntry] = []
        for position, item in enumerate(items):
            entry = self._add(item, message if position == 0 else "")
            yield entry
            if role == "assistant" and isinstance(item.payload, Message) and item.payload.content:
                hidden.append(entry)
        for entry in hidden if is_hidden(record) else ():
            yield self._chain.describe(ContextEdit(entry.id))

    def edits(self, before: datetime | None = None) -> Iterator[KnownEntry]:
        """Yield the edits for the results that were cleared before a time, or all that are left."""
        while self._cleared and (before is None or self._cleared[0].time <= before):
            time, entry_id = heappop(self._cleared)
            yield self._chain.describe(ContextEdit(entry_id, (text(_CLEARED),)), time=time)

    def reverted(self, records: Iterable[Record], time: datetime | None) -> Iterator[KnownEntry]:
        """Yield the entries of messages that were reverted, and that which becomes the leaf, below what was kept.

        The leaf follows what an import adds: without this entry, it would stay where it was before the revert.
        """
        last_kept = self._chain.leaf
        yield from self.all_entries(records)
        self._chain.leaf = last_kept
        yield self._chain.describe(Custom("opencode.revert", kept_json({"to": last_kept})), time=time)

    def _add(self, item: Item, message: str) -> KnownEntry:
        entry = self._chain.add(item.payload, id=message, time=item.time, beginning=item.beginning or None)
        if item.cleared is not None:
            heappush(self._cleared, _Cleared(item.cleared, entry.id))
        return entry

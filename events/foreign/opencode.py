"""opencode: sessions of messages made of parts, in a tree of files, a database or an exported file.

A path may name the storage tree, the file of one session, the database, or a file written by `opencode export`. A
message that summarizes earlier messages becomes a compaction, unless it failed. If messages were reverted, the leaf is
the entry before them, and they stay on their branch; if all were, it is an entry that records the revert.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ..entries import NATIVE_VERSION, Custom, Header, KnownEntry, ModelChange
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .chain import Chain
from .json_lines import Notes, beginning, decoded, document
from .opencode_database import HEAD, in_database, is_database
from .opencode_messages import is_finished, is_summary, model_of, read_answer, read_summary, read_user
from .opencode_parts import Item, created
from .opencode_storage import InFile, InTree, Record, StoredSession, is_in_first_tree, is_tree
from .storage_reading import read_each
from .values import Object, as_list, as_object, as_text, as_time, kept_json

NAME = "opencode"

_SESSION = re.compile(rb'\{\s*"id"\s*:\s*"')
_EXPORT = re.compile(rb'\{\s*"info"\s*:\s*\{')
_EXPORT_ID = re.compile(_EXPORT.pattern + rb'\s*"id"\s*:\s*"')


class OpencodeFormat:
    """Sessions of opencode."""

    name = NAME
    title = "opencode"

    def recognizes(self, path: Path, head: bytes) -> bool:
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
            return in_database(path, lambda stored: replace(_read(stored), beside=_companions(path)))
        data = as_object(document(path))
        return iter((_read(InFile(path, data) if "messages" in data else InTree(path)),))


def _companions(database: Path) -> tuple[Path, ...]:
    """Return the paths beside a database: its own files, and the older tree, whose content was moved into it."""
    own_files = (database.with_name(f"{database.name}-{end}") for end in ("wal", "shm", "journal"))
    return (*own_files, database.with_name("storage"))


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
    findings: list[Finding] = []
    notes = Notes(stored.path, findings)
    records = list(stored.records(notes))
    times = (created(info), *(created(record.info) for record in records))
    modified = datetime.fromtimestamp(int(stored.path.stat().st_mtime), UTC)
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=next(filter(None, times), modified),
        cwd=_folder(info, records) or None,
        parent_session=as_text(info.get("parentID")) or None,
        title=as_text(info.get("title")) or None,
    )
    reading = _Reading(header, notes)
    entries = [entry for record in records for entry in reading.entries(record)]
    notes.close()
    leaf: str | None = None
    reverted = as_text(as_object(info.get("revert")).get("messageID"))
    if entries and reverted in reading.before:
        revert = reading.revert(reverted, as_time(as_object(info.get("time")).get("updated")))
        entries.append(revert)
        leaf = revert.id
    return ForeignSession(header=header, entries=iter(entries), findings=findings, leaf_id=leaf)


def _folder(info: Object, records: Sequence[Record]) -> str:
    """Return the working directory of a session, which the first versions store with each answer."""
    answer_folders = (as_text(as_object(record.info.get("path")).get("cwd")) for record in records)
    return as_text(info.get("directory")) or next(filter(None, answer_folders), "")


class _Reading:
    """A conversion of the messages of one session.

    Attributes:
        before: For each message that has an id, the entry that it follows.
    """

    def __init__(self, header: Header, notes: Notes) -> None:
        self.before: dict[str, str | None] = {}
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._notes = notes
        self._model = ("", "")
        self._first_kept: str | None = None

    def entries(self, record: Record) -> Iterator[KnownEntry]:
        """Yield the entries of a message."""
        info, time = record.info, created(record.info)
        message, role = as_text(info.get("id")), as_text(info.get("role"))
        if message:
            self.before[message] = self._chain.leaf
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
        for position, item in enumerate(items):
            yield self._add(item, message if position == 0 else "")

    def revert(self, message: str, time: datetime | None) -> KnownEntry:
        """Return the entry that becomes the leaf where a message, and all after it, were reverted.

        The leaf follows what an import adds: without this entry, it would stay where it was before the revert.
        """
        self._chain.leaf = self.before[message]
        return self._chain.describe(Custom("opencode.revert", kept_json({"to": self._chain.leaf})), time=time)

    def _add(self, item: Item, message: str) -> KnownEntry:
        return self._chain.add(item.payload, id=message, time=item.time, beginning=item.beginning or None)

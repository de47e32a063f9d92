"""Incoming sessions: their entries as the lines that the log here does not have yet.

Both kinds read their source once, entry by entry, and count on the way. Entries that the log has are recognized by id
and left out, so an import can be repeated, and two copies of one session that were both continued can be merged.
Nothing here opens a log: callers describe it as an `ExistingLog`, and it may run on any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...events.dialects.base import Dialect, in_utc
from ...events.dialects.native import NativeDialect
from ...events.entries import (
    EPOCH,
    NATIVE_VERSION,
    CompactionEntry,
    Entry,
    Header,
    KnownEntry,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
    UsageEntry,
)
from ...events.errors import DialectCannot, ForeignFormatError, InvalidEntry, InvalidSessionId, Where
from ...events.findings import Finding, Severity
from ...events.texts import counted
from ...formats.base import ForeignSession, KeptSession
from ...formats.chain import derived_id
from ..host.names import checked_id, id_of_key
from .growing_answers import Latest, growth
from .matching import DESCRIBED, Matching


class ExistingLog(Struct, frozen=True):
    """What the log has before the import.

    Attributes:
        head: The seq of its last line.
        has: Returns whether it has an entry with this id.
        lines_without_id: Its lines that carry no id.
        parent_of: Returns the parent of an entry that it has.
        latest: Its latest answers, which may have been imported before they were complete.
        matching: Finds entries that the log has under other ids; None if ids suffice.
        descriptions: The ids of its entries that an earlier import derived from what the file says about the session
            as a whole; see `Chain.describe`.
    """

    head: int
    has: Callable[[str], bool]
    lines_without_id: frozenset[bytes]
    parent_of: Callable[[str], str | None]
    latest: Latest
    matching: Matching | None = None
    descriptions: frozenset[str] = frozenset()


_encode = msgspec.json.Encoder().encode

NO_LOG = ExistingLog(0, lambda _: False, frozenset(), lambda _: None, Latest({}, {}))
"""The state before a session exists."""


def advances_session(entry: Entry) -> bool:
    """Return whether an entry takes a session further.

    An entry that only sets the status, or archives the session or brings it back, does not, and neither does a usage
    record.
    """
    if isinstance(entry, UsageEntry):
        return False
    if not isinstance(entry, SessionInfoEntry):
        return True
    info = entry.session_info
    return info.archives is None or info != SessionInfo(status=info.status, archived=info.archived)


class Incoming(ABC):
    """A session that is being imported. Its counts are complete once its lines have been produced.

    Attributes:
        header: Its header.
        dialect: The dialect of its lines.
        block: The header block with which its log begins.
        entries: How many entries the source holds.
        messages: How many of them are messages.
        added: How many of them were missing in the log.
        matched: How many of them the log had, counting only those that advance a session; see `advances_session`.
        leaf: The leaf of the source; None if it is empty.
        last: The last added entry that becomes the leaf; None if there is none.
        findings: What was damaged, or could not be imported.
        continues: The entries of the log after which the source goes on, if it was handed over: the leaf moves along if
            it is one of these. None for all other sources.
    """

    def __init__(self, header: Header, dialect: Dialect, block: bytes, findings: list[Finding], path: str) -> None:
        self.header, self.dialect, self.block, self.findings = header, dialect, block, findings
        self.entries = self.messages = self.matched = 0
        self.added: int = 0
        self.leaf: str | None = None
        self.last: str | None = None
        self.continues: frozenset[str] | None = None
        self._path = path

    @abstractmethod
    def lines(self, existing: ExistingLog) -> Iterator[bytes]:
        """Yield the lines that the log lacks, each with its newline."""
        ...


class Copied(Incoming):
    """A session that keeps its dialect: its lines are imported as they are."""

    def __init__(self, session: KeptSession, path: str) -> None:
        super().__init__(session.header, session.dialect, session.block, session.findings, path)
        self._lines = session.lines
        self._source_leaf = session.leaf_id
        try:
            checked_id(session.header.id)
        except InvalidSessionId as error:
            raise ForeignFormatError(f"the session cannot be imported: {error}", where=Where(path)) from error

    def lines(self, existing: ExistingLog) -> Iterator[bytes]:
        """Yield the lines that the log lacks; see `Incoming.lines`."""
        decode = self.dialect.decode
        # An existing log was migrated when it was opened; a new one is migrated when it is first opened.
        migrated = self.dialect.migrated if self.dialect.old and existing is not NO_LOG else None
        damaged, has_source_leaf = 0, False
        for seq, line in enumerate(self._lines, 1):
            bare = line[:-1]
            entry = decode(bare, seq)
            entry_id = None if entry is None else entry.id
            has_id, damaged = entry_id is not None, damaged + (entry is None)
            self.entries += has_id
            self.messages += isinstance(entry, MessageEntry)
            has_source_leaf = has_source_leaf or (has_id and entry_id == self._source_leaf)
            becomes_leaf = entry is not None and has_id and not entry.aside
            is_known = (entry_id is not None and existing.has(entry_id)) or bare in existing.lines_without_id
            advances = entry is not None and advances_session(entry)
            # A known status may have come from here, and then stands elsewhere than at the source's leaf.
            if becomes_leaf and (advances or not is_known or (entry is not None and entry.parent_id == self.leaf)):
                self.leaf = entry_id
            if is_known:
                self.matched += has_id and advances
                continue
            self.added += has_id
            if becomes_leaf:
                self.last = entry_id
            yield line if migrated is None else migrated(bare, seq)
        if has_source_leaf:
            self.leaf = self._source_leaf
        if damaged:
            message = f"{counted(damaged, 'damaged line')} copied as found: `treering doctor` shows where"
            self.findings.append(Finding(self._path, None, None, "damaged", "warning", message))


class Converted(Incoming):
    """A session of another program, converted to a native one.

    Attributes:
        restate: See `ForeignSession`.
        is_implied: See `ForeignSession`.
        is_of_source: See `ForeignSession`.
        title: An entry with the title of the source, if the log has none; it stands beside the conversation.
        last_time: The time of the entry that was added last; until then, when the source was changed.
    See `Incoming` for all other attributes.
    """

    def __init__(self, session: ForeignSession, path: str, dialect: Dialect | None = None) -> None:
        header, dialect = _header(session.header), dialect or NativeDialect()
        super().__init__(header, dialect, dialect.encode_header(header), session.findings, path)
        self.restate, self.is_implied = session.restate, session.is_implied
        self.is_of_source = session.is_of_source
        self.title: KnownEntry | None = None
        self.last_time = session.changed or EPOCH
        self._source = session
        self._uses_of_id: dict[str, int] = {}
        self._parent_by_source_id: dict[str, str | None] = {}  # the log entry for children of a source entry
        self._log_ids: dict[str, str] = {}  # of entries that the log has under other ids
        self._continuations: dict[str, str] = {}  # the rest of an answer, between an entry and its new children
        self._pending_rests: list[KnownEntry] = []  # each below the entry that it is going to follow
        self._descriptive: dict[str, str | None] = {}  # parents of entries that only describe what the log has
        self._partial_batches: set[str] = set()  # the log has some of their entries: the others form no batch
        self._tail: str | None = None
        self._seq = 0

    def lines(self, existing: ExistingLog) -> Iterator[bytes]:
        """Yield the lines that the log lacks; see `Incoming.lines`."""
        self._seq = existing.head
        for source_entry in self._source.entries:
            entry = self._normalized(source_entry, existing)
            self.entries += 1
            if type(entry) is MessageEntry:
                self.messages += 1
            if existing.matching is not None:
                if self._match(entry, source_entry.parent_id, existing.matching):
                    self._note_batch(entry)
                    continue
                if source_entry.parent_id in self._parent_by_source_id:  # `_match` may just have settled its parent
                    entry = replace(entry, parent_id=self._parent_by_source_id[source_entry.parent_id])
            if existing.has(entry.id) and self._is_rewritten(entry, existing):
                entry = self._as_rewritten(entry, existing)
            if existing.has(entry.id):
                self._note_existing(entry, existing)
                continue
            if self._pending_rests:
                yield from self._write_rests()
                entry = self._reparented(entry)
            yield from self._write(self._with_log_ids(entry))
        yield from self._write_rests()
        yield from self._write(self.title) if self.title is not None else ()
        leaf = self._source.leaf_id
        if leaf is not None:
            leaf = self._parent_for_children_of(leaf)
        self.leaf = leaf if leaf in self._uses_of_id else self._tail

    def lacks(self, leaf: str) -> bool:
        """Return whether the program may have deleted the leaf of the log, once the lines have been produced."""
        return self._source.changed is not None and leaf not in self._uses_of_id

    def _normalized(self, entry: KnownEntry, existing: ExistingLog) -> KnownEntry:
        """Return an entry with a unique id and an existing parent."""
        entry = self._reparented(entry)
        uses = self._uses_of_id.get(entry.id, 0)
        parent = entry.parent_id
        if parent is not None and parent not in self._uses_of_id and not existing.has(parent):
            message = f"entry {entry.id!r} follows {parent!r}, which is not in the source: it becomes a root"
            self._report("parent_missing", "warning", message, entry.id)
            entry = replace(entry, parent_id=None)
        self._uses_of_id[entry.id] = uses + 1
        if uses:
            renamed = self._renamed(entry, str(uses))
            message = f"the id {entry.id!r} was used before: the entry gets the id {renamed.id}"
            self._report("duplicate_id", "warning", message, renamed.id)
            return renamed
        return entry

    def _renamed(self, entry: KnownEntry, reason: str) -> KnownEntry:
        """Return an entry with another id, derived from its own."""
        new_id = derived_id(self.header.id, entry.id, reason)
        self._parent_by_source_id[entry.id] = new_id
        self._uses_of_id[new_id] = 1
        return replace(entry, id=new_id)

    @staticmethod
    def _is_rewritten(entry: KnownEntry, existing: ExistingLog) -> bool:
        """Return whether an entry's batch was rewritten since it was imported: the log has the entry elsewhere."""
        return entry.batch is not None and entry.batch.i > 0 and existing.parent_of(entry.id) != entry.parent_id

    def _as_rewritten(self, entry: KnownEntry, existing: ExistingLog) -> KnownEntry:
        """Return an entry of a rewritten batch under a new id, to be added beside the one that the log has.

        The old entry, and those of its batch before it, are now only in the log. They count as matched, since they are
        not steps by which the session continued here.
        """
        self.matched += advances_session(entry)
        in_source = {*self._uses_of_id, *self._parent_by_source_id.values()} - {entry.id}
        above = existing.parent_of(entry.id)
        while above is not None and above not in in_source:
            self.matched += 1
            above = existing.parent_of(above)
        known_usage = existing.latest.usages.get(entry.id)
        if isinstance(entry, UsageEntry) and known_usage is not None:
            more_usage = entry.usage.usage.beyond(known_usage)
            entry = replace(entry, usage=replace(entry.usage, usage=more_usage))
        return self._renamed(entry, entry.parent_id or "")

    def _note_batch(self, entry: KnownEntry) -> None:
        if entry.batch is not None:
            self._partial_batches.add(entry.batch.id)

    def _match(self, entry: KnownEntry, parent: str | None, matching: Matching) -> bool:
        """Return whether the log has an entry under another id, or need not have it.

        Args:
            entry: The entry.
            parent: Its parent in the source.
            matching: Finds it.
        """
        log_id = matching.find(entry)
        if log_id is None:
            self._adopt_log_ids(matching)
            return False
        if log_id == entry.id:
            return False
        self.matched += advances_session(entry)
        if log_id == DESCRIBED:
            self._descriptive[entry.id] = parent
            self._parent_by_source_id[entry.id] = entry.parent_id
        else:
            self._parent_by_source_id[entry.id] = self._tail = log_id
        return True

    def _adopt_log_ids(self, matching: Matching) -> None:
        """Adopt the log's ids of the entries before a new one, which are certain now."""
        if matching.found_by_id is not None and matching.from_leaf and matching.leaf_id is not None:
            self._parent_by_source_id[matching.found_by_id] = matching.leaf_id  # below what else the session has there
        matching.found_by_id = None
        if not matching.log_ids:
            return
        self._log_ids.update(matching.log_ids)
        self._parent_by_source_id.update(matching.log_ids)
        if matching.last is not None and matching.from_leaf and matching.leaf_id is not None:
            self._parent_by_source_id[matching.last] = matching.leaf_id
        for entry_id, parent in self._descriptive.items():
            log_parent = None if parent is None else self._parent_by_source_id.get(parent, parent)
            self._parent_by_source_id[entry_id] = log_parent
        matching.log_ids.clear()
        self._descriptive.clear()

    def _reparented(self, entry: KnownEntry) -> KnownEntry:
        parent = None if entry.parent_id is None else self._parent_for_children_of(entry.parent_id)
        return entry if parent == entry.parent_id else replace(entry, parent_id=parent)

    def _parent_for_children_of(self, entry_id: str) -> str | None:
        """Return the log entry under which a child of `entry_id` belongs."""
        parent = self._parent_by_source_id.get(entry_id, entry_id)
        while parent is not None and parent in self._continuations:
            parent = self._continuations[parent]
        return parent

    def _with_log_ids(self, entry: KnownEntry) -> KnownEntry:
        """Return a compaction with the first kept entry under the id that it has in the log."""
        if not isinstance(entry, CompactionEntry) or entry.compaction.first_kept_entry_id not in self._log_ids:
            return entry
        first_kept = self._log_ids[entry.compaction.first_kept_entry_id]
        return replace(entry, compaction=replace(entry.compaction, first_kept_entry_id=first_kept))

    def _write(self, entry: KnownEntry) -> Iterator[bytes]:
        if entry.batch is not None and entry.batch.id in self._partial_batches:
            entry = replace(entry, batch=None)
        try:
            line = self._line(replace(entry, seq=self._seq + 1))
        except (InvalidEntry, DialectCannot) as error:
            self._report("not_taken", "error", f"an entry cannot be written here: {error}", entry.id)
            self._parent_by_source_id[entry.id] = entry.parent_id
            self.entries -= 1
            self.messages -= type(entry) is MessageEntry
            return
        self._seq += 1
        self.added += 1
        if not entry.aside:
            self._tail = self.last = entry.id
            self.last_time = entry.timestamp
        yield line

    def _line(self, entry: KnownEntry) -> bytes:
        """Encode an entry. A message was made of decoded values, so its line is not decoded again, which is slow."""
        is_message = type(entry) is MessageEntry and entry.id and entry.message.role
        if is_message and entry.timestamp.tzinfo is UTC and self.dialect.name == NativeDialect.name:
            with suppress(ValueError):  # `write` below reports what is wrong
                line = _encode(entry)
                if b"\n" not in line:
                    return line + b"\n"
        return self.dialect.write(entry)[0]

    def _note_existing(self, entry: KnownEntry, existing: ExistingLog) -> None:
        """Note an entry that the log has."""
        self._note_batch(entry)
        self.matched += advances_session(entry) and entry.id not in existing.descriptions
        if isinstance(entry, MessageEntry) and entry.message.role == "assistant":
            self._note_growth(entry, existing)
        parent = self._parent_for_children_of(entry.id)
        if entry.aside or parent is None:
            return
        self._tail = parent
        for position, rest in enumerate(self._pending_rests):
            if entry.parent_id == rest.parent_id:  # a rest goes below everything that the log has after its answer
                self._pending_rests[position] = replace(rest, parent_id=parent)

    def _note_growth(self, entry: MessageEntry, existing: ExistingLog) -> None:
        """Note what an answer contains beyond the part of it that the log has."""
        change = growth(entry, existing.has, existing.latest, self.header.id)
        self.matched += len(change.rests) + len(change.edits)
        for known in (*change.rests, *change.records, *change.edits):
            above = existing.parent_of(known)
            if above is not None:
                self._continuations[above] = known
        below = self._parent_for_children_of(entry.id) or entry.id
        self._pending_rests += [replace(each, parent_id=below) for each in change.missing]

    def _write_rests(self) -> Iterator[bytes]:
        """Write the rests of answers below what the log has of their branches; new entries follow below them."""
        for each in self._pending_rests:
            tail, added = self._tail, self.added
            self._uses_of_id[each.id] = 1
            self.entries += 1  # unless it cannot be written
            self.messages += type(each) is MessageEntry
            rest = self._reparented(each)
            yield from self._write(rest)
            if self.added > added and rest.parent_id is not None:
                self._continuations[rest.parent_id] = each.id
            if rest.parent_id != tail:
                self._tail = tail
        self._pending_rests.clear()

    def _report(self, code: str, severity: Severity, message: str, entry_id: str) -> None:
        self.findings.append(Finding(self._path, None, None, code, severity, message, entry_id))


def _header(header: Header) -> Header:
    """Return the header of a native session, with an id that can name a file."""
    if header.key is not None:
        session_id = id_of_key(header.key)
    else:
        try:
            session_id = checked_id(header.id, is_new=True)
        except InvalidSessionId:
            session_id = derived_id(header.id)
    return replace(header, id=session_id, version=NATIVE_VERSION, timestamp=in_utc(header.timestamp))

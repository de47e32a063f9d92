"""Sessions on their way in: what they hold, as the lines that the log here does not have yet.

Both kinds go through their source once, entry by entry, and count on the way. What the log has is left out by its id,
so that an import can be repeated, and two copies of one session that both went on can be brought together. Nothing here
opens a log: it is told what is `There`, and may run on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..events.dialects.base import Dialect
from ..events.dialects.native import NativeDialect, in_utc
from ..events.entries import (
    NATIVE_VERSION,
    CompactionEntry,
    Entry,
    Header,
    KnownEntry,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
    Usage,
    UsageEntry,
)
from ..events.errors import ForeignFormatError, InvalidEntry, InvalidSessionId, Where
from ..events.findings import Finding, Severity
from ..events.foreign.base import ForeignSession
from ..events.foreign.chain import derived_id
from ..events.foreign.kept import KeptSession
from ..events.wording import counted
from .half_said import Latest, beyond, growth
from .keys import id_of_key
from .matching import DESCRIBED, Matching
from .naming import checked_id


class There(Struct, frozen=True):
    """What the log has before anything comes in.

    Attributes:
        head: The ordinal of its last line.
        has: Tells whether it has an entry of this id.
        nameless: Its lines that carry no id.
        parent: Tells what an entry that it has follows.
        latest: Its latest answers: they may have been taken in half said.
        matching: Finds entries of the source that the log has under other ids; None where ids tell.
    """

    head: int
    has: Callable[[str], bool]
    nameless: frozenset[bytes]
    parent: Callable[[str], str | None]
    latest: Latest
    matching: Matching | None = None


_encode = msgspec.json.Encoder().encode

NOTHING = There(0, lambda _: False, frozenset(), lambda _: None, Latest({}, {}))
"""What is there before a session is."""


def goes_on(entry: Entry) -> bool:
    """Tell whether an entry takes a session further.

    One that says its status alone (archived, or active again) does not, and neither does the record of a usage.
    """
    if isinstance(entry, UsageEntry):
        return False
    if not isinstance(entry, SessionInfoEntry):
        return True
    said = entry.session_info
    return said.status is None or said != SessionInfo(status=said.status)


class Incoming(Protocol):
    """A session on its way in. What it counts is complete when its lines were made.

    Attributes:
        header: What it is called and where it belongs.
        dialect: What its lines are written in.
        block: The header block with which its log begins.
        entries: How many entries the source holds.
        messages: How many of them are messages.
        added: How many of them were not there.
        matched: How many of them were there, of those by which a session goes on; see `goes_on`.
        leaf: The entry at which the source stands; None where it holds none.
        last: The last entry that was not there and becomes the leaf; None where there is none.
        findings: What was damaged, or could not be taken over.
    """

    header: Header
    dialect: Dialect
    block: bytes
    entries: int
    messages: int
    added: int
    matched: int
    leaf: str | None
    last: str | None
    findings: list[Finding]

    def lines(self, there: There) -> Iterator[bytes]:
        """Make the lines that are not there, each with its newline."""
        ...


class Copied:
    """A session that keeps its dialect: its lines come in as they are."""

    def __init__(self, session: KeptSession, path: str) -> None:
        self.header = session.header
        self.dialect = session.dialect
        self.block = session.block
        self.findings = session.findings
        self.entries = self.messages = self.added = self.matched = 0
        self.leaf: str | None = None
        self.last: str | None = None
        self._lines = session.lines
        self._stands = session.leaf_id
        self._path = path
        try:
            checked_id(session.header.id)
        except InvalidSessionId as error:
            raise ForeignFormatError(f"the session cannot be kept: {error}", where=Where(path)) from error

    def lines(self, there: There) -> Iterator[bytes]:
        """Make the lines that are not there; see `Incoming.lines`."""
        decode = self.dialect.decode
        # A log that is there was migrated when it was taken up; one that is made is migrated when it will be.
        migrated = self.dialect.migrated if self.dialect.old and there is not NOTHING else None
        damaged, found = 0, False
        for seq, line in enumerate(self._lines, 1):
            bare = line[:-1]
            entry = decode(bare, seq)
            entry_id = None if entry is None else entry.id
            known, damaged = entry_id is not None, damaged + (entry is None)
            self.entries += known
            self.messages += isinstance(entry, MessageEntry)
            found = found or (known and entry_id == self._stands)
            moves = entry is not None and known and not entry.aside
            if moves:
                self.leaf = entry_id
            if (entry_id is not None and there.has(entry_id)) or bare in there.nameless:
                self.matched += entry is not None and known and goes_on(entry)
                continue
            self.added += known
            if moves:
                self.last = entry_id
            yield line if migrated is None else migrated(bare, seq)
        if found:
            self.leaf = self._stands
        if damaged:
            what = f"{counted(damaged, 'damaged line')} copied as found: `treering doctor` shows where"
            self.findings.append(Finding(self._path, None, None, "damaged", "warning", what))


class _Rest(Struct):
    """The rest of an answer, and the entry that it is to follow."""

    entry: KnownEntry
    below: str


class Converted:
    """A session of another program: it becomes a native one."""

    def __init__(self, session: ForeignSession, path: str) -> None:
        self.header = _header(session.header)
        self.restate = session.restate
        self.dialect: Dialect = NativeDialect()
        self.block = self.dialect.encode_header(self.header)
        self.findings = session.findings
        self.entries = self.messages = self.added = self.matched = 0
        self.leaf: str | None = None
        self.last: str | None = None
        self._source = session
        self._path = path
        self._taken: dict[str, int] = {}
        self._now: dict[str, str | None] = {}  # below which entry that goes what follows another one
        self._names: dict[str, str] = {}  # of entries that the log has under other ids
        self._grown: dict[str, str] = {}  # the rest of an answer that stands between an entry and what is new below it
        self._rests: list[_Rest] = []
        self._described: dict[str, str | None] = {}
        self._in_part: set[str] = set()  # batches of which the log has some entries: the others are none for themselves
        self._tail: str | None = None
        self._seq = 0

    def lines(self, there: There) -> Iterator[bytes]:
        """Make the lines that are not there; see `Incoming.lines`."""
        self._seq = there.head
        for given in self._source.entries:
            entry = self._placed(given, there)
            self.entries += 1
            if type(entry) is MessageEntry:
                self.messages += 1
            if there.matching is not None:
                if self._is_known(entry, given.parent_id, there.matching):
                    self._note_batch(entry)
                    continue
                if given.parent_id in self._now:  # what it follows is known for certain only now
                    entry = replace(entry, parent_id=self._now[given.parent_id])
            if there.has(entry.id) and self._is_replaced(entry, there):
                entry = self._replacing(entry, there)
            if there.has(entry.id):
                self._met(entry, there)
                continue
            if self._rests:
                yield from self._continued()
                entry = self._moved(entry)
            yield from self._written(self._referring(entry))
        yield from self._continued()
        stands = self._source.leaf_id
        if stands is not None:
            stands = self._below(stands)
        self.leaf = stands if stands in self._taken else self._tail

    def _placed(self, entry: KnownEntry, there: There) -> KnownEntry:
        """See that an entry's id is its own, and that its parent is there."""
        entry = self._moved(entry)
        times = self._taken.get(entry.id, 0)
        parent = entry.parent_id
        if parent is not None and parent not in self._taken and not there.has(parent):
            what = f"entry {entry.id!r} follows {parent!r}, which is not in the source: it becomes a root"
            self._find("parent_missing", "warning", what, entry.id)
            entry = replace(entry, parent_id=None)
        self._taken[entry.id] = times + 1
        if times:
            renamed = self._renamed(entry, str(times))
            what = f"the id {entry.id!r} was used before: the entry is called {renamed.id} here"
            self._find("duplicate_id", "warning", what, renamed.id)
            return renamed
        return entry

    def _renamed(self, entry: KnownEntry, why: str) -> KnownEntry:
        """Give an entry another id, which follows from its own."""
        own = derived_id(self.header.id, entry.id, why)
        self._now[entry.id] = own
        self._taken[own] = 1
        return replace(entry, id=own)

    @staticmethod
    def _is_replaced(entry: KnownEntry, there: There) -> bool:
        """Tell whether a batch was written anew since the log took it in: what ends it stands elsewhere there."""
        return entry.batch is not None and entry.batch.i > 0 and there.parent(entry.id) != entry.parent_id

    def _replacing(self, entry: KnownEntry, there: There) -> KnownEntry:
        """Return an entry of a batch that was written anew, beside the one of before.

        That one, and what the batch said before it, is in the log alone now, and is yet no step of the session's own.
        """
        self.matched += goes_on(entry)
        stand = {*self._taken, *self._now.values()} - {entry.id}
        above = there.parent(entry.id)
        while above is not None and above not in stand:
            self.matched += 1
            above = there.parent(above)
        told = there.latest.usages.get(entry.id)
        if isinstance(entry, UsageEntry) and told is not None:
            used = beyond(entry.usage.usage, told) or Usage()
            entry = replace(entry, usage=replace(entry.usage, usage=used))
        return self._renamed(entry, entry.parent_id or "")

    def _note_batch(self, entry: KnownEntry) -> None:
        if entry.batch is not None:
            self._in_part.add(entry.batch.id)

    def _is_known(self, entry: KnownEntry, parent: str | None, matching: Matching) -> bool:
        """Tell whether the log has an entry under another id, or need not have it.

        Args:
            entry: The entry.
            parent: Its parent in the source.
            matching: Finds it.
        """
        known = matching.known(entry)
        if known is None:
            self._found(matching)
            return False
        if known == entry.id:
            return False
        self.matched += goes_on(entry)
        if known == DESCRIBED:
            self._described[entry.id] = parent
            self._now[entry.id] = entry.parent_id
        else:
            self._now[entry.id] = self._tail = known
        return True

    def _found(self, matching: Matching) -> None:
        """Take over what is known for certain of the entries before a new one."""
        if not matching.names:
            return
        self._names.update(matching.names)
        self._now.update(matching.names)
        if matching.last is not None and matching.from_leaf and matching.leaf_id is not None:
            self._now[matching.last] = matching.leaf_id
        for entry_id, parent in self._described.items():
            self._now[entry_id] = parent if parent is None else self._now.get(parent, parent)
        matching.names.clear()
        self._described.clear()

    def _moved(self, entry: KnownEntry) -> KnownEntry:
        parent = None if entry.parent_id is None else self._below(entry.parent_id)
        return entry if parent == entry.parent_id else replace(entry, parent_id=parent)

    def _below(self, entry_id: str) -> str | None:
        """Return below which entry that goes what follows another one."""
        now = self._now.get(entry_id, entry_id)
        while now is not None and now in self._grown:
            now = self._grown[now]
        return now

    def _referring(self, entry: KnownEntry) -> KnownEntry:
        """Have a compaction keep from an entry on by the id that it has in the log."""
        if not isinstance(entry, CompactionEntry) or entry.compaction.first_kept_entry_id not in self._names:
            return entry
        first_kept = self._names[entry.compaction.first_kept_entry_id]
        return replace(entry, compaction=replace(entry.compaction, first_kept_entry_id=first_kept))

    def _written(self, entry: KnownEntry) -> Iterator[bytes]:
        if entry.batch is not None and entry.batch.id in self._in_part:
            entry = replace(entry, batch=None)
        try:
            line = self._line(replace(entry, seq=self._seq + 1))
        except InvalidEntry as error:
            self._find("not_taken", "error", f"an entry cannot be written here: {error}", entry.id)
            self._now[entry.id] = entry.parent_id
            self.entries -= 1
            self.messages -= type(entry) is MessageEntry
            return
        self._seq += 1
        self.added += 1
        if not entry.aside:
            self._tail = self.last = entry.id
        yield line

    def _line(self, entry: KnownEntry) -> bytes:
        """Return an entry's line. A message was made of decoded values: its line needs no second look, which takes long."""
        if type(entry) is MessageEntry and entry.id and entry.message.role and entry.timestamp.tzinfo is UTC:
            with suppress(ValueError):  # the second look says what is the matter
                line = _encode(entry)
                if b"\n" not in line:
                    return line + b"\n"
        return self.dialect.write(entry)[0]

    def _met(self, entry: KnownEntry, there: There) -> None:
        """Take notice of an entry that the log has."""
        self._note_batch(entry)
        self.matched += goes_on(entry)
        if isinstance(entry, MessageEntry) and entry.message.role == "assistant":
            self._grow(entry, there)
        now = self._below(entry.id)
        if entry.aside or now is None:
            return
        self._tail = now
        for rest in self._rests:
            if entry.parent_id == rest.below:  # it hangs below all that is known behind its answer
                rest.below = now

    def _grow(self, entry: MessageEntry, there: There) -> None:
        """See what an answer says beyond what was taken in of it."""
        found = growth(entry, there.has, there.latest, self.header.id)
        self.matched += len(found.rests)
        for known in (*found.rests, *found.records):
            above = there.parent(known)
            if above is not None:
                self._grown[above] = known
        if found.missing is not None:
            self._rests.append(_Rest(found.missing, self._below(entry.id) or entry.id))

    def _continued(self) -> Iterator[bytes]:
        """Put the rests of answers below what is there of their branches, and what is new below them."""
        for each in self._rests:
            stands, added = self._tail, self.added
            self._taken[each.entry.id] = 1
            self.entries += 1  # unless it cannot be written
            self.messages += type(each.entry) is MessageEntry
            yield from self._written(replace(each.entry, parent_id=each.below))
            if self.added > added:
                self._grown[each.below] = each.entry.id
            if each.below != stands:
                self._tail = stands
        self._rests.clear()

    def _find(self, code: str, severity: Severity, message: str, entry_id: str) -> None:
        self.findings.append(Finding(self._path, None, None, code, severity, message, entry_id))


def _header(header: Header) -> Header:
    """Make the header of a native session, with an id that can name a file."""
    if header.key is not None:
        own = id_of_key(header.key)
    else:
        try:
            own = checked_id(header.id)
        except InvalidSessionId:
            own = derived_id(header.id)
    return replace(header, id=own, version=NATIVE_VERSION, timestamp=in_utc(header.timestamp))

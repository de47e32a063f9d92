"""The log here that an import meets: which one a file's session is, what the two have in common, and adding to it.

Most sessions are found by their ids. A file of some programs names a session by its key or id, but has no ids for its
messages. If a session of this name exists here, the file belongs to it as far as their messages agree. If they share
none, or if the existing log is not in the native dialect, the incoming session becomes a separate one, under a
different id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...events.entries import ContextEdit, Entry, Header, KnownEntry, MessageEntry, UsageEntry
from ...events.errors import Conflict, TreeringError
from ...events.index import LogIndex
from ...events.kinds import MESSAGE_KINDS, TYPE_NAMES, Kind
from ...events.stores.base import Append, Committed, Cursor, Failed, InDoubt, Lease, Ref, Store
from ...formats.base import ForeignSession, IsEntry, Restate
from ...formats.chain import DESCRIBING, derived_id, describes
from ...formats.dialect_conversion import SplitOff
from ...formats.walk import Found
from ...projections.context_edits import last_edits
from ..host.names import SUFFIX
from ..log.open_log import OpenLog, encode_leaf
from .growing_answers import Latest
from .incoming import Converted, ExistingLog, Incoming, advances_session
from .matching import COMPARED_KINDS, LogMessages, Matching

if TYPE_CHECKING:
    from ..host.core import HostCore


_ENTRIES_AT_ONCE = 256
_LATEST_MAX = 2048  # only the last answers may have been imported before they were complete
_DESCRIBING = frozenset(kind for kind, name in TYPE_NAMES.items() if name in {each.type for each in DESCRIBING})


class Overlap(Struct, frozen=True):
    """What a file and a log have in common.

    Attributes:
        agrees: Whether they share a message, or one of them has none.
        complete: Whether the log has everything that is in the file.
        first_message_id: The file's first message; "" if it has none.
        entries: How many entries the file holds.
        messages: How many of them are messages.
    """

    agrees: bool
    complete: bool
    first_message_id: str
    entries: int
    messages: int

    def separate_header(self, format: str, header: Header) -> Header:
        """Return the header of a separate session, with an id derived from the file's name and its first message."""
        return replace(header, id=derived_id(format, header.id, "apart", self.first_message_id), key=None)


class LogFinder:
    """Finds logs by the ids of their sessions, in all dialects; the names are listed once, when first needed."""

    def __init__(self, core: HostCore) -> None:
        self._core = core
        self._refs_by_id: dict[str, list[Ref]] | None = None

    async def candidates(self, own: Ref, header: Header) -> list[Ref]:
        """Return the logs that may belong to a session, the likeliest first."""
        store = self._core.runtime.store
        if await store.exists(own):
            return [own]
        names = {header.id, header.key or header.id}
        return [ref for name in sorted(names) for ref in await self.named(name)]

    async def named(self, session_id: str) -> list[Ref]:
        """Return the logs whose names may contain the id of a session."""
        if self._refs_by_id is None:
            self._refs_by_id = await self._list_by_id()
        return [*self._refs_by_id.get(session_id, ())]

    def note(self, ref: Ref) -> None:
        """Note a log that may not have existed when they were listed."""
        if self._refs_by_id is not None:
            for name in _possible_ids(ref):
                if ref not in (refs := self._refs_by_id.setdefault(name, [])):
                    refs.append(ref)

    async def _list_by_id(self) -> dict[str, list[Ref]]:
        """List all logs by the ids that their names may contain."""
        refs_by_id: dict[str, list[Ref]] = {}
        after = ""
        while page := await self._core.runtime.store.page(after=after):
            for each in page:
                for name in _possible_ids(each.ref):
                    refs_by_id.setdefault(name, []).append(each.ref)
            after = page[-1].ref
        return refs_by_id


def _possible_ids(ref: Ref) -> set[str]:
    """Return the ids that the name of a log may contain; the name of a pi file begins with a time."""
    stem = ref.rpartition("/")[2].removesuffix(SUFFIX)
    return {stem, stem.partition("_")[2]}


async def load_log(core: HostCore, lease: Lease) -> OpenLog:
    """Fold the log of a lease; its session must exist."""
    assert lease.header is not None
    assert lease.dialect is not None
    log = OpenLog(core.runtime, lease.ref, lease.header, lease.dialect, lease.head.generation)
    await log.take_up(lease.head.seq)
    return log


async def matching_of(core: HostCore, log: OpenLog, restate: Restate, is_implied: IsEntry) -> Matching:
    """Read the messages of a log, to compare a file with them."""
    index, offload = log.index, core.runtime.offload
    log_messages = LogMessages(restate, index.parents, await edits_in(log))
    seqs = [seq for seq in range(1, index.head + 1) if index.is_entry(seq) and index.kinds[seq] in COMPARED_KINDS]
    for start in range(0, len(seqs), _ENTRIES_AT_ONCE):
        batch = seqs[start : start + _ENTRIES_AT_ONCE]
        await offload(log_messages.add, await log.entries_in(batch))
    return Matching(log_messages, lambda entry_id: index.find(entry_id) > 0, is_implied, index.leaf, index.leaf_id)


async def edits_in(log: OpenLog) -> dict[int, list[ContextEdit]]:
    """Return all edits of each line of a log that has any, by its seq."""
    edits: dict[int, list[ContextEdit]] = {}
    for entry in await log.entries_in([seq for seq, kind in enumerate(log.index.kinds) if kind == Kind.CONTEXT_EDIT]):
        for target, edit in last_edits(log.index, [entry]).items():
            edits.setdefault(target, []).append(edit)
    return edits


async def compare_with_log(core: HostCore, lease: Lease, session: ForeignSession) -> Overlap:
    """Compare a file with the log of a lease; this uses up the file's entries."""
    assert session.restate is not None
    log = await load_log(core, lease)
    log_is_empty = not any(kind in MESSAGE_KINDS for kind in log.index.kinds[1 : log.index.head + 1])
    matching = await matching_of(core, log, session.restate, session.is_implied)
    overlap = await core.runtime.offload(_compare, session.entries, matching)
    return replace(overlap, agrees=overlap.agrees or log_is_empty or not overlap.messages)


def _compare(entries: Iterable[KnownEntry], matching: Matching) -> Overlap:
    count = messages = new = 0
    first_message_id = ""
    for entry in entries:
        count += 1
        if isinstance(entry, MessageEntry):
            messages += 1
            first_message_id = first_message_id or entry.id
        new += matching.find(entry) is None
    return Overlap(matching.shared > 0, not new, first_message_id, count, messages)


async def split_ids(log: OpenLog, with_ids: Sequence[int], session: str) -> frozenset[str]:
    """Return the ids that the entries of a log get in a dialect whose messages answer one call each."""
    split_off, split_ids = SplitOff(session), set[str]()
    answering = [seq for seq in with_ids if log.index.kinds[seq] in (Kind.TOOL, Kind.USER, Kind.CONTEXT_EDIT)]
    for start in range(0, len(answering), _ENTRIES_AT_ONCE):
        entries = await log.entries_at(answering[start : start + _ENTRIES_AT_ONCE])
        split_ids.update(each for seq in sorted(entries) if (entry := entries[seq]) for each in split_off.ids(entry))
    return frozenset(split_ids)


async def append(core: HostCore, append: Append) -> Cursor:
    """Append lines, and return the head after them; lines in doubt that turn out to have landed are not an error."""
    (outcome,) = await core.runtime.store.append([append])
    if isinstance(outcome, Committed):
        return outcome.head
    if isinstance(outcome, InDoubt):
        try:
            head = await _head_if_landed(core.runtime.store, append)
        except (TreeringError, OSError) as error:
            outcome.error.add_note(f"The log could not be examined: {error}")
        else:
            if head is not None:
                return head
    if isinstance(outcome, (Failed, InDoubt)):
        raise outcome.error
    raise Conflict(f"another program wrote to {append.lease.ref} meanwhile: import again to add what is missing")


async def _head_if_landed(store: Store, append: Append) -> Cursor | None:
    """Return the head of a log after an append in doubt; None unless it ends with the appended lines."""
    head, before = await store.resolve(append.lease), append.expected_head
    if head != Cursor(before.generation, before.seq + len(append.lines)):
        return None
    landed = await store.bodies(append.lease.ref, head.generation, range(before.seq + 1, head.seq + 1))
    return head if landed == [line.removesuffix(b"\n") for line in append.lines] else None


async def keep_leaf(core: HostCore, lease: Lease, leaf: str | None, error: TreeringError) -> None:
    """Keep the leaf of a session that got only a part of an import, so that repeating the import completes it."""
    try:
        head = await core.runtime.store.resolve(lease)
        if head.seq > lease.head.seq:
            await core.runtime.store.save(lease, "leaf", head, encode_leaf(leaf))
            core.runtime.touched.add(lease.ref)
    except (TreeringError, OSError) as second:
        error.add_note(f"The leaf could not be kept either: {second}")


def seqs_with_ids(index: LogIndex) -> list[int]:
    """Return the seqs of all entries that have ids."""
    return [seq for seq in range(1, index.head + 1) if index.is_entry(seq)]


async def count_advancing(log: OpenLog, with_ids: Sequence[int], found: Found) -> tuple[int, frozenset[str]]:
    """Return how many of the entries with ids advanced the session, and the ids of the descriptions among them.

    A description was derived from what the file says about the session as a whole; see `Chain.describe`.
    """
    kinds, format, session = log.index.kinds, found.format.name, found.session.header.id
    seqs = [seq for seq in with_ids if kinds[seq] != Kind.USAGE]
    read = await log.entries_at([seq for seq in seqs if kinds[seq] in _DESCRIBING])
    entries = [entry for entry in read.values() if entry is not None]
    descriptions = frozenset(entry.id for entry in entries if entry.id and describes(entry, format, session))
    return len(seqs) - len(descriptions) - sum(not advances_session(entry) for entry in entries), descriptions


async def has_continued(
    log: OpenLog, with_ids: Sequence[int], is_of_source: Callable[[Entry], bool], until: datetime
) -> bool:
    """Return whether a session continued here, or in a later state of its source than the one that ends at a time."""
    for start in range(0, len(with_ids), _ENTRIES_AT_ONCE):
        read = await log.entries_at(with_ids[start : start + _ENTRIES_AT_ONCE])
        entries = [entry for entry in read.values() if entry is not None and advances_session(entry)]
        if any(entry.timestamp > until or not is_of_source(entry) for entry in entries):
            return True
    return False


async def existing_log(
    core: HostCore, log: OpenLog, with_ids: Sequence[int], incoming: Incoming, descriptions: frozenset[str]
) -> ExistingLog:
    """Describe a log to the import, given the seqs of its entries with ids."""
    index = log.index
    without_ids = sorted({*range(1, index.seen + 1)}.difference(with_ids))
    lines_without_id: set[bytes] = set()
    for start in range(0, len(without_ids), _ENTRIES_AT_ONCE):
        lines_without_id.update(await log.lines_at(without_ids[start : start + _ENTRIES_AT_ONCE]))
    restate, matching = incoming.restate if isinstance(incoming, Converted) else None, None
    # A file that was exported from the log has an edited answer as the edit shows it: that is no growth.
    edits = {} if restate is None else await edits_in(log)
    latest = Latest(
        {
            each.id: each.message
            for each in await _latest_of_kind(log, Kind.ASSISTANT)
            if isinstance(each, MessageEntry) and each.seq not in edits
        },
        {each.id: each.usage.usage for each in await _latest_of_kind(log, Kind.USAGE) if isinstance(each, UsageEntry)},
    )
    if isinstance(incoming, Converted) and restate is not None:
        matching = await matching_of(core, log, restate, incoming.is_implied)

    def parent_of(entry_id: str) -> str | None:
        parent = index.parents[index.find(entry_id)]
        return index.ids[parent] if parent > 0 else None

    return ExistingLog(
        head=index.seen,
        has=lambda entry_id: index.find(entry_id) > 0,
        lines_without_id=frozenset(lines_without_id),
        parent_of=parent_of,
        latest=latest,
        matching=matching,
        descriptions=descriptions,
    )


async def _latest_of_kind(log: OpenLog, kind: int) -> Iterable[Entry]:
    """Return the last entries of a kind."""
    index = log.index
    seqs = (seq for seq in range(index.head, 0, -1) if index.kinds[seq] == kind)
    entries = await log.entries_at([*islice(seqs, _LATEST_MAX)])
    return [entry for entry in entries.values() if entry is not None]

"""Coming back: what another program wrote below a path that was handed over to it continues the session of that path.

A file that was handed over names the session that it comes from. If that session has a record of it, its entries up to
there are known, and all others are added below the entries that those stand for. Without a record, as on another
machine, the file is a session of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...events.content import Content, ToolResultPart
from ...events.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    KnownEntry,
    LabelEntry,
    MessageEntry,
    SessionInfoEntry,
)
from ...events.findings import Finding
from ...events.kinds import Kind
from ...events.stores.base import Lease, Ref
from ...formats.base import ForeignSession
from ...formats.chain import derived_id
from ...formats.handing_over.base import Mark, mark_in
from ...formats.handing_over.targets import target_names
from ...formats.walk import Found
from .existing import LogFinder, load_log
from .handing_over import RECORD, Record, known_entries
from .incoming import Converted

if TYPE_CHECKING:
    from ..host.core import HostCore


class Origin(Struct, frozen=True):
    """The session that a file was handed over from.

    Attributes:
        ref: Its log.
        incoming: What the program wrote after that.
    """

    ref: Ref
    incoming: Converted


async def origin_of(core: HostCore, finder: LogFinder, found: Found) -> Origin | None:
    """Return the session that a file was handed over from, with what is new in the file; None if there is none."""
    if found.format.name not in target_names():
        return None
    mark = await core.runtime.offload(mark_in, found.path, found.session)
    if mark is None:
        return None
    for ref in await finder.named(mark.session):
        origin = await _record(core, ref, mark, found.format.name)
        if origin is not None:
            return Origin(ref, await core.runtime.offload(_incoming, found, *origin))
    return None


async def _record(core: HostCore, ref: Ref, mark: Mark, program: str) -> tuple[Record, str, Lease] | None:
    """Return what a log recorded of a handing over, the entry that says so, and the log's lease; None if it did not."""
    async with core.registry.leased(ref) as lease:
        if lease.header is None or lease.header.id != mark.session or lease.dialect is None:
            return None
        log = await load_log(core, lease)
        seqs = [seq for seq, kind in enumerate(log.index.kinds) if kind == Kind.CUSTOM]
        for entry in await log.entries_in(seqs[::-1]):
            if isinstance(entry, CustomEntry) and entry.custom.custom_type == RECORD:
                try:
                    record = msgspec.json.decode(entry.custom.raw_data or b"", type=Record)
                except msgspec.DecodeError:
                    continue  # another program's data under this name
                if (record.program, record.id) == (program, mark.id):
                    return record, entry.id, lease
    return None


def _incoming(found: Found, record: Record, record_id: str, lease: Lease) -> Converted:
    header, dialect = lease.header, lease.dialect
    assert header is not None
    assert dialect is not None
    entries = known_entries(found.session)
    origins = dict(record.entries)
    later = [_renamed(each, record.id, origins) for each in _later(entries, origins)]
    if not dialect.can_append_aside:
        later = [piece for each in later for piece in _one_by_one(each)]
    findings: list[Finding] = found.session.findings
    continued = ForeignSession(header=header, entries=iter(later), findings=findings)
    incoming = Converted(continued, str(found.path), dialect)
    incoming.continues = frozenset((record.leaf_id, record_id, *(each.id for each in later)))
    return incoming


def _later(entries: Iterable[KnownEntry], origins: dict[str, str]) -> Iterable[KnownEntry]:
    """Yield the entries that were not handed over, below those of the session.

    What a program puts above the path that it was given is its own preamble, and what it says about its session as a
    whole does not concern this one.
    """
    entries = list(entries)
    parents = {each.id: each.parent_id for each in entries}
    above: set[str] = set()
    for entry_id in origins:
        parent = parents.get(entry_id)
        while parent is not None and parent not in origins and parent not in above:
            above.add(parent)
            parent = parents.get(parent)
    left_out: dict[str, str | None] = {}
    for entry in entries:
        if entry.id in origins:
            continue
        parent = entry.parent_id
        while parent in left_out:
            parent = left_out[parent]
        if entry.id in above or isinstance(entry, SessionInfoEntry):
            left_out[entry.id] = parent
        else:
            yield replace(entry, parent_id=parent)


def _one_by_one(entry: KnownEntry) -> Iterator[KnownEntry]:
    """Yield an entry as pi and oh-my-pi can hold it: a message for each result, and none aside."""
    entry = replace(entry, aside=False, batch=None)
    if not isinstance(entry, MessageEntry):
        yield entry
        return
    results = [part for part in entry.message.content if isinstance(part, ToolResultPart)]
    others = tuple(part for part in entry.message.content if not isinstance(part, ToolResultPart))
    pieces: list[tuple[Content, ...]] = [(part,) for part in results]
    if others or not results:
        pieces.append(others)
    parent_id = entry.parent_id
    for number, content in enumerate(pieces, 1):
        is_last = number == len(pieces)
        own_id = entry.id if is_last else derived_id("came back", entry.id, f"answer {number}")
        role = "user" if results and content is others else entry.message.role
        message = replace(entry.message, role=role, content=content)
        yield replace(entry, id=own_id, parent_id=parent_id, message=message)
        parent_id = own_id


def _renamed(entry: KnownEntry, session: str, origins: dict[str, str]) -> KnownEntry:
    """Return an entry as one of the session that goes on: its id and those that it names are unique there.

    Ids of some programs are unique in a session of theirs alone, and several of these may go on with one session.
    """

    def own(entry_id: str) -> str:
        return origins.get(entry_id) or derived_id("came back", session, entry_id)

    parent_id = None if entry.parent_id is None else own(entry.parent_id)
    entry = replace(entry, id=own(entry.id), parent_id=parent_id)
    if isinstance(entry, CompactionEntry) and entry.compaction.first_kept_entry_id is not None:
        kept = own(entry.compaction.first_kept_entry_id)
        return replace(entry, compaction=replace(entry.compaction, first_kept_entry_id=kept))
    if isinstance(entry, ContextEditEntry):
        target = own(entry.context_edit.target_id)
        return replace(entry, context_edit=replace(entry.context_edit, target_id=target))
    if isinstance(entry, LabelEntry):
        return replace(entry, label=replace(entry.label, target_id=own(entry.label.target_id)))
    if isinstance(entry, BranchSummaryEntry):
        origin = own(entry.branch_summary.from_id)
        return replace(entry, branch_summary=replace(entry.branch_summary, from_id=origin))
    return entry

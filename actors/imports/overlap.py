"""Find the session of this host that an incoming one is, when its file identifies the session but not its entries.

A file of picoclaw, dive or nanocoder names a session by its key or id. If a session of this name exists here, the file
belongs to it as far as their messages agree. If they share none, or if the existing log is not in the native dialect,
the incoming session becomes a separate one, under a different id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...events.entries import ContextEdit, Header, KnownEntry, MessageEntry
from ...events.kinds import MESSAGE_KINDS, Kind
from ...events.stores.base import Lease, Ref
from ...formats.base import ForeignSession, Restate
from ...formats.chain import derived_id
from ...projections.context import last_edits
from ..host.names import SUFFIX
from ..log.open_log import OpenLog
from .matching import COMPARED_KINDS, LogMessages, Matching

if TYPE_CHECKING:
    from ..host.core import HostCore

_ENTRIES_AT_ONCE = 256


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
        if self._refs_by_id is None:
            self._refs_by_id = await self._list_by_id()
        return [ref for name in sorted(names) for ref in self._refs_by_id.get(name, ())]

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
    await log.take_up()
    return log


async def matching_of(core: HostCore, log: OpenLog, restate: Restate) -> Matching:
    """Read the messages of a log, to compare a file with them."""
    index, offload = log.index, core.runtime.offload
    log_messages = LogMessages(restate, index.parents, await edits_in(log))
    seqs = [seq for seq in range(1, index.head + 1) if index.is_entry(seq) and index.kinds[seq] in COMPARED_KINDS]
    for start in range(0, len(seqs), _ENTRIES_AT_ONCE):
        batch = seqs[start : start + _ENTRIES_AT_ONCE]
        await offload(log_messages.add, await log.entries_in(batch))
    return Matching(log_messages, lambda entry_id: index.find(entry_id) > 0, index.leaf, index.leaf_id)


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
    overlap = await core.runtime.offload(_compare, session.entries, await matching_of(core, log, session.restate))
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

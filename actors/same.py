"""Finding out which session of a host an incoming one is, where its file names the session but not its entries.

A file of picoclaw, dive or nanocoder names a session by its key or id. Where one of this name is here, the file belongs
to it as far as their messages agree; where they share none, or the session's own file cannot be written to in the
file's words, what comes in is a session of its own, which is not the one of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..events.entries import Header, KnownEntry, MessageEntry
from ..events.foreign.base import ForeignSession, Restate
from ..events.foreign.chain import derived_id
from ..events.kinds import MESSAGE_KINDS
from ..events.stores.base import Lease, Ref
from .matching import SAYING, Matching, Spoken
from .naming import SUFFIX
from .open_log import OpenLog

if TYPE_CHECKING:
    from .core import HostCore

_ENTRIES_AT_ONCE = 256


class Shared(Struct, frozen=True):
    """What a file and a log have in common.

    Attributes:
        any: They share a message, or one of them has none.
        all: The log has all that the file says.
        first: The file's first message; "" where it has none.
        entries: How many entries the file holds.
        messages: How many of them are messages.
    """

    any: bool
    all: bool
    first: str
    entries: int
    messages: int

    def apart(self, format: str, header: Header) -> Header:
        """Return the header of a session of its own, which follows from the file's name and its first message."""
        return replace(header, id=derived_id(format, header.id, "apart", self.first), key=None)


class Refs:
    """Finds logs by the ids of their sessions, of all dialects; the names are listed once, when first needed."""

    def __init__(self, core: HostCore) -> None:
        self._core = core
        self._named: dict[str, list[Ref]] | None = None

    async def that_may_be(self, own: Ref, header: Header) -> list[Ref]:
        """Return the logs that may be of a session, the likeliest first."""
        store = self._core.runtime.store
        if await store.exists(own):
            return [own]
        names = {header.id, header.key or header.id}
        if self._named is None:
            self._named = await self._listed()
        return [ref for name in sorted(names) for ref in self._named.get(name, ())]

    async def _listed(self) -> dict[str, list[Ref]]:
        """List all logs by the ids that their names tell of; a name of pi begins with a time."""
        named: dict[str, list[Ref]] = {}
        after = ""
        while page := await self._core.runtime.store.page(after=after):
            for each in page:
                stem = each.ref.rpartition("/")[2].removesuffix(SUFFIX)
                for name in {stem, stem.partition("_")[2]}:
                    named.setdefault(name, []).append(each.ref)
            after = page[-1].ref
        return named


async def opened_log(core: HostCore, lease: Lease) -> OpenLog:
    """Fold the log of a lease, which is of a session that is there."""
    assert lease.header is not None
    assert lease.dialect is not None
    log = OpenLog(core.runtime, lease.ref, lease.header, lease.dialect, lease.head.generation)
    await log.take_up()
    return log


async def matching(core: HostCore, log: OpenLog, restate: Restate) -> Matching:
    """Read what a log says, to be compared with a file."""
    index, offload = log.index, core.runtime.offload
    spoken = Spoken(restate, index.parents)
    seqs = [seq for seq in range(1, index.head + 1) if index.is_entry(seq) and index.kinds[seq] in SAYING]
    for start in range(0, len(seqs), _ENTRIES_AT_ONCE):
        some = seqs[start : start + _ENTRIES_AT_ONCE]
        await offload(spoken.take, await log.entries_in(some))
    return Matching(spoken, lambda entry_id: index.find(entry_id) > 0, index.leaf, index.leaf_id)


async def shared(core: HostCore, lease: Lease, session: ForeignSession) -> Shared:
    """Compare a file with the log of a lease; the file's entries are used up."""
    assert session.restate is not None
    log = await opened_log(core, lease)
    empty = not any(index_kind in MESSAGE_KINDS for index_kind in log.index.kinds[1 : log.index.head + 1])
    found = await core.runtime.offload(_compared, session.entries, await matching(core, log, session.restate))
    return replace(found, any=found.any or empty or not found.messages)


def _compared(entries: Iterable[KnownEntry], matching: Matching) -> Shared:
    count = messages = new = 0
    first = ""
    for entry in entries:
        count += 1
        if isinstance(entry, MessageEntry):
            messages += 1
            first = first or entry.id
        new += matching.known(entry) is None
    return Shared(any=matching.shared > 0, all=not new, first=first, entries=count, messages=messages)

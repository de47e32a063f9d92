"""New sessions made of old ones: whole copies, single paths, and the session itself in another store.

Lines are copied as they are, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..events.dialects.base import Dialect
from ..events.entries import Header
from ..events.errors import EntryNotFound, SessionExists, SessionLocked
from ..events.kinds import Kind
from ..events.stores.base import ArchivingStore, Ref
from .leaf_record import encode_leaf
from .naming import current, new_ref
from .open_log import OpenLog
from .registry import Birth

if TYPE_CHECKING:
    from .core import HostCore
    from .session import Session

_LINES_AT_ONCE = 256


class Whole(Struct, frozen=True):
    """All of a session, on its way into a store; it can go from one event loop to another.

    Attributes:
        log: The open log that it was read from, which may be of another loop: only to know it again.
        header: Its header.
        dialect: How its lines are written.
        lines: The lines after the header, each with its newline.
        leaf: Where the leaf was moved to; None where it was taken away, unset where it is the last entry.
    """

    log: object
    header: Header
    dialect: Dialect
    lines: tuple[bytes, ...]
    leaf: str | UnsetType | None = UNSET


async def forked(core: HostCore, source: Session, session_id: str | None = None) -> Session:
    """Copy a session, all branches included, into a new one that names it as its parent.

    Raises:
        SessionExists: There is a session with this id.
    """
    log = await source.log()
    header, ref = _child_header(core, source, log, session_id)
    return await _written(core, ref, Whole(log, header, current(log.dialect), await _lines(log, _living(log))))


async def branched(core: HostCore, source: Session, leaf_id: str) -> Session:
    """Write the path from the root to an entry into a new session that names the old one as its parent.

    Raises:
        EntryNotFound: The session has no such entry.
    """
    log = await source.log()
    leaf = log.index.find(leaf_id)
    if not leaf:
        raise EntryNotFound(leaf_id)
    header, ref = _child_header(core, source, log)
    return await _written(core, ref, Whole(log, header, current(log.dialect), await _lines(log, log.index.path(leaf))))


async def whole_of(source: Session) -> Whole:
    """Read all of a session."""
    log = await source.log()
    index, dialect = log.index, current(log.dialect)
    header = replace(index.header, version=dialect.version)
    leaf = UNSET if index.leaf == index.tip else index.leaf_id
    return Whole(log, header, dialect, await _lines(log, _living(log)), leaf)


async def put(core: HostCore, whole: Whole, *, replacing: bool = False) -> Session:
    """Write all of a session into the store of a host, under its own id.

    Raises:
        SessionExists: There is a session with this id, and it is not to be replaced.
    """
    core.check()
    ref = new_ref(whole.dialect, whole.header)
    actor = core.registry.live(ref)
    if actor is not None and actor.log is whole.log:
        birth = Birth(whole.header, whole.dialect)  # it was read from there, and may have no file yet
        return _handle(core, ref, whole, birth)
    return await _written(core, ref, whole, replacing=replacing)


def _living(log: OpenLog) -> list[int]:
    """Return the lines that go into a copy: those of a batch that was never completed must not come alive in one."""
    return [seq for seq in range(1, log.index.head + 1) if log.index.kinds[seq] != Kind.ABORTED]


def _handle(core: HostCore, ref: Ref, whole: Whole, birth: Birth | None = None) -> Session:
    from .session import Session

    return Session(core, ref, whole.header.id, birth=birth)


async def _written(core: HostCore, ref: Ref, whole: Whole, *, replacing: bool = False) -> Session:
    """Write a log in one step.

    The lines keep the marks of the batches that they came in; in another session those mean nothing.
    """
    store, dialect = core.runtime.store, whole.dialect
    exists = SessionExists(f"there is a session {ref!r} already: give the copy another id")
    if not replacing and core.registry.live(ref) is not None:
        raise exists
    async with core.registry.apart(ref):
        (lease,) = await store.acquire([ref], core.runtime.owner)
        if isinstance(lease, SessionLocked):
            raise lease
        try:
            if lease.header is not None and not replacing:
                raise exists
            with anyio.CancelScope(shield=True):  # a session is there whole, with its leaf, or not at all
                if lease.packed and isinstance(store, ArchivingStore):
                    lease = await store.unpack(lease)
                head = await store.put(lease, dialect, dialect.encode_header(whole.header), whole.lines)
                if not isinstance(whole.leaf, UnsetType):
                    await store.save(lease, "leaf", head, encode_leaf(whole.leaf))
        finally:
            with anyio.CancelScope(shield=True):
                await store.release([lease])
    core.runtime.touched.add(ref)
    return _handle(core, ref, whole)


async def _lines(log: OpenLog, seqs: Sequence[int]) -> tuple[bytes, ...]:
    lines: list[bytes] = []
    for start in range(0, len(seqs), _LINES_AT_ONCE):
        part = seqs[start : start + _LINES_AT_ONCE]
        for seq, line in zip(part, await log.lines_at(part), strict=True):
            lines.append(log.dialect.migrated(line, seq) if log.dialect.old else line + b"\n")
    return tuple(lines)


def _child_header(core: HostCore, source: Session, log: OpenLog, session_id: str | None = None) -> tuple[Header, Ref]:
    """Make the header of a copy. pi names a parent by the path of its file, the others by its id."""
    parent = core.path_of(source.ref) if log.dialect.name == "pi" else source.id
    return core.new_header(
        session_id, dialect=current(log.dialect), cwd=log.index.header.cwd, parent_session=parent or source.id
    )

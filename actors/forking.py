"""New sessions made of old ones: whole copies, and single paths. Lines are copied as they are, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ..events.entries import Header
from ..events.errors import EntryNotFound, SessionExists, SessionLocked
from ..events.kinds import Kind
from ..events.stores.base import Ref
from .naming import current
from .open_log import OpenLog

if TYPE_CHECKING:
    from .core import HostCore
    from .session import Session

_LINES_AT_ONCE = 256


async def forked(core: HostCore, source: Session, session_id: str | None = None) -> Session:
    """Copy a session, all branches included, into a new one that names it as its parent.

    Raises:
        SessionExists: There is a session with this id.
    """
    log = await source.log()
    header, ref = _child_header(core, source, log, session_id)
    return await _written(core, ref, header, log, [seq for seq in range(1, log.index.head + 1) if _lives(log, seq)])


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
    return await _written(core, ref, header, log, log.index.path(leaf))


def _lives(log: OpenLog, seq: int) -> bool:
    """Tell whether a line goes into a copy: lines of a batch that was never completed must not come alive in one."""
    return log.index.kinds[seq] != Kind.ABORTED


async def _written(core: HostCore, ref: Ref, header: Header, log: OpenLog, seqs: list[int]) -> Session:
    """Write a new log in one step.

    The lines keep the marks of the batches that they came in; those name the old session and mean nothing in the new.
    """
    from .session import Session

    store, dialect = core.runtime.store, current(log.dialect)
    exists = SessionExists(f"there is a session {ref!r} already: give the copy another id")
    if core.registry.live(ref) is not None:
        raise exists
    (lease,) = await store.acquire([ref], core.runtime.owner)
    if isinstance(lease, SessionLocked):
        raise lease
    try:
        if lease.header is not None:
            raise exists
        lines = [line async for line in _lines(log, seqs)]
        await store.put(lease, dialect, dialect.encode_header(header), lines)
    finally:
        await store.release([lease])
    core.runtime.touched.add(ref)
    return Session(core, ref, header.id)


async def _lines(log: OpenLog, seqs: list[int]) -> AsyncIterator[bytes]:
    for start in range(0, len(seqs), _LINES_AT_ONCE):
        part = seqs[start : start + _LINES_AT_ONCE]
        for seq, line in zip(part, await log.lines_at(part), strict=True):
            yield log.dialect.migrated(line, seq) if log.dialect.old else line + b"\n"


def _child_header(core: HostCore, source: Session, log: OpenLog, session_id: str | None = None) -> tuple[Header, Ref]:
    """Make the header of a copy. pi names a parent by the path of its file, the others by its id."""
    parent = core.path_of(source.ref) if log.dialect.name == "pi" else source.id
    return core.new_header(
        session_id, dialect=current(log.dialect), cwd=log.index.header.cwd, parent_session=parent or source.id
    )

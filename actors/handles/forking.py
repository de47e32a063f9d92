"""New sessions made from existing ones: whole copies, single paths, and the same session in another store.

Lines are copied as they are, byte for byte. This includes those of a batch that was never completed, although nobody is
shown their content: entries may stand below them (pi appends below the last line of a file, whatever it is), a
compaction may keep from them on, and the leaf may be one of them. Leaving them out would cut what counts off from what
came before. So that they stay opaque under another session's id, the marks of their batches are rewritten, and nothing
else. Nor does a mark stay that would mean something under that id again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ...events.dialects.base import Dialect, still_torn, without_marks_of
from ...events.entries import Header
from ...events.errors import SessionExists
from ...events.kinds import Kind
from ...events.stores.base import Ref
from ..host.names import current, new_ref
from ..host.registry import NewLog
from ..host.tasks import on_own_task
from ..log.moves import put_log
from ..log.open_log import OpenLog, encode_leaf
from ..session.branching import labels_for
from ..session.reading import read_log

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.session import Session

_LINES_AT_ONCE = 256


class SessionCopy(Struct, frozen=True):
    """All of a session, or a path of it, on its way into a store; it can be passed between event loops.

    Attributes:
        source_log: The open log that it was read from, which may belong to another loop; used only to recognize it.
        path: The path of its file; None if it has none.
        header: Its header.
        dialect: The dialect of its lines.
        lines: The lines after the header, each with its newline.
        torn: The positions of the lines that belong to batches that were never completed.
        leaf: Where the leaf was moved to; None if it was cleared, unset if it is the last entry.
    """

    source_log: object
    path: str | None
    header: Header
    dialect: Dialect
    lines: tuple[bytes, ...]
    torn: tuple[int, ...] = ()
    leaf: str | UnsetType | None = UNSET


async def fork(core: HostCore, copy: SessionCopy, session_id: str | None = None) -> Session:
    """Write a copied session into a new one that names it as its parent.

    Raises:
        SessionExists: There is a session with this id.
    """
    core.check()
    return await _write(core, *_child(core, copy, session_id))


async def branch_off(core: HostCore, source: Session, leaf_id: str) -> Session:
    """Write the path from the root to an entry, with its labels, into a new session whose parent is the old one.

    Raises:
        EntryNotFound: The session has no such entry.
    """
    copy = await read_log(source, lambda log: _path_of(source, log, leaf_id))
    return await _write(core, *_child(core, copy))


async def _path_of(source: Session, log: OpenLog, leaf_id: str) -> SessionCopy:
    """Read the path from the root to an entry, with its labels."""
    leaf = log.index.seq_of(leaf_id)
    last = (await log.entries_at([leaf]))[leaf]
    moved = UNSET if last is not None and log.index.becomes_leaf(last) else leaf_id  # such as an entry aside
    path = log.index.path(leaf)
    copy = await _read(source, log, path, moved)
    labels = await labels_for(log, path, log.index.head, copy.dialect)
    return replace(copy, lines=(*copy.lines, *map(copy.dialect.encode, labels)))


async def copy_of(source: Session) -> SessionCopy:
    """Read everything visible of a session, with the leaf where it was moved to."""

    async def read(log: OpenLog) -> SessionCopy:
        index = log.index
        leaf = UNSET if index.leaf == index.tip else index.leaf_id
        return await _read(source, log, range(1, index.head + 1), leaf)

    return await read_log(source, read)


async def put(core: HostCore, copy: SessionCopy, *, replacing: bool = False) -> Session:
    """Write a copied session into the store of a host, under its own id.

    Raises:
        SessionExists: There is a session with this id, and it may not be replaced.
    """
    core.check()
    ref = new_ref(copy.dialect, copy.header)
    actor = core.registry.live(ref)
    if actor is not None and actor.log is copy.source_log:
        # The copy was read from this very log, which may have no file yet.
        new_log = core.registry.new_log(ref, copy.header, copy.dialect)
        return _handle(core, ref, copy, new_log)
    return await _write(core, ref, copy, replacing=replacing)


def _handle(core: HostCore, ref: Ref, copy: SessionCopy, new_log: NewLog | None = None) -> Session:
    from ..session.session import Session

    return Session(core, ref, copy.header.id, new_log=new_log)


async def _write(core: HostCore, ref: Ref, copy: SessionCopy, *, replacing: bool = False) -> Session:
    """Write a log in one step, out of reach of whoever cancels the caller."""
    await on_own_task(core.runtime, partial(_write_whole, core, ref, copy, replacing=replacing))
    return _handle(core, ref, copy)


async def _write_whole(core: HostCore, ref: Ref, copy: SessionCopy, *, replacing: bool) -> None:
    """Write a log in one step.

    Complete batches keep their marks; in another session those mean nothing. A copy whose writing failed halfway, or is
    in doubt, is replaced when the call is repeated, unless the copy was continued meanwhile.
    """
    store, moved_logs = core.runtime.store, core.runtime.moved_logs
    dialect, unfinished = copy.dialect, core.unfinished_copies
    if not replacing and core.registry.live(ref) is not None:
        raise _exists_error(ref)
    async with core.registry.leased(ref) as lease:
        if lease.header is not None and not replacing and lease.head != unfinished.get(ref):
            raise _exists_error(ref)
        with anyio.CancelScope(shield=True):  # a session is written whole, with its leaf, or not at all
            if lease.packed and core.runtime.packs is not None:
                lease = await moved_logs.unpack(lease)
            header = dialect.encode_header(copy.header)
            with moved_logs.replacing(lease) as note_replaced:
                async with put_log(store, lease, dialect, header, copy.lines) as head:
                    note_replaced(head.generation)
                    unfinished[ref] = head
                    if not isinstance(copy.leaf, UnsetType):
                        await store.save(lease, "leaf", head, encode_leaf(copy.leaf))
                    core.runtime.touched.add(ref)
            del unfinished[ref]


def _exists_error(ref: Ref) -> SessionExists:
    return SessionExists(f"session {ref!r} already exists: give the copy another id")


async def _read(source: Session, log: OpenLog, seqs: Sequence[int], leaf: str | UnsetType | None) -> SessionCopy:
    """Read lines of a session, migrated to the current version of their dialect."""
    dialect, kinds = log.dialect, log.index.kinds
    lines: list[bytes] = []
    for start in range(0, len(seqs), _LINES_AT_ONCE):
        batch = seqs[start : start + _LINES_AT_ONCE]
        for seq, line in zip(batch, await log.lines_at(batch), strict=True):
            lines.append(dialect.migrated(line, seq))
    torn = tuple(position for position, seq in enumerate(seqs) if kinds[seq] == Kind.ABORTED)
    current_dialect = current(dialect)
    header = replace(log.index.header, version=current_dialect.version)
    return SessionCopy(log, source.file_path, header, current_dialect, tuple(lines), torn, leaf)


def _child(core: HostCore, copy: SessionCopy, session_id: str | None = None) -> tuple[Ref, SessionCopy]:
    """Turn a copied session into a new one that names it as its parent.

    The dialect tells whether a session names its parent by the path of its file or by its id.
    """
    source, dialect = copy.header, copy.dialect
    parent = (copy.path if dialect.parent_by_path else None) or source.id
    header, ref = core.new_header(session_id, dialect=dialect, cwd=source.cwd, parent_session=parent)
    lines = list(copy.lines)
    if session_id is not None and session_id != source.id:  # an id may be that of a session that wrote some lines
        for position, line in enumerate(lines):
            if b'"batch"' in line:
                lines[position] = without_marks_of(dialect, line[:-1], session_id) + b"\n"
    for position in copy.torn:
        lines[position] = still_torn(dialect, copy.lines[position][:-1], header.id) + b"\n"
    return ref, replace(copy, header=header, lines=tuple(lines))

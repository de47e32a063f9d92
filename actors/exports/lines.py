"""Exports as session files: a copy of the lines in the session's own dialect, or its entries encoded in another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from ...events.dialects.base import Dialect
from ...events.dialects.torn import still_torn
from ...events.entries import Header
from ...events.kinds import Kind
from ...formats.dialect_conversion import Restated
from ..host.names import current
from ..log.open_log import OpenLog
from .selection import Numbered, Selection, added_labels, decoded, header_of, numbered, visible

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.reading import Handle


async def session_file(core: HostCore, handle: Handle, selection: Selection, dialect: Dialect) -> AsyncGenerator[bytes]:
    """Yield a session file piece by piece.

    Raises:
        DialectCannot: The dialect cannot express some part of the session.
    """
    log = selection.log
    if log.dialect.name != dialect.name:
        async for piece in _converted(core, handle, selection, dialect):
            yield piece
        return
    # Copy all lines, including damaged ones and torn batches, since other entries may be their children.
    header = header_of(core, handle, selection, current(log.dialect))
    labels = await added_labels(selection, selection.seqs, current(log.dialect))
    yield await _header_block(core, handle, selection, header)
    async for lines in numbered(log, selection.seqs):
        yield b"".join(_copied_line(log, each, header.id) for each in lines)
    yield b"".join(map(current(log.dialect).encode, labels))


def _copied_line(log: OpenLog, one: Numbered, session_id: str) -> bytes:
    """Return a line in the current version of its dialect; a line of a torn batch stays torn in another session."""
    line = log.dialect.migrated(one.line, one.seq)
    if session_id != log.index.header.id and log.index.kinds[one.seq] == Kind.ABORTED:
        line = still_torn(current(log.dialect), line[:-1], session_id) + b"\n"
    return line


async def _header_block(core: HostCore, handle: Handle, selection: Selection, header: Header) -> bytes:
    """Return the header of a copy, byte for byte if a whole file is copied, since it may hold unknown fields."""
    log, files = selection.log, core.runtime.files
    if selection.whole and files is not None and await core.runtime.store.exists(handle.ref):
        block = await core.runtime.offload(files.header_block, handle.ref)
        if not block.endswith(b"\n"):
            block += b"\n"
        return log.dialect.migrated_header(block)
    return current(log.dialect).encode_header(header)


async def _converted(core: HostCore, handle: Handle, selection: Selection, dialect: Dialect) -> AsyncGenerator[bytes]:
    log, seqs = selection.log, _leaf_last(selection)
    labels = await added_labels(selection, seqs, dialect)
    yield dialect.encode_header(header_of(core, handle, selection, dialect))
    restated = Restated(dialect, log.index.header.id, log.index.models, whole=selection.whole)
    async for lines in numbered(log, seqs):
        yield await core.runtime.offload(_restated, restated, log.dialect, lines)
    yield b"".join(map(dialect.encode, labels))


def _restated(restated: Restated, source: Dialect, lines: Sequence[Numbered]) -> bytes:
    return restated.lines(decoded(source, lines, None))


def _leaf_last(selection: Selection) -> list[int]:
    """Move the leaf to the end if it has no children, since most programs take a file's last entry for the leaf."""
    seqs, index = list(visible(selection)), selection.log.index
    leaf = selection.leaf
    if not leaf or not seqs or seqs[-1] == leaf or index.kinds[leaf] == Kind.ABORTED:
        return seqs
    if leaf in index.parents[leaf + 1 : selection.through + 1]:
        return seqs
    return [*(seq for seq in seqs if seq != leaf), leaf]

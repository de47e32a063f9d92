"""The data kept beside a log: what was saved for other lines than those of the log is never returned.

All functions block. The log's table and head are passed separately where another thread may replace them meanwhile.
"""

from __future__ import annotations

import os

from ....disk.atomic_files import NameNotFlushed
from ....disk.disk_errors import remedy_of
from ....errors import AppendFailed, AppendInDoubt, LeafMoved, LogReplaced
from ....telemetry import logger
from ...base import Blob, BlobKind, Cursor
from ..names import LEAF_SUFFIX
from . import records, snapshots
from .log import Log
from .table import Table


def load_blob(log: Log, kind: BlobKind, head: Cursor, table: Table) -> Blob | None:
    """Return the data of one kind; None unless it matches this log and these lines.

    Raises:
        OSError: The log cannot be read.
    """
    if kind == "index":
        return _load_index(log, head, table)
    if kind == "leaf" and table.open_end:
        return None
    return _load_record(log, records.suffix_of(kind), head, table)


def _load_index(log: Log, head: Cursor, table: Table) -> Blob | None:
    snapshot = snapshots.read_snapshot(log.disk, log.path)
    if snapshot is None:
        return None
    with log.opened(os.O_RDONLY) as fd, log.naming_errors():
        if (
            snapshot.lines >= len(table.ends)
            or table.ends[snapshot.lines] != snapshot.extent.end
            or not snapshot.is_current(stat := log.disk.fstat(fd))
            or not snapshot.describes(log.disk, fd, stat, log.header_crc, table.ends[0])
        ):
            return None
    data = snapshots.read_index(log.disk, log.path, snapshot)
    return None if data is None else Blob(Cursor(head.generation, snapshot.lines), data)


def _load_record(log: Log, suffix: str, head: Cursor, table: Table) -> Blob | None:
    stored = records.read_record(log.disk, log.path, suffix)
    if stored is None:
        return None
    record, data = stored
    if record.generation not in ("", head.generation) or not 0 <= record.seq <= head.seq:
        return None
    with log.opened(os.O_RDONLY) as fd:
        is_of_log = record.matches(log.extent(fd, table, record.seq))
    return Blob(Cursor(head.generation, record.seq), data) if is_of_log else None


def save_blob(log: Log, kind: BlobKind, head: Cursor, data: bytes, *, sync: bool) -> None:
    """Save data of one kind for a head. Failing to save derived data is not an error.

    Args:
        log: The log, owned.
        kind: The kind.
        head: The head of the log that the data describes.
        data: The data.
        sync: Make a leaf record survive a power cut. Appends are flushed then, too.

    Raises:
        LeafMoved: A leaf record was to be saved, and the log does not end at `head`.
        AppendFailed: The leaf record cannot be written; the previous one remains.
        AppendInDoubt: The leaf record was written, but may not survive a power cut.
    """
    if kind == "leaf":
        _save_leaf(log, head, data, sync=sync)
        return
    if log.header is None or head.generation != log.generation or not 0 <= head.seq <= log.head.seq:
        return
    try:
        if kind == "index":
            log.save_snapshot(head.seq, data, flushed=sync and log.doubt is None)
        else:
            _save_checkpoint(log, records.suffix_of(kind), head, data)
    except (OSError, LogReplaced) as error:
        logger().debug("derived_not_saved", session_id=log.header.id, ref=log.ref, kind=kind, error=str(error))


def _save_leaf(log: Log, head: Cursor, data: bytes, *, sync: bool) -> None:
    if log.header is None or head != log.head:
        raise LeafMoved(f"{log.ref} ends at seq {log.head.seq}, not at seq {head.seq}: read it again")
    try:
        with log.opened(os.O_RDONLY) as fd:
            extent = log.extent(fd, log.table, head.seq)
        unbound = Cursor("", head.seq)  # without a generation, it is valid for a copy of the log too
        records.write_record(log.disk, log.path, LEAF_SUFFIX, unbound, extent, data, sync=sync)
    except NameNotFlushed as error:
        raise AppendInDoubt(
            f"{log.path}{LEAF_SUFFIX} was written, but a power cut may undo that "
            f"({error.strerror or error}): check the disk, then move the leaf again"
        ) from error
    except OSError as error:
        raise AppendFailed(
            f"{log.path}{LEAF_SUFFIX} could not be written ({error.strerror or error}): "
            f"{remedy_of(error)}, then move the leaf again"
        ) from error


def _save_checkpoint(log: Log, suffix: str, head: Cursor, data: bytes) -> None:
    with log.opened(os.O_RDONLY) as fd:
        if not log.is_same(log.disk.fstat(fd)):
            raise log.replaced_error()
        extent = log.extent(fd, log.table, head.seq)
    records.write_record(log.disk, log.path, suffix, head, extent, data, sync=False)

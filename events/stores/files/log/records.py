"""Records beside a log: a line that says to which of its lines the data belongs, and the data.

The leaf record `abc.jsonl.leaf` is state, small and readable::

    {"seq":3,"end":811,"ends_crc":123,"data_crc":456}
    {"leaf":"5f0c..."}

It depends only on the log's content, so it survives a copy of both files. It is valid while the log ends at its `seq`.

The checkpoint of a projection, `abc.jsonl.view-<name>`, is derived. It is a record that also names the generation. It
is ignored for any other generation, and if the log does not have the line that it names.
"""

from __future__ import annotations

import os
from zlib import crc32

import msgspec
from msgspec import Struct

from ....disk import Disk, opened
from ....disk.atomic_files import NameNotFlushed, write_atomically
from ....disk.disk_errors import remedy_of
from ....errors import AppendFailed, AppendInDoubt, LeafMoved, LogReplaced
from ....json_values import UNDECODABLE
from ....telemetry import logger
from ...base import Blob, BlobKind, Cursor
from ...checks import check_kind
from ..names import LEAF_SUFFIX
from . import snapshots
from .head import Extent
from .log import Log
from .table import Table


class RecordLine(Struct, frozen=True, omit_defaults=True):
    """The first line of a record.

    Attributes:
        seq: The last line of the log when the record was written.
        end: The offset at which that line ends.
        ends_crc: The checksum of the log's fingerprint up to that line.
        data_crc: The checksum of the data that follows in the record.
        generation: The generation that the record is bound to; empty for none.
    """

    seq: int
    end: int
    ends_crc: int
    data_crc: int
    generation: str = ""

    def matches(self, extent: Extent) -> bool:
        """Tell whether the record was written for a log with this fingerprint."""
        return (self.end, self.ends_crc) == (extent.end, _crc_of(extent))


_decode_record = msgspec.json.Decoder(RecordLine).decode


def suffix_of(kind: BlobKind) -> str:
    """Return the suffix of the file that holds data of this kind.

    Raises:
        InvalidInput: The kind is unknown.
    """
    return f".{check_kind(kind)}"


def read_record(disk: Disk, path: str, suffix: str) -> tuple[RecordLine, bytes] | None:
    """Return a record of a log and its data; None if there is none or it is damaged."""
    try:
        with opened(disk, path + suffix) as fd:
            content = disk.pread(fd, disk.fstat(fd).size, 0)
    except OSError:
        return None
    line, _, data = content.partition(b"\n")
    try:
        record = _decode_record(line)
    except UNDECODABLE:
        return None
    return (record, data) if record.data_crc == crc32(data) else None


def write_record(disk: Disk, path: str, suffix: str, head: Cursor, extent: Extent, data: bytes, *, sync: bool) -> None:
    """Write a record, replacing an existing one.

    Args:
        suffix: See `suffix_of`.
        head: The log's last line; if its generation is empty, the record is not bound to one.
        extent: The fingerprint of the log up to that line.
        data: The data of the record.
        sync: Make the record survive a power cut.

    Raises:
        NameNotFlushed: The record was written, and its directory could not be flushed.
        OSError: The record cannot be written. The old one is unchanged.
    """
    line = msgspec.json.encode(RecordLine(head.seq, extent.end, _crc_of(extent), crc32(data), head.generation))
    write_atomically(disk, path + suffix, [line, b"\n", data], sync=sync)


def _crc_of(extent: Extent) -> int:
    return crc32(b"%d %d" % (extent.header_crc, extent.edges_crc))


def load_blob(log: Log, kind: BlobKind, head: Cursor, table: Table) -> Blob | None:
    """Return the data of one kind; None unless it matches this log and these lines."""
    if kind == "index":
        return _load_index(log, head, table)
    if kind == "leaf" and table.open_end:
        return None
    return _load_record(log, suffix_of(kind), head, table)


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
    stored = read_record(log.disk, log.path, suffix)
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
        head: The head of the log that the data describes.
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
            _save_checkpoint(log, suffix_of(kind), head, data)
    except (OSError, LogReplaced) as error:
        logger().debug("derived_not_saved", session_id=log.header.id, ref=log.ref, kind=kind, error=str(error))


def _save_leaf(log: Log, head: Cursor, data: bytes, *, sync: bool) -> None:
    if log.header is None or head != log.head:
        raise LeafMoved(f"{log.ref} ends at seq {log.head.seq}, not at seq {head.seq}: read it again")
    try:
        with log.opened(os.O_RDONLY) as fd:
            extent = log.extent(fd, log.table, head.seq)
        unbound = Cursor("", head.seq)  # without a generation, it is valid for a copy of the log too
        write_record(log.disk, log.path, LEAF_SUFFIX, unbound, extent, data, sync=sync)
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
    write_record(log.disk, log.path, suffix, head, extent, data, sync=False)

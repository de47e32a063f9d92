"""The snapshot beside a log, `abc.jsonl.index`: the line table and the index at one head, in one file to agree.

    offset      size            content
    0           100             the fixed part, with a checksum of its own: see `_FIXED` and `_CRC`
    100         8 per line + 8  the line table: where the header block and each line end
    after that  in the header   the index, if there is one
    after that  the rest        the generation that the log keeps, if there is one: see `Kept`

Numbers are in the byte order of the machine; the checksum of a snapshot from a machine of the other order is wrong.

The snapshot is derived. It names the bytes that it describes (by the inode, the size, and checksums of the header and
of both ends), and is ignored if the log does not match: a torn, foreign or stale snapshot is not an error. It also
holds a counter of generations. The counter grows when a log turns out not to be the one of its snapshot, so that the
generation changes even if the inode was reused.

Packing and unpacking put the same lines into another file. The snapshot then names both files and the generation of
before, which the log keeps. So does a log that had no line yet when it got its generation. Without the snapshot it gets
another one, and followers read it again from its start.
"""

from __future__ import annotations

import struct
from array import array
from zlib import crc32

import msgspec
from msgspec import Struct

from ....disk import Disk, FileStat, opened
from ....disk.atomic_files import write_atomically
from ....json_values import UNDECODABLE
from ..names import INDEX_SUFFIX
from .head import Extent, extent_of

_MAGIC = b"treering-index-1"
_FIXED = struct.Struct("=16s5Q2I3Q2I")
_CRC = struct.Struct("=I")
_TABLE_AT = _FIXED.size + _CRC.size
_HAS_INDEX = 1
_FLUSHED = 2
_KEPT = 4
_KEPT_BYTES_MAX = 1024


class Kept(Struct, frozen=True):
    """The generation that a log keeps, in another file or with its first line.

    Attributes:
        generation: The generation.
        log: The inode of the log that has it.
        packed: The inode of the packed form that has it; 0 for none.
    """

    generation: str
    log: int
    packed: int


class Snapshot(Struct, frozen=True):
    """The fixed part of a snapshot file; the table and the index that follow have checksums of their own.

    Attributes:
        counter: The number of generations before this one.
        inode: The log's inode.
        modified_ns: When the log was last modified before the snapshot was written.
        extent: The part of the log that the snapshot describes.
        lines: The number of lines in that part.
        has_index: Whether there is an index, besides the counter and the table.
        flushed: Whether that part had been flushed, or was in a journal, when the snapshot was written.
        table_crc: The checksum of the table.
        index_crc: The checksum of the index.
        index_at: The offset of the index in the snapshot file.
        index_size: The size of the index in bytes.
        kept: The generation that the log keeps; None for none.
    """

    counter: int
    inode: int
    modified_ns: int
    extent: Extent
    lines: int
    has_index: bool
    flushed: bool
    table_crc: int
    index_crc: int
    index_at: int
    index_size: int
    kept: Kept | None = None

    def describes(
        self, disk: Disk, fd: int, stat: FileStat, header_crc: int, start: int, *, packed: bool = False
    ) -> bool:
        """Tell whether the log, or its packed form, still begins with the bytes for which the snapshot was written."""
        kept = self.kept
        inode = self.inode if kept is None else kept.packed if packed else kept.log
        return (
            inode == stat.inode
            and self.extent.end <= stat.size
            and (self.extent.start, self.extent.header_crc) == (start, header_crc)
            and self.extent == extent_of(disk, fd, start, self.extent.end, header_crc)
        )

    def is_current(self, stat: FileStat) -> bool:
        """Tell whether the index may be used: the log is unchanged, or was appended to."""
        return self.has_index and (stat.size > self.extent.end or stat.modified_ns == self.modified_ns)


def read_snapshot(disk: Disk, path: str) -> Snapshot | None:
    """Return the fixed part of a log's snapshot; None if there is no snapshot or that part is damaged."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            head = disk.pread(fd, _TABLE_AT, 0)
            fixed, crc = head[: _FIXED.size], head[_FIXED.size :]
            if not fixed.startswith(_MAGIC) or crc != _CRC.pack(crc32(fixed)):
                return None
            _, counter, inode, modified_ns, start, end, edges_crc, *rest = _FIXED.unpack(fixed)
            header_crc, lines, flags, index_size, index_crc, table_crc = rest
            after = _TABLE_AT + (lines + 1) * 8 + index_size
            kept = _decoded(disk.pread(fd, _KEPT_BYTES_MAX, after)) if flags & _KEPT else None
    except OSError:
        return None
    return Snapshot(
        counter,
        inode,
        modified_ns,
        Extent(start, end, header_crc, edges_crc),
        lines,
        bool(flags & _HAS_INDEX),
        bool(flags & _FLUSHED),
        table_crc,
        index_crc,
        _TABLE_AT + (lines + 1) * 8,
        index_size,
        kept,
    )


def _encoded(kept: Kept) -> bytes:
    data = msgspec.json.encode(kept)
    return _CRC.pack(crc32(data)) + data


def _decoded(data: bytes) -> Kept | None:
    crc, data = data[: _CRC.size], data[_CRC.size :]
    if crc != _CRC.pack(crc32(data)):
        return None
    try:
        return msgspec.json.decode(data, type=Kept)
    except UNDECODABLE:
        return None


def read_table(disk: Disk, path: str, snapshot: Snapshot) -> array[int] | None:
    """Return the line table of a snapshot; None if it is damaged or the file was replaced after `snapshot` was read."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            table = disk.pread(fd, snapshot.index_at - _TABLE_AT, _TABLE_AT)
    except OSError:
        return None
    if crc32(table) != snapshot.table_crc:
        return None
    ends = array("Q")
    ends.frombytes(table)
    return ends if (ends[0], ends[-1]) == (snapshot.extent.start, snapshot.extent.end) else None


def read_index(disk: Disk, path: str, snapshot: Snapshot) -> bytes | None:
    """Return the index of a snapshot; None if it is damaged or the file was replaced after `snapshot` was read."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            data = disk.pread(fd, snapshot.index_size, snapshot.index_at)
    except OSError:
        return None
    return data if len(data) == snapshot.index_size and crc32(data) == snapshot.index_crc else None


def write_snapshot(
    disk: Disk,
    path: str,
    counter: int,
    stat: FileStat,
    extent: Extent,
    ends: array[int],
    index: bytes | None,
    *,
    flushed: bool,
    kept: Kept | None = None,
) -> None:
    """Write a snapshot, replacing an existing one."""
    table = ends.tobytes()
    data = index or b""
    fixed = _FIXED.pack(
        _MAGIC,
        counter,
        stat.inode,
        stat.modified_ns,
        extent.start,
        extent.end,
        extent.edges_crc,
        extent.header_crc,
        len(ends) - 1,
        _HAS_INDEX * (index is not None) | _FLUSHED * flushed | _KEPT * (kept is not None),
        len(data),
        crc32(data),
        crc32(table),
    )
    parts = [fixed, _CRC.pack(crc32(fixed)), table, data]
    if kept is not None:
        parts = [b"".join([*parts, _encoded(kept)])]
    is_move = kept is not None and index is None
    write_atomically(disk, path + INDEX_SUFFIX, parts, sync=is_move)

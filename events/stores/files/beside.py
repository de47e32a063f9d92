"""The files beside a log `abc.jsonl`: its snapshot `.index`, its leaf record `.leaf`, and checkpoints `.view-<name>`.

There are also fragments `.torn-<offset>-<crc32>` and backups `.bak`, which hold copies of what the log contained. The
modules `tail` and `backups` create them, and they are deleted only together with the log.

The snapshot is derived: the line table and the index at one head, in one file so that they agree. It names the bytes
that it describes (by the inode, the size, and checksums of the header and of both ends), and is ignored if the log does
not match: a torn, foreign or stale snapshot is not an error. It also holds a counter of generations. The counter grows
when a log turns out not to be the one of its snapshot, so that the generation changes even if the inode was reused.

The leaf record is state, small and readable::

    {"seq":3,"end":811,"ends_crc":123,"data_crc":456}
    {"leaf":"5f0c..."}

It depends only on the log's content, so it survives a copy of both files. It is valid while the log ends at its `seq`.

The checkpoint of a projection is derived. It is a record like the leaf record that also names the generation. It is
ignored for any other generation, and if the log does not have the line that it names.

All of these are written under a temporary name and renamed.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from array import array
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from zlib import crc32

import msgspec
from msgspec import Struct

from ...disk import Disk, FileStat, opened
from ...undecodable import UNDECODABLE
from ..base import BlobKind, Cursor
from ..blobs import VIEW, check_kind

INDEX_SUFFIX = ".index"
LEAF_SUFFIX = ".leaf"

BESIDE = re.compile(
    r"(?P<kind>|\.index|\.leaf|\.view-[A-Za-z0-9_-]{1,64}|\.torn-(?P<offset>\d+)-(?P<crc>[0-9a-f]{8})|\.bak(?:-\d+)?"
    r"|\.(?:zst|gz)(?=\.tmp-))"
    r"(?P<temporary>\.tmp-\d+-\d+)?"
)
"""What follows a log's name in the names of the files beside it; for the log itself, nothing."""

_NUMBERED = re.compile(r"-\d+$")  # appended when a repair moved several files of one name aside

_MAGIC = b"treering-index-1"
_NUMBERS = struct.Struct("<16s10QI")
_EDGE = 4096
_HAS_INDEX = 1


class Extent(Struct, frozen=True):
    """The fingerprint of a log from its first byte to the end of a line.

    Attributes:
        start: The offset at which the header block ends.
        end: The offset at which the last line ends.
        header_crc: The checksum of the header line.
        edges_crc: The checksum of up to 4 KiB at either end of the lines.
    """

    start: int
    end: int
    header_crc: int
    edges_crc: int


class Snapshot(Struct, frozen=True):
    """The fixed part of a snapshot file; the table and the index that follow have checksums of their own.

    Attributes:
        counter: The number of generations before this one.
        inode: The log's inode.
        modified_ns: When the log was last modified before the snapshot was written.
        extent: The part of the log that the snapshot describes.
        lines: The number of lines in that part.
        has_index: Whether there is an index, besides the counter and the table.
        table_crc: The checksum of the table.
        index_crc: The checksum of the index.
        index_at: The offset of the index in the snapshot file.
        index_size: The size of the index in bytes.
    """

    counter: int
    inode: int
    modified_ns: int
    extent: Extent
    lines: int
    has_index: bool
    table_crc: int
    index_crc: int
    index_at: int
    index_size: int

    def speaks_of(self, disk: Disk, fd: int, stat: FileStat, header_crc: int, start: int) -> bool:
        """Tell whether the log still begins with the bytes that the snapshot describes."""
        return (
            self.inode == stat.inode
            and self.extent.end <= stat.size
            and (self.extent.start, self.extent.header_crc) == (start, header_crc)
            and self.extent == extent_of(disk, fd, start, self.extent.end, header_crc)
        )

    def is_current(self, stat: FileStat) -> bool:
        """Tell whether the index may be used: the log is unchanged, or was appended to."""
        return self.has_index and (stat.size > self.extent.end or stat.modified_ns == self.modified_ns)


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


_decode_record = msgspec.json.Decoder(RecordLine).decode


def extent_of(disk: Disk, fd: int, start: int, end: int, header_crc: int) -> Extent:
    """Return the fingerprint of a part of a log: its header and up to 4 KiB at either end of its lines."""
    first = disk.pread(fd, min(_EDGE, end - start), start)
    last_at = max(start, end - _EDGE)
    return Extent(start, end, header_crc, crc32(disk.pread(fd, end - last_at, last_at), crc32(first)))


# -- the snapshot


def read_snapshot(disk: Disk, path: str) -> Snapshot | None:
    """Return the fixed part of a log's snapshot; None if there is no snapshot or that part is damaged."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            numbers, size = disk.pread(fd, _NUMBERS.size, 0), disk.fstat(fd).size
    except OSError:
        return None
    if len(numbers) != _NUMBERS.size or not numbers.startswith(_MAGIC):
        return None
    *_, crc = fields = _NUMBERS.unpack(numbers)
    if crc != crc32(numbers[:-4]):
        return None
    _, counter, inode, modified_ns, start, end, crcs, lines, flags, index_size, more_crcs, _ = fields
    index_at = _NUMBERS.size + (lines + 1) * 8
    if size != index_at + index_size:
        return None
    return Snapshot(
        counter,
        inode,
        modified_ns,
        Extent(start, end, crcs >> 32, crcs & 0xFFFFFFFF),
        lines,
        bool(flags & _HAS_INDEX),
        more_crcs >> 32,
        more_crcs & 0xFFFFFFFF,
        index_at,
        index_size,
    )


def read_table(disk: Disk, path: str, snapshot: Snapshot) -> array[int] | None:
    """Return the line table of a snapshot; None if it is damaged or the file was replaced after `snapshot` was read."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            table = disk.pread(fd, snapshot.index_at - _NUMBERS.size, _NUMBERS.size)
    except OSError:
        return None
    if crc32(table) != snapshot.table_crc:
        return None
    ends = array("Q")
    ends.frombytes(table)
    if sys.byteorder == "big":
        ends.byteswap()
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
    disk: Disk, path: str, counter: int, stat: FileStat, extent: Extent, ends: array[int], index: bytes | None
) -> None:
    """Write a snapshot, replacing an existing one.

    Raises:
        OSError: The snapshot cannot be written.
    """
    if sys.byteorder == "big":
        ends = ends[:]
        ends.byteswap()
    table = ends.tobytes()
    data = index or b""
    numbers = _NUMBERS.pack(
        _MAGIC,
        counter,
        stat.inode,
        stat.modified_ns,
        extent.start,
        extent.end,
        extent.header_crc << 32 | extent.edges_crc,
        len(ends) - 1,
        0 if index is None else _HAS_INDEX,
        len(data),
        crc32(table) << 32 | crc32(data),
        0,
    )
    head = numbers[:-4] + crc32(numbers[:-4]).to_bytes(4, "little")
    write_beside(disk, path + INDEX_SUFFIX, [head, table, data], sync=False)


# -- records: the leaf record, and the checkpoints of projections


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


def holds(record: RecordLine, extent: Extent) -> bool:
    """Tell whether a record matches the fingerprint of a log."""
    return (record.end, record.ends_crc) == (extent.end, _crc_of(extent))


def write_record(disk: Disk, path: str, suffix: str, head: Cursor, extent: Extent, data: bytes, *, sync: bool) -> None:
    """Write a record, replacing an existing one.

    Args:
        disk: The disk.
        path: The log's path.
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
    write_beside(disk, path + suffix, [line, b"\n", data], sync=sync)


def _crc_of(extent: Extent) -> int:
    return crc32(b"%d %d" % (extent.header_crc, extent.edges_crc))


# -- writing and removing files


def remove_copies(disk: Disk, folder: str, name: str) -> None:
    """Delete all files beside a log in a folder, except the log, its packed form and its leaf record.

    These are the fragments and backups of the log, unfinished temporary files, and derived files. A folder that does
    not exist is treated as empty.

    Args:
        disk: The disk.
        folder: The folder.
        name: The file name of the log.

    Raises:
        OSError: A file cannot be deleted.
    """
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for file_name in names:
        if file_name in (name, name + LEAF_SUFFIX) or not file_name.startswith(name):
            continue
        if BESIDE.fullmatch(file_name, len(name)) or BESIDE.fullmatch(_NUMBERED.sub("", file_name), len(name)):
            with suppress(FileNotFoundError):
                disk.unlink(os.path.join(folder, file_name))


def remove_derived(disk: Disk, path: str) -> None:
    """Delete the derived files beside a log: its snapshot and its checkpoints."""
    folder, name = os.path.split(path)
    derived = {name + INDEX_SUFFIX}
    with suppress(FileNotFoundError):
        derived |= {each for each in disk.list_directory(folder) if each.startswith(f"{name}.{VIEW}")}
    for file_name in sorted(derived):
        with suppress(FileNotFoundError):
            disk.unlink(f"{folder}/{file_name}")


class NameNotFlushed(OSError):
    """A file was renamed into place, but the rename may not survive a power cut."""


def write_beside(disk: Disk, path: str, parts: Iterable[bytes], *, sync: bool) -> None:
    """Write a file under a temporary name and rename it, so that it exists whole or not at all.

    Raises:
        NameNotFlushed: The file was renamed, and its directory could not be flushed.
        OSError: The file cannot be written. An existing file is unchanged.
    """
    fd, temporary = open_temporary(disk, path)
    try:
        try:
            for part in parts:
                write_all(disk, fd, part)
            if sync:
                disk.datasync(fd)
        finally:
            disk.close(fd)
        disk.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    if sync:
        try:
            disk.sync_directory(os.path.dirname(path))
        except OSError as error:
            raise NameNotFlushed(error.errno, error.strerror, path) from error


def open_temporary(disk: Disk, path: str) -> tuple[int, str]:
    """Create a temporary file beside `path`, open for writing; return its descriptor and its path."""
    for number in count(1):
        temporary = f"{path}.tmp-{os.getpid()}-{number}"
        try:
            return disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), temporary
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def flush_file(disk: Disk, path: str) -> None:
    """Make a file's bytes, but not its name, survive a power cut.

    Raises:
        OSError: The file cannot be flushed.
    """
    with opened(disk, path) as fd:
        disk.datasync(fd)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write all of `data`, repeating short writes."""
    while data:
        written = disk.write(fd, data)
        if not written:
            raise OSError(errno.EIO, "the disk wrote nothing")
        data = data[written:] if written < len(data) else b""

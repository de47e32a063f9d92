"""What stands beside a log `abc.jsonl`: its snapshot `.index`, its leaf record `.leaf`, checkpoints `.view-<name>`.

Copies of what the log held stand there too, the fragments `.torn-<offset>-<crc32>` and the backups `.bak`; they are made
elsewhere, see `tail` and `backups`, and nothing but a delete takes them away.

The snapshot is derived: the line table and the index as they were at one head, in one file, so that they agree. It says
of which bytes it speaks (the inode, the size, checksums of the header and of both ends), and is ignored wherever these
are not found: a torn, foreign or stale snapshot is no error. It also keeps a counter of histories, which grows when a log
is found to be another one than the snapshot's, so that the generation changes even where the inode was used again.

The leaf record is state, small and readable::

    {"seq":3,"end":811,"ends_crc":123,"data_crc":456}
    {"leaf":"5f0c..."}

It speaks of the log's content alone and so survives a copy of both files; it holds while the log ends at its `seq`.

The checkpoint of a projection is derived. It is a record like the leaf's, which also names the generation: it is ignored
for any other, and where the log does not have the line that it names.

All are written to a file of another name first, and renamed.
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
"""What follows a log's name in the names of the files beside it; alone, it is the log itself."""

_NUMBERED = re.compile(r"-\d+$")  # where a repair moved several files of one name aside

_MAGIC = b"treering-index-1"
_NUMBERS = struct.Struct("<16s10QI")
_EDGE = 4096
_HAS_INDEX = 1


class Extent(Struct, frozen=True):
    """A stretch of a log, from its first byte to the end of a line, and how to recognise it.

    Attributes:
        start: Where the header block ends.
        end: Where the last line ends.
        header_crc: The checksum of the header line.
        edges_crc: The checksum of the first and the last lines' bytes.
    """

    start: int
    end: int
    header_crc: int
    edges_crc: int


class Snapshot(Struct, frozen=True):
    """What the snapshot file says, but for the table and the index themselves, each of which has a checksum of its own.

    Attributes:
        counter: The histories that were counted before this one.
        inode: The log's inode.
        modified_ns: When the log was modified last, as of the snapshot.
        extent: The bytes that it speaks of.
        lines: How many lines these are.
        has_index: The index is there, and not only the counter and the table.
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

    def speaks_of(self, disk: Disk, fd: int, found: FileStat, header_crc: int, start: int) -> bool:
        """Tell whether the log still begins with the bytes that the snapshot was made of."""
        return (
            self.inode == found.inode
            and self.extent.end <= found.size
            and (self.extent.start, self.extent.header_crc) == (start, header_crc)
            and self.extent == extent_of(disk, fd, start, self.extent.end, header_crc)
        )

    def is_current(self, found: FileStat) -> bool:
        """Tell whether the index may be used: nothing changed, or something was appended."""
        return self.has_index and (found.size > self.extent.end or found.modified_ns == self.modified_ns)


class RecordLine(Struct, frozen=True, omit_defaults=True):
    """The first line of a record: the log's line that it was made at, how the log ended there, what follows."""

    seq: int
    end: int
    ends_crc: int
    data_crc: int
    generation: str = ""


_decode_record = msgspec.json.Decoder(RecordLine).decode


def extent_of(disk: Disk, fd: int, start: int, end: int, header_crc: int) -> Extent:
    """Make out how a stretch of a log is recognised: by its header and by 4 KiB at either end of its lines."""
    first = disk.pread(fd, min(_EDGE, end - start), start)
    last_at = max(start, end - _EDGE)
    return Extent(start, end, header_crc, crc32(disk.pread(fd, end - last_at, last_at), crc32(first)))


# -- the snapshot


def read_snapshot(disk: Disk, path: str) -> Snapshot | None:
    """Return what a log's snapshot says of itself, or None where there is none or its numbers are damaged."""
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
    """Return the line table of a snapshot that was read before, or None where it is damaged or was replaced since."""
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
    """Return the index of a snapshot that was read before, or None where it is damaged or was replaced since."""
    try:
        with opened(disk, path + INDEX_SUFFIX) as fd:
            data = disk.pread(fd, snapshot.index_size, snapshot.index_at)
    except OSError:
        return None
    return data if len(data) == snapshot.index_size and crc32(data) == snapshot.index_crc else None


def write_snapshot(
    disk: Disk, path: str, counter: int, found: FileStat, extent: Extent, ends: array[int], index: bytes | None
) -> None:
    """Write a snapshot in place of the one that is there.

    Raises:
        OSError: It cannot be written.
    """
    if sys.byteorder == "big":
        ends = ends[:]
        ends.byteswap()
    table = ends.tobytes()
    data = index or b""
    numbers = _NUMBERS.pack(
        _MAGIC,
        counter,
        found.inode,
        found.modified_ns,
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


# -- records: where the leaf is, and the checkpoints of projections


def suffix_of(kind: BlobKind) -> str:
    """Return how the name ends of the file that keeps something of this kind.

    Raises:
        InvalidInput: Nothing of this kind is kept.
    """
    return f".{check_kind(kind)}"


def read_record(disk: Disk, path: str, suffix: str) -> tuple[RecordLine, bytes] | None:
    """Return a record of a log, or None where there is none or it is damaged."""
    try:
        with opened(disk, path + suffix) as fd:
            whole = disk.pread(fd, disk.fstat(fd).size, 0)
    except OSError:
        return None
    line, _, data = whole.partition(b"\n")
    try:
        record = _decode_record(line)
    except UNDECODABLE:
        return None
    return (record, data) if record.data_crc == crc32(data) else None


def holds(record: RecordLine, extent: Extent) -> bool:
    """Tell whether a record speaks of a log that ends like this."""
    return (record.end, record.ends_crc) == (extent.end, _crc_of(extent))


def write_record(disk: Disk, path: str, suffix: str, head: Cursor, extent: Extent, data: bytes, *, sync: bool) -> None:
    """Write a record in place of the one that is there.

    Args:
        disk: The disk.
        path: The log's path.
        suffix: See `suffix_of`.
        head: The line that it is made at; without a generation, it is not bound to one.
        extent: The log up to that line.
        data: What it says.
        sync: Make it survive a power cut.

    Raises:
        NameNotFlushed: It was written, and its directory could not be flushed.
        OSError: It cannot be written; the old one is as it was.
    """
    line = msgspec.json.encode(RecordLine(head.seq, extent.end, _crc_of(extent), crc32(data), head.generation))
    write_beside(disk, path + suffix, [line, b"\n", data], sync=sync)


def _crc_of(extent: Extent) -> int:
    return crc32(b"%d %d" % (extent.header_crc, extent.edges_crc))


# -- files that replace others


def remove_copies(disk: Disk, folder: str, name: str) -> None:
    """Take away all that stands beside a log in a folder, but for the log, its packed form and its leaf record.

    That is what was moved or copied out of it, fragments and old versions, what a crash left half written, and what can be
    made anew. A folder that is not there holds nothing.

    Args:
        disk: The disk.
        folder: The folder.
        name: The log's name.

    Raises:
        OSError: The disk refuses.
    """
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in names:
        if each in (name, name + LEAF_SUFFIX) or not each.startswith(name):
            continue
        if BESIDE.fullmatch(each, len(name)) or BESIDE.fullmatch(_NUMBERED.sub("", each), len(name)):
            with suppress(FileNotFoundError):
                disk.unlink(os.path.join(folder, each))


def remove_derived(disk: Disk, path: str) -> None:
    """Take away what stands beside a log and can be made anew."""
    folder, name = os.path.split(path)
    beside = {name + INDEX_SUFFIX}
    with suppress(FileNotFoundError):
        beside |= {each for each in disk.list_directory(folder) if each.startswith(f"{name}.{VIEW}")}
    for each in sorted(beside):
        with suppress(FileNotFoundError):
            disk.unlink(f"{folder}/{each}")


class NameNotFlushed(OSError):
    """A file has its new bytes under its name, but the name may not survive a power cut."""


def write_beside(disk: Disk, path: str, parts: Iterable[bytes], *, sync: bool) -> None:
    """Write a file under another name and rename it, so that it is there whole or not at all.

    Raises:
        NameNotFlushed: It was renamed, and its directory could not be flushed.
        OSError: It cannot be written; a file that was there is as it was.
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
    """Open a new file, for writing alone, whose name nobody else uses."""
    for number in count(1):
        temporary = f"{path}.tmp-{os.getpid()}-{number}"
        try:
            return disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), temporary
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def flush_file(disk: Disk, path: str) -> None:
    """Make a file's bytes survive a power cut, and not its name.

    Raises:
        OSError: It cannot be flushed.
    """
    with opened(disk, path) as fd:
        disk.datasync(fd)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write all of it, however often the disk takes a part only."""
    while data:
        taken = disk.write(fd, data)
        if not taken:
            raise OSError(errno.EIO, "the disk takes nothing")
        data = data[taken:] if taken < len(data) else b""

"""The beginning of a log file: its header block, and the generation derived from it."""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from ....dialects.detect import Detected, detect, header_size, is_torn_header
from ....dialects.header import TORN_HEADER_MAX
from ....disk import Disk, opened
from ....errors import LogError, NotASession, Where

_FIRST_READ = 4096
FIRST_LINE = 4096
"""How many bytes of a log's first line make it known again."""


class TornHeader(NotASession):
    """The file holds nothing but the beginning of a header, as a crash leaves it: nothing was ever appended to it."""


def read_head(disk: Disk, fd: int, path: str, size: int) -> tuple[Detected, bytes]:
    """Read a log's header; return it decoded, and as the bytes of its block.

    Raises:
        TornHeader: The file is the beginning of a header.
        NotASession: The file does not begin with a header.
        UnsupportedVersion: The file was written by a newer program.
    """
    length = _FIRST_READ
    while True:
        block = disk.pread(fd, min(length, size), 0)
        at_end = len(block) < length
        needed = header_size(block, at_end=at_end)
        if needed is not None or at_end:
            break
        length += length
    try:
        detected = detect(block[:needed], path)
    except NotASession:
        if len(block) < size or not is_torn_header(block):
            raise
        raise TornHeader("only the beginning of a header was written", where=Where(path)) from None
    return detected, block[: detected.size]


def holds_session(disk: Disk, path: str, size: int) -> bool:
    """Tell whether a file of this size is more than the beginning of a header."""
    if not 0 < size < TORN_HEADER_MAX:
        return size > 0
    try:
        with opened(disk, path) as fd:
            read_head(disk, fd, path, size)
    except TornHeader:
        return False
    except (OSError, LogError):
        pass  # whoever opens it is told
    return True


def header_crc(block: bytes) -> int:
    """Return the checksum of the header line, without a title line before it, which may change in place."""
    return crc32(block.strip().rpartition(b"\n")[2].strip())


def generation_of(inode: int, header: int, counter: int, first_line: bytes | None) -> str:
    """Return the generation of a log, made from its inode, its header, its first line and its counter of generations.

    The first line has its own id and time. Without it, a log that was deleted and recreated under the same inode would
    look like the old one.

    Args:
        inode: Its inode.
        header: The checksum of its header line.
        counter: The number of generations before this one.
        first_line: Its first line, or the beginning of a long one; None if there is no line.
    """
    crc = header if first_line is None else crc32(first_line[:FIRST_LINE].strip(), header)
    return f"{inode:x}.{crc:08x}.{counter}"


_EDGE = 4096


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


def extent_of(disk: Disk, fd: int, start: int, end: int, header_crc: int) -> Extent:
    """Return the fingerprint of a part of a log: its header and up to 4 KiB at either end of its lines."""
    first = disk.pread(fd, min(_EDGE, end - start), start)
    last_at = max(start, end - _EDGE)
    return Extent(start, end, header_crc, crc32(disk.pread(fd, end - last_at, last_at), crc32(first)))

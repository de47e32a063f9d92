"""The beginning of a log file: its header block, and the generation derived from it."""

from __future__ import annotations

from zlib import crc32

from ....dialects.detect import Detected, detect, header_size, is_torn_header
from ....dialects.header import TORN_HEADER_MAX
from ....disk import Disk, opened
from ....errors import LogError, NotASession, Where

_FIRST_READ = 4096
_FIRST_LINE = 4096


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


def generation_of(disk: Disk, fd: int, inode: int, header: int, counter: int, first: tuple[int, int] | None) -> str:
    """Return the generation of a log, made from its inode, its header, its first line and its counter of generations.

    The first line has its own id and time. Without it, a log that was deleted and recreated under the same inode would
    look like the old one.

    Args:
        disk: The disk.
        fd: The log.
        inode: Its inode.
        header: The checksum of its header line.
        counter: The number of generations before this one.
        first: Where its first line begins and ends; None if there is no line.
    """
    crc = header
    if first is not None:
        start, end = first
        crc = crc32(disk.pread(fd, min(end - start, _FIRST_LINE), start).strip(), crc)
    return f"{inode:x}.{crc:08x}.{counter}"

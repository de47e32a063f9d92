"""The beginning of a log file: how many bytes its header takes, what it says, and what tells it from others."""

from __future__ import annotations

from zlib import crc32

from ...dialects.detect import Detected, detect, header_size
from ...disk import Disk

_FIRST_READ = 4096
_FIRST_LINE = 4096


def read_head(disk: Disk, fd: int, path: str, size: int) -> tuple[Detected, bytes]:
    """Read a log's header; return what it says, and the block.

    Raises:
        NotASession: The file does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """
    length = _FIRST_READ
    while True:
        block = disk.pread(fd, min(length, size), 0)
        at_end = len(block) < length
        needed = header_size(block, at_end=at_end)
        if needed is not None or at_end:
            detected = detect(block[:needed], path)
            return detected, block[: detected.size]
        length *= 4


def header_crc(block: bytes) -> int:
    """Return the checksum of the header line; a title that stands before it may change in place."""
    return crc32(block.strip().rpartition(b"\n")[2].strip())


def generation_of(disk: Disk, fd: int, inode: int, header: int, counter: int, first: tuple[int, int] | None) -> str:
    """Name a history of a log: by its inode, its header, its first line, and how often it was found to be another.

    The first line has an id and a time of its own. Without it, a log that is deleted and made anew under the same inode
    would seem to be the old one.

    Args:
        disk: The disk.
        fd: The log.
        inode: Its inode.
        header: The checksum of its header line.
        counter: How often its history changed in place.
        first: Where its first line begins and ends; None where it has none.
    """
    crc = header
    if first is not None:
        start, end = first
        crc = crc32(disk.pread(fd, min(end - start, _FIRST_LINE), start).strip(), crc)
    return f"{inode:x}.{crc:08x}.{counter}"

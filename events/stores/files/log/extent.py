"""The fingerprint of a log up to the end of a line: tells whether a file beside the log describes these bytes."""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from ....disk import Disk

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

"""The torn tail: what stands after a log's last newline, and how it is put right before anything is appended.

Three cases. A whole line that only lacks its newline gets one. A fragment of a log that other programs append to as well
is isolated by a newline, since it may be the beginning of their line: it becomes a damaged line. A fragment of any other
log moves to `<name>.torn-<offset>-<crc32>` beside it, and only when that file is safe is the log cut.
"""

from __future__ import annotations

from ...disk import Disk
from .beside import write_beside
from .table import checksum, chunks, is_blank, is_whole


def needs_newline(disk: Disk, fd: int, start: int, size: int, *, shared: bool) -> bool:
    """Tell whether the tail between two offsets is put right by a newline; else it has to be moved away."""
    return shared or is_blank(disk, fd, start, size) or is_whole(disk, fd, start, size)


def move_away(disk: Disk, path: str, fd: int, start: int, size: int) -> str | None:
    """Move the tail of a log into a file of its own and cut the log; None where it has grown meanwhile, else the file."""
    torn = f"{path}.torn-{start}-{checksum(disk, fd, start, size):08x}"
    write_beside(disk, torn, chunks(disk, fd, start, size), sync=True)
    if disk.fstat(fd).size != size:
        return None
    disk.truncate(fd, start)
    disk.datasync(fd)
    return torn

"""The repair of a torn tail: the bytes after a log's last newline, before anything is appended.

There are three cases. A whole line that only lacks its newline gets one. In a log that other programs append to as
well, a fragment is terminated by a newline and becomes a damaged line, since it may be the beginning of a line of
theirs. In any other log, a fragment is moved to `<name>.torn-<offset>-<crc32>` beside the log, and the log is cut only
after that file was flushed.
"""

from __future__ import annotations

from ....disk import Disk, write_all
from ....disk.atomic_files import write_atomically
from ...base import TornTail
from .table import checksum, chunks, is_blank, is_whole


def mend(disk: Disk, path: str, fd: int, start: int, size: int, *, shared: bool) -> TornTail:
    """Repair the tail of a log between two offsets, and return what it was.

    If another program went on in the meantime, what it finished is no tail, and stays.

    Args:
        fd: The log, open for reading and appending.
        start: Where the tail begins.
        size: Where it ends.
        shared: Whether other programs append to the log as well.
    """
    if shared or is_blank(disk, fd, start, size) or is_whole(disk, fd, start, size):
        write_all(disk, fd, b"\n")
        return TornTail(start, size - start)
    return TornTail(start, size - start, move_away(disk, path, fd, start, size))


def move_away(disk: Disk, path: str, fd: int, start: int, size: int) -> str | None:
    """Move the tail of a log to a file of its own, cut the log, and return the file's path.

    If the log grew in the meantime, it is not cut, and None is returned.
    """
    torn = f"{path}.torn-{start}-{checksum(disk, fd, start, size):08x}"
    write_atomically(disk, torn, chunks(disk, fd, start, size), sync=True)
    if disk.fstat(fd).size != size:
        return None
    disk.truncate(fd, start)
    disk.datasync(fd)
    return torn

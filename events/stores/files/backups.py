"""Backups: what a log was before another file takes its place, as `.bak`, `.bak-2` and so on.

They go when the log itself is deleted, and nobody removes them before.
"""

from __future__ import annotations

from ...disk import Disk
from .beside import write_beside
from .table import chunks

SUFFIX = ".bak"
"""How the name of a log's first backup ends."""


def back_up(disk: Disk, path: str, fd: int, size: int) -> str:
    """Copy a log that is about to be replaced to the first free name, and return the copy's path.

    It is a copy, so that the log's own name is never gone.

    Args:
        disk: The disk.
        path: The log's path.
        fd: The log, open for reading.
        size: How many bytes of it there are.

    Raises:
        OSError: The copy cannot be written; nothing is left of it.
    """
    backup, number = path + SUFFIX, 2
    while _is_there(disk, backup):
        backup, number = f"{path}{SUFFIX}-{number}", number + 1
    write_beside(disk, backup, chunks(disk, fd, 0, size), sync=True)
    return backup


def _is_there(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True

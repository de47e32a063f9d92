"""Backups: copies of logs that are about to be replaced, named `.bak`, `.bak-2` and so on.

They are deleted only together with the log itself.
"""

from __future__ import annotations

from contextlib import suppress

from ...disk import Disk
from ...disk.atomic_files import NameNotFlushed, write_atomically
from .log.table import chunks

SUFFIX = ".bak"
"""The suffix of a log's first backup."""


def back_up(disk: Disk, path: str, fd: int, size: int) -> str:
    """Copy a log that is about to be replaced to the first free backup name, and return the copy's path.

    The log is copied and not renamed, so that its own name always exists.

    Args:
        disk: The disk.
        path: The log's path.
        fd: The log, open for reading.
        size: The size of the log in bytes.

    Raises:
        OSError: The copy cannot be written. No part of it remains.
    """
    backup, number = path + SUFFIX, 2
    while _exists(disk, backup):
        backup, number = f"{path}{SUFFIX}-{number}", number + 1
    try:
        write_atomically(disk, backup, chunks(disk, fd, 0, size), sync=True)
    except NameNotFlushed:
        with suppress(OSError):
            disk.unlink(backup)
        raise
    return backup


def _exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True

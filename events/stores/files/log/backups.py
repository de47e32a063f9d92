"""Backups: copies of logs that are about to be replaced, named `.bak`, `.bak-2` and so on.

They are deleted only together with the log itself.

Logs in old formats are migrated: a new file atomically replaces the old one, which is kept as such a backup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from ....dialects.base import Dialect
from ....disk import Disk
from ....disk.atomic_files import NameNotFlushed, removed_on_error, write_atomically, write_temporary
from ....disk.packed import stat_if_exists
from ....errors import Conflict
from .table import CHUNK, Table, chunks

SUFFIX = ".bak"
"""The suffix of a log's first backup."""

_TRIES_MAX = 8


def back_up(disk: Disk, path: str, fd: int, size: int) -> str:
    """Copy a log that is about to be replaced to the first free backup name, and return the copy's path.

    The log is copied and not renamed, so that its own name always exists.

    Args:
        fd: The log, open for reading.
        size: The size of the log in bytes.

    Raises:
        OSError: The copy cannot be written. No part of it remains.
    """
    backup, number = path + SUFFIX, 2
    while stat_if_exists(disk, backup) is not None:
        backup, number = f"{path}{SUFFIX}-{number}", number + 1
    try:
        write_atomically(disk, backup, chunks(disk, fd, 0, size), sync=True)
    except NameNotFlushed:
        with suppress(OSError):
            disk.unlink(backup)
        raise
    return backup


def migrate(disk: Disk, path: str, fd: int, block: bytes, dialect: Dialect, table: Table) -> None:
    """Rewrite an old log in the current version of its dialect.

    Args:
        fd: The log, open for reading.
        block: Its header block.
        dialect: Its dialect, in the old version.
        table: Its lines; a tail without a newline is migrated as the last line.

    Raises:
        Conflict: Another program keeps appending to the log.
        OSError: The new log or the backup cannot be written. The old log is unchanged.
    """
    for _ in range(_TRIES_MAX):
        before = disk.fstat(fd)
        table.grow(disk, fd, before.size)
        new = write_temporary(disk, path, _migrated(disk, path, fd, block, dialect, table, before.size), sync=True)
        with removed_on_error(disk, new):
            backup = back_up(disk, path, fd, before.size)
            if disk.stat(path).is_still(before.device, before.inode, before.size):
                disk.rename(new, path)
                disk.sync_directory(os.path.dirname(path))
                return
            disk.unlink(backup)
        disk.unlink(new)
    raise Conflict(
        f"{path} has an old format and cannot be migrated while another program appends to it: try again later"
    )


def _migrated(
    disk: Disk, path: str, fd: int, block: bytes, dialect: Dialect, table: Table, size: int
) -> Iterator[bytes]:
    """Yield the content of the new log."""
    yield dialect.migrated_header(block)
    seq = 0
    while seq < table.count:
        last = table.last_that_fits(seq, table.count, CHUNK)
        lines = table.lines(disk, fd, seq + 1, last)
        if lines is None:
            raise Conflict(f"{path} was rewritten by another program while it was being migrated: open it again")
        yield b"".join(dialect.migrated(line, seq + n) for n, line in enumerate(lines, 1))
        seq = last
    tail = disk.pread(fd, size - table.scanned, table.scanned)
    if tail.strip():
        yield dialect.migrated(tail.strip(), seq + 1)

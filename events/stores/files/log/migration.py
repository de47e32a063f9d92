"""The migration of logs in old formats: a new file atomically replaces the old one, which is kept as `.bak`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ....dialects.base import Dialect
from ....disk import Disk
from ....disk.atomic_files import removed_on_error, write_temporary
from ....errors import Conflict
from ..replacing import back_up
from .table import CHUNK, Table

_TRIES_MAX = 8


def migrate(disk: Disk, path: str, fd: int, block: bytes, dialect: Dialect, table: Table) -> None:
    """Rewrite an old log in the current version of its dialect.

    Args:
        disk: The disk.
        path: The log's real path.
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

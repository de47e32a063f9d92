"""An old log becomes a new one: written next to it, put in its place in one step, and the old one kept as `.bak`."""

from __future__ import annotations

import os
from contextlib import suppress

from ...dialects.base import Dialect
from ...disk import Disk, FileStat
from ...errors import Conflict
from .backups import back_up
from .beside import open_temporary, write_all
from .table import CHUNK, Table

_TRIES_MAX = 8


def migrate(disk: Disk, path: str, fd: int, block: bytes, dialect: Dialect, table: Table) -> None:
    """Rewrite an old log in its dialect's present version.

    Args:
        disk: The disk.
        path: The log's real path.
        fd: The log, open for reading.
        block: Its header block.
        dialect: Its dialect, with the old shapes.
        table: Its lines; a tail that has no newline counts as the last of them.

    Raises:
        Conflict: Another program keeps appending to it.
        OSError: The new one or the copy cannot be written; the old one is as it was.
    """
    for _ in range(_TRIES_MAX):
        before = disk.fstat(fd)
        table.grow(disk, fd, before.size)
        new = _write_new(disk, path, fd, block, dialect, table, before.size)
        try:
            backup = back_up(disk, path, fd, before.size)
            if _same(before, disk.stat(path)):
                disk.rename(new, path)
                disk.sync_directory(os.path.dirname(path))
                return
            disk.unlink(backup)
        except BaseException:
            with suppress(OSError):
                disk.unlink(new)
            raise
        disk.unlink(new)
    raise Conflict(f"{path} has an old format and another program keeps appending to it: open it when it is quiet")


def _same(before: FileStat, after: FileStat) -> bool:
    return (before.device, before.inode, before.size) == (after.device, after.inode, after.size)


def _write_new(disk: Disk, path: str, fd: int, block: bytes, dialect: Dialect, table: Table, size: int) -> str:
    target, temporary = open_temporary(disk, path)
    try:
        try:
            write_all(disk, target, dialect.migrated_header(block))
            seq = 0
            while seq < table.count:
                last = table.last_that_fits(seq, table.count, CHUNK)
                lines = table.lines(disk, fd, seq + 1, last)
                if lines is None:
                    raise Conflict(f"{path} was rewritten by another program while it was read: open it again")
                write_all(disk, target, b"".join(dialect.migrated(line, seq + n) for n, line in enumerate(lines, 1)))
                seq = last
            tail = disk.pread(fd, size - table.scanned, table.scanned)
            if tail.strip():
                write_all(disk, target, dialect.migrated(tail.strip(), seq + 1))
            disk.datasync(target)
        finally:
            disk.close(target)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    return temporary

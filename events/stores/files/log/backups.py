"""What a log keeps beside it when it is cut or replaced: fragments of its tail, and backups.

Both are deleted only together with the log itself.

A torn tail, the bytes after a log's last newline, is repaired before anything is appended. There are three cases. A
whole line that only lacks its newline gets one. In a log that other programs append to as well, a fragment is
terminated by a newline and becomes a damaged line, since it may be the beginning of a line of theirs. In any other log,
a fragment is moved to `<name>.torn-<offset>-<crc32>` beside the log, and the log is cut only after that file was
flushed.

Backups are copies of logs that are about to be replaced, named `.bak`, `.bak-2` and so on. Logs in old formats are
migrated: a new file atomically replaces the old one, which is kept as such a backup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from ....dialects.base import Dialect
from ....disk import Disk, write_all
from ....disk.atomic_files import NameNotFlushed, removed_on_error, write_atomically, write_temporary
from ....disk.packed import stat_if_exists
from ....errors import Conflict
from ...base import TornTail
from .table import CHUNK, Table, checksum, chunks, is_blank, is_whole

SUFFIX = ".bak"
"""The suffix of a log's first backup."""

_TRIES_MAX = 8


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
        table.scanned = max(table.scanned, table.ends[0])  # a header without a newline is not a line as well
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

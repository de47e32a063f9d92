"""Flushing a log, so that its appends survive a power cut, and what has to be done when a flush fails.

The system may drop bytes that it failed to flush, and let the next flush succeed without them. So after a failed flush,
the bytes are written again before the next one.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ....dialects.base import Dialect
from ....disk import Disk, write_all
from ...base import InDoubt
from ..log.log import Log
from ..log.table import chunks


def flush_append(disk: Disk, log: Log, fd: int, *, dialect: Dialect | None = None, start: int = 0) -> InDoubt | None:
    """Flush what an append wrote; return why the append is in doubt, or None. See `flush_or_write_again`."""
    try:
        flush_or_write_again(disk, log, fd, dialect=dialect, start=start)
    except OSError as error:
        return not_flushed(log, error)
    return None


def make_durable(disk: Disk, log: Log) -> None:
    """Make a log survive a power cut: its whole content and its name.

    Raises:
        OSError: The log cannot be flushed.
    """
    with log.naming_errors(), log.opened(os.O_RDONLY) as fd:
        flush_or_write_again(disk, log, fd)
    log.unflushed_folders.flush(disk)


def flush_or_write_again(disk: Disk, log: Log, fd: int, *, dialect: Dialect | None = None, start: int = 0) -> None:
    """Flush a log; if that fails, write its bytes again before the error is raised.

    This host examines the log before its next append, but it may be killed before it does. The host after it can only
    flush, and needs bytes that still have to be written.

    Args:
        disk: The disk.
        log: The log.
        fd: The file.
        dialect: Its dialect, if the log does not know it yet.
        start: The offset before which everything was flushed earlier.

    Raises:
        OSError: The log cannot be flushed.
    """
    try:
        disk.datasync(fd)
    except OSError:
        with suppress(OSError):  # the log is in doubt, so this host will try again
            write_again(disk, log, dialect or log.dialect, start)
        raise


def write_again(disk: Disk, log: Log, dialect: Dialect | None, start: int = 0) -> None:
    """Write the same bytes again where they stand, so that the next flush has to bring them to the disk.

    A log that other programs write to is left as it is, since they may change the bytes between our read and our write.

    Raises:
        OSError: The log cannot be read or written.
    """
    if dialect is None or dialect.shared:
        return
    with log.opened(os.O_RDWR) as fd:
        disk.seek(fd, start)
        for chunk in chunks(disk, fd, start, disk.fstat(fd).size):
            write_all(disk, fd, chunk)

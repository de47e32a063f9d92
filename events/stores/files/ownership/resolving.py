"""Resolving a doubt about the content of a log: the file is examined again, and what may be lost is written again."""

from __future__ import annotations

import os
from contextlib import suppress

from ....disk import Disk
from ....errors import AppendInDoubt
from ...base import Cursor
from ..durability.flushing import flush_or_write_again, make_durable, write_again
from ..log.log import Log


def resolve(disk: Disk, log: Log, *, sync: bool) -> Cursor:
    """Examine the file again and return its present end.

    A flush may succeed after an earlier flush lost the bytes, so bytes left in doubt by a failed flush have to be
    written again. A log that only treering writes to is rewritten in place and flushed. Nothing is truncated, so
    nothing can be lost in the process. A log that other programs write to is only flushed.

    Raises:
        AppendInDoubt: The disk failed again.
        LogError: The file is no longer a session.
        OSError: The file cannot be read.
    """
    try:
        stat = disk.stat(log.path)
    except FileNotFoundError:
        stat = None
    if log.header is None:
        if stat is not None and stat.size:
            log.own()
    elif stat is None or not log.continues_with_own_fd(stat):
        log.reload_changed()
        if log.dialect is not None and log.dialect.old:
            log.own()
    if log.header is not None:
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            if log.unsynced:
                _flush_again(disk, log, fd, sync=sync)
            log.refresh(fd, disk.fstat(fd))
            log.settle(fd)
    log.note_certain()
    return log.head


def _flush_again(disk: Disk, log: Log, fd: int, *, sync: bool) -> None:
    """Flush bytes after a flush that may have lost them; see `resolve`."""
    try:
        write_again(disk, log, log.dialect)
        if sync:
            flush_or_write_again(disk, log, fd)
            log.unflushed_folders.flush(disk)
    except OSError as error:
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed again ({error.strerror or error}): check the disk")
        raise log.doubt from error


def flush_unjournaled(disk: Disk, log: Log) -> None:
    """Flush bytes that no journal holds, because the journal failed or the append never reached it.

    Raises:
        AppendInDoubt: The log cannot be flushed. The bytes stay in doubt.
    """
    log.unjournaled = False
    try:
        with suppress(FileNotFoundError):
            make_durable(disk, log)
    except OSError as error:
        log.unsynced = True
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed ({error.strerror or error}): check the disk")
        raise log.doubt from error

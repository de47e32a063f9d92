"""Atomic replacement of a whole log: after a crash, either the old or the new one exists, and the old one is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain

from ...disk import Disk, write_all
from ...disk.atomic_files import open_temporary, removed_on_error
from ...errors import AppendInDoubt, Conflict
from ..base import Cursor
from ..lines import check_lines
from .log.log import Log
from .log.table import CHUNK
from .names import LEAF_SUFFIX, make_folders
from .replacing import back_up


def put(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> Cursor:
    """Write a log under a temporary name, rename it, and return its head. An existing log is kept as `.bak`.

    Raises:
        Conflict: Another program appended to the existing log, or replaced it.
        InvalidInput: A line is not whole.
        AppendInDoubt: The log was written, but may not survive a power cut, or cannot be read.
        OSError: The log cannot be written. The existing log is unchanged.
    """
    _check_unchanged(disk, log)
    log.unflushed_folders.put_first(make_folders(disk, os.path.dirname(log.path)))
    with _existing_backed_up(disk, log):
        _replace(disk, log, header, lines)
    flush_error = _error_of(lambda: log.unflushed_folders.flush(disk))
    with suppress(OSError):
        disk.unlink(log.path + LEAF_SUFFIX)
    read_error = _error_of(log.reload_changed)
    log.note_certain()
    if flush_error is not None:
        log.unsynced = True
        doubt = AppendInDoubt(
            f"{log.path} was written, but a power cut may undo that ({flush_error.strerror or flush_error}): "
            "check the disk, then repeat the call"
        )
        log.note_background_doubt(doubt)  # so that the next append flushes the folders first
        raise doubt from flush_error
    if read_error is not None:
        raise AppendInDoubt(
            f"{log.path} was written, but cannot be read ({read_error.strerror or read_error}): "
            "check the disk, read the session again, then repeat the call"
        ) from read_error
    return log.head


def _error_of(step: Callable[[], None]) -> OSError | None:
    """Take a step after the log was replaced, and return its disk error: what follows it has to be done anyway."""
    try:
        step()
    except OSError as error:
        return error
    return None


def _replace(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> None:
    fd, temporary = open_temporary(disk, log.path)
    with removed_on_error(disk, temporary):
        try:
            for part in chain((header,), _parts(lines)):
                write_all(disk, fd, part)
            disk.datasync(fd)
        finally:
            disk.close(fd)
        _check_unchanged(disk, log)
        disk.rename(temporary, log.path)


@contextmanager
def _existing_backed_up(disk: Disk, log: Log) -> Generator[None]:
    """Copy the existing log, if there is one that is not empty, to a backup, which is deleted if the block raises."""
    with ExitStack() as stack:
        if log.size:
            with suppress(FileNotFoundError), log.opened(os.O_RDONLY) as fd:
                stack.enter_context(removed_on_error(disk, back_up(disk, log.path, fd, log.size)))
        yield


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into chunks, and check them."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= CHUNK:
            check_lines(part)
            yield b"".join(part)
            part, size = [], 0
    check_lines(part)
    if part:
        yield b"".join(part)


def _check_unchanged(disk: Disk, log: Log) -> None:
    """Make sure that the replacement does not lose lines that the caller has not seen."""
    try:
        stat = disk.stat(log.path)
    except FileNotFoundError:
        return
    if stat.size and not log.is_as_left(stat):
        raise Conflict(f"{log.path} was changed by another program: read it again, then retry")

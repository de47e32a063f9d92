"""Putting a whole log in the place of another: after a crash it is the old one or the new one, and the old one is kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ...disk import Disk
from ...errors import AppendInDoubt, Conflict, InvalidInput
from ..base import Cursor
from ..lines import check_lines
from .backups import back_up
from .beside import LEAF_SUFFIX, open_temporary, write_all
from .log import Log
from .table import CHUNK
from .writer import missing


def put(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> Cursor:
    """Write a log and rename it; return its head. What was there is kept as `.bak`, see `backups`.

    Raises:
        Conflict: Another program appended to the log that is there, or put another one in its place.
        InvalidInput: The header or a line is not whole.
        AppendInDoubt: It was written, and may be lost in a power cut.
        OSError: It cannot be written; what is there is as it was.
    """
    if not header.endswith(b"\n"):
        raise InvalidInput("the header block that is put has to end with its newline")
    _check(disk, log)
    folder = os.path.dirname(log.path)
    new_folders = missing(disk, folder)
    disk.make_directory(folder)
    backup = _backed_up(disk, log)
    try:
        _replace(disk, log, header, lines)
    except BaseException:
        if backup is not None:
            with suppress(OSError):
                disk.unlink(backup)
        raise
    failure: OSError | None = None
    try:
        for each in (folder, *map(os.path.dirname, new_folders)):
            disk.sync_directory(each)
    except OSError as error:
        failure = error
    with suppress(OSError):
        disk.unlink(log.path + LEAF_SUFFIX)
    log.changed()
    log.doubt = None
    log.distrusted = False
    log.unsynced = False
    if failure is not None:
        raise AppendInDoubt(
            f"{log.path} was written, but a power cut may undo that ({failure.strerror or failure}): "
            "see to the disk, then put it again"
        ) from failure
    return log.head


def _replace(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> None:
    fd, temporary = open_temporary(disk, log.path)
    try:
        try:
            write_all(disk, fd, header)
            for part in _parts(lines):
                write_all(disk, fd, part)
            disk.datasync(fd)
        finally:
            disk.close(fd)
        _check(disk, log)
        disk.rename(temporary, log.path)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise


def _backed_up(disk: Disk, log: Log) -> str | None:
    """Keep a copy of the log that is there, and return its path; None where there is none, or an empty one."""
    if log.size:
        with suppress(FileNotFoundError), log.opened(os.O_RDONLY) as fd:
            return back_up(disk, log.path, fd, log.size)
    return None


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to what is written at once, looking at them on the way."""
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


def _check(disk: Disk, log: Log) -> None:
    """Make sure that nothing is lost of which the caller does not know."""
    try:
        found = disk.stat(log.path)
    except FileNotFoundError:
        return
    if found.size and (found.device, found.inode, found.size) != (log.device, log.inode, log.size):
        raise Conflict(f"{log.path} was changed by another program: read it again, then decide again")

"""Appending to one log file: the checks before and after the write, and the handling of failed writes.

An append is one write to the end of the file. Before it, the file must be unchanged: the same inode and the same size.
After it, the descriptor's position tells where the bytes landed, which reveals a line that another program appended in
between. Other programs take no lock; their bytes are never cut off.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate

from ...disk import Disk, write_all
from ...disk.disk_errors import FULL
from ...errors import AppendFailed, InvalidInput, LogError
from ..base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Outcome
from ..checks import check_header
from .durability.flushing import flush_append, in_doubt, not_flushed
from .log.log import Log
from .log.state import NOWHERE
from .names import make_folders


def append_at(
    disk: Disk, log: Log, fd: int, request: Append, *, sync: bool, write: Callable[[int, bytes], int] | None = None
) -> Outcome:
    """Append to a file that was just found unchanged.

    Args:
        fd: The file, open for reading and appending.
        request: The lines, and whether they have to land together.
        sync: Flush before the append counts.
        write: A replacement for the disk's `write`, which measures how long it takes.
    """
    lines, table, landed = request.lines, log.table, 0
    write = write or disk.write
    data = lines[0] if len(lines) == 1 else b"".join(lines)
    try:
        while landed < len(data):
            written = write(fd, data[landed:] if landed else data)
            if not written:
                raise OSError(errno.EIO, "the disk wrote nothing", log.path)
            landed += written
    except OSError as error:
        return _undo(disk, log, fd, request, landed, error, sync=sync)
    try:
        end = disk.position(fd)
    except OSError as error:
        return in_doubt(log, error, "it is unknown where the append landed")
    if end != log.size + landed:
        return _landed_elsewhere(disk, log, fd, data, end, sync=sync)
    if sync and (doubt := flush_append(disk, log, fd, start=log.size)) is not None:
        return doubt
    line_end = log.size
    for line in lines:
        line_end += len(line)
        table.ends.append(line_end)
    table.scanned = log.size = end
    log.head = Cursor(log.head.generation, len(table.ends) - 1)
    return Committed(log.head)


def append_with_own_fd(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Append with all checks, using a descriptor outside the pool; works whatever happened to the file.

    Args:
        sync: Flush before the append counts.
        keep: Keep the descriptor of a newly created file in `log.fd`.
    """
    outcome = _append_checked(disk, log, request, sync=sync, keep=keep)
    if sync and isinstance(outcome, InDoubt):  # whatever caused the doubt, these bytes were not flushed
        log.unsynced = True
    return outcome


def _append_checked(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    if log.doubt is not None:
        return Fenced(log.head, log.epoch) if log.doubt_in_background else InDoubt(log.doubt)
    if request.expected_head != log.head:
        return Fenced(log.head, log.epoch)
    if not request.lines and log.header is not None:
        return Committed(log.head)
    try:
        if log.header is None:
            return create(disk, log, request, sync=sync, keep=keep)
        try:
            stat = disk.stat(log.path)
        except FileNotFoundError:
            stat = None
        if stat is None or not log.is_same(stat):
            return _load_replaced(log)
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            stat = disk.fstat(fd)
            is_same = log.is_same(stat) if log.fd >= 0 else log.is_same_after_reopen(fd, stat)
            if not (is_same and log.continues(fd, stat)):
                return _load_replaced(log)
            log.refresh(fd, stat)
            if log.head == request.expected_head and stat.size > log.table.scanned:
                log.settle(fd)
            if log.head != request.expected_head:
                return Fenced(log.head, log.epoch)
            if sync:
                log.unflushed_folders.flush(disk)
            outcome = append_at(disk, log, fd, request, sync=sync)
            if log.fd < 0:
                with suppress(OSError):
                    log.modified_ns_seen = disk.fstat(fd).modified_ns
            return outcome
    except OSError as error:
        return Failed(log.head, _write_failed(log, error))


def _landed_elsewhere(disk: Disk, log: Log, fd: int, data: bytes, end: int, *, sync: bool) -> Outcome:
    """Index the file after another program appended to it just before our write."""
    start = end - len(data)
    if sync and (doubt := flush_append(disk, log, fd)) is not None:
        return doubt
    try:
        if start <= 0 or disk.pread(fd, len(data) + 1, start - 1) != b"\n" + data:
            return in_doubt(log, None, "the append landed after an unfinished line of another program")
        log.refresh(fd, disk.fstat(fd))
    except OSError as error:
        return in_doubt(log, error, "the append landed after lines of another program, which cannot be read")
    return Committed(log.head)


def _undo(disk: Disk, log: Log, fd: int, request: Append, landed: int, error: OSError, *, sync: bool) -> Outcome:
    """Keep the lines that landed whole after a failed write, and remove or terminate the incomplete rest."""
    lines, shared = request.lines, log.dialect is not None and log.dialect.shared
    whole_lines = 0 if request.atomic and not shared else _count_whole(lines, landed)
    whole_end = log.size + sum(map(len, lines[:whole_lines]))
    landed_end = log.size + landed
    try:
        if disk.fstat(fd).size != landed_end:
            return in_doubt(log, error, "another program appended while our write failed")
        if whole_end < landed_end and not shared:
            disk.truncate(fd, whole_end)
    except OSError as second:
        return in_doubt(log, second, f"a failed write ({error.strerror or error}) could not be undone")
    try:
        log.refresh(fd, disk.fstat(fd))
    except OSError as second:
        return in_doubt(log, second, f"the file cannot be read after a failed write ({error.strerror or error})")
    if log.size > log.table.scanned:
        with suppress(OSError):  # if there is no room even for a newline, the next append writes it
            log.settle(fd)
    if shared and whole_lines < len(lines) and landed_end == whole_end + len(lines[whole_lines]) - 1:
        # The whole line landed except for its newline: it counts as soon as a newline follows.
        seq = request.expected_head.seq + whole_lines + 1
        if log.table.count < seq:
            return in_doubt(log, error, "a line was appended, but there was no room for its newline")
        whole_lines += log.table.ends[seq] == whole_end + len(lines[whole_lines])
    # The removed bytes must not come back after a power cut.
    if sync and landed and (doubt := flush_append(disk, log, fd)) is not None:
        return doubt
    if whole_lines == len(lines):
        return Committed(log.head)
    head = Cursor(log.head.generation, request.expected_head.seq + whole_lines)
    return Failed(head, _write_failed(log, error))


def _count_whole(lines: Sequence[bytes], landed: int) -> int:
    """Return how many lines are whole within the first `landed` bytes."""
    return bisect_right(list(accumulate(map(len, lines))), landed)


def create(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Create the file with its header block and its first lines.

    Args:
        log: The log, owned; it does not exist.
        sync: Flush the file and its name before the append counts.
        keep: Keep the descriptor in `log.fd`.

    Raises:
        InvalidInput: The append has no header block, or its header block is not valid.
        OSError: The file cannot be created.
    """
    if request.header is None:
        raise InvalidInput(f"{log.path} does not exist yet: its first append needs a header block")
    detected = check_header(request.header, log.path)
    dialect = request.dialect or detected.dialect
    folder = os.path.dirname(log.path)
    try:
        fd, created = _open_new(disk, log.path)
        folders: tuple[str, ...] = (folder,)
    except FileNotFoundError:
        folders = make_folders(disk, folder)
        fd, created = _open_new(disk, log.path)
    log.unflushed_folders.put_first(folders)
    keeps_fd = False
    try:
        if not created and disk.fstat(fd).size:
            return _load_replaced(log)
        failure_outcome = _write_first(disk, log, fd, request.header, request.lines, created=created)
        if failure_outcome is not None:
            return failure_outcome
        if sync:
            doubt = flush_append(disk, log, fd, dialect=dialect)
            if doubt is not None:
                return doubt
            try:
                log.unflushed_folders.flush(disk)
            except OSError as error:
                return not_flushed(log, error)
        try:
            log.note_created(fd, detected.header, dialect, request.header, request.lines)
        except OSError as error:
            return in_doubt(log, error, "the file was written but cannot be read")
        if keep:
            log.fd = fd
            keeps_fd = True
        return Committed(log.head)
    finally:
        if not keeps_fd:
            disk.close(fd)


def _open_new(disk: Disk, path: str) -> tuple[int, bool]:
    """Create a file, or open the one that is there; return its descriptor and whether it was created."""
    flags = os.O_RDWR | os.O_APPEND
    try:
        return disk.open(path, flags | os.O_CREAT | os.O_EXCL), True
    except FileExistsError:
        return disk.open(path, flags), False


def _write_first(
    disk: Disk, log: Log, fd: int, header: bytes, lines: Sequence[bytes], *, created: bool
) -> Outcome | None:
    """Write the first lines into the empty file; return the outcome if that failed, else None."""
    data = header + b"".join(lines)
    try:
        write_all(disk, fd, data)
    except OSError as error:
        try:
            disk.truncate(fd, 0)
            if created:
                disk.unlink(log.path)
        except OSError as second:
            reason = f"the new file could neither be written ({error.strerror or error}) nor removed"
            return in_doubt(log, second, reason)
        return Failed(NOWHERE, _write_failed(log, error))
    try:
        alone = disk.position(fd) == len(data)
    except OSError as error:
        return in_doubt(log, error, "it is unknown where the append landed")
    return None if alone else in_doubt(log, None, "another program created the file at the same time")


def _write_failed(log: Log, error: OSError) -> AppendFailed:
    """Return the error that says why the disk refused an append, and what to do."""
    remedy = "free some space, then append again" if error.errno in FULL else "check the disk, then append again"
    if error.filename is None:
        error.filename = log.path  # errors of calls on a descriptor do not name the file
    failed = AppendFailed(f"{log.path} could not be written ({error.strerror or error}): {remedy}")
    failed.__cause__ = error
    return failed


def _load_replaced(log: Log) -> Fenced | Failed:
    """Load a file that another program replaced; the caller has to read it before it appends."""
    try:
        log.reload_changed()
    except LogError as error:
        failed = AppendFailed(
            f"{log.path} was replaced by a file that is not a session ({error.message}): move that file away"
        )
        failed.__cause__ = error
        return Failed(log.head, failed)
    return Fenced(log.head, log.epoch)

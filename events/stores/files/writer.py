"""Appending to one log file: the checks before and after the write, and the handling of failed writes.

A batch is one write to the end of the file. Before it, the file must be unchanged: the same inode and the same size.
After it, the descriptor's position tells where the bytes landed, which reveals a line that another program appended in
between. Other programs take no lock; their bytes are never cut off.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from ...dialects.base import Dialect
from ...disk import Disk, write_all
from ...errors import AppendFailed, AppendInDoubt, InvalidInput, LogError
from ..base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Outcome
from ..lines import check_header
from .log import NOWHERE, Log
from .table import chunks


def append_at(
    disk: Disk, log: Log, fd: int, request: Append, *, sync: bool, write: Callable[[int, bytes], int] | None = None
) -> Outcome:
    """Append to a file that was just found unchanged.

    Args:
        disk: The disk.
        log: The log.
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
        return _doubt(log, error, "it is unknown where the append landed")
    if end != log.size + landed:
        return _landed_elsewhere(disk, log, fd, data, end, sync=sync)
    if sync:
        try:
            flush_or_write_again(disk, log, fd, start=log.size)
        except OSError as error:
            return _unflushed(log, error)
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
        disk: The disk.
        log: The log, owned.
        request: The append.
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
            return _create(disk, log, request, sync=sync, keep=keep)
        try:
            stat = disk.stat(log.path)
        except FileNotFoundError:
            stat = None
        if stat is None or not log.is_same(stat):
            return _reload_and_fence(log)
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            stat = disk.fstat(fd)
            is_same = log.is_same(stat) if log.fd >= 0 else log.is_same_after_reopen(fd, stat)
            if not (is_same and log.continues(fd, stat)):
                return _reload_and_fence(log)
            log.refresh(fd, stat)
            if log.head == request.expected_head and stat.size > log.table.scanned:
                log.settle(fd)
            if log.head != request.expected_head:
                return Fenced(log.head, log.epoch)
            if sync:
                flush_names(disk, log)
            outcome = append_at(disk, log, fd, request, sync=sync)
            if log.fd < 0:
                with suppress(OSError):
                    log.modified_ns_seen = disk.fstat(fd).modified_ns
            return outcome
    except OSError as error:
        return Failed(log.head, write_failed_error(log, error))


def _reload_and_fence(log: Log) -> Outcome:
    try:
        log.reload_changed()
    except LogError as error:
        failed = AppendFailed(
            f"{log.path} was replaced by a file that is not a session ({error.message}): move that file away"
        )
        failed.__cause__ = error
        return Failed(log.head, failed)
    return Fenced(log.head, log.epoch)


def write_failed_error(log: Log, error: OSError) -> AppendFailed:
    """Return the error that says why the disk refused an append, and what to do."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space, then append again" if is_full else "check the disk, then append again"
    if error.filename is None:
        error.filename = log.path  # errors of calls on a descriptor do not name the file
    failed = AppendFailed(f"{log.path} could not be written ({error.strerror or error}): {remedy}")
    failed.__cause__ = error
    return failed


def _doubt(log: Log, error: OSError | None, reason: str) -> InDoubt:
    """Stop appends until the file has been examined again."""
    doubt = AppendInDoubt(f"{log.path}: {reason}; retry with the same command id")
    doubt.__cause__ = error
    log.doubt = doubt
    return InDoubt(doubt)


def _unflushed(log: Log, error: OSError) -> InDoubt:
    log.unsynced = True
    return _doubt(log, error, f"the append could not be flushed ({error.strerror or error})")


def make_durable(disk: Disk, log: Log) -> None:
    """Make a log survive a power cut: its whole content and its name.

    Raises:
        OSError: The log cannot be flushed.
    """
    with log.naming_errors(), log.opened(os.O_RDONLY) as fd:
        flush_or_write_again(disk, log, fd)
    flush_names(disk, log)


def flush_or_write_again(disk: Disk, log: Log, fd: int, *, dialect: Dialect | None = None, start: int = 0) -> None:
    """Flush a log; if that fails, write its bytes again before the error is raised.

    The system may drop bytes that it failed to flush, and let the next flush succeed without them. This host knows that
    and examines the log first, but it may be killed before it does. The host after it can only flush, and needs bytes
    that still have to be written.

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
            _write_again(disk, log, dialect or log.dialect, start)
        raise


def _write_again(disk: Disk, log: Log, dialect: Dialect | None, start: int = 0) -> None:
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


def flush(disk: Disk, log: Log) -> InDoubt | None:
    """Flush a log after an append; return why the append is in doubt, or None."""
    try:
        make_durable(disk, log)
    except OSError as error:
        return _unflushed(log, error)
    return None


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


# -- failed and misplaced writes


def _landed_elsewhere(disk: Disk, log: Log, fd: int, data: bytes, end: int, *, sync: bool) -> Outcome:
    """Index the file after another program appended to it just before our write."""
    start = end - len(data)
    if sync:
        try:
            flush_or_write_again(disk, log, fd)
        except OSError as error:
            return _unflushed(log, error)
    try:
        if start <= 0 or disk.pread(fd, len(data) + 1, start - 1) != b"\n" + data:
            return _doubt(log, None, "the append landed after an unfinished line of another program")
        log.refresh(fd, disk.fstat(fd))
    except OSError as error:
        return _doubt(log, error, "the append landed after lines of another program, which cannot be read")
    return Committed(log.head)


def _undo(disk: Disk, log: Log, fd: int, request: Append, landed: int, error: OSError, *, sync: bool) -> Outcome:
    """Keep the lines that landed whole after a failed write, and remove or terminate the incomplete rest."""
    before, shared = log.size, log.dialect is not None and log.dialect.shared
    try:
        if disk.fstat(fd).size != before + landed:
            return _doubt(log, error, "another program appended while our write failed")
        whole_lines, end = 0, before
        if shared or not request.atomic:
            for line in request.lines:
                if end + len(line) > before + landed:
                    break
                end += len(line)
                whole_lines += 1
        if end < before + landed and not shared:
            disk.truncate(fd, end)
    except OSError as second:
        return _doubt(log, second, f"a failed write ({error.strerror or error}) could not be undone")
    try:
        log.refresh(fd, disk.fstat(fd))
    except OSError as second:
        return _doubt(log, second, f"the file cannot be read after a failed write ({error.strerror or error})")
    if log.size > log.table.scanned:
        with suppress(OSError):  # if there is no room even for a newline, the next append writes it
            log.settle(fd)
    if shared and whole_lines < len(request.lines) and before + landed == end + len(request.lines[whole_lines]) - 1:
        # The whole line landed except for its newline: it counts as soon as a newline follows.
        seq = request.expected_head.seq + whole_lines + 1
        if log.table.count < seq:
            return _doubt(log, error, "a line was appended, but there was no room for its newline")
        whole_lines += log.table.ends[seq] == end + len(request.lines[whole_lines])
    if sync and landed:  # the removed bytes must not come back after a power cut
        try:
            flush_or_write_again(disk, log, fd)
        except OSError as second:
            return _unflushed(log, second)
    if whole_lines == len(request.lines):
        return Committed(log.head)
    head = Cursor(log.head.generation, request.expected_head.seq + whole_lines)
    return Failed(head, write_failed_error(log, error))


# -- the first append


def _create(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Create the file, and write its header block and its first lines in one write."""
    if request.header is None:
        raise InvalidInput(f"{log.path} does not exist yet: its first append needs a header block")
    detected = check_header(request.header, log.path)
    dialect = request.dialect or detected.dialect
    folder = os.path.dirname(log.path)
    new_folders = missing_folders(disk, folder)
    if new_folders:
        disk.make_directory(folder)
    log.note_unflushed_folders((folder, *map(os.path.dirname, new_folders)))
    flags = os.O_RDWR | os.O_APPEND
    try:
        fd = disk.open(log.path, flags | os.O_CREAT | os.O_EXCL)
        created = True
    except FileExistsError:
        fd = disk.open(log.path, flags)
        created = False
    keeps_fd = False
    try:
        if not created and disk.fstat(fd).size > 0:
            return _reload_and_fence(log)
        failure_outcome = _write_first(disk, log, fd, request, created=created)
        if failure_outcome is not None:
            return failure_outcome
        if sync:
            try:
                flush_or_write_again(disk, log, fd, dialect=dialect)
                flush_names(disk, log)
            except OSError as error:
                return _unflushed(log, error)
        try:
            log.note_created(fd, detected.header, dialect, request.header, request.lines)
        except OSError as error:
            return _doubt(log, error, "the file was written but cannot be read")
        if keep:
            log.fd = fd
            keeps_fd = True
        return Committed(log.head)
    finally:
        if not keeps_fd:
            disk.close(fd)


def flush_names(disk: Disk, log: Log) -> None:
    """Make the names on the path of a log survive a power cut, as far as they are not known to.

    Raises:
        OSError: A folder cannot be flushed.
    """
    while log.folders_to_flush:
        folder = log.folders_to_flush[0]
        with suppress(PermissionError):  # a folder that we may not open was not created by us
            disk.sync_directory(folder)
        child, slash, _ = log.path.removeprefix(folder.rstrip("/") + "/").partition("/")
        if slash:
            log.durable_folders.add(os.path.join(folder, child))
        log.folders_to_flush = log.folders_to_flush[1:]


def missing_folders(disk: Disk, folder: str) -> list[str]:
    """Return `folder` and its parents as far as they do not exist, innermost first."""
    missing: list[str] = []
    while True:
        try:
            disk.stat(folder)
        except FileNotFoundError:
            missing.append(folder)
            folder = os.path.dirname(folder)
            continue
        return missing


def _write_first(disk: Disk, log: Log, fd: int, request: Append, *, created: bool) -> Outcome | None:
    """Write the first lines into the empty file; return the outcome if that failed, else None."""
    data = (request.header or b"") + b"".join(request.lines)
    try:
        write_all(disk, fd, data)
    except OSError as error:
        try:
            disk.truncate(fd, 0)
            if created:
                disk.unlink(log.path)
        except OSError as second:
            log.begun = request.header or b""
            return _doubt(log, second, f"the new file could neither be written ({error.strerror or error}) nor removed")
        return Failed(NOWHERE, write_failed_error(log, error))
    try:
        alone = disk.position(fd) == len(data)
    except OSError as error:
        return _doubt(log, error, "it is unknown where the append landed")
    return None if alone else _doubt(log, None, "another program created the file at the same time")


# -- resolving a doubt


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
        if stat is not None and stat.size and not (log.begun and _removed_begun(disk, log)):
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
    log.unsynced = False
    log.doubt = None
    log.doubt_in_background = False
    return log.head


def _removed_begun(disk: Disk, log: Log) -> bool:
    """Remove the beginning of a header that a failed first append left; return False if that is not all there is.

    Nobody else can have written it, since it names the session, and nothing in it was ever acknowledged.
    """
    with log.opened(os.O_RDWR) as fd:
        content = disk.pread(fd, len(log.begun), 0)
        if len(content) >= len(log.begun) - 1 or not log.begun.startswith(content):
            return False
        disk.truncate(fd, 0)
    return True


def _flush_again(disk: Disk, log: Log, fd: int, *, sync: bool) -> None:
    """Flush bytes after a flush that may have lost them; see `resolve`."""
    try:
        _write_again(disk, log, log.dialect)
        if sync:
            flush_or_write_again(disk, log, fd)
            flush_names(disk, log)
    except OSError as error:
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed again ({error.strerror or error}): check the disk")
        raise log.doubt from error

"""Appending to one log file: the checks before and after the write, and what becomes of a write that fails.

A batch is one write to the end of the file. Before it, the file must be the one that was left: the same inode and the
same size. After it, the position tells where the bytes landed, so that another program's line that slipped in between is
found. Other programs take no lock; what they wrote is never cut off.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from ...dialects.detect import Detected, detect
from ...disk import Disk
from ...errors import AppendFailed, AppendInDoubt, InvalidInput, LogError
from ..base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Outcome
from .beside import flush_file, write_all
from .log import NOWHERE, Log
from .table import chunks


def append_at(
    disk: Disk, log: Log, fd: int, request: Append, *, sync: bool, write: Callable[[int, bytes], int] | None = None
) -> Outcome:
    """Append to a file that was just found as it was left.

    Args:
        disk: The disk.
        log: The log.
        fd: The file, open for reading and appending.
        request: Lines, and whether they are to land together.
        sync: Flush before they count.
        write: What writes instead of the disk's own `write`, to see how long that takes.
    """
    write = write or disk.write
    lines = request.lines
    data = lines[0] if len(lines) == 1 else b"".join(lines)
    size = len(data)
    before = log.size
    try:
        landed = write(fd, data)
    except OSError as error:
        return _undo(disk, log, fd, request, 0, error, sync=sync)
    while landed < size:
        try:
            more = write(fd, data[landed:])
        except OSError as error:
            return _undo(disk, log, fd, request, landed, error, sync=sync)
        if not more:
            nothing = OSError(errno.EIO, "the disk takes nothing", log.path)
            return _undo(disk, log, fd, request, landed, nothing, sync=sync)
        landed += more
    try:
        end = disk.position(fd)
    except OSError as error:
        return _doubt(log, error, "nobody can tell where it landed")
    if end != before + size:
        return _landed_elsewhere(disk, log, fd, data, end, sync=sync)
    if sync:
        try:
            disk.datasync(fd)
        except OSError as error:
            return _unsynced(log, error)
    table = log.table
    append_end = table.ends.append
    end = before
    for line in lines:
        end += len(line)
        append_end(end)
    table.scanned = log.size = end
    log.head = head = Cursor(log.head.generation, len(table.ends) - 1)
    return Committed(head)


def append_apart(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Append with all checks and a descriptor of its own, whatever happened to the file.

    Args:
        disk: The disk.
        log: The log, owned.
        request: What to append.
        sync: Flush before it counts.
        keep: Leave the descriptor of a file that was created in `log.fd`.
    """
    outcome = _append_apart(disk, log, request, sync=sync, keep=keep)
    if sync and isinstance(outcome, InDoubt):  # whatever the doubt is about, these bytes were not flushed
        log.unsynced = True
    return outcome


def _append_apart(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    if log.doubt is not None:
        return Fenced(log.head, log.epoch) if log.distrusted else InDoubt(log.doubt)
    if request.expected_head != log.head:
        return Fenced(log.head, log.epoch)
    if not request.lines and log.header is not None:
        return Committed(log.head)
    try:
        if log.header is None:
            return _create(disk, log, request, sync=sync, keep=keep)
        try:
            found = disk.stat(log.path)
        except FileNotFoundError:
            found = None
        if found is None or not log.is_same(found):
            return _fence(log)
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            found = disk.fstat(fd)
            if not (log.is_same(found) if log.fd >= 0 else log.is_left(fd, found)):
                return _fence(log)
            log.refresh(fd, found)
            if log.head == request.expected_head and found.size > log.table.scanned:
                log.settle(fd)
            if log.head != request.expected_head:
                return Fenced(log.head, log.epoch)
            if sync:
                flush_names(disk, log)
            outcome = append_at(disk, log, fd, request, sync=sync)
            if log.fd < 0:
                with suppress(OSError):
                    log.left_ns = disk.fstat(fd).modified_ns
            return outcome
    except OSError as error:
        return Failed(log.head, failure(log, error))


def _fence(log: Log) -> Outcome:
    try:
        log.changed()
    except LogError as error:
        failed = AppendFailed(
            f"{log.path} was replaced by something that is no session: move it away ({error.message})"
        )
        failed.__cause__ = error
        return Failed(log.head, failed)
    return Fenced(log.head, log.epoch)


def failure(log: Log, error: OSError) -> AppendFailed:
    """Say that the disk refused an append, and what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space, then append again" if full else "see to the disk, then append again"
    if error.filename is None:
        error.filename = log.path  # calls on a descriptor do not say which file it was
    failed = AppendFailed(f"{log.path} could not be written ({error.strerror or error}): {remedy}")
    failed.__cause__ = error
    return failed


def _doubt(log: Log, error: OSError | None, what: str) -> InDoubt:
    """Stop appending until somebody has looked at the file."""
    doubt = AppendInDoubt(f"{log.path}: {what}; retry with the same command id")
    doubt.__cause__ = error
    log.doubt = doubt
    return InDoubt(doubt)


def _unsynced(log: Log, error: OSError) -> InDoubt:
    log.unsynced = True
    return _doubt(log, error, f"the disk could not flush what was appended ({error.strerror or error})")


def make_durable(disk: Disk, log: Log) -> None:
    """Make all of a log survive a power cut, its name included.

    Raises:
        OSError: It cannot be flushed.
    """
    with log.named():
        flush_file(disk, log.path)
    flush_names(disk, log)


def flush(disk: Disk, log: Log) -> InDoubt | None:
    """Flush a file to which something was appended, or say why that is in doubt."""
    try:
        make_durable(disk, log)
    except OSError as error:
        return _unsynced(log, error)
    return None


def flush_unjournaled(disk: Disk, log: Log) -> None:
    """Flush what is in no journal: one failed, or the append never came so far; an error leaves it in doubt like any other.

    Raises:
        AppendInDoubt: The disk refuses.
    """
    log.unjournaled = False
    try:
        with suppress(FileNotFoundError):
            make_durable(disk, log)
    except OSError as error:
        log.unsynced = True
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed ({error.strerror or error}): see to the disk")
        raise log.doubt from error


# -- a write that went wrong


def _landed_elsewhere(disk: Disk, log: Log, fd: int, data: bytes, end: int, *, sync: bool) -> Outcome:
    """Another program appended in the moment before the write: find out what the file holds now."""
    at = end - len(data)
    if sync:
        try:
            disk.datasync(fd)
        except OSError as error:
            return _unsynced(log, error)
    try:
        if at <= 0 or disk.pread(fd, len(data) + 1, at - 1) != b"\n" + data:
            return _doubt(log, None, "another program's unfinished line came before what was appended")
        log.refresh(fd, disk.fstat(fd))
    except OSError as error:
        return _doubt(log, error, "it landed behind another program's lines, which cannot be read")
    return Committed(log.head)


def _undo(disk: Disk, log: Log, fd: int, request: Append, landed: int, error: OSError, *, sync: bool) -> Outcome:
    """Keep the lines that landed whole, and put right what is left of the others."""
    before, shared = log.size, log.dialect is not None and log.dialect.shared
    try:
        if disk.fstat(fd).size != before + landed:
            return _doubt(log, error, "another program appended while a write failed")
        whole, end = 0, before
        if shared or not request.atomic:
            for line in request.lines:
                if end + len(line) > before + landed:
                    break
                end += len(line)
                whole += 1
        if end < before + landed and not shared:
            disk.truncate(fd, end)
    except OSError as second:
        return _doubt(log, second, f"a failed write ({error.strerror or error}) could not be taken back")
    try:
        log.refresh(fd, disk.fstat(fd))
    except OSError as second:
        return _doubt(log, second, f"what a failed write left ({error.strerror or error}) cannot be read")
    if log.size > log.table.scanned:
        with suppress(OSError):  # where there is no room even for a newline, the next append writes it
            log.settle(fd)
    if shared and whole < len(request.lines) and before + landed == end + len(request.lines[whole]) - 1:
        # All of the line but its newline landed: it counts as soon as one follows.
        seq = request.expected_head.seq + whole + 1
        if log.table.count < seq:
            return _doubt(log, error, "a line was appended, but there was no room for its newline")
        whole += log.table.ends[seq] == end + len(request.lines[whole])
    if sync and landed:  # what was cut off must not come back, either
        try:
            disk.datasync(fd)
        except OSError as second:
            return _unsynced(log, second)
    if whole == len(request.lines):
        return Committed(log.head)
    return Failed(Cursor(log.head.generation, request.expected_head.seq + whole), failure(log, error))


# -- the first append


def _create(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Make the file: its header block and its first lines in one write."""
    if request.header is None:
        raise InvalidInput(f"{log.path} is not there yet: its first append has to bring the header block")
    detected = _own_header(log, request.header)
    folder = os.path.dirname(log.path)
    new_folders = missing(disk, folder)
    if new_folders:
        disk.make_directory(folder)
    log.unnamed = tuple(dict.fromkeys((folder, *map(os.path.dirname, new_folders), *log.unnamed)))
    flags = os.O_RDWR | os.O_APPEND
    try:
        fd = disk.open(log.path, flags | os.O_CREAT | os.O_EXCL)
        made = True
    except FileExistsError:
        fd = disk.open(log.path, flags)
        made = False
    kept = False
    try:
        if not made and disk.fstat(fd).size > 0:
            return _fence(log)
        refused = _write_first(disk, log, fd, request, made=made)
        if refused is not None:
            return refused
        if sync:
            try:
                disk.datasync(fd)
                flush_names(disk, log)
            except OSError as error:
                return _unsynced(log, error)
        try:
            log.created(fd, detected.header, request.dialect or detected.dialect, request.header, request.lines)
        except OSError as error:
            return _doubt(log, error, "the file was written and cannot be read")
        if keep:
            log.fd = fd
            kept = True
        return Committed(log.head)
    finally:
        if not kept:
            disk.close(fd)


def _own_header(log: Log, block: bytes) -> Detected:
    try:
        detected = detect(block, log.path)
    except LogError as error:
        raise InvalidInput(f"the header block is none: {error.message}") from error
    if detected.size != len(block) or not block.endswith(b"\n"):
        raise InvalidInput("the header block has to be the header and its newline, and nothing else")
    return detected


def flush_names(disk: Disk, log: Log) -> None:
    """Make the names that lead to a log survive a power cut, where that is not sure.

    Raises:
        OSError: They cannot be flushed.
    """
    while log.unnamed:
        folder = log.unnamed[0]
        with suppress(PermissionError):  # a folder that is closed to us is not ours to flush
            disk.sync_directory(folder)
        below, slash, _ = log.path.removeprefix(folder.rstrip("/") + "/").partition("/")
        if slash:
            log.named_folders.add(os.path.join(folder, below))
        log.unnamed = log.unnamed[1:]


def missing(disk: Disk, folder: str) -> list[str]:
    """Return the folders that are not there yet, the innermost first."""
    found: list[str] = []
    while True:
        try:
            disk.stat(folder)
        except FileNotFoundError:
            found.append(folder)
            folder = os.path.dirname(folder)
            continue
        return found


def _write_first(disk: Disk, log: Log, fd: int, request: Append, *, made: bool) -> Outcome | None:
    """Write into the empty file, or return why not."""
    data = (request.header or b"") + b"".join(request.lines)
    try:
        write_all(disk, fd, data)
    except OSError as error:
        try:
            disk.truncate(fd, 0)
            if made:
                disk.unlink(log.path)
        except OSError as second:
            return _doubt(log, second, f"a file that could not be written ({error.strerror}) could not be taken back")
        return Failed(NOWHERE, failure(log, error))
    try:
        alone = disk.position(fd) == len(data)
    except OSError as error:
        return _doubt(log, error, "nobody can tell where it landed")
    return None if alone else _doubt(log, None, "another program made the file at the same time")


# -- after a doubt


def resolve(disk: Disk, log: Log, *, sync: bool) -> Cursor:
    """Look at the file again and return where it ends now.

    Bytes that a failed flush left in doubt are not believed, since the next flush may succeed without them: a log that is ours
    alone is written once more, where it stands, and flushed. Nothing is cut off, so nothing can be lost on the way. One that
    other programs write to is only flushed, since what was read may be theirs to change before it is written.

    Raises:
        AppendInDoubt: It fails again.
        LogError: What stands there now is no session.
        OSError: It cannot be read.
    """
    try:
        found = disk.stat(log.path)
    except FileNotFoundError:
        found = None
    if log.header is None:
        if found is not None and found.size:
            log.own()
    elif found is None or not log.is_same(found):
        log.changed()
        if log.dialect is not None and log.dialect.old:
            log.own()
    if log.header is not None:
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            if log.unsynced:
                _flush_again(disk, log, sync=sync)
            log.refresh(fd, disk.fstat(fd))
            log.settle(fd)
    log.unsynced = False
    log.doubt = None
    log.distrusted = False
    return log.head


def _flush_again(disk: Disk, log: Log, *, sync: bool) -> None:
    """Flush what a flush failed on; see `resolve`. The same bytes in their place are what a flush has to bring to the disk."""
    try:
        with log.opened(os.O_RDWR) as fd:
            if log.dialect is not None and not log.dialect.shared:
                for chunk in chunks(disk, fd, 0, disk.fstat(fd).size):
                    write_all(disk, fd, chunk)
            if sync:
                disk.datasync(fd)
        if sync:
            flush_names(disk, log)
    except OSError as error:
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed again ({error.strerror or error}): see to the disk")
        raise log.doubt from error

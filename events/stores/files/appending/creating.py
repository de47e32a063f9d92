"""The first append to a log, which creates its file: the header block and the first lines, in one write."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ....disk import Disk, write_all
from ....errors import InvalidInput
from ...base import Append, Committed, Failed, Outcome
from ...lines import check_header
from ..durability.flushing import flush_append, in_doubt, load_replaced, not_flushed, write_failed_error
from ..log.log import NOWHERE, Log
from ..names import make_folders


def create(disk: Disk, log: Log, request: Append, *, sync: bool, keep: bool) -> Outcome:
    """Create the file with its header block and its first lines.

    Args:
        disk: The disk.
        log: The log, owned; it does not exist.
        request: The append.
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
    log.unflushed_folders.put_first(make_folders(disk, os.path.dirname(log.path)))
    flags = os.O_RDWR | os.O_APPEND
    try:
        fd = disk.open(log.path, flags | os.O_CREAT | os.O_EXCL)
        created = True
    except FileExistsError:
        fd = disk.open(log.path, flags)
        created = False
    keeps_fd = False
    try:
        if not created and disk.fstat(fd).size:
            return load_replaced(log)
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
        return Failed(NOWHERE, write_failed_error(log, error))
    try:
        alone = disk.position(fd) == len(data)
    except OSError as error:
        return in_doubt(log, error, "it is unknown where the append landed")
    return None if alone else in_doubt(log, None, "another program created the file at the same time")

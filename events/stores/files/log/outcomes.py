"""The outcomes of appends that did not succeed, and what they leave in the state of the log."""

from __future__ import annotations

from ....disk.disk_errors import FULL
from ....errors import AppendFailed, AppendInDoubt, LogError
from ...base import Failed, Fenced, InDoubt
from .log import Log


def in_doubt(log: Log, error: OSError | None, reason: str) -> InDoubt:
    """Stop appends until the file has been examined again, because its content is uncertain."""
    doubt = AppendInDoubt(f"{log.path}: {reason}; retry with the same command id")
    doubt.__cause__ = error
    log.doubt = doubt
    return InDoubt(doubt)


def not_flushed(log: Log, error: OSError) -> InDoubt:
    """Stop appends, because the last bytes could not be flushed and have to be written again."""
    log.unsynced = True
    return in_doubt(log, error, f"the append could not be flushed ({error.strerror or error})")


def write_failed_error(log: Log, error: OSError) -> AppendFailed:
    """Return the error that says why the disk refused an append, and what to do."""
    remedy = "free some space, then append again" if error.errno in FULL else "check the disk, then append again"
    if error.filename is None:
        error.filename = log.path  # errors of calls on a descriptor do not name the file
    failed = AppendFailed(f"{log.path} could not be written ({error.strerror or error}): {remedy}")
    failed.__cause__ = error
    return failed


def load_replaced(log: Log) -> Fenced | Failed:
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

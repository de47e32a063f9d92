"""Errors of the disk when a log is opened, in words that say what to do about them."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ...events.disk.disk_errors import NOT_WRITABLE, reason_of, remedy_of
from ...events.errors import InvalidInput, NotASession, ReadOnly, TreeringError
from ...events.stores.base import Ref


@contextmanager
def opening(ref: Ref, *, to_write: bool = False) -> Generator[None]:
    """Translate the errors of opening a log, as far as a program can do something about them.

    Args:
        ref: The name of the log.
        to_write: Whether it is opened for writing.

    Raises:
        NotASession: It is a directory.
        InvalidInput: A directory is where a file beside it has to be.
        ReadOnly: It, or its lock, may not be written.
        OSError: Any other error of the disk.
    """
    try:
        yield
    except TreeringError:
        raise
    except OSError as error:
        if error.errno == errno.EISDIR and not str(error.filename or ref).endswith(ref):
            raise InvalidInput(f"{ref} cannot be opened ({reason_of(error)}): {remedy_of(error)}") from error
        if error.errno == errno.EISDIR:
            raise NotASession(f"{ref} is a directory: give the path of a session's file, or an id") from error
        if to_write and error.errno in NOT_WRITABLE:
            why = error.strerror or error
            raise ReadOnly(
                f"{ref} cannot be opened for writing ({why}): load it with `read_only=True`, or see to its permissions"
            ) from error
        raise

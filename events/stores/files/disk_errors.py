"""Disk errors for people: the operating system names no file in those of calls on a descriptor, and gives no advice."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ...errors import InvalidInput, ReadOnly, TreeringError

NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The errors of a file or a directory that this process may not write to."""

NO_DIRECTORY = frozenset({errno.ENOTDIR, errno.ENOENT})
"""The errors of a directory that cannot be created, since a file or a special file system is in its place."""


@contextmanager
def naming_errors(path: str, retry: str | None = None) -> Generator[None]:
    """Add the path of a file to disk errors that lack one.

    Args:
        path: The file.
        retry: What to do again once the cause is gone; the errors then say that, too.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, TreeringError) or error.errno is None or (error.filename is not None and retry is None):
            raise
        what = error.strerror
        if retry is not None:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = f"{what}: {'free some space' if is_full else 'fix that'}, then {retry}"
        raise OSError(error.errno, what, error.filename or path) from error


@contextmanager
def refusing_to_write(path: str, otherwise: str = "") -> Generator[None]:
    """Turn the disk errors that mean that nothing can be written to a place into errors that say what to do about it.

    Args:
        path: The file that is to be written.
        otherwise: What can be done without the permission.

    Raises:
        ReadOnly: This process may not write there.
        InvalidInput: No directory can be created there.
        OSError: Any other error of the disk.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, TreeringError):
            raise
        reason = f"{error.strerror}: {error.filename or path}"
        if error.errno in NOT_WRITABLE:
            raise ReadOnly(
                f"{path} cannot be opened for writing ({reason}): see to the permissions there{otherwise}"
            ) from error
        if error.errno in NO_DIRECTORY:
            raise InvalidInput(
                f"{path} cannot be opened for writing ({reason}): make that a directory, or give the host another root"
            ) from error
        raise

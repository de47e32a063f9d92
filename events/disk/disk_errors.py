"""Disk errors for people: the operating system names no file in those of calls on a descriptor, and gives no advice."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ..errors import AppendFailed, InvalidInput, NotASession, ReadOnly, TreeringError

NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The errors of a file or a directory that this process may not write to."""

NO_DIRECTORY = frozenset({errno.ENOTDIR, errno.ENOENT})
"""The errors of a directory that cannot be created, since a file or a special file system is in its place."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errors of a disk, or of a quota, without room."""


def reason_of(error: OSError) -> str:
    """Return what the disk reported, with the path that it names, if any."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{reason}: {error.filename}"


def remedy_of(error: OSError) -> str:
    """Return what to do about an error of the disk whose path the message shows, before something is repeated."""
    if error.errno in FULL:
        return "free some space"
    if error.errno in NOT_WRITABLE:
        return "see to the permissions there"
    if error.errno == errno.EISDIR:
        return "move that directory away, since a file has to be there"
    if error.errno in NO_DIRECTORY:
        return "make that a directory, or give the host another root"
    return "check the disk"


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
            remedy = remedy_of(error) if error.errno in FULL | {errno.EISDIR} else "fix that"
            what = f"{what}: {remedy}, then {retry}"
        raise OSError(error.errno, what, error.filename or path) from error


@contextmanager
def refusing_when_full(path: str) -> Generator[None]:
    """Turn the errors of a disk without room into one that says what to do about it.

    Raises:
        AppendFailed: There is no room.
        OSError: Any other error of the disk.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, TreeringError) or error.errno not in FULL:
            raise
        error.filename = error.filename or path
        raise AppendFailed(
            f"{path} cannot be opened for writing ({reason_of(error)}): {remedy_of(error)}, then try again"
        ) from error


@contextmanager
def refusing_to_write(path: str, otherwise: str = "") -> Generator[None]:
    """Turn the disk errors that mean that nothing can be written to a place into errors that say what to do about it.

    Args:
        path: The file that is to be written.
        otherwise: What can be done without the permission.

    Raises:
        ReadOnly: This process may not write there.
        InvalidInput: No directory can be created there, or a directory is where another file has to be.
        AppendFailed: There is no room.
        OSError: Any other error of the disk.
    """
    try:
        with refusing_when_full(path):
            yield
    except OSError as error:
        if isinstance(error, TreeringError):
            raise
        error.filename = error.filename or path
        what = f"{path} cannot be opened for writing ({reason_of(error)}): {remedy_of(error)}"
        if error.errno in NOT_WRITABLE:
            raise ReadOnly(what + otherwise) from error
        if error.errno in NO_DIRECTORY or (error.errno == errno.EISDIR and error.filename != path):
            raise InvalidInput(what) from error
        raise


@contextmanager
def opening_log(path: str, may_read: Callable[[], bool] | None = None) -> Generator[None]:
    """Turn the errors of opening a log into ones that say what to do, as far as a program can do something about them.

    Args:
        path: The log's file.
        may_read: Tells whether it can be read, if it is opened for writing.

    Raises:
        NotASession: It is a directory.
        InvalidInput: A directory is where a file beside it has to be.
        ReadOnly: It may be read, but not written.
        OSError: Any other error of the disk.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, TreeringError):
            raise
        if error.errno == errno.EISDIR and error.filename in (None, path):
            raise NotASession(f"{path} is a directory: give the path of a session's file, or an id") from error
        if error.errno == errno.EISDIR:
            raise InvalidInput(f"{path} cannot be opened ({reason_of(error)}): {remedy_of(error)}") from error
        if may_read is not None and error.errno in NOT_WRITABLE and may_read():
            why = error.strerror or error
            raise ReadOnly(
                f"{path} cannot be opened for writing ({why}): load it with `read_only=True`, or see to its permissions"
            ) from error
        raise

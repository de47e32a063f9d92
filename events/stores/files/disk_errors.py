"""Disk errors for people: the operating system names no file in those of calls on a descriptor, and gives no advice."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ...errors import TreeringError


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

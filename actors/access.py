"""What the disk says when a log is opened, in words that tell what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ..events.errors import NotASession, ReadOnly, TreeringError
from ..events.stores.base import Ref

_NOT_TO_BE_WRITTEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def opening(ref: Ref, *, to_write: bool = False) -> Generator[None]:
    """Say of a log that cannot be opened what is in the way, as far as a program can do something about it.

    Args:
        ref: The name of the log.
        to_write: It is opened for writing.

    Raises:
        NotASession: It is a directory.
        ReadOnly: It, or its lock, may not be written.
        OSError: The disk refuses otherwise.
    """
    try:
        yield
    except TreeringError:
        raise
    except OSError as error:
        if error.errno == errno.EISDIR:
            raise NotASession(f"{ref} is a directory: give the path of a session's file, or an id") from error
        if to_write and error.errno in _NOT_TO_BE_WRITTEN:
            why = error.strerror or error
            raise ReadOnly(
                f"{ref} cannot be opened for writing ({why}): load it with `read_only=True`, or see to its permissions"
            ) from error
        raise

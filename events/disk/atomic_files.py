"""Files that exist whole or not at all: written under a temporary name beside the final one, and renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from .disk import Disk, write_all

_NAMES_MAX = 1000
"""How many temporary files one process may have left beside a file."""


class NameNotFlushed(OSError):
    """A file was renamed into place, but the rename may not survive a power cut."""


def write_atomically(disk: Disk, path: str, parts: Iterable[bytes], *, sync: bool) -> None:
    """Write a file, so that it exists whole or not at all.

    Raises:
        NameNotFlushed: The file was renamed, and its directory could not be flushed.
        OSError: The file cannot be written. An existing file is unchanged.
    """
    temporary = write_temporary(disk, path, parts, sync=sync)
    with removed_on_error(disk, temporary):
        disk.rename(temporary, path)
    if sync:
        try:
            disk.sync_directory(os.path.dirname(path))
        except OSError as error:
            raise NameNotFlushed(error.errno, error.strerror, path) from error


def write_temporary(disk: Disk, path: str, parts: Iterable[bytes], *, sync: bool) -> str:
    """Write a temporary file beside `path`, and return its path; after an error, it does not exist."""
    fd, temporary = open_temporary(disk, path)
    with removed_on_error(disk, temporary):
        try:
            for part in parts:
                write_all(disk, fd, part)
            if sync:
                disk.datasync(fd)
        finally:
            disk.close(fd)
    return temporary


@contextmanager
def removed_on_error(disk: Disk, path: str) -> Generator[None]:
    """Delete a file if the `with` block raises."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            disk.unlink(path)
        raise


def open_temporary(disk: Disk, path: str) -> tuple[int, str]:
    """Create a temporary file beside `path`, open for writing; return its descriptor and its path.

    Raises:
        OSError: It cannot be created.
    """
    for number in range(1, _NAMES_MAX + 1):
        temporary = f"{path}.tmp-{os.getpid()}-{number}"
        with suppress(FileExistsError):
            return disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), temporary
    raise FileExistsError(
        errno.EEXIST, "all names for temporary files are taken: delete those of no running process", path
    )

"""Reading small log files whole, which is quicker than opening them as logs: a listing reads very many."""

from __future__ import annotations

from ....disk import Disk, opened
from ....disk.packed import stat_if_exists
from ....errors import SessionNotFound
from ...capabilities import Whole
from .beside import INDEX_SUFFIX
from .head import TornHeader, read_head

_SMALL_BYTES = 64 * 1024
"""The size up to which reading a file is as fast as reading its snapshot."""
_WHOLE_MAX = 4 * 1024 * 1024
"""The size up to which a file without a snapshot is read whole."""


def read_whole(disk: Disk, path: str) -> Whole | None:
    """Return all of a log's file; None if it is large, or missing, or packed.

    Raises:
        SessionNotFound: The file is empty, or holds only the beginning of a header.
        NotASession: It does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """
    try:
        with opened(disk, path) as fd:
            size = disk.fstat(fd).size
            if size > _SMALL_BYTES and (size > _WHOLE_MAX or stat_if_exists(disk, path + INDEX_SUFFIX) is not None):
                return None
            if not size:
                raise SessionNotFound(f"there is no session at {path}: the file is empty")
            try:
                found, _ = read_head(disk, fd, path, size)
            except TornHeader as error:
                raise SessionNotFound(f"there is no session at {path}: its first write was cut short") from error
            # Without the header, so that the lines need not be copied to be separated from it.
            return Whole(found.header, found.dialect, disk.pread(fd, size - found.size, found.size))
    except FileNotFoundError:
        return None

"""A read-only disk that presents packed logs as if they were not packed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from msgspec.structs import replace

from .disk import Disk, FileStat
from .packed import PackedFile, Piece, log_path, packed_forms, stat_if_exists


def reading_disk(disk: Disk, path: str) -> PackedDisk | None:
    """Return a disk on which a packed log can be read like any other; None if the log is not packed.

    Raises:
        OSError: The status of the files cannot be read.
    """
    if stat_if_exists(disk, path) is not None or not packed_forms(disk, path):
        return None
    return PackedDisk(disk)


class PackedDisk:
    """A disk on which packed logs are read under their original names, as if they were not packed.

    It only supports the calls that are needed to read a log; all calls that write raise an error. A file that exists
    under its own name is read unchanged.

    Args:
        disk: The underlying disk.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, PackedFile] = {}
        self._walked: tuple[str, FileStat, Sequence[Piece]] | None = None

    def open(self, path: str, flags: int) -> int:
        """Open a file, or else its packed form."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise _read_only_error(path)
        if log_path(path) == path:
            try:
                return self._disk.open(path, flags)
            except FileNotFoundError:
                packed = packed_forms(self._disk, path)
                if not packed:
                    raise
                path = packed[0]
        fd = self._disk.open(path, flags)
        try:
            stat = self._disk.fstat(fd)
            known_pieces = self._walked[2] if self._walked is not None and self._walked[:2] == (path, stat) else None
            self._files[fd] = file = PackedFile(self._disk, fd, path, known_pieces)
            self._walked = (path, stat, file.pieces)
        except BaseException:
            self._disk.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._files.pop(fd, None)
        self._disk.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read bytes of the log."""
        file = self._files.get(fd)
        return self._disk.pread(fd, length, offset) if file is None else file.read(length, offset)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file, with the size of the log."""
        stat, file = self._disk.fstat(fd), self._files.get(fd)
        return stat if file is None else replace(stat, size=file.size)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Tell whether a file is unchanged."""
        return self.stat(path).is_still(device, inode, size)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file, or else of its packed form."""
        try:
            stat = self._disk.stat(path)
        except FileNotFoundError:
            if not packed_forms(self._disk, path):
                raise
        else:
            if log_path(path) == path:
                return stat
        fd = self.open(path, os.O_RDONLY)
        try:
            return self.fstat(fd)
        finally:
            self.close(fd)

    def unchanged(self) -> bool:
        """Tell whether the packed file that was opened last is still the same."""
        if self._walked is None:
            return False
        path, stat, _ = self._walked
        return stat_if_exists(self._disk, path) == stat

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return self._disk.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return self._disk.real_path(path)

    # -- calls that write

    def write(self, fd: int, data: bytes) -> int:
        """Refuse to write."""
        raise _read_only_error(fd)

    def position(self, fd: int) -> int:
        """Refuse to return a position for appends."""
        raise _read_only_error(fd)

    def seek(self, fd: int, offset: int) -> None:
        """Refuse to set a position for writes."""
        raise _read_only_error(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Refuse to truncate a file."""
        raise _read_only_error(fd)

    def datasync(self, fd: int) -> None:
        """Refuse to flush a file."""
        raise _read_only_error(fd)

    def sync_directory(self, path: str) -> None:
        """Refuse to flush a directory."""
        raise _read_only_error(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse to rename a file."""
        raise _read_only_error(source)

    def unlink(self, path: str) -> None:
        """Refuse to delete a file."""
        raise _read_only_error(path)

    def make_directory(self, path: str) -> None:
        """Refuse to create a directory."""
        raise _read_only_error(path)


def _read_only_error(what: str | int) -> PermissionError:
    return PermissionError(errno.EROFS, "a packed log is read-only", str(what))

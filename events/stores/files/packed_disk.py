"""A disk on which packed logs are read as if they were not packed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from msgspec.structs import replace

from ...disk import Disk, FileStat
from .packed import PackedFile, Piece, log_path, look_at, packed_forms


def reading_disk(disk: Disk, path: str) -> PackedDisk | None:
    """Return a disk on which a log that is packed can be read as if it were not; None where it is not packed.

    Raises:
        OSError: It cannot be looked for.
    """
    if look_at(disk, path) is not None or not packed_forms(disk, path):
        return None
    return PackedDisk(disk)


class PackedDisk:
    """A disk on which packed logs are read under the names that they had, as if they were not packed.

    Only what is done to read a log goes through it: nothing can be written here. A file that is there is read as it is.

    Args:
        disk: The disk.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, PackedFile] = {}
        self._walked: tuple[str, FileStat, Sequence[Piece]] | None = None

    def open(self, path: str, flags: int) -> int:
        """Open a file, or the packed form of it."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise _read_only(path)
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
            found = self._disk.fstat(fd)
            known = self._walked[2] if self._walked is not None and self._walked[:2] == (path, found) else None
            self._files[fd] = file = PackedFile(self._disk, fd, path, known)
            self._walked = (path, found, file.pieces)
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
        """Look at an open file; its size is the log's."""
        found, file = self._disk.fstat(fd), self._files.get(fd)
        return found if file is None else replace(found, size=file.size)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Tell whether a file is as it was left."""
        return self.stat(path).is_still(device, inode, size)

    def stat(self, path: str) -> FileStat:
        """Look at a file by name, or at the packed form of it."""
        try:
            found = self._disk.stat(path)
        except FileNotFoundError:
            if not packed_forms(self._disk, path):
                raise
        else:
            if log_path(path) == path:
                return found
        fd = self.open(path, os.O_RDONLY)
        try:
            return self.fstat(fd)
        finally:
            self.close(fd)

    def unchanged(self) -> bool:
        """Tell whether the packed file that was opened last looks as it did then."""
        if self._walked is None:
            return False
        path, found, _ = self._walked
        return look_at(self._disk, path) == found

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return self._disk.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return self._disk.real_path(path)

    # -- nothing can be written here

    def write(self, fd: int, data: bytes) -> int:
        """Refuse to write."""
        raise _read_only(fd)

    def position(self, fd: int) -> int:
        """Refuse: there is no position to append at."""
        raise _read_only(fd)

    def seek(self, fd: int, offset: int) -> None:
        """Refuse: there is nothing to write at any place."""
        raise _read_only(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Refuse to cut a file."""
        raise _read_only(fd)

    def datasync(self, fd: int) -> None:
        """Refuse: there is nothing to flush."""
        raise _read_only(fd)

    def sync_directory(self, path: str) -> None:
        """Refuse: there is nothing to flush."""
        raise _read_only(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse to rename a file."""
        raise _read_only(source)

    def unlink(self, path: str) -> None:
        """Refuse to delete a file."""
        raise _read_only(path)

    def make_directory(self, path: str) -> None:
        """Refuse to make a directory."""
        raise _read_only(path)


def _read_only(what: str | int) -> PermissionError:
    return PermissionError(errno.EROFS, "packed logs are read, and not written to", str(what))

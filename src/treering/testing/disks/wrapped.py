"""A disk that forwards every call: the base class of recording, faulty and your own disks."""

from __future__ import annotations

from collections.abc import Sequence

from ...events.disk import Disk, FileStat


class WrappedDisk:
    """Forwards every call to another disk, `inner`."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner

    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`."""
        return self.inner.open(path, flags)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self.inner.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        """Write at the descriptor's position, or at the end if it was opened for appending."""
        return self.inner.write(fd, data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        return self.inner.pread(fd, length, offset)

    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        return self.inner.position(fd)

    def seek(self, fd: int, offset: int) -> None:
        """Make the next write begin at an offset, unless the file was opened for appending."""
        self.inner.seek(fd, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Truncate a file."""
        self.inner.truncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size survive a power cut."""
        self.inner.datasync(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self.inner.sync_directory(path)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file by name."""
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file."""
        return self.inner.fstat(fd)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Return whether a path still has this device, inode and size."""
        return self.stat(path).is_still(device, inode, size)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing any file with the new name."""
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return self.inner.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links resolved."""
        return self.inner.real_path(path)

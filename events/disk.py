"""The disk, as everything else sees it.

All that treering does to a file system goes through the few calls of `Disk`, so that a test can record them, fail them,
or keep the whole disk in memory. The calls are those of the operating system, with its errors (`OSError`) and its
promises: a write may be short, a file survives a power cut when it was synced, a name when its directory was.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec import Struct

FILE_MODE = 0o600
"""The mode of every file that treering creates."""
DIRECTORY_MODE = 0o700
"""The mode of every directory that treering creates."""


class FileStat(Struct, frozen=True, gc=False):
    """What is known of a file without opening it; times are in nanoseconds since the epoch."""

    device: int
    inode: int
    size: int
    modified_ns: int
    is_directory: bool

    def is_still(self, device: int, inode: int, size: int) -> bool:
        """Tell whether this is what a file that was left so looks like."""
        return self.size == size and self.inode == inode and self.device == device


class Disk(Protocol):
    """The calls to the file system that treering makes. Paths are absolute; every call may raise `OSError`."""

    def open(self, path: str, flags: int, /) -> int:
        """Open a file with the flags of `os.open`; created files get `FILE_MODE`."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor."""
        ...

    def write(self, fd: int, data: bytes, /) -> int:
        """Write at the descriptor's position (its end, where opened to append); return how many bytes were taken."""
        ...

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """Read up to `length` bytes at an offset; fewer only at the end of the file."""
        ...

    def position(self, fd: int, /) -> int:
        """Return the descriptor's position: after an appending write, where that write ended."""
        ...

    def seek(self, fd: int, offset: int, /) -> None:
        """Have the next write begin at an offset, where the file was not opened to append."""
        ...

    def truncate(self, fd: int, size: int, /) -> None:
        """Cut a file."""
        ...

    def datasync(self, fd: int, /) -> None:
        """Make a file's bytes and size survive a power cut."""
        ...

    def sync_directory(self, path: str, /) -> None:
        """Make the names in a directory survive a power cut."""
        ...

    def stat(self, path: str, /) -> FileStat:
        """Look at a file by name."""
        ...

    def fstat(self, fd: int, /) -> FileStat:
        """Look at an open file."""
        ...

    def is_still(self, path: str, device: int, inode: int, size: int, /) -> bool:
        """Tell whether the file of this name is still the same one, and still has this size.

        An append asks this before it writes, so it is worth a call of its own.
        """
        ...

    def rename(self, source: str, target: str, /) -> None:
        """Give a file another name, replacing what has it."""
        ...

    def unlink(self, path: str, /) -> None:
        """Take a name away."""
        ...

    def make_directory(self, path: str, /) -> None:
        """Make a directory, its parents included, with `DIRECTORY_MODE`; no error where it is there."""
        ...

    def list_directory(self, path: str, /) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        ...

    def real_path(self, path: str, /) -> str:
        """Return the path with all links followed."""
        ...


@contextmanager
def opened(disk: Disk, path: str, flags: int = os.O_RDONLY) -> Generator[int]:
    """Open a file for a while.

    Raises:
        OSError: It cannot be opened, or closed.
    """
    fd = disk.open(path, flags)
    try:
        yield fd
    finally:
        disk.close(fd)


def _file_stat(found: os.stat_result) -> FileStat:
    is_directory = found.st_mode & 0o170000 == 0o040000
    return FileStat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, is_directory)


class OsDisk:
    """The operating system's own disk."""

    write = staticmethod(os.write)
    close = staticmethod(os.close)
    truncate = staticmethod(os.ftruncate)
    rename = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return os.path.realpath(path)

    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`; what is neither a file nor a directory is refused.

        To open a pipe is to wait for whoever writes to it, and to open a device may do anything.
        """
        if not flags & os.O_EXCL:
            with suppress(FileNotFoundError):
                kind = stat.S_IFMT(os.stat(path).st_mode)
                if kind not in (stat.S_IFREG, stat.S_IFDIR):
                    raise OSError(errno.EINVAL, "this is no regular file", path)
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        data = os.pread(fd, length, offset)
        if len(data) == length or not data:
            return data
        parts = [data]
        while data and (length := length - len(data)):
            offset += len(data)
            data = os.pread(fd, length, offset)
            parts.append(data)
        return b"".join(parts)

    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def seek(self, fd: int, offset: int) -> None:
        """Have the next write begin at an offset."""
        os.lseek(fd, offset, os.SEEK_SET)

    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size survive a power cut."""
        getattr(os, "fdatasync", os.fsync)(fd)  # macOS has no fdatasync

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def stat(self, path: str) -> FileStat:
        """Look at a file by name."""
        return _file_stat(os.stat(path))

    def fstat(self, fd: int) -> FileStat:
        """Look at an open file."""
        return _file_stat(os.fstat(fd))

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Tell whether a file is as it was left."""
        found = os.stat(path)
        return found.st_size == size and found.st_ino == inode and found.st_dev == device

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, each readable by its owner alone."""
        missing: list[str] = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            try:
                os.mkdir(each, DIRECTORY_MODE)
            except FileExistsError:
                if not os.path.isdir(each):
                    raise

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def scan_directory(self, path: str, suffixes: tuple[str, ...]) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the directories in a directory, and the files whose names end in a suffix.

        Of each its name, how it looks, and whether it is a link.
        """
        found: list[tuple[str, FileStat, bool]] = []
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as entries:  # with a descriptor, the kernel need not walk the path for each file
                for entry in entries:
                    name = entry.name
                    try:
                        if name.endswith(suffixes) or entry.is_dir():
                            found.append((name, _file_stat(entry.stat()), entry.is_symlink()))
                    except OSError:
                        continue  # gone meanwhile, or a link to nowhere
        finally:
            os.close(fd)
        return found

    def link(self, target: str, path: str) -> None:
        """Make a symbolic link in place of what is there, at once."""
        temporary = f"{path}.tmp-{os.getpid()}-{threading.get_ident()}"
        os.symlink(target, temporary)
        try:
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def read_link(self, path: str) -> str:
        """Return where a symbolic link points."""
        return os.readlink(path)

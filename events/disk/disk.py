"""The interface to the file system.

Everything that treering does to a file system goes through the few calls of `Disk`, so that a test can record them,
make them fail, or keep the whole disk in memory. They behave like the operating system's own, with its errors
(`OSError`) and guarantees: a write may be short, a file survives a power cut once it is synced, and a name survives
once its directory is.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

PRIVATE_FOLDER = ".treering"
"""The folder for files that are neither logs nor beside a log; logs in a folder of this name are ignored."""

ASIDE = f"{PRIVATE_FOLDER}/aside"
"""Where a repair moves files, relative to the folder that is repaired."""

FILE_MODE = 0o600
"""The mode of every file that treering creates."""
DIRECTORY_MODE = 0o700
"""The mode of every directory that treering creates."""


class FileStat(Struct, frozen=True, gc=False):
    """The metadata of a file; times are in nanoseconds since the epoch."""

    device: int
    inode: int
    size: int
    modified_ns: int
    is_directory: bool

    def is_still(self, device: int, inode: int, size: int) -> bool:
        """Return whether this is the file with this device and inode, still of this size."""
        return self.size == size and self.inode == inode and self.device == device


class Disk(Protocol):
    """The file system calls that treering makes. Paths are absolute; every call may raise `OSError`."""

    def open(self, path: str, flags: int, /) -> int:
        """Open a file with the flags of `os.open`; created files get `FILE_MODE`."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor."""
        ...

    def write(self, fd: int, data: bytes, /) -> int:
        """Write at the descriptor's position (at the end if opened to append); return the number of bytes written."""
        ...

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """Read up to `length` bytes at an offset; fewer only at the end of the file."""
        ...

    def position(self, fd: int, /) -> int:
        """Return the descriptor's position: after an appending write, the end of that write."""
        ...

    def seek(self, fd: int, offset: int, /) -> None:
        """Set the offset of the next write, for a file not opened for appending."""
        ...

    def truncate(self, fd: int, size: int, /) -> None:
        """Cut a file to a size."""
        ...

    def datasync(self, fd: int, /) -> None:
        """Make a file's bytes and size survive a power cut."""
        ...

    def sync_directory(self, path: str, /) -> None:
        """Make the names in a directory survive a power cut."""
        ...

    def stat(self, path: str, /) -> FileStat:
        """Return the metadata of a file by its path."""
        ...

    def fstat(self, fd: int, /) -> FileStat:
        """Return the metadata of an open file."""
        ...

    def is_still(self, path: str, device: int, inode: int, size: int, /) -> bool:
        """Return whether the file at this path is still the same one, and still has this size.

        Every append checks this before it writes, so it is a call of its own rather than a `stat`.
        """
        ...

    def rename(self, source: str, target: str, /) -> None:
        """Rename a file, replacing the file of that name if there is one."""
        ...

    def unlink(self, path: str, /) -> None:
        """Remove a file's name."""
        ...

    def make_directory(self, path: str, /) -> None:
        """Make a directory and its missing parents with `DIRECTORY_MODE`; an existing directory is not an error."""
        ...

    def list_directory(self, path: str, /) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        ...

    def real_path(self, path: str, /) -> str:
        """Return the path with all links followed."""
        ...


@contextmanager
def opened(disk: Disk, path: str, flags: int = os.O_RDONLY) -> Generator[int]:
    """Open a file for the duration of a `with` block.

    Raises:
        OSError: The file cannot be opened, or closed.
    """
    fd = disk.open(path, flags)
    try:
        yield fd
    finally:
        disk.close(fd)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write all of `data`, repeating short writes."""
    while data:
        written = disk.write(fd, data)
        if not written:
            raise OSError(errno.EIO, "the disk wrote nothing")
        data = data[written:] if written < len(data) else b""


def flush_file(disk: Disk, path: str) -> None:
    """Make a file's bytes, but not its name, survive a power cut."""
    with opened(disk, path) as fd:
        disk.datasync(fd)


def _file_stat(status: os.stat_result) -> FileStat:
    is_directory = status.st_mode & 0o170000 == 0o040000
    return FileStat(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, is_directory)


_REAL_FOLDERS_MAX = 4096
_real_folders: dict[str, tuple[int, int, str]] = {}  # inodes, devices and real paths


class OsDisk:
    """The operating system's own disk."""

    write = staticmethod(os.write)
    close = staticmethod(os.close)
    truncate = staticmethod(os.ftruncate)
    rename = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed; a folder that is still the same one is not resolved anew."""
        folder, _, name = path.rpartition("/")
        try:
            status = os.stat(folder)
        except OSError:
            return os.path.realpath(path)
        known = _real_folders.get(folder)
        if known is None or known[0] != status.st_ino or known[1] != status.st_dev:
            if len(_real_folders) >= _REAL_FOLDERS_MAX:
                _real_folders.clear()
            known = _real_folders[folder] = status.st_ino, status.st_dev, os.path.realpath(folder).rstrip("/")
        if name in ("", ".", "..") or os.path.islink(path):
            return os.path.realpath(path)
        return f"{known[2]}/{name}"

    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`; refuse anything but regular files and directories.

        Opening a pipe blocks until another process opens its other end, and opening a device may do anything.
        """
        if not flags & os.O_EXCL:
            try:
                kind = stat.S_IFMT(os.stat(path).st_mode)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
            else:
                if kind not in (stat.S_IFREG, stat.S_IFDIR):
                    raise OSError(errno.EINVAL, "not a regular file", path)
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
        """Set the offset of the next write."""
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
        """Return the metadata of a file by its path."""
        return _file_stat(os.stat(path))

    def fstat(self, fd: int) -> FileStat:
        """Return the metadata of an open file."""
        return _file_stat(os.fstat(fd))

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Return whether the file at this path is still the same one, and still has this size."""
        status = os.stat(path)
        return status.st_size == size and status.st_ino == inode and status.st_dev == device

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
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), each) from None

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def scan_directory(self, path: str, suffixes: tuple[str, ...]) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the subdirectories of a directory, and the files whose names end in one of the suffixes.

        Each comes as its name, its metadata, and whether it is a link.
        """
        files: list[tuple[str, FileStat, bool]] = []
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as entries:  # with a descriptor, the kernel need not walk the path for each file
                for entry in entries:
                    name = entry.name
                    try:
                        if name.endswith(suffixes) or entry.is_dir():
                            files.append((name, _file_stat(entry.stat()), entry.is_symlink()))
                    except OSError:
                        continue  # deleted meanwhile, or a dangling link
        finally:
            os.close(fd)
        return files

    def link(self, target: str, path: str) -> None:
        """Make a symbolic link, atomically replacing any file of that name."""
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


def is_system_disk(disk: Disk) -> bool:
    """Return whether the paths of a disk are those of the operating system."""
    try:
        disk_stat, os_stat = disk.stat("/"), os.stat("/")
    except OSError:
        return False
    return (disk_stat.device, disk_stat.inode) == (os_stat.st_dev, os_stat.st_ino)


# The file systems that may block a writer: those of networks, and FUSE.
_SLOW = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb3", "smbfs", "sshfs", "virtiofs"}
)
_known: dict[int, bool] = {}


def is_slow_device(device: int) -> bool:
    """Tell whether a device is a network or FUSE file system; False if the system does not say."""
    slow = _known.get(device)
    if slow is None:
        slow = _known[device] = _look_up(f"{os.major(device)}:{os.minor(device)}")
    return slow


def is_slow_folder(disk: Disk, folder: str) -> bool:
    """Tell the same of a folder, or of the folder in which it will be created."""
    while True:
        try:
            return is_slow_device(disk.stat(folder).device)
        except FileNotFoundError:
            folder = os.path.dirname(folder)


def _look_up(number: str) -> bool:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for mount in mounts:
                before, _, after = mount.partition(" - ")
                if before.split(" ", 3)[2] == number:
                    kind = after.split(" ", 1)[0]
                    return kind in _SLOW or kind.startswith("fuse")
    except (OSError, IndexError):
        pass
    return False

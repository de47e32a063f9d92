"""A disk that falls ill by chance and is well again when it is told to be."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from random import Random

from ...events.disk import Disk, FileStat
from ..disks import MemoryDisk, WrappedDisk
from ..disks.changes import Operation

ERRORS: dict[str, tuple[int, ...]] = {
    "open": (errno.EMFILE, errno.EIO, errno.EACCES),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS),
    "pread": (errno.EIO,),
    "position": (errno.EIO,),
    "truncate": (errno.EIO,),
    "datasync": (errno.EIO, errno.ENOSPC),
    "sync_directory": (errno.EIO,),
    "stat": (errno.EIO, errno.ESTALE),
    "fstat": (errno.EIO,),
    "rename": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "make_directory": (errno.ENOSPC, errno.EROFS),
    "list_directory": (errno.EIO,),
}
"""What a call may say when the disk is unwell."""


class UnwellDisk(WrappedDisk):
    """Fails calls by chance, while it is unwell.

    A flush that fails is a real one: the bytes that it was to save are forgotten, though reading still shows them, and
    the next flush succeeds without them.

    Args:
        memory: The disk beneath.
        random: Decides which calls fail.
        tell: Is told of each fault.

    Attributes:
        chances: How likely each call is to fail; empty for a disk that is well.
        lag_s: How much time its calls have taken.
    """

    def __init__(self, memory: MemoryDisk, random: Random, tell: Callable[[str], None]) -> None:
        super().__init__(memory)
        self._memory = memory
        self._random = random
        self._tell = tell
        self._paths: dict[int, str] = {}
        self.chances: dict[str, float] = {}
        self.slow = 0.0
        self.lag_s = 0.0

    def heal(self) -> None:
        """Be well."""
        self.chances = {}
        self.slow = 0.0

    def _call(self, name: str, path: str) -> None:
        if self.slow and self._random.random() < self.slow:
            self.lag_s += 0.2
        if name in self.chances and self._random.random() < self.chances[name]:
            number = self._random.choice(ERRORS[name])
            self._tell(f"{name} {_named(path).partition('.tmp')[0]}: {errno.errorcode[number]}")
            raise OSError(number, os.strerror(number), path)

    def open(self, path: str, flags: int) -> int:
        """Open a file, perhaps."""
        self._call("open", path)
        fd = self.inner.open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes) -> int:
        """Write all of it, some of it, or nothing."""
        self._call("write", self._paths.get(fd, ""))
        if "write" in self.chances and self._random.random() < self.chances["write"]:
            data = data[: self._random.randrange(1, len(data) + 1)]
        return self.inner.write(fd, data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read, perhaps."""
        self._call("pread", self._paths.get(fd, ""))
        return self.inner.pread(fd, length, offset)

    def position(self, fd: int) -> int:
        """Return the descriptor's position, perhaps."""
        self._call("position", self._paths.get(fd, ""))
        return self.inner.position(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file, perhaps."""
        self._call("truncate", self._paths.get(fd, ""))
        self.inner.truncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Flush a file, or forget what was to be flushed."""
        try:
            self._call("datasync", self._paths.get(fd, ""))
        except OSError:
            self._forget(self._memory.fstat(fd).inode)
            raise
        self.inner.datasync(fd)

    def _forget(self, inode: int) -> None:
        for node in self._memory.image.nodes():
            if node.number == inode:
                node.waiting.clear()

    def sync_directory(self, path: str) -> None:
        """Flush a directory, perhaps."""
        self._call("sync_directory", path)
        self.inner.sync_directory(path)

    def stat(self, path: str) -> FileStat:
        """Look at a file, perhaps."""
        self._call("stat", path)
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Look at an open file, perhaps."""
        self._call("fstat", self._paths.get(fd, ""))
        return self.inner.fstat(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, perhaps."""
        self._call("rename", target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Unlink a file, perhaps."""
        self._call("unlink", path)
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Make a directory, perhaps."""
        self._call("make_directory", path)
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """List a directory, perhaps."""
        self._call("list_directory", path)
        return self.inner.list_directory(path)


def told(operation: Operation) -> str:
    """Say in a line what was done to a disk, the same in every process."""
    names = [_named(path) for path in (operation.path, operation.target) if path]
    size = f"{operation.offset}+{len(operation.data)}" if operation.kind in ("write", "truncate") else ""
    return " ".join(["disk", operation.kind, *names, size]).rstrip()


def _named(path: str) -> str:
    """Return a file's name without the process id that a journal or a temporary file has in it."""
    return os.path.basename(path).replace(str(os.getpid()), "PID")


__all__ = ["ERRORS", "Disk", "UnwellDisk", "told"]

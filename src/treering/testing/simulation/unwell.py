"""A disk whose calls fail at random until it is healed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from random import Random

from ...events.disk import Disk, FileStat
from ..disks import MemoryDisk, WrappedDisk
from ..disks.image import Operation

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
"""The errors with which each call may fail."""


class UnwellDisk(WrappedDisk):
    """Fails calls at random while it is unwell.

    A failed flush behaves like a real one: the bytes that it should have saved stay readable, but are never written,
    and the next flush succeeds without them.

    Args:
        memory: The underlying disk.
        random: Decides which calls fail.
        tell: Called with a description of each fault.

    Attributes:
        chances: The probability that a call fails, by name; empty for a healthy disk.
        slow: The probability that a call is slow.
        lag_s: The total time that slow calls have taken.
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
        """Stop failing."""
        self.chances = {}
        self.slow = 0.0

    def _call(self, name: str, path: str) -> None:
        if self.slow and self._random.random() < self.slow:
            self.lag_s += 0.2
        if name in self.chances and self._random.random() < self.chances[name]:
            number = self._random.choice(ERRORS[name])
            self._tell(f"{name} {_stable_name(path).partition('.tmp')[0]}: {errno.errorcode[number]}")
            raise OSError(number, os.strerror(number), path)

    def open(self, path: str, flags: int) -> int:
        """Open a file, or fail."""
        self._call("open", path)
        fd = self.inner.open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes) -> int:
        """Write all bytes or some of them, or fail."""
        self._call("write", self._paths.get(fd, ""))
        if "write" in self.chances and self._random.random() < self.chances["write"]:
            data = data[: self._random.randrange(1, len(data) + 1)]
        return self.inner.write(fd, data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read, or fail."""
        self._call("pread", self._paths.get(fd, ""))
        return self.inner.pread(fd, length, offset)

    def position(self, fd: int) -> int:
        """Return the descriptor's position, or fail."""
        self._call("position", self._paths.get(fd, ""))
        return self.inner.position(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Truncate a file, or fail."""
        self._call("truncate", self._paths.get(fd, ""))
        self.inner.truncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Flush a file, or fail and lose the unflushed bytes."""
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
        """Flush a directory, or fail."""
        self._call("sync_directory", path)
        self.inner.sync_directory(path)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file, or fail."""
        self._call("stat", path)
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file, or fail."""
        self._call("fstat", self._paths.get(fd, ""))
        return self.inner.fstat(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or fail."""
        self._call("rename", target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Unlink a file, or fail."""
        self._call("unlink", path)
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory, or fail."""
        self._call("make_directory", path)
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """List a directory, or fail."""
        self._call("list_directory", path)
        return self.inner.list_directory(path)


def describe(operation: Operation) -> str:
    """Describe an operation in one line that is the same in every process."""
    names = [_stable_name(path) for path in (operation.path, operation.target) if path]
    size = f"{operation.offset}+{len(operation.data)}" if operation.kind in ("write", "truncate") else ""
    return " ".join(["disk", operation.kind, *names, size]).rstrip()


def _stable_name(path: str) -> str:
    """Return a file's name without the process id in the names of journals and temporary files."""
    return os.path.basename(path).replace(str(os.getpid()), "PID")


__all__ = ["ERRORS", "Disk", "UnwellDisk", "describe"]

"""Disks around another one: a base that forwards every call, and one that records what a power cut may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...events.disk import Disk, FileStat
from .crashes import Crashes, digest
from .image import Operation
from .memory import MemoryDisk


class WrappedDisk:
    """Forwards every call to another disk, `inner`, after asking `on_call`."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        self._paths: dict[int, str] = {}

    def on_call(self, call: str, *paths: str) -> None:
        """Do nothing; a subclass may raise, so that the call fails, or note it.

        Args:
            call: The name of the call of `Disk`; a `seek`, which cannot fail, is left out.
            *paths: The paths of the call. A descriptor has the path under which it was opened.
        """

    def path_of(self, fd: int) -> str:
        """Return the path under which a descriptor was opened; empty if it was opened elsewhere."""
        return self._paths.get(fd, "")

    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`."""
        self.on_call("open", path)
        fd = self.inner.open(path, flags)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self.on_call("close", self.path_of(fd))
        self._paths.pop(fd, None)  # before another file can get the same number
        self.inner.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        """Write at the descriptor's position, or at the end if it was opened for appending."""
        self.on_call("write", self.path_of(fd))
        return self.inner.write(fd, data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        self.on_call("pread", self.path_of(fd))
        return self.inner.pread(fd, length, offset)

    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        self.on_call("position", self.path_of(fd))
        return self.inner.position(fd)

    def seek(self, fd: int, offset: int) -> None:
        """Make the next write begin at an offset, unless the file was opened for appending."""
        self.inner.seek(fd, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Truncate a file."""
        self.on_call("truncate", self.path_of(fd))
        self.inner.truncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size survive a power cut."""
        self.on_call("datasync", self.path_of(fd))
        self.inner.datasync(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self.on_call("sync_directory", path)
        self.inner.sync_directory(path)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file by name."""
        self.on_call("stat", path)
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file."""
        self.on_call("fstat", self.path_of(fd))
        return self.inner.fstat(fd)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Return whether a path still has this device, inode and size."""
        return self.stat(path).is_still(device, inode, size)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing any file with the new name."""
        self.on_call("rename", source, target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.on_call("unlink", path)
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self.on_call("make_directory", path)
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        self.on_call("list_directory", path)
        return self.inner.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links resolved."""
        self.on_call("real_path", path)
        return self.inner.real_path(path)


SYNCS = frozenset({"datasync", "sync_directory"})


class RecordingDisk(WrappedDisk):
    """Records every change of a `MemoryDisk`, in order.

    Operations are recorded as they arrive there: those that a wrapper in between refuses are missing, and those that it
    shortens are short. The earlier content of the disk stays as it was, synced or not.

    Example: no power cut after an acknowledgement may lose what was acknowledged::

        disk = RecordingDisk()
        ...                               # append, and wait for the acknowledgement
        acknowledged = len(disk.operations)
        ...                               # continue
        for crashed in disk.crash_states(since=acknowledged):
            ...                           # open `crashed`: it contains the append

    Args:
        inner: A `MemoryDisk`, or wrappers around one; by default a new one.

    Attributes:
        operations: The operations so far.
    """

    def __init__(self, inner: Disk | None = None) -> None:
        super().__init__(MemoryDisk() if inner is None else inner)
        self.operations: list[Operation] = []
        self.memory = _memory_under(self.inner)
        with self.memory.lock:
            self._before = self.memory.image.copy()
            self.memory.listeners.append(self.operations.append)

    def crash_states(self, since: int = 0, until: int | None = None) -> Iterator[MemoryDisk]:
        """Yield each distinct disk that a power cut may leave after `since` to `until` operations.

        Each disk is ready for use, with nothing left to sync. Its `cut_after` is the largest number of operations after
        which the power may have failed, so it must contain everything that was acknowledged by then.

        The module `crashes` defines the disks: about a dozen for a program of four operations, and some more for each
        further operation that is not synced. Each moment is rebuilt from the first operation, so keep programs below a
        few hundred operations, or examine a part of them.
        """
        operations = self.operations[:until]
        seen: set[bytes] = set()
        covered = False
        for moment in range(len(operations), since - 1, -1):
            if covered and operations[moment].kind not in SYNCS:
                continue  # the states of the next moment include the loss of this operation
            image = self._before.copy()
            for operation in operations[:moment]:
                image.apply(operation)
            crashes = Crashes(image)
            covered = crashes.complete
            for crashed in crashes:
                if (key := digest(crashed)) not in seen:
                    seen.add(key)
                    disk = MemoryDisk(crashed)
                    disk.cut_after = moment
                    yield disk


def _memory_under(disk: Disk) -> MemoryDisk:
    while isinstance(disk, WrappedDisk):
        disk = disk.inner
    if not isinstance(disk, MemoryDisk):
        raise TypeError(f"a RecordingDisk needs a MemoryDisk beneath it, got {type(disk).__name__}")
    return disk

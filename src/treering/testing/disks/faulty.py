"""A disk that fails calls by a script, and counts them."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch

from ...events.disk import Disk, FileStat
from .wrapped import WrappedDisk

STALL_S_MAX = 60
"""How long a stalled call waits to be released before it fails."""


class Fault:
    """One rule of the script: which calls it matches, and what it does to them.

    Attributes:
        call: The name of the call of `Disk`.
        hits: How many calls it has matched.
        done: Whether it no longer matches calls.
    """

    def __init__(self, call: str, path: str, nth: int, times: int | None) -> None:
        self.call = call
        self.hits = 0
        self.done = False
        self._path = path
        self._skip = nth - 1
        self._times = times

    def lift(self) -> None:
        """Remove the rule from the script."""
        self.done = True

    def matches(self, call: str, paths: Sequence[str]) -> bool:
        """Count a call, and tell whether the rule applies to it."""
        if self.done or call != self.call or not any(fnmatch(path, self._path) for path in paths):
            return False
        if self._skip:
            self._skip -= 1
            return False
        self.hits += 1
        self.done = self.hits == self._times
        return True

    def strike(self) -> None:
        """Apply the rule to the call."""


class Error(Fault):
    """Raises an error instead of making the call."""

    def __init__(self, call: str, path: str, nth: int, times: int | None, number: int) -> None:
        super().__init__(call, path, nth, times)
        self._number = number

    def strike(self) -> None:
        """Raise the error."""
        raise OSError(self._number, os.strerror(self._number))


class Short(Fault):
    """Makes a write accept only some of its bytes."""

    def __init__(self, path: str, nth: int, taken: int) -> None:
        super().__init__("write", path, nth, 1)
        self.taken = taken


class Stall(Fault):
    """Blocks calls until the stall is lifted.

    The calling thread waits. Stall only calls that run in their own threads: a stalled call on the event loop blocks
    the whole program. After `STALL_S_MAX` seconds the call raises `TimeoutError`.
    """

    def __init__(self, call: str, path: str, nth: int, times: int | None) -> None:
        super().__init__(call, path, nth, times)
        self.reached = threading.Event()
        self._released = threading.Event()

    def wait(self, timeout_s: float = STALL_S_MAX) -> bool:
        """Block the calling thread until a call is stalled; return False if none was in time."""
        return self.reached.wait(timeout_s)

    def lift(self) -> None:
        """Remove the rule from the script, and release the stalled calls."""
        super().lift()
        self._released.set()

    def strike(self) -> None:
        """Block until the stall is lifted."""
        self.reached.set()
        if not self._released.wait(STALL_S_MAX):
            raise TimeoutError(
                f"the stalled {self.call} call was not released within {STALL_S_MAX} s: lift the stall earlier"
            )


class FaultyDisk(WrappedDisk):
    """Forwards calls to another disk, subject to a script of faults, and counts them.

    Calls are named as in `Disk`. A path is an `fnmatch` pattern ("*.jsonl", where * also matches "/"); a descriptor has
    the path under which it was opened, and a rename has two paths. `nth` counts the matching calls since the rule was
    added. If several rules match a call, all of them count it, and the one that was added first applies.

    Attributes:
        counts: The number of calls by name, including failed ones.
        bytes_read: The number of bytes that `pread` has returned.
        bytes_written: The number of bytes that `write` has accepted.
    """

    def __init__(self, inner: Disk) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self._script: list[Fault] = []
        self._paths: dict[int, str] = {}
        self._lock = threading.Lock()

    # the script

    def fail(self, call: str, number: int, *, path: str = "*", nth: int = 1, times: int | None = 1) -> Fault:
        """Fail calls with an error number such as `errno.EIO`; with `times=None`, until the fault is lifted."""
        return self._add(Error(call, path, nth, times, number))

    def shorten(self, taken: int, *, path: str = "*", nth: int = 1, then: int = errno.ENOSPC) -> Fault:
        """Make a write accept at most `taken` bytes and the next one fail, as on a full disk.

        Return the fault of the write that fails.
        """
        self._add(Short(path, nth, taken))
        return self._add(Error("write", path, nth + 1, 1, then))

    def stall(self, call: str, *, path: str = "*", nth: int = 1, times: int | None = 1) -> Stall:
        """Block calls, in their threads, until the stall is lifted; see `Stall`."""
        stall = Stall(call, path, nth, times)
        self._add(stall)
        return stall

    def heal(self) -> None:
        """Remove all rules from the script, and release all stalled calls."""
        for each in self._script:
            each.lift()

    def reset_counts(self) -> None:
        """Reset all counts to zero."""
        with self._lock:
            self.counts.clear()
            self.bytes_read = self.bytes_written = 0

    def _add(self, fault: Fault) -> Fault:
        with self._lock:
            self._script.append(fault)
        return fault

    def _begin(self, call: str, *paths: str) -> Fault | None:
        """Count a call and apply the script to it; return the rule that applied, if the call is still to be made."""
        with self._lock:
            self.counts[call] += 1
            matching = [each for each in self._script if each.matches(call, paths)]
        if not matching:
            return None
        matching[0].strike()
        return matching[0]

    def _path(self, fd: int) -> str:
        return self._paths.get(fd, "")

    # the calls of Disk

    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`."""
        self._begin("open", path)
        fd = self.inner.open(path, flags)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._begin("close", self._path(fd))
        self._paths.pop(fd, None)  # before another file can get the same number
        self.inner.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        """Write as many of the bytes as the script allows."""
        fault = self._begin("write", self._path(fd))
        taken = self.inner.write(fd, data[: fault.taken] if isinstance(fault, Short) else data)
        with self._lock:
            self.bytes_written += taken
        return taken

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        self._begin("pread", self._path(fd))
        data = self.inner.pread(fd, length, offset)
        with self._lock:
            self.bytes_read += len(data)
        return data

    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        self._begin("position", self._path(fd))
        return self.inner.position(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Truncate a file."""
        self._begin("truncate", self._path(fd))
        self.inner.truncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size survive a power cut."""
        self._begin("datasync", self._path(fd))
        self.inner.datasync(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self._begin("sync_directory", path)
        self.inner.sync_directory(path)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file by name."""
        self._begin("stat", path)
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file."""
        self._begin("fstat", self._path(fd))
        return self.inner.fstat(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing any file with the new name."""
        self._begin("rename", source, target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self._begin("unlink", path)
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self._begin("make_directory", path)
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        self._begin("list_directory", path)
        return self.inner.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links resolved."""
        self._begin("real_path", path)
        return self.inner.real_path(path)

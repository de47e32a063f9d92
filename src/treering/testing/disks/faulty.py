"""A disk that fails by a script, and counts what is asked of it."""

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
"""How long a stalled call waits to be let go before it gives up."""


class Fault:
    """One line of the script: which calls it meets, and what it does to them.

    Attributes:
        call: The name of the call of `Disk`.
        hits: How many calls it has met.
        done: It meets no more calls.
    """

    def __init__(self, call: str, path: str, nth: int, times: int | None) -> None:
        self.call = call
        self.hits = 0
        self.done = False
        self._path = path
        self._skip = nth - 1
        self._times = times

    def lift(self) -> None:
        """Take the line out of the script."""
        self.done = True

    def meets(self, call: str, paths: Sequence[str]) -> bool:
        """Tell whether it meets this call, and count it."""
        if self.done or call != self.call or not any(fnmatch(path, self._path) for path in paths):
            return False
        if self._skip:
            self._skip -= 1
            return False
        self.hits += 1
        self.done = self.hits == self._times
        return True

    def strike(self) -> None:
        """Do to the call what the line says."""


class Error(Fault):
    """Raises an error in place of the call."""

    def __init__(self, call: str, path: str, nth: int, times: int | None, number: int) -> None:
        super().__init__(call, path, nth, times)
        self._number = number

    def strike(self) -> None:
        """Raise the error."""
        raise OSError(self._number, os.strerror(self._number))


class Short(Fault):
    """Lets a write take some of its bytes only."""

    def __init__(self, path: str, nth: int, taken: int) -> None:
        super().__init__("write", path, nth, 1)
        self.taken = taken


class Stall(Fault):
    """Holds calls back until the stall is lifted.

    The calling thread waits. Stall only calls that run in threads of their own: one that runs on the event loop
    stops the whole program. After `STALL_S_MAX` seconds the wait ends with a `TimeoutError`.
    """

    def __init__(self, call: str, path: str, nth: int, times: int | None) -> None:
        super().__init__(call, path, nth, times)
        self.reached = threading.Event()
        self._released = threading.Event()

    def wait(self, timeout_s: float = STALL_S_MAX) -> bool:
        """Wait, in a thread, until a call is held back; False where none came."""
        return self.reached.wait(timeout_s)

    def lift(self) -> None:
        """Take the line out of the script, and let the calls that are held back go on."""
        super().lift()
        self._released.set()

    def strike(self) -> None:
        """Wait for the stall to be lifted."""
        self.reached.set()
        if not self._released.wait(STALL_S_MAX):
            raise TimeoutError(f"the stalled {self.call} was not let go within {STALL_S_MAX} s")


class FaultyDisk(WrappedDisk):
    """Hands calls on to another disk as far as the script of faults lets it, and counts them.

    Calls are named as in `Disk`. A path is a pattern of `fnmatch` ("*.jsonl", where * also covers "/"); a descriptor has
    the path under which it was opened, a rename has both. `nth` counts the calls that match from when the line is added.
    Of several lines that meet a call all count it, and the first one that was added strikes.

    Attributes:
        counts: How many calls there were of each name, those that failed included.
        bytes_read: How many bytes `pread` has returned.
        bytes_written: How many bytes `write` has taken.
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
        """Fail calls with an error number (`errno.EIO`) and do nothing; `times=None` fails them until it is lifted."""
        return self._add(Error(call, path, nth, times, number))

    def shorten(self, taken: int, *, path: str = "*", nth: int = 1, then: int = errno.ENOSPC) -> Fault:
        """Let a write take at most `taken` bytes, and the next one fail, as on a disk that is full.

        Return the fault of the write that fails.
        """
        self._add(Short(path, nth, taken))
        return self._add(Error("write", path, nth + 1, 1, then))

    def stall(self, call: str, *, path: str = "*", nth: int = 1, times: int | None = 1) -> Stall:
        """Hold calls back, in their threads, until the stall is lifted: see `Stall`."""
        stall = Stall(call, path, nth, times)
        self._add(stall)
        return stall

    def heal(self) -> None:
        """Take every line out of the script, and let go what is held back."""
        for each in self._script:
            each.lift()

    def reset_counts(self) -> None:
        """Count from nothing."""
        with self._lock:
            self.counts.clear()
            self.bytes_read = self.bytes_written = 0

    def _add(self, added: Fault) -> Fault:
        with self._lock:
            self._script.append(added)
        return added

    def _begin(self, call: str, *paths: str) -> Fault | None:
        """Count a call and let the script strike; return the line that did, if the call goes on all the same."""
        with self._lock:
            self.counts[call] += 1
            met = [each for each in self._script if each.meets(call, paths)]
        if not met:
            return None
        met[0].strike()
        return met[0]

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
        self._paths.pop(fd, None)  # before the number can be given to another file
        self.inner.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        """Write, or as much of it as the script lets."""
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
        """Cut a file."""
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
        """Look at a file by name."""
        self._begin("stat", path)
        return self.inner.stat(path)

    def fstat(self, fd: int) -> FileStat:
        """Look at an open file."""
        self._begin("fstat", self._path(fd))
        return self.inner.fstat(fd)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what has it."""
        self._begin("rename", source, target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        self._begin("unlink", path)
        self.inner.unlink(path)

    def make_directory(self, path: str) -> None:
        """Make a directory, its parents included."""
        self._begin("make_directory", path)
        self.inner.make_directory(path)

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        self._begin("list_directory", path)
        return self.inner.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        self._begin("real_path", path)
        return self.inner.real_path(path)

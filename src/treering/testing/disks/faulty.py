"""Disks that fail: one by a script, and it counts calls; and one at random, until it is healed."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from random import Random

from ...events.disk import Disk
from .image import Operation
from .memory import MemoryDisk
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

    # the calls of Disk

    def on_call(self, call: str, *paths: str) -> None:
        """Count a call, and apply the script to it."""
        self._begin(call, *paths)

    def write(self, fd: int, data: bytes) -> int:
        """Write as many of the bytes as the script allows."""
        fault = self._begin("write", self.path_of(fd))
        taken = self.inner.write(fd, data[: fault.taken] if isinstance(fault, Short) else data)
        with self._lock:
            self.bytes_written += taken
        return taken

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        data = super().pread(fd, length, offset)
        with self._lock:
            self.bytes_read += len(data)
        return data


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
        self.chances: dict[str, float] = {}
        self.slow = 0.0
        self.lag_s = 0.0

    def heal(self) -> None:
        """Stop failing."""
        self.chances = {}
        self.slow = 0.0

    def on_call(self, call: str, *paths: str) -> None:
        """Be slow, or fail."""
        if call not in ERRORS:
            return
        if self.slow and self._random.random() < self.slow:
            self.lag_s += 0.2
        if self._is_struck(call):
            number = self._random.choice(ERRORS[call])
            self._tell(f"{call} {_stable_name(paths[-1]).partition('.tmp')[0]}: {errno.errorcode[number]}")
            raise OSError(number, os.strerror(number), paths[-1])

    def _is_struck(self, call: str) -> bool:
        return call in self.chances and self._random.random() < self.chances[call]

    def write(self, fd: int, data: bytes) -> int:
        """Write all bytes or some of them, or fail."""
        self.on_call("write", self.path_of(fd))
        if self._is_struck("write"):
            data = data[: self._random.randrange(1, len(data) + 1)]
        return self.inner.write(fd, data)

    def datasync(self, fd: int) -> None:
        """Flush a file, or fail and lose the unflushed bytes."""
        try:
            self.on_call("datasync", self.path_of(fd))
        except OSError:
            inode = self._memory.fstat(fd).inode
            for node in self._memory.image.nodes():
                if node.number == inode:
                    node.waiting.clear()
            raise
        self.inner.datasync(fd)


def describe(operation: Operation) -> str:
    """Describe an operation in one line that is the same in every process."""
    names = [_stable_name(path) for path in (operation.path, operation.target) if path]
    size = f"{operation.offset}+{len(operation.data)}" if operation.kind in ("write", "truncate") else ""
    return " ".join(["disk", operation.kind, *names, size]).rstrip()


def _stable_name(path: str) -> str:
    """Return a file's name without the process id in the names of journals and temporary files."""
    return os.path.basename(path).replace(str(os.getpid()), "PID")

"""Look up the holder of a session's lock without acquiring the lock and without writing anything."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from msgspec import Struct

from ..disk import Disk
from ..stores.files.locks import REST, FileLocks, Locks, PrivateLocks, key_of, locks_of, look_up_folders

_OFD_GETLK = 36
_FLOCK = struct.Struct("hhqqi0q")  # Linux' struct flock on 64 bits


class Holder(Struct, frozen=True):
    """The holder of a lock, as far as the lock file names it."""

    pid: int | None
    host: str | None

    def __str__(self) -> str:
        return "another process" if self.pid is None else f"process {self.pid} on {self.host}"


def holder_of(disk: Disk, path: str) -> Holder | None:
    """Return the owner of the file at a real path; None if it has none, or if this is not the system's own disk."""
    folder = os.path.dirname(path)
    if isinstance(locks_of(disk, folder), PrivateLocks):
        return None
    probe = _LockProbe(disk, folder) if sys.platform == "linux" else _FileLockProbe(disk, folder)
    return probe.holder_of(path)


@contextmanager
def _opened(path: str) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


class _LockProbe(Locks):
    """Inspects existing lock files and never creates one."""

    def holder_of(self, path: str) -> Holder | None:
        for folder in look_up_folders(os.path.dirname(path)):
            key = key_of(path, folder)
            with suppress(OSError), _opened(os.path.join(folder, self._shard_name(key))) as fd:
                if self._is_locked(fd, key) or self._is_locked_in_rest(folder, key):
                    return Holder(*self._holder(fd, key))
        return None  # also on a file system without such locks, where nobody holds one

    def _is_locked_in_rest(self, folder: str, key: int) -> bool:
        try:
            with _opened(os.path.join(folder, REST)) as fd:
                return self._is_locked(fd, key)
        except FileNotFoundError:
            return False

    def _is_locked(self, fd: int, key: int) -> bool:
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, key >> 2, 1, 0)
        return int(_FLOCK.unpack(fcntl.fcntl(fd, _OFD_GETLK, request))[0]) != fcntl.F_UNLCK


class _FileLockProbe(FileLocks, _LockProbe):
    """The probe for one lock file per session: `flock` cannot be queried, so it briefly acquires a shared lock."""

    def _is_locked(self, fd: int, key: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

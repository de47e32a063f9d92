"""Who holds a session's lock, asked without taking it and without writing anything."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from hashlib import blake2b

from msgspec import Struct

from .disk import Disk
from .stores.files.locks import FileLocks, Locks
from .stores.files.private_locks import PrivateLocks, locks_of

_OFD_GETLK = 36
_FLOCK = struct.Struct("hhqqi0q")  # Linux' struct flock on 64 bits


class Holder(Struct, frozen=True):
    """Who holds a lock, as far as the lock file says."""

    pid: int | None
    host: str | None

    def __str__(self) -> str:
        return "another process" if self.pid is None else f"process {self.pid} on {self.host}"


def holder_of(disk: Disk, path: str) -> Holder | None:
    """Return who owns a file, given its real path; None where nobody does, or the disk is not the system's."""
    folder = os.path.dirname(path)
    if isinstance(locks_of(disk, folder), PrivateLocks):
        return None
    ask = _Ask(disk, folder) if sys.platform == "linux" else _AskFiles(disk, folder)
    return ask.holder_of(path)


class _Ask(Locks):
    """Looks at lock files that are there."""

    def holder_of(self, path: str) -> Holder | None:
        for folder in self._look_up(os.path.dirname(path)):
            base = folder[: -len(self._name)]
            key = int.from_bytes(blake2b(os.fsencode(path[len(base) :]), digest_size=8).digest(), "little")
            try:
                fd = os.open(os.path.join(folder, self._shard_name(key)), os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                if self._is_locked(fd, key):
                    return Holder(*self._holder(fd, key))
            except OSError:
                continue  # a file system without such locks, where nobody holds one
            finally:
                os.close(fd)
        return None

    def _is_locked(self, fd: int, key: int) -> bool:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, key >> 2, 1, 0)
        return int(_FLOCK.unpack(fcntl.fcntl(fd, _OFD_GETLK, asked))[0]) != fcntl.F_UNLCK


class _AskFiles(FileLocks, _Ask):
    """The same where each session has a lock file: it can only be asked by a lock of a moment, which others share."""

    def _is_locked(self, fd: int, key: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

"""Who owns a file on a disk that the operating system knows nothing of, as simulations have it."""

from __future__ import annotations

import os
import socket
import threading
from weakref import WeakKeyDictionary

from ...disk import Disk
from ...errors import SessionLocked
from .locks import Held, Locks, locks_of_this_system

_mutex = threading.Lock()
_owners: WeakKeyDictionary[Disk, dict[str, PrivateLocks]] = WeakKeyDictionary()
_epochs: WeakKeyDictionary[Disk, dict[str, int]] = WeakKeyDictionary()


class PrivateLocks(Locks):
    """Stores on one disk object exclude each other; a wrapper that has its disk as `inner` counts as that disk."""

    def __init__(self, disk: Disk, root: str) -> None:
        super().__init__(disk, root)
        while (inner := getattr(disk, "inner", None)) is not None:
            disk = inner
        with _mutex:
            self._owners = _owners.setdefault(disk, {})
            self._epochs = _epochs.setdefault(disk, {})

    def take(self, path: str) -> Held | SessionLocked:
        """Own a file, or say who does."""
        with _mutex:
            if path in self._owners:
                return self._refusal(path, os.getpid(), socket.gethostname())
            self._owners[path] = self
            epoch = self._epochs[path] = self._epochs.get(path, 0) + 1
        return Held(path, epoch, [])

    def give_back(self, held: Held) -> None:
        """Let a file go."""
        with _mutex:
            if self._owners.get(held.path) is self:
                del self._owners[held.path]

    def forget(self) -> None:
        """Let everything go."""
        for path in [path for path, owner in self._owners.items() if owner is self]:
            del self._owners[path]


def locks_of(disk: Disk, root: str) -> Locks:
    """Return the locks for a disk: the operating system's, where the disk is."""
    try:
        found, real = disk.stat("/"), os.stat("/")
    except OSError:
        return PrivateLocks(disk, root)
    if (found.device, found.inode) == (real.st_dev, real.st_ino):
        return locks_of_this_system(disk, root)
    return PrivateLocks(disk, root)

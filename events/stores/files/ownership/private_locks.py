"""Locks within the process, for disks that are not the operating system's, such as those of simulations."""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

from ....disk import Disk, is_system_disk
from ....errors import SessionLocked
from ..locks import Held, Locks, locks_of_this_system

_mutex = threading.Lock()
_owners: WeakKeyDictionary[Disk, dict[str, PrivateLocks]] = WeakKeyDictionary()
_epochs: WeakKeyDictionary[Disk, dict[str, int]] = WeakKeyDictionary()


class PrivateLocks(Locks):
    """Locks by which stores on the same disk object exclude each other; a wrapper counts as its disk `inner`."""

    def __init__(self, disk: Disk, root: str) -> None:
        super().__init__(disk, root)
        while (inner := getattr(disk, "inner", None)) is not None:
            disk = inner
        with _mutex:
            self._owners = _owners.setdefault(disk, {})
            self._epochs = _epochs.setdefault(disk, {})

    def take(self, path: str) -> Held | SessionLocked:
        """Lock a file, or return who owns it."""
        with _mutex:
            if path in self._owners:
                return self._refusal(path, os.getpid(), os.uname().nodename)
            self._owners[path] = self
            epoch = self._epochs[path] = self._epochs.get(path, 0) + 1
        return Held(path, epoch, [])

    def give_back(self, held: Held) -> None:
        """Unlock a file."""
        with _mutex:
            if self._owners.get(held.path) is self:
                del self._owners[held.path]

    def forget(self) -> None:
        """Unlock all files of this store."""
        for path in [path for path, owner in self._owners.items() if owner is self]:
            del self._owners[path]


def locks_of(disk: Disk, root: str) -> Locks:
    """Return the locks for a disk: those of the operating system if it is the operating system's disk."""
    return locks_of_this_system(disk, root) if is_system_disk(disk) else PrivateLocks(disk, root)

"""Who owns a file: operating system locks, apart from the file itself.

A session is owned by locking one byte of a shard file in a `.treering/locks` folder. The byte follows from the file's
real path, so whoever opens it, by whatever name and with whatever root, asks for the same one. The lock belongs to an
open file description: it goes with the process, however that ends; it is not dropped when another descriptor is closed;
and a second store in the same process is refused like a stranger.

Every `.treering/locks` folder from the file's own folder upwards is asked, since stores with different roots may know
the same file. Each store makes its own folder first and looks upwards afterwards; so of two stores that begin at the
same time, the later one to look sees both folders.

The kernel does not tell who holds such a lock. Therefore the holder leaves its process id and host in a slot of the
shard file, with the slot's epoch, which grows with each acquisition. Slots may be shared by sessions, bytes are not: at
worst a refusal cannot name the holder.

macOS has no such locks. There each session has a lock file of its own, locked as a whole (`flock`), with the same
properties at the price of one descriptor for each session that is owned.

Hard links are different files here: a session that is opened by two of its hard links has two owners.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys
import threading
from hashlib import blake2b

from msgspec import Struct

from ...disk import FILE_MODE, Disk
from ...errors import SessionLocked
from .private_folder import PRIVATE_FOLDER

SHARDS = 64
"""How many shard files a folder has; the kernel searches the locks of one file in turn, so more of them are faster."""

_SLOTS = 16384
_SLOT = struct.Struct("<QQIB43s")  # key, epoch, pid, length of the host's name, its first bytes
_FLOCK = struct.Struct("hhqqi0q")  # Linux' struct flock on 64 bits
_OFD_SETLK = 37
_TRIES_MAX = 8


class Held(Struct, eq=False):
    """A session that is owned here: the locked bytes, and the epoch of this ownership."""

    path: str
    epoch: int
    locks: list[tuple[_Shard, int]]


class _Shard:
    """One open lock file."""

    __slots__ = ("fd", "inode", "keys", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self.inode = os.fstat(self.fd).st_ino
        self.keys: set[int] = set()

    def stands(self) -> bool:
        """Tell whether the file still has its name: a lock on a deleted file keeps nobody out."""
        try:
            return os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            return False


class Locks:
    """The sessions that one store owns. Its methods may be called from any thread.

    Args:
        disk: Makes the folders. The locks themselves are the operating system's.
        root: The store's root, a real path.
        folder: The name of the folder that holds the lock files' folder.
    """

    def __init__(self, disk: Disk, root: str, folder: str = PRIVATE_FOLDER) -> None:
        self._disk = disk
        self._root = root
        self._name = os.path.join(folder, "locks")
        self._host = socket.gethostname()
        self._mutex = threading.Lock()
        self._shards: dict[str, _Shard] = {}
        self._orphans: list[_Shard] = []
        self._folders: dict[str, tuple[str, ...]] = {}
        self._paths: set[str] = set()

    def take(self, path: str) -> Held | SessionLocked:
        """Own a file, or say who does.

        Args:
            path: The file's real path; the file need not be there.

        Raises:
            OSError: The lock files cannot be made or opened.
        """
        with self._mutex:
            if path in self._paths:
                return self._refusal(path, os.getpid(), self._host)
            gone: FileNotFoundError | None = None
            for _ in range(_TRIES_MAX):
                held = Held(path, 0, [])
                try:
                    refusal = self._take_all(held)
                except FileNotFoundError as error:  # somebody removed the folder under our feet: make it again
                    self._undo(held)
                    self._folders.clear()
                    gone = error
                    continue
                except BaseException:
                    self._undo(held)
                    raise
                if refusal is not None:
                    self._undo(held)
                    return refusal
                self._paths.add(path)
                return held
            raise FileNotFoundError(
                errno.ENOENT, "lock files cannot be made, or are deleted again and again", path
            ) from gone

    def give_back(self, held: Held) -> None:
        """Let a file go."""
        with self._mutex:
            if held.locks:
                self._undo(held)
                self._paths.discard(held.path)

    def close(self) -> None:
        """Let everything go."""
        with self._mutex:
            self.forget()

    def forget(self) -> None:
        """Close the descriptors without unlocking, as a forked child must: its parent's locks stay."""
        for shard in (*self._shards.values(), *self._orphans):
            os.close(shard.fd)
        self._shards = {}
        self._orphans = []
        self._folders = {}
        self._paths = set()

    # -- one byte in each folder

    def _take_all(self, held: Held) -> SessionLocked | None:
        """Lock the file's byte in every folder; the epoch stays 0 where that has to be begun anew."""
        for folder in self._folders_above(os.path.dirname(held.path)):
            base = folder[: -len(self._name)]
            key = int.from_bytes(blake2b(os.fsencode(held.path[len(base) :]), digest_size=8).digest(), "little")
            shard = self._shard(os.path.join(folder, self._shard_name(key)))
            if key in shard.keys or not self._lock(shard.fd, key):
                holder = self._holder(shard.fd, key)
                self._close_unused(shard)
                return self._refusal(held.path, *holder)
            shard.keys.add(key)
            held.locks.append((shard, key))
            if not shard.stands():
                self._orphan(shard)
                raise FileNotFoundError(shard.path)
            held.epoch = max(held.epoch, self._sign(shard.fd, key))
        return None

    def _undo(self, held: Held) -> None:
        for shard, key in held.locks:
            if key in shard.keys:
                shard.keys.discard(key)
                self._unlock(shard.fd, key)
                self._close_unused(shard)
        held.locks = []

    def _shard(self, path: str) -> _Shard:
        shard = self._shards.get(path)
        if shard is None:
            shard = self._shards[path] = _Shard(path)
        return shard

    def _orphan(self, shard: _Shard) -> None:
        """Keep a shard whose file was deleted for those who hold locks in it, and for nobody else."""
        if self._shards.get(shard.path) is shard:
            del self._shards[shard.path]
            self._orphans.append(shard)

    def _close_unused(self, shard: _Shard) -> None:
        if shard.keys:
            return
        if self._shards.get(shard.path) is shard:
            del self._shards[shard.path]
            os.close(shard.fd)
        elif shard in self._orphans:
            self._orphans.remove(shard)
            os.close(shard.fd)

    # -- folders

    def _folders_above(self, directory: str) -> tuple[str, ...]:
        """Return the lock folders to ask, ours made first.

        Raises:
            PermissionError: Ours cannot be used; without it nobody could be kept out.
        """
        found = self._folders.get(directory)
        if found is None:
            ours: str | None = None
            if (directory + "/").startswith(self._root.rstrip("/") + "/"):
                ours = os.path.join(self._root, self._name)
                self._disk.make_directory(ours)
            found = self._look_up(directory)
            if not found:
                ours = os.path.join(directory, self._name)
                self._disk.make_directory(ours)
                found = self._look_up(directory)
            if ours is not None and ours not in found:
                raise PermissionError(errno.EACCES, "the folder of lock files belongs to somebody else", ours)
            self._folders[directory] = found
        return found

    def _look_up(self, directory: str) -> tuple[str, ...]:
        """Return the lock folders from a folder upwards; those of other users that are closed to us do not count."""
        found: list[str] = []
        while True:
            folder = os.path.join(directory, self._name)
            if os.path.isdir(folder) and os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                found.append(folder)
            above = os.path.dirname(directory)
            if above == directory:
                return tuple(found)
            directory = above

    # -- holders

    def _sign(self, fd: int, key: int) -> int:
        """Leave our name in the key's slot and return the new epoch."""
        offset = self._slot(key)
        before = os.pread(fd, _SLOT.size, offset)
        epoch = 1 + (_SLOT.unpack(before)[1] if len(before) == _SLOT.size else 0)
        host = self._host.encode()[:43]
        os.pwrite(fd, _SLOT.pack(key, epoch, os.getpid(), len(host), host), offset)
        return int(epoch)

    def _holder(self, fd: int, key: int) -> tuple[int | None, str | None]:
        record = os.pread(fd, _SLOT.size, self._slot(key))
        if len(record) == _SLOT.size:
            owner, _, pid, length, host = _SLOT.unpack(record)
            if owner == key:
                return int(pid), host[:length].decode("utf-8", "replace")
        return None, None

    def _refusal(self, path: str, pid: int | None, host: str | None) -> SessionLocked:
        owner = f"process {pid} on {host}" if pid is not None else "another process"
        return SessionLocked(
            f"{path} is owned by {owner}: open it read-only, or wait until the owner lets go", pid=pid, host=host
        )

    # -- the operating system's part

    def _shard_name(self, key: int) -> str:
        return f"{key % SHARDS:02x}"

    def _slot(self, key: int) -> int:
        return (key // SHARDS) % _SLOTS * _SLOT.size

    def _lock(self, fd: int, key: int) -> bool:
        try:
            fcntl.fcntl(fd, _OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, key >> 2, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(self, fd: int, key: int) -> None:
        fcntl.fcntl(fd, _OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, key >> 2, 1, 0))


class FileLocks(Locks):
    """The same with a lock file for each session, for systems without locks on ranges."""

    def _shard_name(self, key: int) -> str:
        return f"{key:016x}"

    def _slot(self, key: int) -> int:
        return 0

    def _lock(self, fd: int, key: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(self, fd: int, key: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def locks_of_this_system(disk: Disk, root: str) -> Locks:
    """Return the locks that this operating system can do."""
    return Locks(disk, root) if sys.platform == "linux" else FileLocks(disk, root)

"""Ownership of files, by operating system locks on separate lock files.

A session is owned by locking one byte of a shard file in a `.treering/locks` folder. The byte is computed from the real
path of the session file, so all programs contend for the same byte, whatever name or root they use. The lock belongs to
an open file description. It ends with the process, however that ends; it is not dropped when another descriptor is
closed; and it also excludes a second store in the same process.

The byte is locked in every `.treering/locks` folder from the file's own folder upwards, since stores with different
roots may use the same file. Each store creates its own folder first and looks upwards afterwards. So of two stores that
start at the same time, the one that looks last sees both folders.

A process that may have only few descriptors holds only some shards open. It locks the bytes of the others in one file
more, `rest`, and closes their shards again. The byte in the shard is always locked first, and whoever gets it looks
whether the same byte of `rest` is locked as well. So all processes exclude each other, whatever their limits are.

The kernel does not tell who holds such a lock. Therefore the holder writes its process id and host into a slot of the
shard file, together with the slot's epoch, which grows with each acquisition. Sessions may share a slot, but never a
byte: at worst, a refusal cannot name the holder.

macOS has no such locks. There, each session has a lock file of its own, which is locked as a whole (`flock`). The
properties are the same, at the price of one descriptor per owned session. The files stay, since they hold the epochs.

Hard links count as different files: a session that is opened through two hard links can have two owners.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import PurePath
from weakref import WeakKeyDictionary

from msgspec import Struct

from ...disk import FILE_MODE, Disk, OsDisk, is_system_disk, opened
from ...disk.disk import PRIVATE_FOLDER
from ...disk.disk_errors import naming_errors
from ...errors import SessionLocked
from ...offload import share_of_descriptors

SHARDS = 64
"""The number of shard files per folder. The kernel searches the locks of a file linearly, so more files are faster."""

SHARDS_MAX = 4 * SHARDS
"""How many shards a store holds open at most, since roots may lie within each other."""

REST = "rest"
"""The name of the lock file for what is locked in no shard."""

_FOLDER = os.path.join(PRIVATE_FOLDER, "locks")
_SHARE = 16
_SLOTS = 16384
_HOST_MAX = 43
_SLOT = struct.Struct(f"<QQIB{_HOST_MAX}s")  # key, epoch, pid, length of the host's name, its first bytes
_FLOCK = struct.Struct("hhqqi0q")  # Linux' struct flock on 64 bits
_OFD_GETLK, _OFD_SETLK = 36, 37
_TRIES_MAX = 8
_SYSTEM = OsDisk()


class Holder(Struct, frozen=True):
    """The holder of a lock, as far as the lock file names it."""

    pid: int | None = None
    host: str | None = None

    def __str__(self) -> str:
        return "another process" if self.pid is None else f"process {self.pid} on {self.host}"


class Held(Struct, eq=False):
    """The ownership of a session: the locked bytes and the epoch."""

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

    def exists(self) -> bool:
        """Tell whether the file still has its name: a lock on a deleted file excludes nobody."""
        try:
            return os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            return False


class Locks:
    """The locks of one store. Its methods may be called from any thread.

    Args:
        disk: Creates the folders. The lock files are accessed directly through the operating system.
        root: The store's root, a real path.
        shards_max: How many lock files are open at most, apart from `rest` in each folder and one that is being tried;
            by default a sixteenth of the descriptors that the process may have.
    """

    def __init__(self, disk: Disk, root: str, shards_max: int | None = None) -> None:
        self._disk = disk
        self._root = root
        self._shards_max = share_of_descriptors(_SHARE, SHARDS_MAX) if shards_max is None else shards_max
        self._host = os.uname().nodename
        self._mutex = threading.Lock()
        self._shards: dict[str, _Shard] = {}
        self._orphans: list[_Shard] = []
        self._folders: dict[str, tuple[str, ...]] = {}
        self._paths: set[str] = set()

    def take(self, path: str) -> Held | SessionLocked:
        """Lock a file, or return who owns it.

        Args:
            path: The file's real path; the file need not exist.
        """
        with self._mutex:
            if path in self._paths:
                return _refusal(path, Holder(os.getpid(), self._host))
            tries = 0
            while True:
                held = Held(path, 0, [])
                try:
                    refusal = self._take_all(held)
                except FileNotFoundError:  # the folder was removed in the meantime: create it again
                    self._undo(held)
                    self._folders.clear()
                    tries += 1
                    if tries == _TRIES_MAX:  # it cannot be created here, or is deleted repeatedly
                        raise
                    continue
                except BaseException:
                    self._undo(held)
                    raise
                if refusal is not None:
                    self._undo(held)
                    return refusal
                self._paths.add(path)
                return held

    def give_back(self, held: Held) -> None:
        """Unlock a file."""
        with self._mutex:
            if held.locks:
                self._undo(held)
                self._paths.discard(held.path)

    def close(self) -> None:
        """Unlock all files."""
        with self._mutex:
            self.forget()

    def forget(self) -> None:
        """Close the descriptors without unlocking: in a forked child, this keeps the parent's locks."""
        for shard in (*self._shards.values(), *self._orphans):
            os.close(shard.fd)
            shard.keys.clear()  # a later `give_back` must not touch a descriptor with this number
        self._shards = {}
        self._orphans = []
        self._folders = {}
        self._paths = set()

    # -- one byte in each folder

    def _take_all(self, held: Held) -> SessionLocked | None:
        """Lock the file's byte in every lock folder; return the refusal if another owner holds one.

        Raises:
            FileNotFoundError: A lock file was deleted in the meantime: undo, and try again.
        """
        for folder in self._folders_above(os.path.dirname(held.path)):
            key = key_of(held.path, folder)
            shard = self._shard(os.path.join(folder, self._shard_name(key)))
            with naming_errors(shard.path):
                if not self._take_byte(held, shard, key) or not self._take_in_rest(held, folder, shard, key):
                    refusal = _refusal(held.path, self._holder(shard.fd, key))
                    self._close_unused(shard)
                    return refusal
        return None

    def _take_byte(self, held: Held, shard: _Shard, key: int) -> bool:
        """Lock a byte of a lock file; return False if another owner holds it."""
        if key in shard.keys or not self._lock(shard.fd, key):
            return False
        shard.keys.add(key)
        held.locks.append((shard, key))
        if not shard.exists():
            self._orphan(shard)
            raise FileNotFoundError(errno.ESTALE, "it is deleted repeatedly", shard.path)
        return True

    def _take_in_rest(self, held: Held, folder: str, shard: _Shard, key: int) -> bool:
        """Look whether a byte that we locked in its shard is locked in `rest`, and sign it; return False if it is.

        If more shards are open than may be, the lock moves to `rest`, where it shares a descriptor with others.
        """
        path = os.path.join(folder, REST)
        moves = len(shard.keys) == 1 and len(self._shards) + len(self._orphans) > self._shards_max
        spare: _Shard | None = None
        if moves or os.path.exists(path):
            rest = self._shard(path)
            if not self._take_byte(held, rest, key):
                self._close_unused(rest)
                return False
            spare = shard if moves else rest
        held.epoch = max(held.epoch, self._sign(shard.fd, key))
        if spare is not None:
            self._give_up(spare, key)
        return True

    def _undo(self, held: Held) -> None:
        for shard, key in held.locks:
            self._give_up(shard, key)
        held.locks = []

    def _give_up(self, shard: _Shard, key: int) -> None:
        if key in shard.keys:
            shard.keys.discard(key)
            self._unlock(shard.fd, key)
            self._close_unused(shard)

    def _shard(self, path: str) -> _Shard:
        shard = self._shards.get(path)
        if shard is None:
            shard = self._shards[path] = _Shard(path)
        return shard

    def _orphan(self, shard: _Shard) -> None:
        """Keep a shard whose file was deleted only for the locks that are held in it."""
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
        """Return the lock folders that apply to a directory, after creating our own.

        Raises:
            PermissionError: Our own lock folder cannot be used; without it, no other program would be excluded.
        """
        folders = self._folders.get(directory)
        if folders is None:
            own: str | None = None
            if (directory + "/").startswith(self._root.rstrip("/") + "/"):
                own = os.path.join(self._root, _FOLDER)
                self._disk.make_directory(own)
            folders = look_up_folders(directory)
            if not folders:
                own = os.path.join(directory, _FOLDER)
                self._disk.make_directory(own)
                folders = look_up_folders(directory)
            if own is not None and own not in folders:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), own)
            self._folders[directory] = folders
        return folders

    # -- holders

    def _sign(self, fd: int, key: int) -> int:
        """Write our process id and host into the key's slot, and return the new epoch."""
        offset = self._slot(key)
        before = os.pread(fd, _SLOT.size, offset)
        epoch = 1 + (_SLOT.unpack(before)[1] if len(before) == _SLOT.size else 0)
        host = self._host.encode()[:_HOST_MAX]
        os.pwrite(fd, _SLOT.pack(key, epoch, os.getpid(), len(host), host), offset)
        return int(epoch)

    def _holder(self, fd: int, key: int) -> Holder:
        record = os.pread(fd, _SLOT.size, self._slot(key))
        if len(record) == _SLOT.size:
            owner, _, pid, length, host = _SLOT.unpack(record)
            if owner == key:
                return Holder(int(pid), host[:length].decode("utf-8", "replace"))
        return Holder()

    def holder(self, path: str) -> Holder | None:
        """Return who owns a file, without locking it and without creating anything; None if nobody does."""
        for folder in look_up_folders(os.path.dirname(path)):
            key = key_of(path, folder)
            with suppress(OSError), opened(_SYSTEM, os.path.join(folder, self._shard_name(key))) as fd:
                if self._is_locked(fd, key) or self._is_locked_in_rest(folder, key):
                    return self._holder(fd, key)
        return None  # also on a file system without such locks, where nobody holds one

    def _is_locked_in_rest(self, folder: str, key: int) -> bool:
        with suppress(FileNotFoundError), opened(_SYSTEM, os.path.join(folder, REST)) as fd:
            return self._is_locked(fd, key)
        return False

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

    def _is_locked(self, fd: int, key: int) -> bool:
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, key >> 2, 1, 0)
        return int(_FLOCK.unpack(fcntl.fcntl(fd, _OFD_GETLK, request))[0]) != fcntl.F_UNLCK

    def _unlock(self, fd: int, key: int) -> None:
        fcntl.fcntl(fd, _OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, key >> 2, 1, 0))


class FileLocks(Locks):
    """Locks with one lock file per session, for systems without byte-range locks of open file descriptions."""

    def __init__(self, disk: Disk, root: str) -> None:
        super().__init__(disk, root, sys.maxsize)  # a file that is locked as a whole cannot stand for others

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

    def _is_locked(self, fd: int, key: int) -> bool:
        """Tell whether a file is locked: `flock` cannot be queried, so this has a shared lock until `fd` is closed."""
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def _unlock(self, fd: int, key: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _refusal(path: str, holder: Holder) -> SessionLocked:
    return SessionLocked(
        f"{path} is owned by {holder}: open it read-only, or wait until the owner lets go",
        pid=holder.pid,
        host=holder.host,
    )


def look_up_folders(directory: str) -> tuple[str, ...]:
    """Return the lock folders from a directory upwards, without those of other users that we may not access."""
    folders = [os.path.join(each, _FOLDER) for each in map(str, (directory, *PurePath(directory).parents))]
    return tuple(each for each in folders if os.path.isdir(each) and os.access(each, os.R_OK | os.W_OK | os.X_OK))


def key_of(path: str, folder: str) -> int:
    """Return the number of a file in a lock folder: a hash of its path, relative to where that folder lies."""
    relative_path = path[len(folder) - len(_FOLDER) :]
    return int.from_bytes(blake2b(os.fsencode(relative_path), digest_size=8).digest(), "little")


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
                return _refusal(path, Holder(os.getpid(), os.uname().nodename))
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

    def holder(self, path: str) -> None:
        """Return None: what is locked here is known to this process alone."""


def locks_of(disk: Disk, root: str) -> Locks:
    """Return the locks for a disk: those that this operating system supports if it is its own disk."""
    if not is_system_disk(disk):
        return PrivateLocks(disk, root)
    return Locks(disk, root) if sys.platform == "linux" else FileLocks(disk, root)

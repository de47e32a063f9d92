"""A disk in memory that behaves like the operating system's, including its errors, and can lose power."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from heapq import heappop, heappush
from typing import Concatenate, ParamSpec, TypeVar

from ...events.disk import FileStat
from .crashes import Crashes, digest
from .image import TICK_NS, DiskImage, Node, Operation, OperationKind, os_error, parts_of

P = ParamSpec("P")
R = TypeVar("R")

DEVICE = 0x7472
"""The device number of all files on a disk in memory."""
FIRST_DESCRIPTOR = 3


class Descriptor:
    """An open file or directory."""

    __slots__ = ("appends", "node", "path", "position", "reads", "writes")

    def __init__(self, path: str, node: Node, flags: int) -> None:
        mode = flags & (os.O_WRONLY | os.O_RDWR)
        self.path = path
        self.node = node
        self.reads = mode != os.O_WRONLY
        self.writes = mode != os.O_RDONLY
        self.appends = bool(flags & os.O_APPEND)
        self.position = 0


def _locked(method: Callable[Concatenate[MemoryDisk, P], R]) -> Callable[Concatenate[MemoryDisk, P], R]:
    """Hold the disk's lock during a call, which makes the call atomic."""

    def call_locked(self: MemoryDisk, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return update_wrapper(call_locked, method)


class MemoryDisk:
    """A file system in memory, behind the `Disk` protocol, without links, permissions or a size limit.

    Threads may share it. Paths must be absolute: a relative path raises `ValueError`, since nothing should depend on
    the directory in which a test was started.

    Args:
        image: The content of the disk; empty by default.
        clock: Returns the time of a change, in nanoseconds; by default each change is a millisecond after the last one.

    Attributes:
        cut_after: On a disk left by a power cut, the number of recorded operations after which the power failed.
        listeners: Called with each operation, in order, while the disk is locked.
    """

    def __init__(self, image: DiskImage | None = None, *, clock: Callable[[], int] | None = None) -> None:
        self.image = DiskImage() if image is None else image
        self.cut_after = 0
        self.listeners: list[Callable[[Operation], None]] = []
        self.lock = threading.RLock()
        self._clock = clock
        self._open: dict[int, Descriptor] = {}
        self._closed: list[int] = []

    # for tests

    @property
    def open_files(self) -> int:
        """The number of open descriptors."""
        return len(self._open)

    @_locked
    def files(self) -> dict[str, bytes]:
        """Return the content of every file by path, sorted."""
        return {path: bytes(node.content) for path, node in self.image.paths() if node.names is None}

    @_locked
    def settle(self) -> None:
        """Make everything survive a power cut, as if enough time had passed."""
        self.image.settle()

    @_locked
    def crash(self, *, keep_unsynced: bool = False) -> MemoryDisk:
        """Return the disk after a power cut in which only synced data survive, or everything does."""
        if keep_unsynced:
            image = self.image.copy()
            image.settle()
        else:
            image = self.image.after_power_cut([], {})
        return MemoryDisk(image, clock=self._clock)

    def crash_states(self) -> Iterator[MemoryDisk]:
        """Yield each distinct disk that a power cut may leave now, as defined in `crashes`; this disk is unaffected."""
        with self.lock:
            image = self.image.copy()
        seen: set[bytes] = set()
        for crashed in Crashes(image):
            if (key := digest(crashed)) not in seen:
                seen.add(key)
                yield MemoryDisk(crashed, clock=self._clock)

    # the calls of Disk

    @_locked
    def open(self, path: str, flags: int) -> int:
        """Open a file with the flags of `os.open`."""
        node = self._existing(path, flags)
        created = node is None
        if node is None:
            node = self._do("open", path, created=True)
        else:
            _check_opening(path, node, flags)
            self._do("open", path, node)
        if flags & os.O_TRUNC and not created:
            self._do("truncate", path, node)
        # the lowest number that is free, as POSIX has it
        fd = heappop(self._closed) if self._closed else FIRST_DESCRIPTOR + len(self._open)
        self._open[fd] = Descriptor(path, node, flags)
        return fd

    def _existing(self, path: str, flags: int) -> Node | None:
        """Return the node to open, or None if it must be created."""
        if flags & os.O_CREAT and path.endswith("/"):
            self.image.slot(path)
            raise os_error(errno.EISDIR, path)
        try:
            return self.image.find(path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
        self.image.slot(path)
        return None

    @_locked
    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._descriptor(fd)
        del self._open[fd]
        heappush(self._closed, fd)

    @_locked
    def write(self, fd: int, data: bytes) -> int:
        """Write all bytes at the descriptor's position, or at the end if it was opened for appending."""
        descriptor = self._descriptor(fd)
        if not descriptor.writes:
            raise os_error(errno.EBADF)
        if data:
            offset = len(descriptor.node.content) if descriptor.appends else descriptor.position
            self._do("write", descriptor.path, descriptor.node, offset=offset, data=bytes(data))
            descriptor.position = offset + len(data)
        return len(data)

    @_locked
    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at an offset."""
        descriptor = self._descriptor(fd)
        if length < 0 or offset < 0:
            raise os_error(errno.EINVAL)
        if not descriptor.reads:
            raise os_error(errno.EBADF)
        if descriptor.node.names is not None:
            raise os_error(errno.EISDIR)
        return bytes(memoryview(descriptor.node.content)[offset : offset + length])

    @_locked
    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        return self._descriptor(fd).position

    @_locked
    def seek(self, fd: int, offset: int) -> None:
        """Make the next write begin at an offset, unless the file was opened for appending."""
        if offset < 0:
            raise os_error(errno.EINVAL)
        self._descriptor(fd).position = offset

    @_locked
    def truncate(self, fd: int, size: int) -> None:
        """Truncate a file, or extend it with zeros."""
        descriptor = self._descriptor(fd)
        if size < 0 or not descriptor.writes:
            raise os_error(errno.EINVAL)
        self._do("truncate", descriptor.path, descriptor.node, offset=size)

    @_locked
    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size, or a directory's names, survive a power cut."""
        descriptor = self._descriptor(fd)
        kind: OperationKind = "datasync" if descriptor.node.names is None else "sync_directory"
        self._do(kind, descriptor.path, descriptor.node)

    @_locked
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self._do("sync_directory", path, self._directory(path))

    @_locked
    def stat(self, path: str) -> FileStat:
        """Return the status of a file by name."""
        return _stat_of(self.image.find(path))

    @_locked
    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file."""
        return _stat_of(self._descriptor(fd).node)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Return whether a path still has this device, inode and size."""
        return self.stat(path).is_still(device, inode, size)

    @_locked
    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, replacing an existing target if the operating system would."""
        (from_directory, old), (to_directory, new) = self.image.slot(source), self.image.slot(target)
        moved = (from_directory.names or {}).get(old)
        replaced = (to_directory.names or {}).get(new)
        if moved is None:
            raise os_error(errno.ENOENT, source)
        if from_directory is not to_directory:
            if _contains(moved, to_directory):
                raise os_error(errno.EINVAL, source)
            if replaced is not None and _contains(replaced, from_directory):
                raise os_error(errno.ENOTEMPTY, source)
        if moved.names is None and (source.endswith("/") or target.endswith("/")):
            raise os_error(errno.ENOTDIR, source)
        if moved is replaced:
            return
        if replaced is not None:
            _check_replacing(source, moved, replaced)
        self._do("rename", source, target=target)

    @_locked
    def unlink(self, path: str) -> None:
        """Remove a file's name; open descriptors keep the file alive."""
        if self.image.find(path).names is not None:
            raise os_error(errno.EPERM if sys.platform == "darwin" else errno.EISDIR, path)
        self._do("unlink", path)

    @_locked
    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        current = ""
        for part in parts_of(path):
            current = f"{current}/{part}"
            try:
                node = self.image.find(current)
            except FileNotFoundError:
                self._do("make_directory", current)
            else:
                if node.names is None:
                    raise os_error(errno.EEXIST, current)

    @_locked
    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._directory(path).names or {})

    def real_path(self, path: str) -> str:
        """Return the normalized path; there are no links to resolve."""
        parts_of(path)
        return os.path.normpath(path)

    # implementation

    def _do(
        self,
        kind: OperationKind,
        path: str,
        node: Node | None = None,
        *,
        target: str = "",
        offset: int = 0,
        data: bytes = b"",
        created: bool = False,
    ) -> Node:
        now_ns = self.image.now_ns + TICK_NS if self._clock is None else self._clock()
        operation = Operation(kind, path, node.number if node else 0, target, offset, data, created, now_ns)
        changed = self.image.apply(operation) or node
        assert changed is not None
        for listener in self.listeners:
            listener(operation)
        return changed

    def _descriptor(self, fd: int) -> Descriptor:
        descriptor = self._open.get(fd)
        if descriptor is None:
            raise os_error(errno.EBADF)
        return descriptor

    def _directory(self, path: str) -> Node:
        node = self.image.find(path)
        if node.names is None:
            raise os_error(errno.ENOTDIR, path)
        return node


def _check_opening(path: str, node: Node, flags: int) -> None:
    """Check that an existing node may be opened with some flags.

    Raises:
        OSError: The operating system would refuse it.
    """
    if flags & os.O_CREAT and flags & os.O_EXCL:
        raise os_error(errno.EEXIST, path)
    if node.names is None and flags & os.O_DIRECTORY:
        raise os_error(errno.ENOTDIR, path)
    if node.names is not None and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
        raise os_error(errno.EISDIR, path)


def _check_replacing(path: str, moved: Node, replaced: Node) -> None:
    """Check that a rename may replace an existing node.

    Raises:
        OSError: The operating system would refuse it.
    """
    if moved.names is None and replaced.names is not None:
        raise os_error(errno.EISDIR, path)
    if moved.names is not None and replaced.names is None:
        raise os_error(errno.ENOTDIR, path)
    if replaced.names:
        raise os_error(errno.ENOTEMPTY, path)


def _contains(outer: Node, inner: Node) -> bool:
    """Return whether a node is another one or contains it, at any depth."""
    return outer is inner or any(_contains(child, inner) for child in (outer.names or {}).values())


def _stat_of(node: Node) -> FileStat:
    is_directory = node.names is not None
    return FileStat(DEVICE, node.number, len(node.content), node.modified_ns, is_directory)

"""A disk in memory that behaves like the operating system's, down to its errors, and can lose its power."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from ...events.disk import FileStat
from .changes import Node, Operation, OperationKind
from .crashes import Crashes, digest
from .image import TICK_NS, DiskImage, os_error, parts_of

P = ParamSpec("P")
R = TypeVar("R")

DEVICE = 0x7472
"""The device number of all that lies on a disk in memory."""
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


def _alone(method: Callable[Concatenate[MemoryDisk, P], R]) -> Callable[Concatenate[MemoryDisk, P], R]:
    """Let one thread at a time into the disk: every call is a step."""

    def locked(self: MemoryDisk, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return update_wrapper(locked, method)


class MemoryDisk:
    """A file system in memory, behind the `Disk` protocol. It knows no links, no rights and no end of space.

    Threads may share it. Paths have to be absolute: a relative one is a `ValueError`, since nothing should depend on
    where a test was started.

    Args:
        image: What lies on the disk; nothing where it is not given.
        clock: Gives the time of changes, in nanoseconds; by default each change is a millisecond after the last one.

    Attributes:
        cut_after: On a disk that a power cut left: after how many recorded operations the power went.
        listeners: Called with each operation, in order, while the disk does nothing else.
    """

    def __init__(self, image: DiskImage | None = None, *, clock: Callable[[], int] | None = None) -> None:
        self.image = DiskImage() if image is None else image
        self.cut_after = 0
        self.listeners: list[Callable[[Operation], None]] = []
        self.lock = threading.RLock()
        self._clock = clock
        self._open: dict[int, Descriptor] = {}

    # what a test looks at

    @property
    def open_files(self) -> int:
        """How many descriptors are open."""
        return len(self._open)

    @_alone
    def files(self) -> dict[str, bytes]:
        """Return the content of every file by its path, in order."""
        return {path: bytes(node.content) for path, node in self.image.paths() if node.names is None}

    @_alone
    def settle(self) -> None:
        """Make everything survive a power cut, as time does."""
        self.image.settle()

    @_alone
    def crash(self, *, keep_unsynced: bool = False) -> MemoryDisk:
        """Return what a power cut now leaves if nothing survives but what was synced, or if everything does."""
        if keep_unsynced:
            image = self.image.copy()
            image.settle()
        else:
            image = self.image.left_by([], {})
        return MemoryDisk(image, clock=self._clock)

    def crash_states(self) -> Iterator[MemoryDisk]:
        """Yield each disk, once, that a power cut now may leave; `crashes` says which. This disk goes on unharmed."""
        with self.lock:
            image = self.image.copy()
        seen: set[bytes] = set()
        for left in Crashes(image):
            if (key := digest(left)) not in seen:
                seen.add(key)
                yield MemoryDisk(left, clock=self._clock)

    # the calls of Disk

    @_alone
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
        fd = next(fd for fd in range(FIRST_DESCRIPTOR, sys.maxsize) if fd not in self._open)
        self._open[fd] = Descriptor(path, node, flags)
        return fd

    def _existing(self, path: str, flags: int) -> Node | None:
        """Return the node to open, or None where it has to be created."""
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

    @_alone
    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._descriptor(fd)
        del self._open[fd]

    @_alone
    def write(self, fd: int, data: bytes) -> int:
        """Write at the descriptor's position, or at the end where it was opened to append; all bytes are taken."""
        descriptor = self._descriptor(fd)
        if not descriptor.writes:
            raise os_error(errno.EBADF)
        if data:
            offset = len(descriptor.node.content) if descriptor.appends else descriptor.position
            self._do("write", descriptor.path, descriptor.node, offset=offset, data=bytes(data))
            descriptor.position = offset + len(data)
        return len(data)

    @_alone
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

    @_alone
    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        return self._descriptor(fd).position

    @_alone
    def seek(self, fd: int, offset: int) -> None:
        """Have the next write begin at an offset, where the file was not opened to append."""
        if offset < 0:
            raise os_error(errno.EINVAL)
        self._descriptor(fd).position = offset

    @_alone
    def truncate(self, fd: int, size: int) -> None:
        """Cut a file, or let it grow by zeros."""
        descriptor = self._descriptor(fd)
        if size < 0 or not descriptor.writes:
            raise os_error(errno.EINVAL)
        self._do("truncate", descriptor.path, descriptor.node, offset=size)

    @_alone
    def datasync(self, fd: int) -> None:
        """Make a file's bytes and size survive a power cut; a directory's names, where it is one."""
        descriptor = self._descriptor(fd)
        kind: OperationKind = "datasync" if descriptor.node.names is None else "sync_directory"
        self._do(kind, descriptor.path, descriptor.node)

    @_alone
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        self._do("sync_directory", path, self._directory(path))

    @_alone
    def stat(self, path: str) -> FileStat:
        """Look at a file by name."""
        return _stat_of(self.image.find(path))

    @_alone
    def fstat(self, fd: int) -> FileStat:
        """Look at an open file."""
        return _stat_of(self._descriptor(fd).node)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Tell whether a file is as it was left."""
        return self.stat(path).is_still(device, inode, size)

    @_alone
    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name, replacing what has it as far as the operating system would."""
        (from_directory, old), (to_directory, new) = self.image.slot(source), self.image.slot(target)
        moved = (from_directory.names or {}).get(old)
        replaced = (to_directory.names or {}).get(new)
        if moved is None:
            raise os_error(errno.ENOENT, source)
        if from_directory is not to_directory:
            if _holds(moved, to_directory):
                raise os_error(errno.EINVAL, source)
            if replaced is not None and _holds(replaced, from_directory):
                raise os_error(errno.ENOTEMPTY, source)
        if moved.names is None and (source.endswith("/") or target.endswith("/")):
            raise os_error(errno.ENOTDIR, source)
        if moved is replaced:
            return
        if replaced is not None:
            _check_replacing(source, moved, replaced)
        self._do("rename", source, target=target)

    @_alone
    def unlink(self, path: str) -> None:
        """Take a file's name away; it lives on for whoever has it open."""
        if self.image.find(path).names is not None:
            raise os_error(errno.EPERM if sys.platform == "darwin" else errno.EISDIR, path)
        self._do("unlink", path)

    @_alone
    def make_directory(self, path: str) -> None:
        """Make a directory, its parents included."""
        made = ""
        for part in parts_of(path):
            made = f"{made}/{part}"
            try:
                node = self.image.find(made)
            except FileNotFoundError:
                self._do("make_directory", made)
            else:
                if node.names is None:
                    raise os_error(errno.EEXIST, made)

    @_alone
    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._directory(path).names or {})

    def real_path(self, path: str) -> str:
        """Return the path without detours: there are no links."""
        parts_of(path)
        return os.path.normpath(path)

    # how they are carried out

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
        done = self.image.apply(operation) or node
        assert done is not None
        for listener in self.listeners:
            listener(operation)
        return done

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
    """Refuse to open what is there, where the operating system would.

    Raises:
        OSError: It would.
    """
    if flags & os.O_CREAT and flags & os.O_EXCL:
        raise os_error(errno.EEXIST, path)
    if node.names is None and flags & os.O_DIRECTORY:
        raise os_error(errno.ENOTDIR, path)
    if node.names is not None and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
        raise os_error(errno.EISDIR, path)


def _check_replacing(path: str, moved: Node, replaced: Node) -> None:
    """Refuse to replace one by the other, where the operating system would.

    Raises:
        OSError: It would.
    """
    if moved.names is None and replaced.names is not None:
        raise os_error(errno.EISDIR, path)
    if moved.names is not None and replaced.names is None:
        raise os_error(errno.ENOTDIR, path)
    if replaced.names:
        raise os_error(errno.ENOTEMPTY, path)


def _holds(outer: Node, inner: Node) -> bool:
    """Whether a node is another one or lies in it, at any depth."""
    return outer is inner or any(_holds(child, inner) for child in (outer.names or {}).values())


def _stat_of(node: Node) -> FileStat:
    is_directory = node.names is not None
    return FileStat(DEVICE, node.number, len(node.content), node.modified_ns, is_directory)

"""What the tests of stores set up: logs that are owned and appended to, and files as they are left."""

import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import TypeVar, TypeVarTuple

import anyio

from treering.events.disk import Disk, OsDisk
from treering.events.stores.base import Lease, Outcome, Store
from treering.testing.disks import FaultyDisk, MemoryDisk, WrappedDisk
from treering.testing.stores.case import NATIVE, Writer, header_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HEADER = NATIVE.encode_header(header_of("session"))
PI_HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'


def header_for(ref: str = "a.jsonl") -> bytes:
    """Return the header that a `Writer` begins a log with."""
    return NATIVE.encode_header(header_of(f"id-of-{ref}"))


async def own(store: Store, ref: str = "a.jsonl") -> Writer:
    [lease] = await store.acquire([ref], "me")
    assert isinstance(lease, Lease)
    return Writer(store, lease)


async def attempt(writer: Writer, *written: bytes, atomic: bool = False) -> Outcome:
    [outcome] = await writer.store.append([writer.request(*written, atomic=atomic)])
    return outcome


def put_file(disk: Disk, path: str, data: bytes) -> None:
    """Write a whole file, and create its folder."""
    disk.make_directory(os.path.dirname(path))
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    disk.write(fd, data)
    disk.close(fd)


def append_to(disk: Disk, path: str, data: bytes) -> None:
    """Append to a file as another program does."""
    fd = disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    disk.write(fd, data)
    disk.close(fd)


def logs_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.files().items() if path.endswith(".jsonl")}


def journals_of(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.files() if "/.treering/journal/" in path]


def killed(memory: MemoryDisk) -> MemoryDisk:
    """Return the disk as the end of the process leaves it: the system still has what was not flushed."""
    return MemoryDisk(memory.image.copy())


class Killed(BaseException):
    """Ends the process."""


class DyingDisk(FaultyDisk):
    """A disk whose process is killed before its n-th change."""

    changes: Sequence[str] = ("write", "truncate", "datasync", "sync_directory", "rename", "unlink", "make_directory")

    def __init__(self, inner: Disk, left: int) -> None:
        super().__init__(inner)
        self.left = left

    def _begin(self, call: str, *paths: str) -> object:  # type: ignore[override]
        if call in self.changes:
            self.left -= 1
            if self.left < 0:
                raise Killed
        return super()._begin(call, *paths)


class InterruptedDisk(WrappedDisk):
    """A disk of the system on which another program acts just before a call."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.act: Callable[[], object] | None = None  # None when it was done

    def before(self, *calls: str, act: Callable[[], object], path: str = "*.jsonl", nth: int = 1) -> None:
        """Let the other program act before the n-th of some calls for a path that matches a pattern."""
        self.act, self._calls, self._path, self._left = act, calls, path, nth

    def on_call(self, call: str, *paths: str) -> None:
        if self.act is not None and call in self._calls and fnmatch(paths[0], self._path):
            self._left -= 1
            if self._left == 0:
                act, self.act = self.act, None
                act()


class HoldingOffload:
    """Runs work at once, except what is begun while it holds: that waits for `release`."""

    def __init__(self) -> None:
        self.holds = False
        self.held = anyio.Event()
        self._released = anyio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if self.holds:
            self.held.set()
            await self._released.wait()
        return fn(*args)

    def hold(self) -> None:
        self.holds, self.held, self._released = True, anyio.Event(), anyio.Event()

    def release(self) -> None:
        self.holds = False
        self._released.set()

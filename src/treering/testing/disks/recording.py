"""A disk that records all operations, and yields every disk that a power cut in between may leave."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.disk import Disk
from .crashes import Crashes, digest
from .image import Operation
from .memory import MemoryDisk
from .wrapped import WrappedDisk

SYNCS = frozenset({"datasync", "sync_directory"})


class RecordingDisk(WrappedDisk):
    """Records every change of a `MemoryDisk`, in order.

    Operations are recorded as they arrive there: those that a wrapper in between refuses are missing, and those that it
    shortens are short. The earlier content of the disk stays as it was, synced or not.

    Example: no power cut after an acknowledgement may lose what was acknowledged::

        disk = RecordingDisk()
        ...                               # append, and wait for the acknowledgement
        acknowledged = len(disk.operations)
        ...                               # continue
        for crashed in disk.crash_states(since=acknowledged):
            ...                           # open `crashed`: it contains the append

    Args:
        inner: A `MemoryDisk`, or wrappers around one; by default a new one.

    Attributes:
        operations: The operations so far.
    """

    def __init__(self, inner: Disk | None = None) -> None:
        super().__init__(MemoryDisk() if inner is None else inner)
        self.operations: list[Operation] = []
        self.memory = _memory_under(self.inner)
        with self.memory.lock:
            self._before = self.memory.image.copy()
            self.memory.listeners.append(self.operations.append)

    def crash_states(self, since: int = 0, until: int | None = None) -> Iterator[MemoryDisk]:
        """Yield each distinct disk that a power cut may leave after `since` to `until` operations.

        Each disk is ready for use, with nothing left to sync. Its `cut_after` is the largest number of operations after
        which the power may have failed, so it must contain everything that was acknowledged by then.

        The module `crashes` defines the disks: about a dozen for a program of four operations, and some more for each
        further operation that is not synced. Each moment is rebuilt from the first operation, so keep programs below a
        few hundred operations, or examine a part of them.
        """
        operations = self.operations[:until]
        seen: set[bytes] = set()
        covered = False
        for moment in range(len(operations), since - 1, -1):
            if covered and operations[moment].kind not in SYNCS:
                continue  # the states of the next moment include the loss of this operation
            image = self._before.copy()
            for operation in operations[:moment]:
                image.apply(operation)
            crashes = Crashes(image)
            covered = crashes.complete
            for crashed in crashes:
                if (key := digest(crashed)) not in seen:
                    seen.add(key)
                    disk = MemoryDisk(crashed)
                    disk.cut_after = moment
                    yield disk


def _memory_under(disk: Disk) -> MemoryDisk:
    while isinstance(disk, WrappedDisk):
        disk = disk.inner
    if not isinstance(disk, MemoryDisk):
        raise TypeError(f"a RecordingDisk needs a MemoryDisk beneath it, got {type(disk).__name__}")
    return disk

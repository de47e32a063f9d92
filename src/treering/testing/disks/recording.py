"""A disk that notes what is done to it, and gives back every disk that a power cut on the way may leave."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.disk import Disk
from .changes import Operation
from .crashes import Crashes, digest
from .memory import MemoryDisk
from .wrapped import WrappedDisk

SYNCS = frozenset({"datasync", "sync_directory"})


class RecordingDisk(WrappedDisk):
    """Notes every change of a `MemoryDisk`, in the order in which it happened there.

    What a wrapper in between refuses or shortens is noted as it arrived. What was on the disk before is taken as it was,
    synced or not.

    Example: no power cut after an acknowledgement may lose what was acknowledged::

        disk = RecordingDisk()
        ...                               # append, and get it acknowledged
        acknowledged = len(disk.operations)
        ...                               # go on
        for left in disk.crash_states(since=acknowledged):
            ...                           # open `left`: the append is there

    Args:
        inner: A `MemoryDisk`, or wrappers around one; by default a new one.

    Attributes:
        operations: What was done so far.
    """

    def __init__(self, inner: Disk | None = None) -> None:
        super().__init__(MemoryDisk() if inner is None else inner)
        self.operations: list[Operation] = []
        self.memory = _memory_under(self.inner)
        with self.memory.lock:
            self._before = self.memory.image.copy()
            self.memory.listeners.append(self.operations.append)

    def crash_states(self, since: int = 0, until: int | None = None) -> Iterator[MemoryDisk]:
        """Yield each disk, once, that a power cut may leave after `since` to `until` of the operations.

        Each is ready to be used, nothing of it waits for a sync, and its `cut_after` says after how many operations the
        power may have gone at the latest. So it must hold all that was acknowledged by then.

        `crashes` says which they are: a dozen for a program of four operations, some more for each further one that is
        not synced. Each moment is built by doing everything before it again, so keep programs below a few hundred
        operations, or look at a part of them.
        """
        operations = self.operations[:until]
        seen: set[bytes] = set()
        covered = False
        for moment in range(len(operations), since - 1, -1):
            if covered and operations[moment].kind not in SYNCS:
                continue  # to lose that operation was one of the choices a moment later
            image = self._before.copy()
            for operation in operations[:moment]:
                image.apply(operation)
            found = Crashes(image)
            covered = found.complete
            for left in found:
                if (key := digest(left)) not in seen:
                    seen.add(key)
                    disk = MemoryDisk(left)
                    disk.cut_after = moment
                    yield disk


def _memory_under(disk: Disk) -> MemoryDisk:
    while isinstance(disk, WrappedDisk):
        disk = disk.inner
    if not isinstance(disk, MemoryDisk):
        raise TypeError(f"only what happens to a MemoryDisk can be recorded, not to {type(disk).__name__}")
    return disk

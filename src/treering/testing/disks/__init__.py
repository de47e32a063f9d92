"""Disks for tests, behind the `Disk` protocol: in memory, recorded, cut off from power, faulty.

`MemoryDisk` keeps a whole file system in memory and knows what of it a power cut would spare. `RecordingDisk` notes
every change and gives back each disk that a power cut at any moment may leave. `FaultyDisk` fails, tears and stalls
calls by a script, and counts them. They stack: a `FaultyDisk` over a `RecordingDisk` over a `MemoryDisk` does all of it.

None of them has locks between processes: to the operating system a `MemoryDisk` is not there.
"""

from __future__ import annotations

from .changes import Operation
from .faulty import Fault, FaultyDisk, Stall
from .memory import MemoryDisk
from .recording import RecordingDisk
from .wrapped import WrappedDisk

__all__ = ["Fault", "FaultyDisk", "MemoryDisk", "Operation", "RecordingDisk", "Stall", "WrappedDisk"]

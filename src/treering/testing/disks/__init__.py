"""Disks for tests, behind the `Disk` protocol: in memory, recording, losing power, faulty.

`MemoryDisk` keeps a file system in memory and knows what would survive a power cut. `RecordingDisk` records every
change and yields each disk that a power cut at any moment may leave. `FaultyDisk` fails, tears and stalls calls by a
script, and counts them. They stack: a `FaultyDisk` over a `RecordingDisk` over a `MemoryDisk` does all of this.

None of them supports locks between processes, since a `MemoryDisk` does not exist for the operating system.
"""

from __future__ import annotations

from .faulty import Fault, FaultyDisk, Stall
from .image import Operation
from .memory import MemoryDisk
from .wrapped import RecordingDisk, WrappedDisk

__all__ = ["Fault", "FaultyDisk", "MemoryDisk", "Operation", "RecordingDisk", "Stall", "WrappedDisk"]

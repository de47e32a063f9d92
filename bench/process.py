"""The memory and the open files of this process, and the processor time of another one."""

from __future__ import annotations

import math
import os
import resource
import sys
from pathlib import Path

_LINUX = sys.platform == "linux"


def resident_bytes() -> int:
    """Return the resident memory of this process, or its peak on systems that do not report the current value."""
    if not _LINUX:
        return peak_bytes()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    if _LINUX:
        # Not `ru_maxrss`: a process inherits the value of its parent.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def open_descriptors() -> int:
    """Count the open file descriptors of this process."""
    # Counts the descriptor that lists the folder, too; differences cancel it out.
    return len(os.listdir("/proc/self/fd" if _LINUX else "/dev/fd"))


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used, in seconds; NaN on systems that do not tell."""
    if not _LINUX:
        return math.nan
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

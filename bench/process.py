"""What this process takes of the machine: its memory and its open files."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_LINUX = sys.platform == "linux"


def resident_bytes() -> int:
    """Return the memory that this process has now; where the system does not tell, the most that it has had."""
    if not _LINUX:
        return peak_bytes()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    if _LINUX:
        # Not `ru_maxrss`: a process begins with that of the one that started it.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def open_descriptors() -> int:
    """Count the open file descriptors of this process."""
    # The folder is open while it is listed: it counts itself, before and after alike.
    return len(os.listdir("/proc/self/fd" if _LINUX else "/dev/fd"))

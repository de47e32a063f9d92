"""How long the processes of a test have waited for a processor: time that says how busy a machine is, and nothing else.

A bound in seconds is for a machine of one's own. A test adds to it what its processes waited meanwhile, so that it
fails for what they do, and not for what others do beside them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)  # a process or a thread that ends while it is looked at


def waited_s() -> float:
    """Return for how many seconds the threads of this process and of those below it have waited for a processor.

    Those that have ended count no longer. Where the system does not tell, it is 0: there, bounds are for quiet
    machines.
    """
    if not (_PROCESSES / "self/schedstat").exists():
        return 0.0
    below: defaultdict[int, list[int]] = defaultdict(list)
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(*_GONE):
            parent = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            below[int(parent)].append(int(process.name))
    waited_ns, left = 0, [os.getpid()]
    while left:
        process_id = left.pop()
        left += below[process_id]
        for thread in (_PROCESSES / f"{process_id}/task").glob("*/schedstat"):
            with suppress(*_GONE):
                waited_ns += int(thread.read_text().split()[1])
    return waited_ns / 1e9

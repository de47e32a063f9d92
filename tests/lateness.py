"""How long the processes of a test have waited for a processor: time that says how busy a machine is, and nothing else.

A bound in seconds is for a machine of one's own. A test adds to it what its processes waited meanwhile, so that it
fails for what they do, and not for what others do beside them.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)  # a process or a thread that ends while it is looked at


def waits() -> dict[str, int]:
    """Return for how many nanoseconds each thread of this process and of those below it has waited for a processor.

    Where the system does not tell, there are none: there, bounds are for quiet machines.
    """
    if not (_PROCESSES / "self/schedstat").exists():
        return {}
    below: defaultdict[int, list[int]] = defaultdict(list)
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(*_GONE):
            parent = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            below[int(parent)].append(int(process.name))
    found: dict[str, int] = {}
    left = [os.getpid()]
    while left:
        process_id = left.pop()
        left += below[process_id]
        threads: list[Path] = []
        with suppress(*_GONE):
            threads = [*(_PROCESSES / f"{process_id}/task").iterdir()]
        for thread in threads:
            with suppress(*_GONE):
                found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return found


def waited_s(before: Mapping[str, int]) -> float:
    """Return for how many seconds threads have waited since `waits` returned this; those that have ended count not."""
    return sum(each - before.get(thread, 0) for thread, each in waits().items()) / 1e9

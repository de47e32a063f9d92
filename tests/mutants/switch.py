"""What the planted code asks; it is copied into the tree that has the faults, as `treering._planted`.

A process that is not told otherwise takes the number of its fault from the environment, so that programs which the
tests start have the same fault. When hits are recorded, such programs add theirs to a file.
"""

from __future__ import annotations

import os

_chosen = int(os.environ.get("TREERING_FAULT", "0"))
_seen: set[int] | None = set() if "TREERING_FAULTS_SEEN" in os.environ else None
_recorder = 0


def choose(number: int) -> None:
    """Let one fault be there from now on, in this process and in those that it starts."""
    global _chosen
    _chosen = number
    os.environ["TREERING_FAULT"] = str(number)


def record() -> set[int]:
    """Begin to record which faults are met, and return the set that is added to."""
    global _seen, _recorder
    _seen, _recorder = set(), os.getpid()
    return _seen


def planted(number: int) -> bool:
    """Tell whether a fault is there."""
    if _seen is not None and number not in _seen:
        _seen.add(number)
        if os.getpid() != _recorder:
            with open(os.environ["TREERING_FAULTS_SEEN"], "ab", buffering=0) as file:
                file.write(b"%d\n" % number)
    return number == _chosen

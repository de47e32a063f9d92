"""What a process does first in a child that `os.fork` made: it gives up what belongs to its parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(give_up: Callable[[], None]) -> None:
    """Call a function in every forked child of this process, where the operating system has forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=give_up)

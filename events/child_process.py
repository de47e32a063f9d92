"""Registration of functions that release the parent's resources in a forked child."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(give_up: Callable[[], None]) -> None:
    """Call a function in every forked child of this process, if the operating system supports fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=give_up)

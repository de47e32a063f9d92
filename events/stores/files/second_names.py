"""Links under a root to what lies under it as well: a listing has a session once, under its own name."""

from __future__ import annotations

from ...disk import Disk
from .codecs import SUFFIXES
from .private_folder import PRIVATE_FOLDER

SUFFIX = ".jsonl"
"""How the name of a log ends."""

LOG_SUFFIXES = (SUFFIX, *(SUFFIX + packed for packed in SUFFIXES))
"""How the names of logs end, packed ones included."""


def is_second_name(disk: Disk, root: str, path: str, *, is_directory: bool) -> bool:
    """Tell whether a file or folder under a root is a link to one that a listing of the root comes by anyway.

    Raises:
        OSError: It cannot be followed.
    """
    real = disk.real_path(path)
    if real == path:
        return False
    under = root.rstrip("/") + "/"
    if not f"{real}/".startswith(under) or PRIVATE_FOLDER in real[len(under) :].split("/"):
        return False
    return is_directory or real.endswith(LOG_SUFFIXES)

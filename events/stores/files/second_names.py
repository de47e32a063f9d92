"""Links under a root whose targets are under it too: a listing has each session once, under its own name."""

from __future__ import annotations

from ...disk import Disk
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import SUFFIXES

SUFFIX = ".jsonl"
"""The suffix of a log's name."""

LOG_SUFFIXES = (SUFFIX, *(SUFFIX + packed for packed in SUFFIXES))
"""The suffixes of the names of logs, including packed ones."""


def is_second_name(disk: Disk, root: str, path: str, *, is_directory: bool) -> bool:
    """Tell whether a file or folder under a root is a link to one that a listing of the root reaches anyway.

    Raises:
        OSError: The link cannot be followed.
    """
    real_path = disk.real_path(path)
    if real_path == path:
        return False
    prefix = root.rstrip("/") + "/"
    if not f"{real_path}/".startswith(prefix) or PRIVATE_FOLDER in real_path[len(prefix) :].split("/"):
        return False
    return is_directory or real_path.endswith(LOG_SUFFIXES)

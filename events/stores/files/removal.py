"""Removing a log for good: it, and before it whatever holds a copy of what it says.

The log goes last but for its leaf record, which says nothing without it: as long as anything of a session is there it is
listed, and can be deleted again. The other way round a crash would leave copies that nobody is told of. The folder is
flushed in between, or a power cut could keep the copies and take the log; whatever the durability, since what was said to
be deleted must not come back.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ...disk import Disk
from . import archiving, beside
from .names import folders_between
from .private_folder import ASIDE


def remove(disk: Disk, root: str, path: str) -> None:
    """Delete a log and all that is kept of it.

    Args:
        disk: The disk.
        root: The root of the store.
        path: The real path of the log, under the root or elsewhere.

    Raises:
        OSError: It cannot be deleted; the log is there still.
    """
    folder, name = os.path.split(path)
    for each in _folders_of_copies(root, path):
        beside.remove_copies(disk, each, name)
        _flush_names(disk, each)
    archiving.remove_packed(disk, path)  # before the log, or a crash would bring an older session back
    for each in (path, path + beside.LEAF_SUFFIX):
        with suppress(FileNotFoundError):
            disk.unlink(each)
    _flush_names(disk, folder)


def _folders_of_copies(root: str, path: str) -> list[str]:
    """Return where copies of a log stand: beside it, and where a repair of its folder or of one above moves them."""
    own = os.path.dirname(path)
    top = root if path.startswith(root.rstrip("/") + "/") else own
    repaired = folders_between(top, path)
    return [own, *(os.path.normpath(os.path.join(each, ASIDE, os.path.relpath(own, each))) for each in repaired)]


def _flush_names(disk: Disk, folder: str) -> None:
    """Make it sure that names which were taken away stay away."""
    with suppress(FileNotFoundError):
        disk.sync_directory(folder)

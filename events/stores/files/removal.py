"""Permanent removal of a log: first all copies of its content, then the log itself.

Only the leaf record, which is meaningless without the log, is removed after it. So as long as any other part of a
session exists, the session is listed and can be deleted again. In the opposite order, a crash would leave copies that
no listing shows. The folder is flushed in between, since a power cut could otherwise keep the copies and remove the
log. This is done under every durability, because a session that was reported as deleted must not come back.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ...disk import Disk
from ...disk.disk import ASIDE
from ...disk.packed import stat_if_exists
from . import names as beside
from . import packing as archiving
from .names import folders_between


def remove(disk: Disk, root: str, path: str) -> None:
    """Delete a log, all copies of its content, and the files beside it.

    Args:
        disk: The disk.
        root: The root of the store.
        path: The real path of the log, under the root or elsewhere.

    Raises:
        OSError: A file cannot be deleted. The log still exists.
    """
    folder, name = os.path.split(path)
    for copies_folder in _folders_of_copies(root, path):
        beside.remove_copies(disk, copies_folder, name)
        _flush_names(disk, copies_folder)
    archiving.remove_packed(disk, path)  # before the log: an older packed form would take its place after a crash
    with suppress(FileNotFoundError):
        disk.unlink(path)
    if stat_if_exists(disk, leaf := path + beside.LEAF_SUFFIX) is not None:
        disk.unlink(leaf)
    _flush_names(disk, folder)


def _folders_of_copies(root: str, path: str) -> list[str]:
    """Return the folders with copies of a log: its own, and those where a repair of it or of a parent moves them."""
    own_folder = os.path.dirname(path)
    top = root if path.startswith(root.rstrip("/") + "/") else own_folder
    repairable = folders_between(top, path)
    return [
        own_folder,
        *(os.path.normpath(os.path.join(each, ASIDE, os.path.relpath(own_folder, each))) for each in repairable),
    ]


def _flush_names(disk: Disk, folder: str) -> None:
    """Make the removal of names survive a power cut."""
    with suppress(FileNotFoundError):
        disk.sync_directory(folder)

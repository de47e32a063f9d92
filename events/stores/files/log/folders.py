"""The folders above a log: creating them, and making the names in them survive a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from ....disk import Disk


class UnflushedFolders:
    """The folders to flush before a log's own name is known to survive a power cut.

    Args:
        path: The path of the log.
        pending: The folders, in the order in which they are flushed.
        durable_folders: The folders whose own names are known to survive a power cut; shared by the logs of a store.

    Attributes:
        pending: The folders that were not flushed yet.
    """

    __slots__ = ("_durable_folders", "_path", "pending")

    def __init__(self, path: str, pending: tuple[str, ...], durable_folders: set[str]) -> None:
        self._path = path
        self._durable_folders = durable_folders
        self.pending = pending

    def put_first(self, folders: Iterable[str]) -> None:
        """Add folders whose content changed, to be flushed before the others."""
        self.pending = tuple(dict.fromkeys((*folders, *self.pending)))

    def flush(self, disk: Disk) -> None:
        """Flush the folders.

        Raises:
            OSError: A folder cannot be flushed; it and those after it remain pending.
        """
        while self.pending:
            folder = self.pending[0]
            with suppress(PermissionError):  # a folder that we may not open was not created by us
                disk.sync_directory(folder)
            child, slash, _ = self._path.removeprefix(folder.rstrip("/") + "/").partition("/")
            if slash:
                self._durable_folders.add(os.path.join(folder, child))
            self.pending = self.pending[1:]


def make_folders(disk: Disk, folder: str) -> tuple[str, ...]:
    """Create a folder and its missing parents; return the folders to flush once a file was created in it.

    Raises:
        OSError: A folder cannot be created.
    """
    missing = _missing_folders(disk, folder)
    if missing:
        disk.make_directory(folder)
    return (folder, *map(os.path.dirname, missing))


def _missing_folders(disk: Disk, folder: str) -> list[str]:
    """Return `folder` and its parents as far as they do not exist, innermost first."""
    missing: list[str] = []
    while True:
        try:
            disk.stat(folder)
        except FileNotFoundError:
            missing.append(folder)
            folder = os.path.dirname(folder)
            continue
        return missing

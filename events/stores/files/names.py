"""Names: the ref of a log, its path, the files beside it, and the folders above it.

The ref of a log is its path relative to the root, or absolute outside of the root. Beside a log `abc.jsonl`:

    abc.jsonl.index                     the snapshot, derived: see `log.snapshots`
    abc.jsonl.leaf                      the leaf record, state: see `log.records`
    abc.jsonl.view-<name>               the checkpoint of a projection, derived: see `log.records`
    abc.jsonl.torn-<offset>-<crc32>     a fragment: see `log.backups`
    abc.jsonl.bak                       a backup: see `log.backups`

Fragments and backups hold copies of what the log contained. They are deleted only together with the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress

from ...disk import Disk
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import SUFFIXES, log_path
from ...errors import InvalidSessionId
from ..base import Ref

SUFFIX = ".jsonl"
"""The suffix of a log's name."""

LOG_SUFFIXES = (SUFFIX, *(SUFFIX + packed for packed in SUFFIXES))
"""The suffixes of the names of logs, including packed ones."""

INDEX_SUFFIX = ".index"
LEAF_SUFFIX = ".leaf"

BESIDE = re.compile(
    r"(?P<kind>|\.index|\.leaf|\.view-[A-Za-z0-9_-]{1,64}|\.torn-(?P<offset>\d+)-(?P<crc>[0-9a-f]{8})|\.bak(?:-\d+)?"
    r"|\.(?:zst|gz)(?=\.tmp-))"
    r"(?P<temporary>\.tmp-\d+-\d+)?"
)
"""What follows a log's name in the names of the files beside it; for the log itself, nothing."""

_NO_NAMES = frozenset({"", ".", "..", PRIVATE_FOLDER})
"""What no part of a ref is."""


def is_second_name(disk: Disk, root: str, path: str, *, is_directory: bool) -> bool:
    """Tell whether a file or folder under a root is a link to one that a listing of the root reaches anyway."""
    real_path = disk.real_path(path)
    if real_path == path:
        return False
    prefix = root.rstrip("/") + "/"
    if not f"{real_path}/".startswith(prefix) or PRIVATE_FOLDER in real_path[len(prefix) :].split("/"):
        return False
    return is_directory or real_path.endswith(LOG_SUFFIXES)


def folders_between(root: str, path: str) -> list[str]:
    """Return the folders from a file up to a root above it, innermost first, including the root."""
    assert path.startswith(root.rstrip("/") + "/"), f"{path} is not below {root}"
    folders = [os.path.dirname(path)]
    while folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))
    return folders


class Names:
    """The conversion of refs to paths and back, for one root.

    Args:
        disk: The disk, which follows links.
        root: The folder that holds the logs.

    Attributes:
        durable_folders: The folders whose own names are known to survive a power cut.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.root = disk.real_path(os.path.abspath(root))
        self.durable_folders: set[str] = set()
        self._prefix = self.root.rstrip("/") + "/"

    def path_of(self, ref: Ref) -> str:
        """Return the path of a ref.

        Raises:
            InvalidSessionId: The ref is empty, not normalized, or leads out of the root.
        """
        parts = ref.split("/")
        if parts[0] == "" and len(parts) > 1:
            del parts[0]
        if "\0" in ref or not _NO_NAMES.isdisjoint(parts):
            raise InvalidSessionId(
                f"{ref!r} is not a valid log name: use a path under the root or an absolute path, without '..', '.', "
                f"{PRIVATE_FOLDER!r} or empty parts"
            )
        return ref if ref.startswith("/") else self._prefix + ref

    def is_of_root(self, path: str) -> bool:
        """Return whether a real path is one that a log of the root has: what is there is listed, whatever it is."""
        return path.startswith(self._prefix) and path.endswith(SUFFIX)

    def unflushed_folders(self, path: str) -> UnflushedFolders:
        """Return the folders to flush before the name of an existing file is known to survive a power cut.

        The process that created the file may have ended before it flushed them. The file's own folder always has to be
        flushed. The name of a folder has to be made durable only once.
        """
        own_folder = os.path.dirname(path)
        if not path.startswith(self._prefix):
            return UnflushedFolders(path, (own_folder,), self.durable_folders)
        not_durable = [each for each in folders_between(self.root, path) if each not in self.durable_folders]
        return UnflushedFolders(path, (own_folder, *map(os.path.dirname, not_durable)), self.durable_folders)

    def ref_of(self, path: str) -> Ref:
        """Return the canonical ref of a file, with all links followed: relative if it is under the root, else absolute.

        The packed form of a log has the log's ref.
        """
        real_path = log_path(self._disk.real_path(os.path.abspath(path)))
        return real_path.removeprefix(self._prefix)


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
    """Create a folder and its missing parents; return the folders to flush once a file was created in it."""
    missing: list[str] = []
    above = folder
    while True:
        try:
            disk.stat(above)
            break
        except FileNotFoundError:
            missing.append(above)
            above = os.path.dirname(above)
    if missing:
        disk.make_directory(folder)
    return (folder, *map(os.path.dirname, missing))

"""A scan of all logs under a root: their names and their file status, without opening any file.

Every listing begins with a scan, so it is designed for tens of thousands of files: one `stat` per log, none for the
files beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...disk import Disk, FileStat
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import log_path
from ..base import Ref
from .listing import UnreadableFolders
from .names import LOG_SUFFIXES, SUFFIX, is_second_name


@runtime_checkable
class ScanningDisk(Protocol):
    """A disk that can read the status of many files in a folder faster than one by one."""

    def scan_directory(self, path: str, suffixes: tuple[str, ...], /) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the directories in a directory, and the files whose names end in one of the suffixes.

        Each is returned with its name, its status, and whether it is a link.
        """
        ...


def scan(disk: Disk, root: str, unreadable: UnreadableFolders) -> dict[Ref, FileStat]:
    """Return the file status of all logs under a root, including empty files; nothing if the root does not exist.

    For a packed log, it is the status of the packed form.

    Raises:
        OSError: The root cannot be listed.
    """
    return _Scan(disk, root, unreadable).stats


class _Scan:
    """One scan of a root."""

    def __init__(self, disk: Disk, root: str, unreadable: UnreadableFolders) -> None:
        self.stats: dict[Ref, FileStat] = {}
        self._disk = disk
        self._root = root
        self._unreadable = unreadable
        self._scan_folder(root, "", ())

    def _scan_folder(self, folder: str, parent_ref: str, trail: tuple[tuple[int, int], ...]) -> None:
        entries = self._unreadable.list_folder(folder, self._list_entries, is_root=not parent_ref)
        packed: list[tuple[Ref, FileStat]] = []
        for name, stat, is_link in entries:
            if name == PRIVATE_FOLDER or (is_link and self._is_second_name(f"{folder}/{name}", stat)):
                continue
            if not stat.is_directory:
                if name.endswith(SUFFIX):
                    self.stats[parent_ref + name] = stat
                else:
                    packed.append((log_path(parent_ref + name), stat))
            elif (node := (stat.device, stat.inode)) not in trail:  # a link may lead back to a folder above
                self._scan_folder(f"{folder}/{name}", f"{parent_ref}{name}/", (*trail, node))
        for ref, stat in packed:
            self.stats.setdefault(ref, stat)

    def _is_second_name(self, path: str, stat: FileStat) -> bool:
        return is_second_name(self._disk, self._root, path, is_directory=stat.is_directory)

    def _list_entries(self, path: str) -> Sequence[tuple[str, FileStat, bool]]:
        """List the logs and folders in a folder: at once if the disk supports it, otherwise one by one."""
        if isinstance(self._disk, ScanningDisk):
            return self._disk.scan_directory(path, LOG_SUFFIXES)
        entries: list[tuple[str, FileStat, bool]] = []
        for name in self._disk.list_directory(path):
            try:
                stat = self._disk.stat(f"{path}/{name}")
            except OSError:
                continue  # removed in the meantime, or a broken link
            if stat.is_directory or name.endswith(LOG_SUFFIXES):
                entries.append((name, stat, True))  # any of them may be a link
        return entries

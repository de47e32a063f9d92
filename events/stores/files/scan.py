"""A scan of all logs under a root: their names and how their files look, and no file is opened.

It is what a listing begins with, and so it is made for tens of thousands of files: one look at each log, none at what
stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...disk import Disk, FileStat
from ..base import Ref
from .packed import log_path
from .private_folder import PRIVATE_FOLDER
from .second_names import LOG_SUFFIXES, SUFFIX, is_second_name
from .unreadable_folders import UnreadableFolders


@runtime_checkable
class ScanningDisk(Protocol):
    """A disk that can look at many files of a folder faster than at one after the other."""

    def scan_directory(self, path: str, suffixes: tuple[str, ...], /) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the directories in a directory, and the files whose names end in a suffix.

        Of each its name, how it looks, and whether it is a link.
        """
        ...


def scan(disk: Disk, root: str, unreadable: UnreadableFolders) -> dict[Ref, FileStat]:
    """Return how the files of all logs under a root look, empty ones included; a root that is not there has none.

    Of a log that is packed, it is the packed form.

    Raises:
        OSError: The root cannot be listed.
    """
    return _Scan(disk, root, unreadable).found


class _Scan:
    """One scan of a root."""

    def __init__(self, disk: Disk, root: str, unreadable: UnreadableFolders) -> None:
        self.found: dict[Ref, FileStat] = {}
        self._disk = disk
        self._root = root
        self._unreadable = unreadable
        self._take_in(root, "", ())

    def _take_in(self, folder: str, above: str, trail: tuple[tuple[int, int], ...]) -> None:
        found = self._unreadable.look_into(folder, self._look, is_root=not above)
        packed: list[tuple[Ref, FileStat]] = []
        for name, stat, is_link in found:
            if name == PRIVATE_FOLDER or (is_link and self._is_second_name(f"{folder}/{name}", stat)):
                continue
            if not stat.is_directory:
                if name.endswith(SUFFIX):
                    self.found[above + name] = stat
                else:
                    packed.append((log_path(above + name), stat))
            elif (node := (stat.device, stat.inode)) not in trail:  # a link may lead back to where we are
                self._take_in(f"{folder}/{name}", f"{above}{name}/", (*trail, node))
        for ref, stat in packed:
            self.found.setdefault(ref, stat)

    def _is_second_name(self, path: str, stat: FileStat) -> bool:
        return is_second_name(self._disk, self._root, path, is_directory=stat.is_directory)

    def _look(self, path: str) -> Sequence[tuple[str, FileStat, bool]]:
        """Look at the files of a folder: at all of them at once, or one after the other where the disk knows no faster way."""
        if isinstance(self._disk, ScanningDisk):
            return self._disk.scan_directory(path, LOG_SUFFIXES)
        found: list[tuple[str, FileStat, bool]] = []
        for name in self._disk.list_directory(path):
            try:
                stat = self._disk.stat(f"{path}/{name}")
            except OSError:
                continue  # gone meanwhile, or a link to nowhere
            if stat.is_directory or name.endswith(LOG_SUFFIXES):
                found.append((name, stat, True))  # nobody says which of them are links
        return found

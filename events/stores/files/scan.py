"""A scan of all logs under a root: their names and how their files look, and no file is opened.

It is what a listing begins with, and so it is made for tens of thousands of files: one look at each log, none at what
stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...disk import Disk, FileStat
from ..base import Ref
from .codecs import SUFFIXES
from .listing import SUFFIX
from .packed import log_path
from .private_folder import PRIVATE_FOLDER

_SUFFIXES = (SUFFIX, *(SUFFIX + packed for packed in SUFFIXES))


@runtime_checkable
class ScanningDisk(Protocol):
    """A disk that can look at many files of a folder faster than at one after the other."""

    def scan_directory(self, path: str, suffixes: tuple[str, ...], /) -> Sequence[tuple[str, FileStat]]:
        """Return the directories in a directory, and the files whose names end in a suffix, with how they look."""
        ...


def scan(disk: Disk, root: str) -> dict[Ref, FileStat]:
    """Return how the files of all logs under a root look, empty ones included; a root that is not there has none.

    Of a log that is packed, it is the packed form.
    """
    found: dict[Ref, FileStat] = {}
    _take_in(found, disk, root, "", ())
    return found


def _take_in(
    logs: dict[Ref, FileStat], disk: Disk, folder: str, above: str, trail: tuple[tuple[int, int], ...]
) -> None:
    scanning = disk if isinstance(disk, ScanningDisk) else None
    try:
        found = _one_by_one(disk, folder) if scanning is None else scanning.scan_directory(folder, _SUFFIXES)
    except (FileNotFoundError, NotADirectoryError):
        return
    packed: list[tuple[Ref, FileStat]] = []
    for name, stat in found:
        if not stat.is_directory:
            if name.endswith(SUFFIX):
                logs[above + name] = stat
            else:
                packed.append((log_path(above + name), stat))
        # A link may lead back to where we are.
        elif name != PRIVATE_FOLDER and (node := (stat.device, stat.inode)) not in trail:
            _take_in(logs, disk, f"{folder}/{name}", f"{above}{name}/", (*trail, node))
    for ref, stat in packed:
        logs.setdefault(ref, stat)


def _one_by_one(disk: Disk, path: str) -> Sequence[tuple[str, FileStat]]:
    """Look at the files of a folder one after the other, on a disk that knows no faster way."""
    found: list[tuple[str, FileStat]] = []
    for name in disk.list_directory(path):
        try:
            stat = disk.stat(f"{path}/{name}")
        except OSError:
            continue  # gone meanwhile, or a link to nowhere
        if stat.is_directory or name.endswith(_SUFFIXES):
            found.append((name, stat))
    return found

"""The listing of logs: all `.jsonl` files under the root, in the order of their refs, folder by folder.

A packed log is listed by the ref of the log, unless that one is there as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice

from ...disk import Disk, FileStat
from ...entries import EPOCH
from ..base import LogInfo, Ref
from .codecs import GZ, ZST
from .packed import log_path
from .private_folder import PRIVATE_FOLDER
from .second_names import SUFFIX, is_second_name
from .unreadable_folders import UnreadableFolders


def page_of(disk: Disk, root: str, prefix: str, after: Ref, limit: int, unreadable: UnreadableFolders) -> list[LogInfo]:
    """Return the first logs after a ref; only the folders that can hold them are read.

    Raises:
        OSError: The root cannot be listed.
    """
    return list(islice(_Walk(disk, root, prefix, after, unreadable).through(root, "", ()), limit))


class _Walk:
    """One way through a root, folder by folder."""

    def __init__(self, disk: Disk, root: str, prefix: str, after: Ref, unreadable: UnreadableFolders) -> None:
        self._disk = disk
        self._root = root
        self._prefix = prefix
        self._after = after
        self._unreadable = unreadable

    def through(self, folder: str, above: str, trail: tuple[tuple[int, int], ...]) -> Iterator[LogInfo]:
        """Go through one folder. A folder sorts by its name with a slash, as the refs in it do."""
        names = self._unreadable.look_into(folder, self._disk.list_directory, is_root=not above)
        for name, file, found in sorted(self._wanted(folder, above, names), key=lambda each: each[0]):
            ref, path = above + name, f"{folder}/{file}"
            if is_second_name(self._disk, self._root, path, is_directory=found.is_directory):
                continue
            if not found.is_directory:
                if name.endswith(SUFFIX) and ref.startswith(self._prefix) and ref > self._after:
                    yield LogInfo(ref, found.size, EPOCH + timedelta(microseconds=found.modified_ns // 1000))
            elif (found.device, found.inode) not in trail:  # a link may lead back to where we are
                yield from self.through(path, ref, (*trail, (found.device, found.inode)))

    def _wanted(self, folder: str, above: str, names: Sequence[str]) -> Iterator[tuple[str, str, FileStat]]:
        """Yield what of a folder has to be looked at: what it is called in refs, the file's name, and how it looks."""
        prefix, after = self._prefix, self._after
        there = set(names)
        for file in names:
            name = log_path(file)
            ref = above + name
            is_log = name.endswith(SUFFIX)
            if file != name and (name in there or (file.endswith(GZ) and name + ZST in there)):
                continue
            if name == PRIVATE_FOLDER or not (is_log or _may_hold(ref + "/", prefix, after)):
                continue
            if is_log and not (ref.startswith(prefix) and ref > after) and not _may_hold(ref + "/", prefix, after):
                continue
            try:
                found = self._disk.stat(f"{folder}/{file}")
            except OSError:
                continue  # gone meanwhile, or a link to nowhere
            yield name + "/" if found.is_directory else name, file, found


def _may_hold(folder: str, prefix: str, after: Ref) -> bool:
    """Tell whether refs that begin with `folder` may have the prefix and come after a ref."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (after.startswith(folder) or after < folder)

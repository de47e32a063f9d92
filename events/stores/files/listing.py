"""The listing of logs: all `.jsonl` files under the root, folder by folder, ordered by ref.

A packed log is listed under the ref of the log, unless the log itself exists as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice

from ...disk import Disk, FileStat
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import GZ, ZST, log_path
from ...entries import EPOCH
from ..base import LogInfo, Ref
from .names import SUFFIX, is_second_name


def page_of(disk: Disk, root: str, prefix: str, after: Ref, limit: int, unreadable: UnreadableFolders) -> list[LogInfo]:
    """Return the first logs after a ref, reading only the folders that can hold them.

    Raises:
        OSError: The root cannot be listed.
    """
    return list(islice(_Walk(disk, root, prefix, after, unreadable).logs_in(root, "", ()), limit))


class _Walk:
    """One walk through a root."""

    def __init__(self, disk: Disk, root: str, prefix: str, after: Ref, unreadable: UnreadableFolders) -> None:
        self._disk = disk
        self._root = root
        self._prefix = prefix
        self._after = after
        self._unreadable = unreadable

    def logs_in(self, folder: str, parent_ref: str, trail: tuple[tuple[int, int], ...]) -> Iterator[LogInfo]:
        """Yield the logs in a folder and below it. A folder sorts by its name with a slash, as the refs in it do."""
        names = self._unreadable.list_folder(folder, self._disk.list_directory, is_root=not parent_ref)
        for name, file, stat in sorted(self._candidates(folder, parent_ref, names), key=lambda candidate: candidate[0]):
            ref, path = parent_ref + name, f"{folder}/{file}"
            if is_second_name(self._disk, self._root, path, is_directory=stat.is_directory):
                continue
            if not stat.is_directory:
                if name.endswith(SUFFIX) and ref.startswith(self._prefix) and ref > self._after:
                    yield LogInfo(ref, stat.size, EPOCH + timedelta(microseconds=stat.modified_ns // 1000))
            elif (stat.device, stat.inode) not in trail:  # a link may lead back to a folder above
                yield from self.logs_in(path, ref, (*trail, (stat.device, stat.inode)))

    def _candidates(self, folder: str, parent_ref: str, names: Sequence[str]) -> Iterator[tuple[str, str, FileStat]]:
        """Yield the files and folders that may be or hold logs: their names in refs, their file names, their status."""
        prefix, after = self._prefix, self._after
        existing = set(names)
        for file in names:
            name = log_path(file)
            ref = parent_ref + name
            is_log = name.endswith(SUFFIX)
            if file != name and (name in existing or (file.endswith(GZ) and name + ZST in existing)):
                continue
            if name == PRIVATE_FOLDER or not (is_log or _may_hold(ref + "/", prefix, after)):
                continue
            if is_log and not (ref.startswith(prefix) and ref > after) and not _may_hold(ref + "/", prefix, after):
                continue
            try:
                stat = self._disk.stat(f"{folder}/{file}")
            except OSError:
                continue  # removed in the meantime, or a broken link
            yield name + "/" if stat.is_directory else name, file, stat


def _may_hold(folder: str, prefix: str, after: Ref) -> bool:
    """Tell whether refs that begin with `folder` may have the prefix and sort after `after`."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (after.startswith(folder) or after < folder)

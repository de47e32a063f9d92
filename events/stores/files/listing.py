"""The listing of logs: all `.jsonl` files under the root, in the order of their refs, folder by folder.

A packed log is listed by the ref of the log, unless that one is there as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

from ...disk import Disk, FileStat
from ...entries import EPOCH
from ..base import LogInfo, Ref
from .codecs import GZ, ZST
from .packed import log_path
from .private_folder import PRIVATE_FOLDER

SUFFIX = ".jsonl"
"""How the name of a log ends."""


def page_of(disk: Disk, root: str, prefix: str, after: Ref, limit: int) -> list[LogInfo]:
    """Return the first logs after a ref; only the folders that can hold them are read."""
    return list(islice(_walk(disk, root, "", prefix, after, ()), limit))


def _walk(
    disk: Disk, folder: str, above: str, prefix: str, after: Ref, trail: tuple[tuple[int, int], ...]
) -> Iterator[LogInfo]:
    """Go through one folder. A folder sorts by its name with a slash, as the refs in it do."""
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    wanted: list[tuple[str, FileStat]] = []
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
            found = disk.stat(f"{folder}/{file}")
        except OSError:
            continue  # gone meanwhile, or a link to nowhere
        wanted.append((name + "/" if found.is_directory else name, found))
    wanted.sort(key=lambda each: each[0])
    for name, found in wanted:
        ref = above + name
        if not found.is_directory:
            if name.endswith(SUFFIX) and ref.startswith(prefix) and ref > after:
                yield LogInfo(ref, found.size, EPOCH + timedelta(microseconds=found.modified_ns // 1000))
        elif (found.device, found.inode) not in trail:  # a link may lead back to where we are
            inner = (*trail, (found.device, found.inode))
            yield from _walk(disk, f"{folder}/{name[:-1]}", ref, prefix, after, inner)


def _may_hold(folder: str, prefix: str, after: Ref) -> bool:
    """Tell whether refs that begin with `folder` may have the prefix and come after a ref."""
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (after.startswith(folder) or after < folder)

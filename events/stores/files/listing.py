"""The listing of logs: all `.jsonl` files under the root, by ref, without opening any file.

A packed log is listed under the ref of the log, unless the log itself exists as well. Every listing begins with a scan,
so it is designed for tens of thousands of files: one `stat` per log, none for the files beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec.structs import replace

from ...disk import Disk, FileStat
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import SUFFIXES, log_path, stat_if_exists
from ...entries import EPOCH
from ...errors import TreeringError
from ...telemetry import logger
from ..base import LogInfo, Ref
from .durability.journal_replay import JournalReplay
from .log.head import holds_session
from .logs import Logs
from .names import LOG_SUFFIXES, SUFFIX, is_second_name

Trail: TypeAlias = tuple[tuple[int, int], ...]
"""The devices and inodes of the folders above, to which a link may lead back."""


@runtime_checkable
class ScanningDisk(Protocol):
    """A disk that can read the status of many files in a folder faster than one by one."""

    def scan_directory(self, path: str, suffixes: tuple[str, ...], /) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the directories in a directory, and the files whose names end in one of the suffixes.

        Each is returned with its name, its status, and whether it is a link.
        """
        ...


class Listing:
    """The logs that exist, as their files tell.

    Args:
        replay: Restores the logs that journals hold.
    """

    def __init__(self, logs: Logs, replay: JournalReplay) -> None:
        self._logs = logs
        self._disk = logs.disk
        self._root = logs.names.root
        self._replay = replay
        self._unreadable: set[str] = set()  # folders, which were logged already

    def page(self, prefix: str, after: Ref, limit: int) -> list[LogInfo]:
        """Return the first logs after a ref, in order, reading only the folders that can hold them. Blocks."""
        return [
            LogInfo(ref, stat.size, EPOCH + timedelta(microseconds=stat.modified_ns // 1000))
            for ref, stat in islice(self._walk(prefix, after).logs_in(self._root, "", ()), limit)
        ]

    def scan(self) -> dict[Ref, FileStat]:
        """Return the file status of all logs, including empty files; nothing if the root does not exist. Blocks.

        For a packed log, it is the status of the packed form.
        """
        return self._walk().all_in(self._root, "", ())

    def _walk(self, prefix: str = "", after: Ref = "") -> _Walk:
        """Return a walk, after replaying journals: a power cut may have lost the names of logs that they hold."""
        self._logs.check_open()
        try:
            self._replay.under(self._root)
        except (OSError, TreeringError) as error:
            logger().warning("replay_waits", ref=self._root, why=str(error))
        return _Walk(self._disk, self._root, self._unreadable, prefix, after)

    def look_at(self, ref: Ref) -> FileStat | None:
        """Return the file status of a log, or else of its packed form; None if neither exists."""
        self._logs.check_open()
        path = self._logs.names.path_of(ref)
        for suffix in ("", *SUFFIXES):
            if (stat := stat_if_exists(self._disk, path + suffix)) is not None:
                return None if stat.is_directory else _of_packed(stat) if suffix else stat
        return None

    def holds(self, ref: Ref) -> bool:
        """Tell whether there is a log of this name that holds more than the beginning of a header."""
        stat = self.look_at(ref)
        return stat is not None and holds_session(self._disk, self._logs.names.path_of(ref), stat.size)


class _Walk:
    """One walk through a root, for the logs whose refs have a prefix and sort after another ref."""

    def __init__(self, disk: Disk, root: str, unreadable: set[str], prefix: str, after: Ref) -> None:
        self._disk = disk
        self._root = root
        self._unreadable = unreadable
        self._prefix = prefix
        self._after = after

    def logs_in(self, folder: str, parent_ref: str, trail: Trail) -> Iterator[tuple[Ref, FileStat]]:
        """Yield the logs in a folder and below it. A folder sorts by its name with a slash, as the refs in it do."""
        logs, folders = self._found_in(folder, is_root=not parent_ref)
        for name in sorted((*logs, *folders)):
            ref = parent_ref + name
            if name in logs:
                if ref.startswith(self._prefix) and ref > self._after:
                    yield ref, logs[name]
            elif self._may_hold(ref) and (node := _node(folders[name])) not in trail:
                yield from self.logs_in(f"{folder}/{name[:-1]}", ref, (*trail, node))

    def all_in(self, folder: str, parent_ref: str, trail: Trail) -> dict[Ref, FileStat]:
        """Return all logs in a folder and below it, whatever their refs, in any order."""
        logs, folders = self._found_in(folder, is_root=not parent_ref)
        found = {parent_ref + name: stat for name, stat in logs.items()} if parent_ref else logs
        for name, stat in folders.items():
            if (node := _node(stat)) not in trail:
                found |= self.all_in(f"{folder}/{name[:-1]}", parent_ref + name, (*trail, node))
        return found

    def _found_in(self, folder: str, *, is_root: bool) -> tuple[dict[str, FileStat], dict[str, FileStat]]:
        """Return the logs that a folder holds, and its folders, by name; that of a folder ends in a slash."""
        logs: dict[str, FileStat] = {}
        folders: dict[str, FileStat] = {}
        packed: list[tuple[str, FileStat]] = []
        for name, stat, is_link in self._entries_in(folder, is_root=is_root):
            if name == PRIVATE_FOLDER or (is_link and self._is_second_name(f"{folder}/{name}", stat)):
                continue
            if stat.is_directory:
                folders[f"{name}/"] = stat
            elif name.endswith(SUFFIX):
                logs[name] = stat
            else:
                packed.append((name, stat))
        for name, stat in sorted(packed, key=itemgetter(0), reverse=True):  # ".zst" counts before ".gz"
            logs.setdefault(log_path(name), _of_packed(stat))
        return logs, folders

    def _may_hold(self, folder: str) -> bool:
        """Tell whether refs that begin with `folder` may have the prefix and sort after the other ref."""
        prefix, after = self._prefix, self._after
        has_prefix = folder.startswith(prefix) or prefix.startswith(folder)
        return has_prefix and (after.startswith(folder) or after < folder)

    def _is_second_name(self, path: str, stat: FileStat) -> bool:
        return is_second_name(self._disk, self._root, path, is_directory=stat.is_directory)

    def _entries_in(self, folder: str, *, is_root: bool) -> Sequence[tuple[str, FileStat, bool]]:
        """Return the entries of a folder; nothing if it does not exist, is not a folder, or may not be listed.

        Raises:
            PermissionError: The root may not be listed; for any other folder, this is logged the first time.
            OSError: The folder cannot be listed for another reason.
        """
        try:
            return self._list_entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            if is_root:
                raise
            if folder not in self._unreadable:
                self._unreadable.add(folder)
                logger().warning("folder_unreadable", path=folder, why=error.strerror or str(error))
            return ()

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


def _node(stat: FileStat) -> tuple[int, int]:
    """Return what a folder is recognized by, under any of its names."""
    return stat.device, stat.inode


def _of_packed(stat: FileStat) -> FileStat:
    """Return the status of a packed log, where an empty file, which is a damaged one, counts as a byte of a session."""
    return stat if stat.size else replace(stat, size=1)

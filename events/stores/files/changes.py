"""What changed in the files of logs, by their status alone: of all logs, of one, and of some that are watched.

The files and leaf records of watched logs are checked when the operating system notices a change, and now and then.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from ...disk import Disk, is_system_disk
from ...disk.notices import here
from ...disk.packed import SUFFIXES
from ..base import Ref, Stamp
from ..capabilities import Left
from .listing import Listing
from .logs import Logs
from .names import LEAF_SUFFIX

Status: TypeAlias = tuple[tuple[int, int, int, int] | None, tuple[int, int, int, int] | None]
"""The status of a log and of its leaf record: device, inode, size and time, or None for a file that does not exist."""


def status_of(disk: Disk, path: str) -> Status:
    """Return the status of a log, or else of its packed form, and of its leaf record."""
    forms = (_file_status(disk, path + suffix) for suffix in ("", *SUFFIXES))
    return next(filter(None, forms), None), _file_status(disk, path + LEAF_SUFFIX)


def _file_status(disk: Disk, path: str) -> tuple[int, int, int, int] | None:
    try:
        status = disk.stat(path)
    except OSError:
        return None
    return status.device, status.inode, status.size, status.modified_ns


class Changes:
    """The changes of one store's logs: its `ScansChanges` and `Watches`.

    Args:
        logs: The logs that are owned or read.
        listing: The logs that exist.
        poll_s: After how long a watch checks its files without a notification.
    """

    def __init__(self, logs: Logs, listing: Listing, poll_s: float) -> None:
        self._logs = logs
        self._listing = listing
        self._poll_s = poll_s

    def scan(self) -> dict[Ref, Stamp]:
        """Return the stamps of all logs under the root, those of their packed forms included; see `ScansChanges`."""
        found = self._listing.scan()
        return {ref: Stamp(status.size, status.modified_ns, status.inode) for ref, status in found.items()}

    def look_at(self, ref: Ref) -> Stamp | None:
        """Return the stamp of a log, or else of its packed form; None if neither exists."""
        status = self._listing.look_at(ref)
        return None if status is None else Stamp(status.size, status.modified_ns, status.inode)

    def reads_all(self, ref: Ref) -> bool:
        """Tell whether a read of a log through this store returns everything that its file holds.

        It does not while an append is in doubt or being flushed, nor if another program left a line without its newline
        in an owned log. In these cases, the status of the file does not describe what was read.
        """
        log = self._logs.owned.get(ref)
        return log is None or not (log.busy or log.doubt is not None or log.size > log.table.scanned)

    def left(self, ref: Ref) -> Left | None:
        """Return the state of an owned log after its last write; see `ScansChanges.left`."""
        log = self._logs.owned.get(ref)
        return None if log is None or log.busy or log.header is None else Left(log.head.seq, log.size, log.inode)

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield the logs whose files or leaf records may have changed since this call; see `Watches.watch`."""
        self._logs.check_open()
        paths = {ref: self._logs.names.path_of(ref) for ref in refs}
        owned = self._logs.owned
        unsettled = {ref for ref in refs if ref in owned and owned[ref].busy}
        return Watch(self._logs.disk, paths, self._poll_s, self._until_settled, unsettled).changes()

    async def _until_settled(self, ref: Ref) -> None:
        log = self._logs.owned.get(ref)
        if log is not None and log.busy:  # only once: later appends change the file again, and may never pause
            await self._logs.until_idle(log)


class Watch:
    """A watch of some logs, with their status at the last check.

    Args:
        paths: The paths of the logs, by ref.
        poll_s: After how long to check without a notification.
        until_settled: Waits until this store's appends to a log are committed. Until then, the file is ahead of the
            head, and the commit does not change the file again.
        unsettled: The logs to which an append is being committed now: the first check finds them changed.
    """

    def __init__(
        self,
        disk: Disk,
        paths: Mapping[Ref, str],
        poll_s: float,
        until_settled: Callable[[Ref], Awaitable[None]],
        unsettled: Collection[Ref],
    ) -> None:
        self._disk = disk
        self._until_settled = until_settled
        self._paths = paths
        self._poll_s = poll_s
        self._has_notices = is_system_disk(disk)
        self._statuses = {ref: None if ref in unsettled else status_of(disk, path) for ref, path in paths.items()}

    def changed(self) -> set[Ref]:
        """Check all logs, and return those that changed since the last check."""
        changed: set[Ref] = set()
        for ref, path in self._paths.items():
            status = status_of(self._disk, path)
            if status != self._statuses[ref]:
                self._statuses[ref] = status
                changed.add(ref)
        return changed

    async def changes(self) -> AsyncIterator[set[Ref]]:
        """Yield the logs that changed, whenever there are any."""
        with here().watching() as watch:
            while True:
                if self._has_notices:
                    watch.set_paths(chain.from_iterable(map(_to_watch, self._paths.values())))
                if changed := self.changed():
                    for ref in changed:
                        await self._until_settled(ref)
                    yield changed
                else:
                    await watch.wait(self._poll_s)


def _to_watch(path: str) -> tuple[str, ...]:
    """Return the paths whose changes concern a log.

    These are the log and its leaf record. If their folder does not exist, it is the topmost folder that is missing. If
    the log has several names, its changes may be reported under another one: everything in the folder concerns it.
    """
    missing, folder = path, os.path.dirname(path)
    while not os.path.isdir(folder):
        missing, folder = folder, os.path.dirname(folder)
    if missing != path:
        return (missing,)
    return (f"{folder}/",) if _has_several_names(path) else (path, path + LEAF_SUFFIX)


def _has_several_names(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or status.st_nlink > 1

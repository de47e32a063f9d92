"""What changed in the files of logs, by their status alone: of all logs, of one, and of some that are watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ...disk import FileStat
from ..base import Ref, Stamp
from ..capabilities import Left
from .listing import Listing
from .logs import Logs
from .watching import Watch


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
        return {ref: Stamp(stat.size, stat.modified_ns, stat.inode) for ref, stat in found.items()}

    def look_at(self, ref: Ref) -> Stamp | None:
        """Return the stamp of a log, or else of its packed form; None if neither exists."""
        stat = self._listing.look_at(ref)
        return None if stat is None else _stamp(stat)

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


def _stamp(stat: FileStat) -> Stamp:
    return Stamp(stat.size, stat.modified_ns, stat.inode)

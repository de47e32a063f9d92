"""The in-memory store: its logs end with the process.

It has every capability that needs no disk, so that a host behaves the same in memory. Stores that share a `Shelf` see
the same logs and exclude each other, like processes that use the same folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint
from msgspec.structs import replace

from ..dialects.base import Dialect
from ..errors import (
    Conflict,
    HostClosed,
    InvalidInput,
    InvalidSessionId,
    LogReplaced,
    SessionLocked,
    SessionNotFound,
    Where,
)
from ..offload import Offload, ThreadOffload
from .base import Append, Blob, BlobKind, Committed, Cursor, Fenced, Lease, LogInfo, Opening, Outcome, Page, Ref, Stamp
from .capabilities import (
    AppendsAtOnce,
    KeepsRows,
    Leases,
    Left,
    LooksAtOnce,
    NamesPlaces,
    NeverBlocks,
    Packs,
    ScansChanges,
    Watches,
    offered,
)
from .checks import check_header, check_kind, check_lines
from .search import KeepsSearch
from .shelf import MemoryLog, MemoryPeek, Shelf

T = TypeVar("T")

_NOWHERE = Cursor("", 0)

_CAPABILITIES = frozenset[object](
    {AppendsAtOnce, Leases, LooksAtOnce, NamesPlaces, NeverBlocks, Packs, ScansChanges, Watches}
)


class MemoryStore(Leases, LooksAtOnce, ScansChanges):
    """A store that keeps logs in memory; see `Store` for its guarantees.

    Args:
        shelf: The logs; by default, the store has its own shelf.
        offload: Runs blocking work; by default in threads.
    """

    def __init__(self, shelf: Shelf | None = None, *, offload: Offload | None = None) -> None:
        self._shelf = Shelf() if shelf is None else shelf
        self._offload: Offload = ThreadOffload() if offload is None else offload
        self._closed = False

    def capability(self, kind: Callable[..., T]) -> T | None:
        """Return what has a capability: this store, its shelf's rows, or a search index; see `Store.capability`."""
        if kind is KeepsRows:
            return offered(self._shelf.rows, kind, (KeepsRows,))
        if kind is KeepsSearch:
            from .search_database import SearchDatabase  # SQLite is only needed to search
            from .search_index import SearchIndex

            return offered(SearchIndex(SearchDatabase()), kind, (KeepsSearch,))
        return offered(self, kind, _CAPABILITIES)

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire the right to append; see `Store.acquire`."""
        self._check_open()
        if not all(refs):
            raise InvalidSessionId("the name of a log must not be empty")
        await cancel_shielded_checkpoint()
        return [self._acquire(ref, owner) for ref in refs]

    def _acquire(self, ref: Ref, owner: str) -> Lease | SessionLocked:
        log = self._shelf.logs.setdefault(ref, MemoryLog())
        if log.lease is not None:
            holder = log.lease[1].owner
            return SessionLocked(f"{ref} is owned by {holder}: open it read-only, or wait until the owner lets go")
        log.epoch = next(self._shelf.epochs)
        lease = Lease(ref, owner, log.epoch, log.head, log.header, log.dialect, packed=log.packed)
        log.lease = (self, lease)
        return lease

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Tell which leases are still held; they do not expire."""
        return [self._leased_log(lease) is not None for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`."""
        for lease in leases:
            if (log := self._leased_log(lease)) is not None:
                log.lease = None
                if log.header is None:
                    del self._shelf.logs[lease.ref]

    def _leased_log(self, lease: Lease) -> MemoryLog | None:
        log = self._shelf.logs.get(lease.ref)
        if log is None or log.lease is None:
            return None
        store, current = log.lease
        return log if store is self and (current.epoch, current.owner) == (lease.epoch, lease.owner) else None

    def _require_lease(self, lease: Lease) -> MemoryLog:
        self._check_open()
        log = self._leased_log(lease)
        if log is None:
            raise Conflict(f"the lease on {lease.ref} has ended: acquire the log again")
        return log

    # -- appending

    def try_append(self, append: Append) -> Outcome:
        """Append immediately; see `Store.try_append`.

        Raises:
            InvalidInput: A line is blank or does not end with its only newline, or the first append has no header.
        """
        self._check_open()
        log = self._leased_log(append.lease)
        if log is None:
            log = self._shelf.logs.get(append.lease.ref)
            return Fenced(_NOWHERE, append.lease.epoch) if log is None else Fenced(log.head, log.epoch)
        check_lines(append.lines)
        if append.expected_head != log.head or log.packed:
            return Fenced(log.head, log.epoch)
        if log.header is None:
            if append.header is None:
                raise InvalidInput(f"{append.lease.ref} does not exist yet: its first append needs a header block")
            self._begin(log, append.lease.ref, append.header, append.dialect)
        self._extend(log, append.lines)
        return Committed(log.head)

    def _begin(self, log: MemoryLog, ref: Ref, block: bytes, dialect: Dialect | None) -> None:
        found = check_header(block, ref)
        log.begin(next(self._shelf.numbers), bytes(block), found.header, dialect or found.dialect)

    def _extend(self, log: MemoryLog, lines: Sequence[bytes]) -> None:
        log.extend(lines)
        self._shelf.touch(log)

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append to logs; see `Store.append`."""
        for append in appends:
            check_lines(append.lines)
        outcomes = [self.try_append(append) for append in appends]
        await cancel_shielded_checkpoint()
        return outcomes

    async def resolve(self, lease: Lease) -> Cursor:
        """Return the end of the log; see `Store.resolve`."""
        return self._require_lease(lease).head

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """Open a log for reading; see `Store.open`."""
        log = self._existing_log(ref)
        assert log.header is not None
        assert log.dialect is not None
        return Opening(log.header, log.dialect, log.head)

    def peek(self, ref: Ref) -> MemoryPeek:
        """Open a log for a single read; see `LooksAtOnce.peek`."""
        return MemoryPeek(self._existing_log(ref))

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Return the positions of lines, as if the log were a file; see `NamesPlaces.places`."""
        return {seq: Where(ref, seq + 1) for seq in seqs}

    async def header_block(self, ref: Ref) -> bytes:
        """Return the header block of a log; see `Store.header_block`."""
        return self._existing_log(ref).block

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page; see `Store.read`."""
        return self._log_of_generation(ref, generation).page(after, through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`.

        Raises:
            InvalidInput: A line does not exist.
        """
        log = self._log_of_generation(ref, generation)
        if not all(0 < seq <= log.last for seq in seqs):
            raise InvalidInput(f"{ref} has only the lines 1 to {log.last}, and others were requested")
        lines = log.lines()
        return [lines[seq - 1] for seq in seqs]

    def _existing_log(self, ref: Ref) -> MemoryLog:
        self._check_open()
        log = self._shelf.logs.get(ref)
        if log is None or log.header is None:
            raise SessionNotFound(f"there is no session {ref!r} in memory, or no longer: load or create another one")
        return log

    def _log_of_generation(self, ref: Ref, generation: str) -> MemoryLog:
        log = self._existing_log(ref)
        if log.generation != generation:
            raise LogReplaced(f"{ref} was replaced: read it from the start")
        return log

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return data kept beside a log; see `Store.load`."""
        self._check_open()
        check_kind(kind)
        log = self._shelf.logs.get(ref)
        return None if log is None else log.beside.get(kind)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Save data beside a log; see `Store.save`.

        Raises:
            Conflict: The lease has ended, or the log has no such head.
        """
        check_kind(kind)
        log = self._require_lease(lease)
        if head.generation != log.generation or head.seq > log.last:
            raise Conflict(f"{lease.ref} has no head {head.seq}: read it again")
        log.beside[kind] = Blob(head, bytes(data))
        if kind == "leaf":
            self._shelf.wake(log)

    # -- whole logs

    async def remove(self, lease: Lease) -> None:
        """Delete a log and the data kept beside it; see `Store.remove`.

        Raises:
            Conflict: The lease has ended.
        """
        log = self._require_lease(lease)
        del self._shelf.logs[lease.ref]
        self._shelf.wake(log)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log atomically; see `Store.put`.

        Raises:
            Conflict: The lease has ended.
            InvalidInput: The header is not valid, or a line is not whole.
        """
        self._require_lease(lease)
        all_lines = lines if isinstance(lines, Sequence) else await self._offload(list, lines)
        check_lines(all_lines)
        log = self._require_lease(lease)
        self._begin(log, lease.ref, header, dialect)
        log.beside = {}
        self._extend(log, all_lines)
        return log.head

    @property
    def can_pack(self) -> bool:
        """See `Packs.can_pack`."""
        return True

    async def pack(self, lease: Lease) -> None:
        """Compress a log, and end its lease; see `Packs.pack`.

        Raises:
            Conflict: The lease has ended.
        """
        self._require_lease(lease).pack()
        await self.release([lease])

    async def unpack(self, lease: Lease) -> Lease:
        """Decompress a log; see `Packs.unpack`.

        Raises:
            Conflict: The lease has ended.
        """
        log = self._require_lease(lease)
        log.unpack()
        unpacked = replace(lease, head=log.head, header=log.header, dialect=log.dialect, packed=False)
        log.lease = (self, unpacked)
        return unpacked

    # -- all logs

    async def exists(self, ref: Ref) -> bool:
        """Return whether a log of this name exists; see `Store.exists`."""
        self._check_open()
        log = self._shelf.logs.get(ref)
        return log is not None and log.header is not None

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """List logs; see `Store.page`."""
        self._check_open()
        logs = self._shelf.logs
        refs = sorted(ref for ref in logs if ref.startswith(prefix) and ref > after and logs[ref].header is not None)
        return [LogInfo(ref, logs[ref].size, logs[ref].modified) for ref in refs[:limit]]

    def scan(self) -> dict[Ref, Stamp]:
        """Return the stamps of all logs; see `ScansChanges.scan`."""
        self._check_open()
        return {ref: log.stamp for ref, log in list(self._shelf.logs.items()) if log.header is not None}

    def look_at(self, ref: Ref) -> Stamp | None:
        """Return the stamp of one log; see `ScansChanges.look_at`."""
        self._check_open()
        log = self._shelf.logs.get(ref)
        return None if log is None or log.header is None else log.stamp

    def left(self, ref: Ref) -> Left | None:
        """Return how the owner of a log left it; see `ScansChanges.left`."""
        log = self._shelf.logs.get(ref)
        if log is None or log.header is None or log.lease is None or log.lease[0] is not self:
            return None
        return Left(log.last, log.size, log.number)

    def holder(self, ref: Ref) -> str | None:
        """Return who holds a log; see `Leases.holder`."""
        log = self._shelf.logs.get(ref)
        return None if log is None or log.lease is None else log.lease[1].owner

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield the logs that changed since the call; see `Watches.watch`."""
        self._check_open()
        return self._changes({ref: self._last_change(ref) for ref in refs})

    def _last_change(self, ref: Ref) -> int:
        log = self._shelf.logs.get(ref)
        return log.change if log is not None else 0

    async def _changes(self, seen: dict[Ref, int]) -> AsyncIterator[set[Ref]]:
        while True:
            latest = {ref: self._last_change(ref) for ref in seen}
            changed = {ref for ref, change in latest.items() if change != seen[ref]}
            seen = latest
            if changed:
                yield changed
            else:
                event = anyio.Event()
                self._shelf.wakeups.add(event)
                try:
                    await event.wait()
                finally:
                    self._shelf.wakeups.discard(event)

    # -- closing

    def _check_open(self) -> None:
        if self._closed:
            raise HostClosed("this store is closed: open another one")

    async def aclose(self) -> None:
        """Release all leases; the logs end with the last store on their shelf."""
        self._closed = True
        for ref, log in list(self._shelf.logs.items()):
            if log.lease is not None and log.lease[0] is self:
                log.lease = None
                if log.header is None:
                    del self._shelf.logs[ref]

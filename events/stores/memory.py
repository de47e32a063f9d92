"""The in-memory store: its logs end with the process.

It implements the same protocol as the file store, so that a host behaves the same in memory. Stores that share a
`Shelf` see the same logs and exclude each other, like processes that use the same folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeVar

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from ..dialects.base import Dialect
from ..entries import EPOCH, Header
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
from .base import Append, Blob, BlobKind, Committed, Cursor, Fenced, Lease, LogInfo, Opening, Outcome, Page, Ref
from .capabilities import AppendsAtOnce, LooksAtOnce, NamesPlaces, offered
from .checks import check_header, check_kind, check_lines

T = TypeVar("T")

PAGE = 1024 * 1024
"""The maximum size in bytes of a page with more than one line."""

_NOWHERE = Cursor("", 0)

_CAPABILITIES = frozenset[object]({AppendsAtOnce, LooksAtOnce, NamesPlaces})


class _Log:
    """One log: its lines, its owner, and the data kept beside it."""

    __slots__ = (
        "beside",
        "change",
        "dialect",
        "epoch",
        "generation",
        "header",
        "lease",
        "lines",
        "modified",
        "size",
    )

    def __init__(self) -> None:
        self.header: Header | None = None
        self.dialect: Dialect | None = None
        self.generation = ""
        self.lines: list[bytes] = []
        self.size = 0
        self.modified = EPOCH
        self.lease: tuple[MemoryStore, Lease] | None = None
        self.epoch = 0
        self.beside: dict[BlobKind, Blob] = {}
        self.change = 0

    @property
    def head(self) -> Cursor:
        return Cursor(self.generation, len(self.lines))


def _page(log: _Log, after: int, through: int | None) -> Page:
    end = len(log.lines)
    last = end if through is None else min(through, end)
    lines: list[bytes] = []
    size = 0
    for index in range(after, last):
        line = log.lines[index]
        size += len(line) + 1
        if lines and size > PAGE:
            break
        lines.append(line)
    return Page(after + 1, lines, after + len(lines) < end)


class MemoryPeek:
    """A log in memory, opened for a single read."""

    def __init__(self, log: _Log) -> None:
        assert log.header is not None
        assert log.dialect is not None
        self._log = log
        self.opening = Opening(log.header, log.dialect, log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return data kept beside the log; see `Store.load`."""
        return self._log.beside.get(kind)

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        return _page(self._log, after, None)


class Shelf:
    """The logs of one or more memory stores."""

    def __init__(self) -> None:
        self.logs: dict[Ref, _Log] = {}
        self.generations = count(1)
        self.epochs = count(1)
        self.wakeups: set[anyio.Event] = set()
        self._changes = count(1)
        self._time = datetime.now(UTC)

    def touch(self, log: _Log) -> None:
        """Note that a log changed, and wake its watchers."""
        self._time = max(self._time + timedelta(microseconds=1), datetime.now(UTC))
        log.modified = self._time
        self.wake(log)

    def wake(self, log: _Log) -> None:
        """Number a change of a log, and wake all watchers."""
        log.change = next(self._changes)
        wakeups, self.wakeups = self.wakeups, set()
        for event in wakeups:
            event.set()


class MemoryStore:
    """A store that keeps logs in memory; see `Store` for its guarantees.

    Args:
        shelf: The logs; by default, the store has its own shelf.
    """

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = Shelf() if shelf is None else shelf
        self._closed = False

    def capability(self, kind: Callable[..., T]) -> T | None:
        """Return this store as one of its capabilities; see `Store.capability`."""
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
        log = self._shelf.logs.setdefault(ref, _Log())
        if log.lease is not None:
            holder = log.lease[1].owner
            return SessionLocked(f"{ref} is owned by {holder}: open it read-only, or wait until the owner lets go")
        log.epoch = next(self._shelf.epochs)
        lease = Lease(ref, owner, log.epoch, log.head, log.header, log.dialect)
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

    def _leased_log(self, lease: Lease) -> _Log | None:
        log = self._shelf.logs.get(lease.ref)
        if log is None or log.lease is None:
            return None
        store, current = log.lease
        return log if store is self and (current.epoch, current.owner) == (lease.epoch, lease.owner) else None

    def _require_lease(self, lease: Lease) -> _Log:
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
        if append.expected_head != log.head:
            return Fenced(log.head, log.epoch)
        if log.header is None:
            if append.header is None:
                raise InvalidInput(f"{append.lease.ref} does not exist yet: its first append needs a header block")
            self._begin(log, append.lease.ref, append.header, append.dialect)
        self._extend(log, append.lines)
        return Committed(log.head)

    def _begin(self, log: _Log, ref: Ref, block: bytes, dialect: Dialect | None) -> None:
        detected = check_header(block, ref)
        log.header, log.dialect = detected.header, dialect or detected.dialect
        log.generation = f"m{next(self._shelf.generations)}"
        log.size = len(block)
        log.lines = []

    def _extend(self, log: _Log, lines: Sequence[bytes]) -> None:
        log.lines.extend(line[:-1].removesuffix(b"\r") for line in lines)
        log.size += sum(map(len, lines))
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

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page; see `Store.read`."""
        return _page(self._log_of_generation(ref, generation), after, through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`.

        Raises:
            InvalidInput: A line does not exist.
        """
        log = self._log_of_generation(ref, generation)
        if not all(0 < seq <= len(log.lines) for seq in seqs):
            raise InvalidInput(f"{ref} has only the lines 1 to {len(log.lines)}, and others were requested")
        return [log.lines[seq - 1] for seq in seqs]

    def _existing_log(self, ref: Ref) -> _Log:
        self._check_open()
        log = self._shelf.logs.get(ref)
        if log is None or log.header is None:
            raise SessionNotFound(f"there is no session {ref!r} in memory, or no longer: load or create another one")
        return log

    def _log_of_generation(self, ref: Ref, generation: str) -> _Log:
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
        if head.generation != log.generation or head.seq > len(log.lines):
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
        log = self._require_lease(lease)
        all_lines = list(lines)
        check_lines(all_lines)
        self._begin(log, lease.ref, header, dialect)
        log.beside = {}
        self._extend(log, all_lines)
        return log.head

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

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield the logs that changed since the call; see `Store.watch`."""
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

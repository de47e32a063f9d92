"""The store without files: logs that end with the process.

It keeps to the same protocol as the file store, so that a host in memory is the same host. Stores that share `Shelf`
see the same logs and exclude each other, as processes on one folder do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from ..dialects.base import Dialect
from ..dialects.detect import detect
from ..entries import EPOCH, Header
from ..errors import (
    Conflict,
    HostClosed,
    InvalidInput,
    InvalidSessionId,
    LogError,
    LogReplaced,
    SessionLocked,
    SessionNotFound,
    Where,
)
from .base import Append, Blob, BlobKind, Committed, Cursor, Fenced, Lease, LogInfo, Opening, Outcome, Page, Ref
from .blobs import check_kind
from .lines import check_lines

PAGE = 1024 * 1024
"""How many bytes of lines a page holds, where it holds more than one."""

_NOWHERE = Cursor("", 0)


class _Log:
    """One log: its lines, who owns it, what is kept beside it."""

    __slots__ = ("beside", "changed", "dialect", "epoch", "generation", "header", "lease", "lines", "modified", "size")

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
        self.changed = 0

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
    """One look at a log in memory."""

    def __init__(self, log: _Log) -> None:
        assert log.header is not None
        assert log.dialect is not None
        self._log = log
        self.opening = Opening(log.header, log.dialect, log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return what is kept beside the log; see `Store.load`."""
        return self._log.beside.get(kind)

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        return _page(self._log, after, None)


class Shelf:
    """The logs of one or several memory stores."""

    def __init__(self) -> None:
        self.logs: dict[Ref, _Log] = {}
        self.generations = count(1)
        self.epochs = count(1)
        self._changes = count(1)
        self.woken: set[anyio.Event] = set()
        self._time = datetime.now(UTC)

    def touch(self, log: _Log) -> None:
        """Note that a log changed, and wake those who watch."""
        self._time = max(self._time + timedelta(microseconds=1), datetime.now(UTC))
        log.modified = self._time
        self.wake(log)

    def wake(self, log: _Log) -> None:
        """Wake those who watch."""
        log.changed = next(self._changes)
        woken, self.woken = self.woken, set()
        for event in woken:
            event.set()


class MemoryStore:
    """Keeps logs in memory; see `Store` for what it promises.

    Args:
        shelf: The logs; a shelf of its own where it is not given.
    """

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = Shelf() if shelf is None else shelf
        self._closed = False

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Take the right to append; see `Store.acquire`."""
        self._check_open()
        if not all(refs):
            raise InvalidSessionId("the empty name names no log")
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
        """Tell which leases are still held; they do not run out."""
        return [self._held(lease) is not None for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back; see `Store.release`."""
        for lease in leases:
            if (log := self._held(lease)) is not None:
                log.lease = None
                if log.header is None:
                    del self._shelf.logs[lease.ref]

    def _held(self, lease: Lease) -> _Log | None:
        log = self._shelf.logs.get(lease.ref)
        if log is None or log.lease is None:
            return None
        store, mine = log.lease
        return log if store is self and (mine.epoch, mine.owner) == (lease.epoch, lease.owner) else None

    def _must_hold(self, lease: Lease) -> _Log:
        self._check_open()
        log = self._held(lease)
        if log is None:
            raise Conflict(f"the lease on {lease.ref} is over: acquire the log again")
        return log

    # -- appending

    def try_append(self, append: Append) -> Outcome:
        """Append at once; see `Store.try_append`.

        Raises:
            InvalidInput: A line is blank or does not end with its one newline, or a new log has no header.
        """
        self._check_open()
        log = self._held(append.lease)
        if log is None:
            there = self._shelf.logs.get(append.lease.ref)
            return Fenced(_NOWHERE, append.lease.epoch) if there is None else Fenced(there.head, there.epoch)
        check_lines(append.lines)
        if append.expected_head != log.head:
            return Fenced(log.head, log.epoch)
        if log.header is None:
            if append.header is None:
                raise InvalidInput(
                    f"{append.lease.ref} is not there yet: its first append has to bring the header block"
                )
            self._begin(log, append.lease.ref, append.header, append.dialect)
        self._extend(log, append.lines)
        return Committed(log.head)

    def _begin(self, log: _Log, ref: Ref, block: bytes, dialect: Dialect | None) -> None:
        try:
            detected = detect(block, ref)
        except LogError as error:
            raise InvalidInput(f"the header block is none: {error.message}") from error
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
        for each in appends:
            check_lines(each.lines)
        outcomes = [self.try_append(each) for each in appends]
        await cancel_shielded_checkpoint()
        return outcomes

    async def resolve(self, lease: Lease) -> Cursor:
        """Return where the log ends; see `Store.resolve`."""
        return self._must_hold(lease).head

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """Look at a log; see `Store.open`."""
        log = self._found(ref)
        assert log.header is not None
        assert log.dialect is not None
        return Opening(log.header, log.dialect, log.head)

    def peek(self, ref: Ref) -> MemoryPeek:
        """Look at a log without waiting; see `LocalStore.peek`."""
        return MemoryPeek(self._found(ref))

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Find where lines stand, as if the log were a file; see `LocalStore.places`."""
        return {seq: Where(ref, seq + 1) for seq in seqs}

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page; see `Store.read`."""
        return _page(self._same(ref, generation), after, through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`.

        Raises:
            InvalidInput: There is no such line.
        """
        log = self._same(ref, generation)
        if not all(0 < seq <= len(log.lines) for seq in seqs):
            raise InvalidInput(f"{ref} has the lines 1 to {len(log.lines)}, and not all of those that were asked for")
        return [log.lines[seq - 1] for seq in seqs]

    def _found(self, ref: Ref) -> _Log:
        self._check_open()
        log = self._shelf.logs.get(ref)
        if log is None or log.header is None:
            raise SessionNotFound(f"there is no session {ref!r} in memory: create it")
        return log

    def _same(self, ref: Ref, generation: str) -> _Log:
        log = self._found(ref)
        if log.generation != generation:
            raise LogReplaced(f"{ref} was replaced: read it from the start")
        return log

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return what was kept beside a log; see `Store.load`."""
        self._check_open()
        check_kind(kind)
        log = self._shelf.logs.get(ref)
        return None if log is None else log.beside.get(kind)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Keep something beside a log; see `Store.save`.

        Raises:
            Conflict: The lease is over, or the log has no such head.
        """
        check_kind(kind)
        log = self._must_hold(lease)
        if head.generation != log.generation or head.seq > len(log.lines):
            raise Conflict(f"{lease.ref} has no head {head.seq}: read it again")
        log.beside[kind] = Blob(head, bytes(data))
        if kind == "leaf":
            self._shelf.wake(log)

    # -- whole logs

    async def remove(self, lease: Lease) -> None:
        """Delete a log and what is kept beside it; see `Store.remove`.

        Raises:
            Conflict: The lease is over.
        """
        log = self._must_hold(lease)
        del self._shelf.logs[lease.ref]
        self._shelf.wake(log)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log in one step; see `Store.put`.

        Raises:
            Conflict: The lease is over.
            InvalidInput: The header is none, or a line is not whole.
        """
        log = self._must_hold(lease)
        whole = list(lines)
        check_lines(whole)
        self._begin(log, lease.ref, header, dialect)
        log.beside = {}
        self._extend(log, whole)
        return log.head

    async def exists(self, ref: Ref) -> bool:
        """Tell whether there is a log of this name; see `Store.exists`."""
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
        return self._changes({ref: self._changed(ref) for ref in refs})

    def _changed(self, ref: Ref) -> int:
        log = self._shelf.logs.get(ref)
        return log.changed if log is not None else 0

    async def _changes(self, seen: dict[Ref, int]) -> AsyncIterator[set[Ref]]:
        while True:
            now = {ref: self._changed(ref) for ref in seen}
            changed = {ref for ref, number in now.items() if number != seen[ref]}
            seen = now
            if changed:
                yield changed
            else:
                event = anyio.Event()
                self._shelf.woken.add(event)
                try:
                    await event.wait()
                finally:
                    self._shelf.woken.discard(event)

    # -- the end

    def _check_open(self) -> None:
        if self._closed:
            raise HostClosed("this store was closed: make another one")

    async def aclose(self) -> None:
        """Give back all leases; the logs end with the last store on their shelf."""
        self._closed = True
        for log in self._shelf.logs.values():
            if log.lease is not None and log.lease[0] is self:
                log.lease = None

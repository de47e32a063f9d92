"""Copying logs from one store to another, byte for byte.

A copy has the same names, headers, lines and seqs, and the same leaf record; only the generation is the target's own.
It goes page by page, and each page is durable before the next one is read, so a copy that was killed at any step can be
continued: what the target has already is compared with the source, and what it lacks is appended. Nothing in the target
is ever overwritten. What was appended is read back and compared.

What is derived is not copied: snapshots, checkpoints, rows of a listing, search indexes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import anyio.abc
from msgspec import Struct, field

from ..dialects.base import Dialect
from ..errors import Conflict, LogReplaced, TreeringError
from .base import Append, Committed, Cursor, Fenced, InDoubt, Lease, Opening, Ref, Store
from .capabilities import Leases, Packs, Recovers
from .waiting import acquired

AT_ONCE = 16
"""How many logs are copied at the same time."""

_NAMES = 1000
_TRIES_MAX = 3  # of a log that is replaced while it is read


class NotCopied(Struct, frozen=True):
    """A log that could not be copied, and why."""

    ref: Ref
    error: TreeringError | OSError


class CopyReport(Struct):
    """What a copy did.

    Attributes:
        logs: How many logs the target has now that are the same as in the source.
        added: To how many of them something was added.
        lines: How many lines were added.
        bytes: The size of these lines.
        failed: The logs that could not be copied.
    """

    logs: int = 0
    added: int = 0
    lines: int = 0
    bytes: int = 0
    failed: list[NotCopied] = field(default_factory=list[NotCopied])


async def copy_logs(
    source: Store,
    target: Store,
    *,
    prefix: str = "",
    at_once: int = AT_ONCE,
    note: Callable[[Ref], object] | None = None,
) -> CopyReport:
    """Copy logs from one store to another; what the target has already stays as it is, and is compared.

    The source may be in use: each log is copied up to where it ended when its turn came. A copy that ended early is
    continued by another call.

    Args:
        source: Where the logs are. Nothing is written there, but what dead owners left behind is brought back first.
        target: Where they shall be. Nobody else may own the logs there meanwhile.
        prefix: Only logs whose names begin so.
        at_once: How many logs are copied at the same time.
        note: Called with the name of each log when it is done, also if it failed.

    Returns:
        What was copied, and what could not be. A log of the target that holds other lines than the source's is left
        as it is, and counts as one that could not be copied.

    Raises:
        OSError: One of the stores cannot be listed or reached.
        TreeringError: The same.
    """
    for store in (source, target):
        recovers = store.capability(Recovers)
        if recovers is not None:
            await recovers.recover()
    copying = _Copying(source, target, note)
    names, waiting = anyio.create_memory_object_stream[Ref](at_once)
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as workers:
            tasks.start_soon(copying.keep_leases)
            for _ in range(at_once):
                workers.start_soon(copying.work, waiting.clone())
            waiting.close()
            workers.start_soon(copying.name_all, prefix, names)
        tasks.cancel_scope.cancel()
    return copying.report


class _Copying:
    """One copy.

    Args:
        source: Where the logs are.
        target: Where they shall be.
        note: Called with the name of each log that is done.
    """

    def __init__(self, source: Store, target: Store, note: Callable[[Ref], object] | None) -> None:
        self._source = source
        self._target = target
        self._note = note
        self._leases = target.capability(Leases)
        self._packs = target.capability(Packs)
        self._held: dict[Ref, Lease] = {}
        self._owner = f"{os.uname().nodename}:{os.getpid()}:copy"
        self.report = CopyReport()

    async def keep_leases(self) -> None:
        """Renew what is held, until cancelled; a lease that is lost shows at the next append."""
        if self._leases is None or not self._leases.lease_s:
            return
        while True:
            await anyio.sleep(self._leases.lease_s / 3)
            if self._held:
                await self._target.renew(list(self._held.values()))

    async def name_all(self, prefix: str, names: anyio.abc.ObjectSendStream[Ref]) -> None:
        """Send the names of all logs."""
        after = ""
        async with names:
            with suppress(anyio.BrokenResourceError):  # all workers failed, which their group raises
                while page := await self._source.page(prefix, after, _NAMES):
                    for info in page:
                        await names.send(info.ref)
                    after = page[-1].ref

    async def work(self, waiting: anyio.abc.ObjectReceiveStream[Ref]) -> None:
        """Copy the logs whose names arrive."""
        async with waiting:
            async for ref in waiting:
                try:
                    await self._copy(ref)
                except (TreeringError, OSError) as error:
                    self.report.failed.append(NotCopied(ref, error))
                if self._note is not None:
                    self._note(ref)

    async def _copy(self, ref: Ref) -> None:
        for tries in range(1, _TRIES_MAX + 1):
            opening = await self._source.open(ref)
            header = await self._source.header_block(ref)
            try:
                await self._copy_opened(ref, opening, header)
            except LogReplaced:
                if tries == _TRIES_MAX:
                    raise
            else:
                return

    async def _copy_opened(self, ref: Ref, opening: Opening, header: bytes) -> None:
        wait_s = 0 if self._leases is None else self._leases.wait_s
        lease = await acquired(self._target, ref, self._owner, wait_s)
        self._held[ref] = lease
        try:
            if lease.packed and self._packs is not None:
                lease = self._held[ref] = await self._packs.unpack(lease)
            log = _Log(self._source, self._target, ref, lease, opening, header)
            before = await log.compare()
            await log.add(before)
            await log.check(before)
            await log.copy_leaf()
        finally:
            with anyio.CancelScope(shield=True):
                await self._target.release([self._held.pop(ref)])
        self.report.logs += 1
        if log.lines or before.seq == 0:
            self.report.added += 1
        self.report.lines += log.lines
        self.report.bytes += log.bytes


class _Log:
    """One log that is copied, and owned in the target.

    Attributes:
        lines: How many lines were added.
        bytes: Their size.
    """

    def __init__(self, source: Store, target: Store, ref: Ref, lease: Lease, opening: Opening, header: bytes) -> None:
        self._source = source
        self._target = target
        self._ref = ref
        self._lease = lease
        self._from = opening.head
        self._dialect: Dialect = opening.dialect
        self._header = header
        self._head = lease.head
        self.lines = 0
        self.bytes = 0

    async def compare(self) -> Cursor:
        """Return where the target ends, if it is the beginning of the source.

        Raises:
            Conflict: It holds something else.
        """
        if self._lease.header is None:
            return self._head
        if await self._target.header_block(self._ref) != self._header:
            raise Conflict(f"{self._ref} has another header in the target: remove it there, or copy to another place")
        if self._head.seq > self._from.seq:
            raise Conflict(
                f"{self._ref} has {self._head.seq} lines in the target, and {self._from.seq} in the source: it was "
                f"continued there, so nothing was copied"
            )
        await self._compare(0, self._head.seq)
        return self._head

    async def add(self, after: Cursor) -> None:
        """Append what the target lacks, page by page.

        Raises:
            AppendError: The target does not take it.
        """
        seq = after.seq
        if self._lease.header is None and not self._from.seq:
            await self._append((), self._header)
        while seq < self._from.seq:
            page = await self._source.read(self._ref, self._from.generation, seq, through=self._from.seq)
            if not page.lines:
                raise LogReplaced(f"{self._ref} became shorter while it was copied: copy again")
            lines = tuple(line + b"\n" for line in page.lines)
            await self._append(lines, self._header if self._lease.header is None and seq == 0 else None)
            seq = page.last
            self.lines += len(lines)
            self.bytes += sum(map(len, lines))

    async def check(self, after: Cursor) -> None:
        """Read what was added back, and compare it.

        Raises:
            Conflict: It is not the same.
        """
        if after.seq == 0 and await self._target.header_block(self._ref) != self._header:
            raise Conflict(f"{self._ref} came out with another header than it has in the source")
        await self._compare(after.seq, self._from.seq)

    async def copy_leaf(self) -> None:
        """Copy the leaf record, if it counts: one for an earlier head does not."""
        leaf = await self._source.load(self._ref, "leaf")
        if leaf is None or leaf.head != self._from:
            return
        mine = await self._target.load(self._ref, "leaf")
        if mine is None or (mine.head, mine.data) != (self._head, leaf.data):
            await self._target.save(self._lease, "leaf", self._head, leaf.data)

    async def _append(self, lines: Sequence[bytes], header: bytes | None) -> None:
        append = Append(
            self._lease,
            self._head,
            tuple(lines),
            atomic=True,
            header=header,
            dialect=self._dialect if header is not None else None,
        )
        (outcome,) = await self._target.append([append])
        match outcome:
            case Committed(head) if head.seq == self._head.seq + len(lines):
                self._head = head
            case Committed() | Fenced():
                raise Conflict(f"another program wrote to {self._ref} in the target meanwhile: copy again")
            case InDoubt(error):
                raise error
            case failed:
                raise failed.error

    async def _compare(self, after: int, through: int) -> None:
        """Compare lines.

        Raises:
            Conflict: They differ.
        """
        seq = after
        theirs: list[bytes] = []
        while seq < through:
            page = await self._target.read(self._ref, self._head.generation, seq, through=through)
            while len(theirs) < len(page.lines):
                known = seq + len(theirs)
                more = await self._source.read(self._ref, self._from.generation, known, through=through)
                if not more.lines:
                    raise LogReplaced(f"{self._ref} became shorter while it was copied: copy again")
                theirs.extend(more.lines)
            if not page.lines:
                raise Conflict(f"{self._ref} became shorter in the target while it was copied: copy again")
            for number, line in enumerate(page.lines):
                if line != theirs[number]:
                    raise Conflict(
                        f"{self._ref} holds another line {seq + 1 + number} in the target than in the source: remove "
                        f"it there, or copy to another place"
                    )
            del theirs[: len(page.lines)]
            seq = page.last

"""The log that an actor owns: it writes what was decided, and notices what other programs did to the file.

It knows the lease, and whether the file must be looked at again. Mailbox and callers are the actor's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...events.errors import AppendFailed, AppendInDoubt, LeafMoved, LogReplaced, SessionNotFound
from ...events.stores.base import Append, Committed, Cursor, Lease, Outcome
from ..commands import Decision, MoveLeaf
from ..decide import decide_move
from ..host.runtime import Runtime
from .open_log import TRIES_MAX, OpenLog, encode_leaf

_SNAPSHOT_SHARE = 100
"""A snapshot is rewritten when one line in this many is new, since rewriting costs more the longer the log is."""


def outpaced_error() -> AppendFailed:
    """Return the error for a command that was decided anew too often."""
    return AppendFailed("another program keeps appending to this log: try again when it has stopped")


class OwnedLog:
    """A log, from the moment it is owned until it is released.

    Args:
        runtime: The host's seams.
        lease: The right to append to the log.
        log: The log, folded up to its end; its header is written with the first append if it does not exist.

    Attributes:
        log: The log: its index and access to its bodies. It is another object once the file has been replaced.
        lease: The right to append to it.
        stale: Whether `recover` must run before anything else is decided.
        gone: Whether the log did not exist any more when it was last looked at.
    """

    __slots__ = ("_runtime", "gone", "lease", "log", "stale")

    def __init__(self, runtime: Runtime, lease: Lease, log: OpenLog) -> None:
        self._runtime = runtime
        self.lease = lease
        self.log = log
        self.gone = False
        self.stale = lease.packed  # an archived log must be unpacked before an append

    @property
    def written(self) -> bool:
        """Whether the log exists, as far as is known."""
        return bool(self.log.generation)

    @property
    def archived(self) -> bool:
        """Whether the session is archived; any write brings it back first."""
        return self.log.index.info.archived is True

    @property
    def in_doubt(self) -> bool:
        """Whether the log is looked at again before the next command; an archived one is in any case."""
        return self.stale and not self.lease.packed

    # -- appending

    def request(self, group: Sequence[Decision]) -> Append:
        """Return the request to append the lines of decided commands; those of a single command land together."""
        log, first = self.log, group[0]
        lines = first.lines if len(group) == 1 else [line for each in group for line in each.lines]
        head = Cursor(log.generation, first.entries[0].seq - 1)
        atomic = len(lines) > 1 and len(group) == 1
        header = None if log.generation else log.dialect.encode_header(log.index.header)
        return Append(self.lease, head, tuple(lines), atomic, header, log.dialect)

    async def append(self, request: Append) -> Outcome:
        """Append what the store could not append without waiting."""
        (outcome,) = await self._runtime.store.append([request])
        return outcome

    def apply(self, group: Sequence[Decision], outcome: Committed, started: float) -> None:
        """Apply a committed write, which began at this time, to the state and to every view."""
        self.log.generation = outcome.head.generation
        size = count = 0
        for each in group:
            size += self.log.appended(each.entries, each.lines)
            count += len(each.entries)
        runtime = self._runtime
        runtime.counters.committed(count, size, runtime.timer() - started)
        if runtime.tracing is not None:
            runtime.tracing.written(group, started)
        if runtime.touched.listeners:
            runtime.touched.add(self.log.ref)

    # -- the leaf

    async def move_leaf(self, command: MoveLeaf) -> None:
        """Record a new leaf beside the log, and publish it.

        Raises:
            TreeringError: The command is refused, or the leaf could not be recorded.
            OSError: The log cannot be read.
        """
        seq = await self._save_leaf(command) if self.written else decide_move(self.log.index, command)
        self.log.index.move_leaf(seq)
        if self.log.feed is not None:
            self.log.publish_leaf()

    async def _save_leaf(self, command: MoveLeaf) -> int:
        """Record the new leaf beside the log, and return its seq."""
        for _ in range(TRIES_MAX):
            await self.recover()  # a line that another program appended before this would move the leaf again
            seq = decide_move(self.log.index, command)
            head = Cursor(self.log.generation, self.log.index.seen)
            try:
                await self._runtime.store.save(self.lease, "leaf", head, encode_leaf(command.leaf_id))
            except LeafMoved:
                continue  # another line was appended meanwhile
            except AppendInDoubt:
                await self.log.find_leaf()  # as the next process that opens the session would
                raise
            return seq
        raise outpaced_error()

    # -- changes by other programs

    async def recover(self) -> None:
        """Look at the log again after an error, another program's append, or an append in doubt.

        Raises:
            LogReplaced: Another log has taken its place; that one is served from now on.
            SessionNotFound: It was deleted; once there is a log again, that one is served.
        """
        packs = self._runtime.packs
        if self.lease.packed and packs is not None:
            try:
                self.lease = await packs.unpack(self.lease)
            except LogReplaced:
                self.lease = await packs.unpack(self.lease)  # only to get the lease on the other log
            else:  # the same lines; where a disk error hid which generation they had, they have another one now
                self.log.generation = self.lease.head.generation
        head = await self._runtime.store.resolve(self.lease)
        if not self.written and head.seq == 0 and not head.generation:
            self.stale = False
            return
        if head.generation != self.log.generation and self.log.generation:
            was_gone = self.gone
            await self._reopen()
            self.stale = self.gone = False
            if was_gone:
                return
            raise LogReplaced(f"{self.log.ref} was replaced or shortened by another program: read the session again")
        self.log.generation = head.generation
        seen, was_stale = self.log.index.seen, self.stale
        await self.log.catch_up()
        self.stale = self.gone = self.log.replaced = False
        if self._runtime.touched.listeners and (was_stale or self.log.index.seen != seen):
            self._runtime.touched.add(self.log.ref)

    async def _reopen(self) -> None:
        """Serve the log that has taken the old one's place.

        Raises:
            SessionNotFound: There is none.
        """
        old = self.log
        try:
            opening = await self._runtime.store.open(old.ref)
        except SessionNotFound as error:
            self.gone = old.replaced = True
            raise SessionNotFound(
                f"session {old.ref!r} was deleted by another program: load or create another one"
            ) from error
        log = OpenLog(self._runtime, old.ref, opening.header, opening.dialect, opening.head.generation)
        await log.catch_up()
        feed = old.feed
        old.attach(None)
        self.log = log
        log.attach(feed)
        if feed is not None:
            feed.reset(log.generation)

    # -- releasing

    async def save_snapshot(self) -> None:
        """Write a snapshot of the index if the log has grown enough since the last one."""
        index, snapshot_seq = self.log.index, self.log.snapshot_at
        enough = max(self._runtime.limits.snapshot_after_lines, snapshot_seq // _SNAPSHOT_SHARE)
        if index.head - snapshot_seq >= enough and self.written and not self.stale:
            dump = await self._runtime.offload(index.dump)
            await self._runtime.store.save(self.lease, "index", self.log.cursor, dump)

    async def release(self) -> None:
        """Give the log up; nothing else may be called afterwards."""
        await self._runtime.store.release([self.lease])

"""The rounds of durability "group": one write and one flush of the journal for all waiting appends.

No task or thread is dedicated to rounds. The first append that joins a round leads it: it waits for the previous round,
lets every append join that is ready, has a worker thread write and flush the journal, and wakes the others. Appends
that arrive in the meantime join the next round.

A journal is retired when it is full or when writing it failed. Before the next round, the session files that it covers
are flushed and the journal is dropped; appends wait for that. So a journal, and with it the work of a replay after a
power cut, is limited to `max_bytes` plus one round. If a session file cannot be flushed, its session is in doubt, and
the journal is kept until the file has been written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from anyio import CancelScope, Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint

from ...disk import Disk, flush_file
from ...errors import AppendInDoubt, LogError, SessionLocked
from ...offload import Offload, carried_out
from ...telemetry import logger
from ..base import Committed, Cursor, InDoubt, Outcome
from . import journal
from .head import read_head
from .journal import JOURNALS, Record, Segment
from .locks import Held, Locks
from .log import Log
from .logs import Logs
from .names import Names
from .open_files import OpenFiles
from .released import ReleasedLogs
from .syncer import Syncer


class LandedAppend:
    """An append that was written to its session file, but is not durable yet.

    Attributes:
        log: The session's log, which is busy until the round is settled.
        lines: The lines.
        block: The header block, if the append created the file.
        offset: Where in the file the lines begin; 0 if the append created it.
        before: The head before the append.
        head: The head after the append.
        outcome: The outcome to return to the caller.
    """

    __slots__ = ("before", "block", "head", "lines", "log", "offset", "outcome")

    def __init__(
        self, log: Log, lines: tuple[bytes, ...], block: bytes, offset: int, before: Cursor, committed: Committed
    ) -> None:
        self.log = log
        self.lines = lines
        self.block = block
        self.offset = offset
        self.before = before
        self.head = committed.head
        self.outcome: Outcome = committed


class Round:
    """Appends that become durable together.

    Attributes:
        landed: The appends.
        done: Set when the round is settled.
        settled: Whether the outcomes of all appends are final.
        error: Why it is uncertain that the appends are durable; None if they are.
    """

    __slots__ = ("done", "error", "landed", "settled")

    def __init__(self) -> None:
        self.landed: list[LandedAppend] = []
        self.done = Event()
        self.settled = False
        self.error: BaseException | None = None


class _Journal:
    """A journal of this host, and the files and folders that depend on it.

    Attributes:
        segment: The journal file.
        held: Its lock.
        dirty: The refs of the sessions with records in it, by path.
        folders: The folders to flush before it can be dropped.
        failed: The files and folders that could not be flushed.
    """

    __slots__ = ("dirty", "failed", "folders", "held", "segment")

    def __init__(self, segment: Segment, held: Held) -> None:
        self.segment = segment
        self.held = held
        self.dirty: dict[str, str] = {}
        self.folders: set[str] = set()
        self.failed: set[str] = set()


class GroupCommitter:
    """The journal writer of one store, which makes appends durable in rounds.

    Args:
        disk: The disk.
        names: The names of the store's logs; it provides the root.
        logs: The logs of the store.
        released: The logs that it released.
        open_files: The pool of open files.
        locks: Keep other hosts from replaying a journal that is in use.
        offload: Runs the rounds.
        syncer: Flushes the session files when a journal is full.
        max_bytes: The size at which a journal is full; one round may exceed it.
        new_id: Returns a unique id for each journal.

    Attributes:
        paths: The journals of this host.
    """

    def __init__(
        self,
        disk: Disk,
        names: Names,
        logs: Logs,
        released: ReleasedLogs,
        open_files: OpenFiles,
        locks: Locks,
        offload: Offload,
        syncer: Syncer,
        max_bytes: int,
        new_id: Callable[[], str],
    ) -> None:
        self._disk = disk
        self._names = names
        self._logs = logs
        self._released = released
        self._open_files = open_files
        self._locks = locks
        self._offload = offload
        self._syncer = syncer
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._prefix = names.root.rstrip("/") + "/"
        self._folder = self._prefix + JOURNALS
        self._gathering: Round | None = None
        self._running: Round | None = None
        self._journal: _Journal | None = None
        self._kept: list[_Journal] = []
        self._encoded: dict[str, bytes] = {}
        self.paths: set[str] = set()

    def covers(self, log: Log) -> bool:
        """Tell whether a log lies under the root, so that its appends can go to the journal."""
        return log.path.startswith(self._prefix)

    # -- rounds

    async def commit(self, landed: Sequence[LandedAppend]) -> None:
        """Make appends durable; when this returns, their round is settled."""
        batch = self._gathering
        if batch is not None:
            batch.landed += landed
            try:
                await batch.done.wait()
            except get_cancelled_exc_class() as error:
                await self._finish_round(batch, error, leads=False)
            return
        batch = self._gathering = Round()
        batch.landed += landed
        await self._finish_round(batch, None, leads=True)

    async def _finish_round(self, batch: Round, cancellation: BaseException | None, *, leads: bool) -> None:
        """Lead a round or wait for it, even if the caller is cancelled."""
        with CancelScope(shield=True):
            while not batch.settled:
                try:
                    if leads:
                        await self._lead(batch)
                    else:
                        await batch.done.wait()
                except get_cancelled_exc_class() as error:
                    cancellation = error
        if cancellation is not None and current_effective_deadline() != float("-inf"):
            raise cancellation  # that of a cancelled scope is delivered again, after the caller received its outcome

    async def _lead(self, batch: Round) -> None:
        while self._running is not None and self._running is not batch:
            await self._running.done.wait()
        self._running = batch
        await cancel_shielded_checkpoint()  # lets all appends that are ready join
        try:
            current = self._journal
            if current is not None and (current.segment.broken or current.segment.size >= self._max_bytes):
                await self.checkpoint()
            if self._gathering is batch:
                self._gathering = None
            await carried_out(self._offload, self._carry_out, batch)
        except get_cancelled_exc_class():
            if self._gathering is not batch:  # the round was carried out nevertheless
                self._settle(batch)
            raise
        except BaseException as error:
            batch.error = error
            self._settle(batch)
            if not isinstance(error, Exception):
                raise
        else:
            self._settle(batch)

    def _settle(self, batch: Round) -> None:
        """Apply the result of a round to its logs, and wake the appends that wait for it."""
        if self._gathering is batch:
            self._gathering = None
        for each in batch.landed:
            log = each.log
            if batch.error is None:
                log.head = each.head
            else:
                self._note_doubt(each, batch.error)
            log.busy = False
            if log.idle is not None:
                log.idle.set()
                log.idle = None
        self._running = None
        batch.settled = True
        batch.done.set()

    def _note_doubt(self, landed: LandedAppend, error: BaseException) -> None:
        log = landed.log
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        log.doubt = AppendInDoubt(
            f"{log.path}: the journal could not be written ({reason}); "
            "check the disk, then retry with the same command id"
        )
        log.doubt.__cause__ = error
        log.unjournaled = True
        landed.outcome = InDoubt(log.doubt)
        self._open_files.drop(log)
        log.roll_back(landed.before, landed.offset)

    # -- in a worker thread

    def _carry_out(self, batch: Round) -> None:
        try:
            self._write(batch.landed)
        except BaseException as error:  # noqa: BLE001  # reported to the callers, not raised in the thread
            batch.error = error

    def _write(self, landed: Sequence[LandedAppend]) -> None:
        current = self._journal
        if current is None:
            current = self._journal = self._create_journal()
        current.segment.write(self._records(current, landed))

    def _records(self, current: _Journal, landed: Sequence[LandedAppend]) -> Iterator[Record]:
        """Yield the journal records of appends, and note which files they cover."""
        dirty, encoded = current.dirty, self._encoded
        for each in landed:
            log, block = each.log, each.block
            path = log.path
            name = encoded.get(path)
            if name is None:
                name = encoded[path] = journal.encoded_name(path.removeprefix(self._prefix))
            if path not in dirty:
                dirty[path] = log.ref
                block = block or self._block_of(log)
            if log.unflushed_folders.pending:
                current.folders.update(log.unflushed_folders.pending)
            seq, generation = each.before.seq + 1, each.head.generation
            yield Record(name, each.offset, block, each.lines, seq, log.epoch, generation)

    def _block_of(self, log: Log) -> bytes:
        """Return a log's header block, which a replay needs to recreate a file whose name was lost."""
        try:
            with log.opened(os.O_RDONLY) as fd:
                return read_head(self._disk, fd, log.path, log.size)[1]
        except (OSError, LogError):
            return b""

    def _create_journal(self) -> _Journal:
        """Create a new journal; it is locked before its file exists.

        Raises:
            OSError: The journal cannot be created.
        """
        self._disk.make_directory(self._folder)
        root = self._names.root
        flush = [self._folder, os.path.dirname(self._folder), root]
        if root not in self._names.durable_folders:
            flush.append(os.path.dirname(root))
        for path in journal.free_paths(self._folder):
            held = self._locks.take(path)
            if isinstance(held, SessionLocked):
                continue
            segment = Segment(self._disk, path, self._new_id())
            try:
                segment.begin(flush)
            except FileExistsError:
                self._locks.give_back(held)
                continue
            except BaseException:
                self._locks.give_back(held)
                raise
            self._names.durable_folders.add(root)
            self.paths.add(path)
            return _Journal(segment, held)
        raise AssertionError("unreachable")

    # -- checkpoints

    async def checkpoint(self) -> None:
        """Flush the files of all sessions that the journal covers, and retire it."""
        retired = self._journal
        if retired is None:
            return
        cancellation: BaseException | None = None
        jobs = [_Flush(self._disk, path) for path in retired.dirty]
        try:
            await self._syncer.run(jobs)
        except get_cancelled_exc_class() as error:  # the jobs were completed nevertheless
            cancellation = error
        for job in jobs:
            if job.error is not None:
                retired.failed.add(job.path)
                self._note_flush_failure(job.path, retired.dirty[job.path], job.error)
        self._journal = None
        self._encoded.clear()
        try:
            await carried_out(self._offload, self._retire, retired)
        except get_cancelled_exc_class() as error:
            cancellation = error
        if cancellation is not None:
            raise cancellation

    def _note_flush_failure(self, path: str, ref: str, error: BaseException) -> None:
        """Note that a session file could not be flushed: its bytes have to be written again.

        The next flush may succeed without them.
        """
        log = self._logs.owned.get(ref)
        logger().warning("checkpoint_failed", ref=ref, error=str(error))
        if log is None or log.path != path:
            self._released.note_not_flushed(path)
            return
        self.note_unflushed(log, error)

    def note_unflushed(self, log: Log, error: BaseException) -> None:
        """Note that a log could not be flushed: its bytes have to be written again before the next append."""
        log.unsynced = True
        log.note_background_doubt(AppendInDoubt(f"{log.path} could not be flushed ({error}): check the disk"))
        if not log.busy:
            self._open_files.drop(log)

    def _retire(self, retired: _Journal) -> None:
        """Close a journal, flush its folders, and drop it unless something could not be flushed."""
        retired.segment.close()
        for folder in sorted(retired.folders):
            try:
                self._disk.sync_directory(folder)
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                retired.failed.add(folder)
                logger().warning("checkpoint_failed", folder=folder, error=str(error))
        if retired.failed:
            self._kept.append(retired)
        else:
            self._drop(retired)

    def _drop(self, retired: _Journal) -> None:
        try:
            journal.drop(self._disk, [retired.segment.path])
        except OSError as error:
            logger().warning("journal_not_dropped", journal=retired.segment.path, error=str(error))
        self.paths.discard(retired.segment.path)
        self._locks.give_back(retired.held)

    def note_durable(self, path: str) -> None:
        """Note that a session file is durable now, and drop the journals that were kept only for it."""
        for retired in list(self._kept):
            retired.failed.discard(path)
            if not retired.failed:
                self._kept.remove(retired)
                self._drop(retired)

    # -- closing

    async def aclose(self) -> None:
        """Flush all files and drop the journal; if a file cannot be flushed, its journal stays for the next host."""
        while self._running is not None:
            await self._running.done.wait()
        await self.checkpoint()
        for retired in self._kept:
            self._locks.give_back(retired.held)
        self._kept.clear()
        self.paths.clear()

    def leave_to_parent(self) -> None:
        """Close the journal in a forked child."""
        if self._journal is not None:
            self._journal.segment.close()
            self._journal = None


class _Flush:
    """A job that flushes one file in a worker thread."""

    __slots__ = ("_disk", "error", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            flush_file(self._disk, self.path)
        except FileNotFoundError:
            pass  # the session was deleted
        except BaseException as error:  # noqa: BLE001  # reported for the session, not raised in the thread
            self.error = error

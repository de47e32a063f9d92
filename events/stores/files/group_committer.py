"""The rounds of durability "group": one write and one flush of the journal for all appends that wait.

There is no task and no thread of its own here. The first append that joins a round leads it: waits for the round before,
lets everyone join who is ready to, has a worker thread write and flush the journal, and tells the others. What arrives
meanwhile joins the next round.

A journal is given up when it is full or when the disk failed it. Before the next round, the sessions' files that it
speaks of are flushed, and it is dropped; appends wait for that. So a journal is `max_bytes` and one round long at most,
and so is what has to be replayed after a power cut. Where a session's file cannot be flushed, its journal stays until the
file was written again, and the session is in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from anyio import CancelScope, Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint

from ...disk import Disk
from ...errors import AppendInDoubt, LogError, SessionLocked
from ...offload import Offload, carried_out
from ...telemetry import logger
from ..base import Committed, Cursor, InDoubt, Outcome
from . import journal
from .beside import flush_file
from .head import read_head
from .journal import JOURNALS, Record, Segment
from .locks import Held, Locks
from .log import Log
from .logs import Logs
from .names import Names
from .open_files import OpenFiles
from .syncer import Syncer


class Landed:
    """An append whose bytes are in its session's file, and which is to be made durable.

    Attributes:
        log: The session's log, which is busy until this is settled.
        lines: The lines.
        block: The header block, where they made the file.
        offset: Where in the file they begin; 0 where they made it.
        before: The head before them.
        head: The head with them.
        outcome: What to answer.
    """

    __slots__ = ("before", "block", "head", "lines", "log", "offset", "outcome")

    def __init__(
        self, log: Log, lines: tuple[bytes, ...], block: bytes, offset: int, before: Cursor, head: Committed
    ) -> None:
        self.log = log
        self.lines = lines
        self.block = block
        self.offset = offset
        self.before = before
        self.head = head.head
        self.outcome: Outcome = head


class Round:
    """Appends that become durable together.

    Attributes:
        landed: The appends.
        settled: All is said and done.
        error: Why nobody knows whether they are durable.
    """

    __slots__ = ("done", "error", "landed", "settled")

    def __init__(self) -> None:
        self.landed: list[Landed] = []
        self.done = Event()
        self.settled = False
        self.error: BaseException | None = None


class _Journal:
    """A journal of this host, and what it keeps safe."""

    __slots__ = ("dirty", "failed", "folders", "held", "segment")

    def __init__(self, segment: Segment, held: Held) -> None:
        self.segment = segment
        self.held = held
        self.dirty: dict[str, str] = {}  # refs, by path
        self.folders: set[str] = set()
        self.failed: set[str] = set()


class GroupCommitter:
    """Makes appends durable in rounds.

    Args:
        disk: The disk.
        names: The root.
        logs: Who owns what.
        open_files: The open files.
        locks: Keep other hosts from a journal that is in use.
        offload: Where rounds are carried out.
        syncer: Flushes the sessions' files when a journal is full.
        max_bytes: How long a journal becomes, but for one round.
        new_id: Gives what tells the journals apart.

    Attributes:
        paths: The journals of this host.
    """

    def __init__(
        self,
        disk: Disk,
        names: Names,
        logs: Logs,
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
        self._open_files = open_files
        self._locks = locks
        self._offload = offload
        self._syncer = syncer
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._under = names.root.rstrip("/") + "/"
        self._folder = self._under + JOURNALS
        self._gathering: Round | None = None
        self._running: Round | None = None
        self._journal: _Journal | None = None
        self._kept: list[_Journal] = []
        self._encoded: dict[str, bytes] = {}
        self.paths: set[str] = set()

    def covers(self, log: Log) -> bool:
        """Tell whether a log lies under the root, so that its appends can go to the journal."""
        return log.path.startswith(self._under)

    # -- rounds

    async def commit(self, landed: Sequence[Landed]) -> None:
        """Make appends durable; when this returns, their round is settled."""
        joined = self._gathering
        if joined is not None:
            joined.landed += landed
            try:
                await joined.done.wait()
            except get_cancelled_exc_class() as error:
                await self._outlast(joined, error, leads=False)
            return
        joined = self._gathering = Round()
        joined.landed += landed
        await self._outlast(joined, None, leads=True)

    async def _outlast(self, joined: Round, interruption: BaseException | None, *, leads: bool) -> None:
        """Lead a round or wait for it, whatever becomes of the caller."""
        with CancelScope(shield=True):
            while not joined.settled:
                try:
                    if leads:
                        await self._lead(joined)
                    else:
                        await joined.done.wait()
                except get_cancelled_exc_class() as error:
                    interruption = error
        if interruption is not None and current_effective_deadline() != float("-inf"):
            raise interruption  # a scope's comes again, after the caller has learnt what became of it

    async def _lead(self, led: Round) -> None:
        while self._running is not None and self._running is not led:
            await self._running.done.wait()
        self._running = led
        await cancel_shielded_checkpoint()  # whoever is ready joins
        try:
            current = self._journal
            if current is not None and (current.segment.broken or current.segment.size >= self._max_bytes):
                await self.checkpoint()
            if self._gathering is led:
                self._gathering = None
            await carried_out(self._offload, self._carry_out, led)
        except get_cancelled_exc_class():
            if self._gathering is not led:  # the round was carried out all the same
                self._settle(led)
            raise
        except BaseException as error:
            led.error = error
            self._settle(led)
            if not isinstance(error, Exception):
                raise
        else:
            self._settle(led)

    def _settle(self, led: Round) -> None:
        """Take note of what became of a round, and tell those who wait for it."""
        if self._gathering is led:
            self._gathering = None
        for each in led.landed:
            log = each.log
            if led.error is None:
                log.head = each.head
            else:
                self._doubt(each, led.error)
            log.busy = False
            if log.idle is not None:
                log.idle.set()
                log.idle = None
        self._running = None
        led.settled = True
        led.done.set()

    def _doubt(self, each: Landed, error: BaseException) -> None:
        log = each.log
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        log.doubt = AppendInDoubt(
            f"{log.path}: the journal could not be written ({reason}); see to the disk, then retry with the same command id"
        )
        log.doubt.__cause__ = error
        log.unjournaled = True
        each.outcome = InDoubt(log.doubt)
        self._open_files.drop(log)
        log.take_back(each.before, each.offset)

    # -- in a worker thread

    def _carry_out(self, led: Round) -> None:
        try:
            self._write(led.landed)
        except BaseException as error:  # noqa: BLE001  # it belongs to the callers, not to the thread
            led.error = error

    def _write(self, landed: Sequence[Landed]) -> None:
        current = self._journal
        if current is None:
            current = self._journal = self._begin()
        current.segment.write(self._records(current, landed))

    def _records(self, current: _Journal, landed: Sequence[Landed]) -> Iterator[Record]:
        """Yield what a journal is to say of appends, and note which files it speaks of."""
        dirty, encoded = current.dirty, self._encoded
        for each in landed:
            log, block = each.log, each.block
            path = log.path
            name = encoded.get(path)
            if name is None:
                name = encoded[path] = journal.encoded_name(path.removeprefix(self._under))
            if path not in dirty:
                dirty[path] = log.ref
                block = block or self._block_of(log)
            if log.unnamed:
                current.folders.update(log.unnamed)
            seq, generation = each.before.seq + 1, each.head.generation
            yield Record(name, each.offset, block, each.lines, seq, log.epoch, generation)

    def _block_of(self, log: Log) -> bytes:
        """Return a log's header block; without it, a log whose name is lost could not be made anew."""
        try:
            with log.opened(os.O_RDONLY) as fd:
                return read_head(self._disk, fd, log.path, log.size)[1]
        except (OSError, LogError):
            return b""

    def _begin(self) -> _Journal:
        """Make a journal that nobody has; it is locked before it is there.

        Raises:
            OSError: It cannot be made.
        """
        self._disk.make_directory(self._folder)
        root = self._names.root
        flush = [self._folder, os.path.dirname(self._folder), root]
        if root not in self._names.named:
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
            self._names.named.add(root)
            self.paths.add(path)
            return _Journal(segment, held)
        raise AssertionError("unreachable")

    # -- checkpoints

    async def checkpoint(self) -> None:
        """Flush the files of all sessions that the journal speaks of, and be done with it."""
        done = self._journal
        if done is None:
            return
        interruption: BaseException | None = None
        jobs = [_Flush(self._disk, path) for path in done.dirty]
        try:
            await self._syncer.run(jobs)
        except get_cancelled_exc_class() as error:  # and yet it was carried out
            interruption = error
        for job in jobs:
            if job.error is not None:
                done.failed.add(job.path)
                self._distrust(job.path, done.dirty[job.path], job.error)
        self._journal = None
        self._encoded.clear()
        try:
            await carried_out(self._offload, self._finish, done)
        except get_cancelled_exc_class() as error:
            interruption = error
        if interruption is not None:
            raise interruption

    def _distrust(self, path: str, ref: str, error: BaseException) -> None:
        """Have a session's bytes written again, since its next flush may succeed without them."""
        log = self._logs.owned.get(ref)
        logger().warning("checkpoint_failed", ref=ref, error=str(error))
        if log is None or log.path != path:
            self._logs.unsynced[path] = 0
            return
        self.distrust(log, error)

    def distrust(self, log: Log, error: BaseException) -> None:
        """Have the bytes of a log that could not be flushed written again before anything is appended to it."""
        log.unsynced = True
        log.distrust(AppendInDoubt(f"{log.path} could not be flushed ({error}): see to the disk"))
        if not log.busy:
            self._open_files.drop(log)

    def _finish(self, done: _Journal) -> None:
        """Flush folders, and drop a journal that is of no use any more."""
        done.segment.close()
        for folder in sorted(done.folders):
            try:
                self._disk.sync_directory(folder)
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                done.failed.add(folder)
                logger().warning("checkpoint_failed", folder=folder, error=str(error))
        if done.failed:
            self._kept.append(done)
        else:
            self._drop(done)

    def _drop(self, done: _Journal) -> None:
        try:
            journal.drop(self._disk, [done.segment.path])
        except OSError as error:
            logger().warning("journal_not_dropped", journal=done.segment.path, error=str(error))
        self.paths.discard(done.segment.path)
        self._locks.give_back(done.held)

    def written_again(self, path: str) -> None:
        """Drop the journals that were kept for a file which is durable now."""
        for kept in list(self._kept):
            kept.failed.discard(path)
            if not kept.failed:
                self._kept.remove(kept)
                self._drop(kept)

    # -- the end

    async def aclose(self) -> None:
        """Flush all files and drop the journal; where a file cannot be flushed, its journal stays for the next host."""
        while self._running is not None:
            await self._running.done.wait()
        await self.checkpoint()
        for kept in self._kept:
            self._locks.give_back(kept.held)
        self._kept.clear()
        self.paths.clear()

    def leave_to_parent(self) -> None:
        """Close the journal, in a forked child."""
        if self._journal is not None:
            self._journal.segment.close()
            self._journal = None


class _Flush:
    """One file that a worker thread flushes."""

    __slots__ = ("_disk", "error", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            flush_file(self._disk, self.path)
        except FileNotFoundError:
            pass  # it was removed, and what was in it with it
        except BaseException as error:  # noqa: BLE001  # it belongs to the session, not to the thread
            self.error = error

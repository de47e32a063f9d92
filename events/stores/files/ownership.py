"""Acquiring and releasing logs: the locks, and what has to be certain about a file before it is appended to."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from ...disk.disk import is_slow_folder, opened
from ...disk.disk_errors import opening_log, refusing_to_write, refusing_when_full
from ...disk.packed import packed_forms
from ...errors import Conflict, LogDamaged, NotASession, SessionLocked
from ...offload import carried_out, seen_through
from ..base import Cursor, Lease, Ref
from . import packing
from .durability.flushing import ReleasedLogs, flush_unjournaled, make_durable, resolve, write_again
from .durability.group_committer import GroupCommitter
from .durability.journal_replay import JournalReplay
from .locks import Held, Locks
from .log.log import Log
from .logs import Logs

_READ_INSTEAD = "; what exists can be loaded with `read_only=True`"
_FOLDERS_MAX = 4096


class Ownership:
    """The owned logs of one store, with their leases and locks.

    Args:
        locks: Decide who owns a log.
        replay: Restores the logs that journals hold.
        released: What is known about logs that were owned before.
        group: The rounds of the journal, under durability "group".
        sync: Whether appends are to survive a power cut.
    """

    def __init__(
        self,
        logs: Logs,
        locks: Locks,
        replay: JournalReplay,
        released: ReleasedLogs,
        group: GroupCommitter | None,
        *,
        sync: bool,
    ) -> None:
        self._disk = logs.disk
        self._names = logs.names
        self._logs = logs
        self._locks = locks
        self._replay = replay
        self._released = released
        self._group = group
        self._sync = sync
        self._slow_folders: dict[str, bool] = {}  # whether what is in them may block

    # -- acquiring

    async def acquire(self, refs: Sequence[Ref], owner: str, *, at_once: bool) -> list[Lease | SessionLocked]:
        """Acquire logs; see `FileStore.acquire`.

        Args:
            owner: Who acquires them.
            at_once: Whether a single log may be acquired on the event loop, if that does not take long.
        """
        targets = [(ref, self._names.path_of(ref)) for ref in refs]
        results: list[Log | SessionLocked] = []
        try:
            if not (at_once and len(targets) == 1 and self._own_at_once(targets, results)):
                await carried_out(self._logs.offload, self._own_all, targets, results)
            self._logs.check_open()  # it may have been closed meanwhile, which gave back the locks
        except BaseException:
            for result in results:
                if isinstance(result, Log) and result.held is not None:
                    self._locks.give_back(result.held)
            raise
        return [self.lease(result, owner) if isinstance(result, Log) else result for result in results]

    def lease(self, log: Log, owner: str) -> Lease:
        """Return a lease on a log that is locked."""
        lease = Lease(log.ref, owner, log.epoch, log.head, log.header, log.dialect, log.torn, log.packed is not None)
        self._logs.own(log, lease)
        return lease

    def _own_at_once(self, targets: Sequence[tuple[Ref, str]], results: list[Log | SessionLocked]) -> bool:
        """Own a log on the event loop; return False if that takes a thread. Then it is locked, if `results` has it.

        Only in a folder that a thread has used before, so that it is known to be on a disk that does not block.
        """
        [(ref, path)] = targets
        if self._slow_folders.get(os.path.dirname(path), True):
            return False
        real_path = self._disk.real_path(path)
        if self._replay.may_restore(real_path):
            return False
        log = self._lock(ref, real_path, results)
        if log is None:
            return True
        log.slow = False
        try:
            if log.own_at_once(self._logs.read(ref)) and not self._released.may_lack_bytes(log):
                return True
        except OSError:
            with refusing_when_full(real_path):
                raise
        assert log.held is not None
        results[:] = [self._new_log(ref, real_path, log.held)]  # the other one was examined half
        return False

    def _own_all(self, targets: Sequence[tuple[Ref, str]], results: list[Log | SessionLocked]) -> None:
        """Lock, examine and repair logs. `results` is filled one by one, so that the caller can undo after an error."""
        locked = results[0] if results else None
        for ref, path in targets:
            if not isinstance(locked, Log):
                real_path = self._disk.real_path(path)
                with refusing_to_write(real_path, _READ_INSTEAD):
                    self._replay.before(real_path)
                locked = self._lock(ref, real_path, results)
            if locked is not None:
                log, locked = locked, None
                with opening_log(log.path, partial(self._may_read, log.path)), refusing_when_full(log.path):
                    self._examine(log)
                if len(self._slow_folders) >= _FOLDERS_MAX:
                    self._slow_folders.clear()
                self._slow_folders[os.path.dirname(path)] = log.slow

    def _lock(self, ref: Ref, real_path: str, results: list[Log | SessionLocked]) -> Log | None:
        """Lock a log, add it to the results, and return it; add and return None if another owner has it."""
        try:
            held = self._locks.take(real_path)
        except OSError:
            with refusing_to_write(real_path, _READ_INSTEAD):
                raise
        if isinstance(held, SessionLocked):
            results.append(held)
            return None
        log = self._new_log(ref, real_path, held)
        results.append(log)
        return log

    def _new_log(self, ref: Ref, real_path: str, held: Held) -> Log:
        log = Log(self._disk, ref, real_path)
        log.held, log.epoch = held, held.epoch
        log.unflushed_folders = self._names.unflushed_folders(real_path)
        return log

    @contextmanager
    def damaged(self, ref: Ref) -> Generator[Log]:
        """Hold the lock of what has the place of a log, but cannot be owned; see `FileStore.remove_damaged`."""
        path = self._disk.real_path(self._names.path_of(ref))
        if not self._names.is_of_root(path):
            raise NotASession(f"{path} is no session, and has no place of one under the root: delete it by other means")
        with refusing_to_write(path):
            self._replay.before(path)
        results: list[Log | SessionLocked] = []
        self._lock(ref, path, results)
        [log] = results
        if isinstance(log, SessionLocked):
            raise log
        assert log.held is not None
        try:
            with opening_log(path), suppress(NotASession, LogDamaged):
                log.find()
                if log.header is not None:
                    raise Conflict(f"{path} is a session that can be read: delete it again")
            yield log
        finally:
            self._locks.give_back(log.held)

    def _may_read(self, path: str) -> bool:
        with suppress(OSError), opened(self._disk, path):
            return True
        return False

    def _examine(self, log: Log) -> None:
        """Examine and repair a log that was just locked."""
        log.own(self._logs.read(log.ref))
        if log.header is None and not log.find_packed():
            log.own()  # another program has just put the file there
        elif log.packed is None and log.header is not None and packed_forms(self._disk, log.path):
            packing.remove_leftovers(self._disk, log.path)
        if log.header is None:
            log.slow = is_slow_folder(self._disk, os.path.dirname(log.path))
        elif log.packed is None:
            self._ensure_durable(log)

    def _ensure_durable(self, log: Log) -> None:
        """Make the existing content of a log as durable as an append to it would be.

        That the content can be read does not prove that it is on the disk. If a failed flush left it in doubt when this
        store released the log, it is written again. If another process wrote it, what that process did not flush for
        certain is written again and flushed: it may have been killed before it flushed, or after that failed, and
        repeating its command here finds the entries in the log and writes nothing.
        """
        if self._released.may_lack_bytes(log):
            log.unsynced = True
            self.resolve(log)
        elif self._sync and not self._released.is_flushed(log):
            try:
                write_again(self._disk, log, log.dialect, log.flushed_end)
                make_durable(self._disk, log)
            except OSError:  # the next flush may succeed without what this one lost
                self._released.note_not_flushed(log.path, log.inode)
                raise
        self._released.note_durable(log.path)

    # -- while a log is owned

    def resolve(self, log: Log) -> Cursor:
        """Examine a log again, in a worker thread; see `FileStore.resolve`."""
        if log.unjournaled or (self._group is not None and log.doubt is not None):
            flush_unjournaled(self._disk, log)  # no journal holds the bytes in doubt
        head = resolve(self._disk, log, sync=self._sync)
        if self._group is not None:
            self._group.journals.note_durable(log.path)
        return head

    def flush(self, log: Log) -> None:
        """Flush a log at every durability; in a worker thread.

        Raises:
            OSError: The log cannot be flushed: its bytes have to be written again before the next append.
        """
        try:
            make_durable(self._disk, log)
        except OSError as error:
            log.note_not_flushed(error)
            raise

    def detach_from_journals(self, log: Log) -> None:
        """Flush a log whose appends a journal may hold, and void its records in all journals; in a worker thread."""
        if self._group is not None and log.header is not None and log.doubt is None:
            try:
                make_durable(self._disk, log)
            except FileNotFoundError:
                write_again(self._disk, log, log.dialect, log.flushed_end)
            except OSError as error:
                self._group.note_unflushed(log, error)
                raise
        self._replay.void(log.path)

    # -- releasing

    async def release(self, lease: Lease) -> None:
        """Release a log as soon as no worker thread works on it; do nothing if the lease has ended.

        Also if the caller is cancelled meanwhile: nobody would release the log after it.
        """
        log = self._logs.leased(lease)
        if log is None:
            return
        cancellation = await seen_through(partial(self._logs.until_idle, log), lambda: not log.busy)
        if self._logs.leased(lease) is log:
            self._released.note_released(log)
            self._logs.disown(log)
            held, log.held = log.held, None
            if held is not None:
                self._locks.give_back(held)
        if cancellation is not None:
            raise cancellation

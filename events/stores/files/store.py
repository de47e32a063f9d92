"""The file store: each log is a file of JSON lines, under the root or at an absolute path.

    root/
      abc.jsonl                 a log
      abc.jsonl.index           its snapshot: derived, can be deleted
      abc.jsonl.leaf            its leaf record: where the leaf was moved to
      abc.jsonl.view-words      the checkpoint of a projection: also derived
      abc.jsonl.torn-812-9ab1   a fragment that a crash left at its end
      abc.jsonl.bak             a copy made before the log was migrated or replaced; like the fragment, it is deleted
                                together with the log
      --work--/2026_x.jsonl     a log in a folder
      .treering/locks/          the locks that record who owns which log
      .treering/journal/        recent appends of hosts with durability "group"

Small operations run directly on the event loop: an append is one check, one write and one more check. Operations that
may take longer, and everything that flushes, run in worker threads through the offload. While a thread works on a log,
the log is `busy`: its next append waits, its readers do not.

In appends, disk errors become `Failed` and `InDoubt`. Everywhere else they are raised unchanged as `OSError` with the
name of the file, since an exception such as `PermissionError` is already precise.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Literal, TypeAlias, TypeVar, get_args
from uuid import uuid4

import anyio

from ...arguments import check_root, check_word
from ...dialects.base import Dialect
from ...disk import Disk, OsDisk, opened
from ...disk.disk import is_slow_folder
from ...disk.disk_errors import opening_log, refusing_to_write
from ...disk.packed import reading_disk
from ...errors import InvalidInput, SessionLocked
from ...offload import Offload, ThreadOffload, after_fork_in_child, carried_out
from ..base import Append, Blob, BlobKind, Cursor, Lease, LogInfo, Opening, Outcome, Page, Ref
from ..capabilities import (
    AppendsAtOnce,
    Health,
    KeepsRows,
    Leases,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    Packs,
    Recovers,
    RemovesDamaged,
    ScansChanges,
    TriesWriting,
    Watches,
    Whole,
    offered,
)
from ..checks import check_header, check_kind, check_lines
from ..search import KeepsSearch
from .appender import Appender
from .changes import Changes
from .current import Pointers
from .durability.flushing import ReleasedLogs, Syncer
from .durability.group_committer import GroupCommitter
from .durability.journal_replay import JournalReplay
from .durability.own_journals import OwnJournals
from .listing import Listing
from .locks import Locks, locks_of
from .log.head import read_head
from .log.log import Log
from .log.records import save_blob
from .logs import Logs, OpenFiles
from .logs import open_files_max as default_open_files_max
from .names import Names
from .ownership import Ownership
from .reading import FilePeek, Reader, read_whole
from .replacing import WholeLogs
from .root_folder import RootFolder
from .row_file import FileRows

T = TypeVar("T")

Durability: TypeAlias = Literal["os", "file", "group"]
"""What an acknowledged append survives: with "os" a crash of the process, with "file" and "group" also a power cut.
"file" flushes each file by itself, "group" flushes one journal for all sessions; see docs/durability.md."""
Writes: TypeAlias = Literal["auto", "inline", "thread"]
"""Where appends are written: on the event loop ("inline"), in threads, or wherever is better ("auto")."""

JOURNAL_MAX_BYTES = 64 * 1024 * 1024
"""The default size limit of the journal of durability "group"."""


_OF_STORE = frozenset[object]({Leases, LooksAtOnce, Packs, Recovers, RemovesDamaged})
_OF_FOLDER = frozenset[object]({Health, NamesFiles, NamesPlaces, TriesWriting})
_OF_CHANGES = frozenset[object]({ScansChanges, Watches})


def _fresh_id() -> str:
    return str(uuid4())


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


class FileStore(Leases):
    """A store that keeps logs in files; see `Store` for its guarantees.

    What needs a lease raises `Conflict` if that has ended. If the disk fails in another way than a method says,
    `OSError` is raised, with the name of the file; what was to be changed is then unchanged.

    Args:
        root: The folder that holds the logs; it need not exist yet. A text that begins like an address is refused; see
            `SessionHost`.
        durability: What an acknowledged append survives. "group" needs a local disk; logs outside the root are flushed
            file by file.
        disk: The file system calls.
        offload: Runs blocking work.
        writes: Where appends are written. "auto" uses threads on network file systems, and for a while after a slow
            write.
        open_files_max: How many log files are kept open; by default an eighth of the process's limit, at most 1,024.
        syncs_max: How many threads flush files at a time.
        readers_max: How many logs are remembered that are read, but not owned.
        journal_max_bytes: The size at which the journal of "group" is full. The logs are then flushed and a new journal
            is started; appends wait for that.
        slow_write_s: How long a write may block the event loop before threads are used.
        slow_for_s: For how long threads are used after a slow write.
        watch_poll_s: After how long a watch checks its files without a notification.
        locks: The locks that decide who owns a log; by default those of the operating system.
        timer: A monotonic clock, in seconds.
        new_id: Returns a new unique id for a journal of "group"; called in a worker thread.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "os",
        disk: Disk | None = None,
        offload: Offload | None = None,
        writes: Writes = "auto",
        open_files_max: int | None = None,
        syncs_max: int = 32,
        readers_max: int = 64,
        journal_max_bytes: int = JOURNAL_MAX_BYTES,
        slow_write_s: float = 0.05,
        slow_for_s: float = 1.0,
        watch_poll_s: float = 2.0,
        locks: Locks | None = None,
        timer: Callable[[], float] = time.perf_counter,
        new_id: Callable[[], str] = _fresh_id,
    ) -> None:
        check_root(root)
        check_word("durability", durability, get_args(Durability))
        check_word("value of `writes`", writes, get_args(Writes))
        files_max = default_open_files_max() if open_files_max is None else open_files_max
        if min(files_max, syncs_max, readers_max, journal_max_bytes) < 1:
            raise InvalidInput("open_files_max, syncs_max, readers_max and journal_max_bytes must be at least 1")
        self._disk: Disk = OsDisk() if disk is None else disk
        self._offload: Offload = ThreadOffload() if offload is None else offload
        self._names = Names(self._disk, os.path.expanduser(os.fspath(root)))
        self._locks = locks_of(self._disk, self.root) if locks is None else locks
        logs = self._logs = Logs(self._disk, self._names, self._offload, OpenFiles(self._disk, files_max), readers_max)
        self._sync = durability != "os"
        syncer, released = Syncer(self._offload, syncs_max), ReleasedLogs(sync=self._sync)
        self._group: GroupCommitter | None = None
        own_journals: Collection[str] = ()
        if durability == "group":
            if is_slow_folder(self._disk, self.root):
                raise InvalidInput(
                    f"durability 'group' needs a local disk, but {self.root} is on a network or FUSE file system, "
                    "where another machine could not replay the journal: use 'file'"
                )
            journals = OwnJournals(self._disk, self._names, self._locks, new_id)
            self._group = GroupCommitter(logs, journals, released, syncer, journal_max_bytes)
            own_journals = journals.paths
        self._replay = JournalReplay(self._disk, self._locks, own_journals)
        self._ownership = Ownership(logs, self._locks, self._replay, released, self._group, sync=self._sync)
        self._appender = Appender(
            logs,
            syncer,
            self._group,
            timer=timer,
            sync=durability == "file",
            inline=writes != "thread",
            cautious=writes == "auto",
            slow_write_s=slow_write_s,
            slow_for_s=slow_for_s,
        )
        self._reader = Reader(logs)
        self._whole = WholeLogs(logs, self._ownership)
        self._listing = Listing(logs, self._replay)
        self._folder = RootFolder(self._disk, self._names)
        self._changes = Changes(logs, self._listing, watch_poll_s)
        _stores.add(self)

    @property
    def root(self) -> str:
        """The real path of the folder that holds the logs."""
        return self._names.root

    @property
    def appends_at_once(self) -> bool:
        """Whether `try_append` may append: not if appends are flushed, or written in threads."""
        return self._appender.at_once

    def capability(self, kind: Callable[..., T]) -> T | None:
        """Return what has a capability: this store, its folder, or what is kept in that; see `Store.capability`."""
        if kind in _OF_FOLDER:
            return offered(self._folder, kind, _OF_FOLDER)
        if kind in _OF_CHANGES:
            return offered(self._changes, kind, _OF_CHANGES)
        if kind is KeepsRows:
            pointers = Pointers(self._disk, self._names, self._changes.look_at)
            return offered(FileRows(self._disk, self.root, pointers, self._folder.inner_roots), kind, (KeepsRows,))
        if kind is KeepsSearch and isinstance(self._disk, OsDisk):  # SQLite knows no other disk
            from .search import FileSearch  # SQLite is only needed to search

            return offered(FileSearch(self.root, self._folder.inner_roots), kind, (KeepsSearch,))
        return offered(self, kind, _OF_STORE | {AppendsAtOnce} if self.appends_at_once else _OF_STORE)

    @property
    def open_files(self) -> int:
        """The number of log files that are open now."""
        return len(self._logs.open_files)

    # -- owning

    async def recover(self) -> None:
        """Replay the journals under the root, so that sessions lost in a power cut can be found.

        A writing host calls this before it looks for sessions. Acquiring a session later replays journals that appeared
        in the meantime.

        Raises:
            Conflict: Another host has been replaying for a minute.
            InvalidInput: A directory is where a lock or a journal has to be.
            AppendFailed: There is no room for a lock.
            OSError: A journal cannot be read.
        """
        self._logs.check_open()
        with refusing_to_write(self.root):
            await carried_out(self._offload, self._replay.under, self.root)

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire the right to append; see `Store.acquire`.

        Raises:
            InvalidSessionId: A ref does not name a log.
            NotASession: A log does not begin with a header. It is left unchanged, and no log is acquired.
            UnsupportedVersion: A log was written by a newer program. It is left unchanged, and no log is acquired.
            ReadOnly: A lock cannot be created or opened, since this process may not write there. No log is acquired.
            InvalidInput: A lock cannot be created, since no directory can be created there, or a directory is where a
                lock or a journal has to be. No log is acquired.
            AppendFailed: There is no room for a lock, or for the repair of a log. No log is acquired.
            OSError: A log or its lock cannot be opened for another reason. No log is acquired.
            HostClosed: The store is closed.
        """
        self._logs.check_open()
        return await self._ownership.acquire(refs, owner, at_once=self._appender.quick)

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Tell which leases are still held; they do not expire."""
        return [self._logs.leased(lease) is not None for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`."""
        for lease in leases:
            await self._ownership.release(lease)

    def holder(self, ref: Ref) -> str | None:
        """Return who holds a log; see `Leases.holder`."""
        holder = self._locks.holder(self._disk.real_path(self._names.path_of(ref)))
        return None if holder is None else str(holder)

    # -- appending

    def try_append(self, append: Append) -> Outcome | None:
        """Append immediately, or return None; see `Store.try_append`.

        Raises:
            InvalidInput: A line is blank or does not end with its only newline, or the first append has no header.
        """
        check_lines(append.lines)
        if self._group is None:
            return self._appender.append_inline(append)
        return self._appender.fenced(append.lease) if self._logs.leased(append.lease) is None else None

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs; see `Store.append`.

        Raises:
            InvalidInput: A line is blank or does not end with its only newline, or the first append has no header.
        """
        for append in appends:
            check_lines(append.lines)
        return self._appender.append(appends)

    async def resolve(self, lease: Lease) -> Cursor:
        """Examine the log again; see `Store.resolve`.

        Raises:
            AppendInDoubt: The disk failed again.
            LogError: The file is no longer a session.
        """
        log = self._logs.require_lease(lease)
        return await self._logs.exclusively(log, lambda: self._ownership.resolve(log))

    async def checkpoint(self, lease: Lease) -> None:
        """Make a log durable without a journal, for example before its file is moved or copied elsewhere."""
        log = self._logs.require_lease(lease)
        await self._logs.exclusively(log, lambda: self._ownership.detach_from_journals(log))

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """Open a log for reading; see `Store.open`."""
        with opening_log(self._names.path_of(ref)):
            return await self._reader.open(ref)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page; see `Store.read`."""
        return await self._reader.read(ref, generation, after, through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`."""
        return await self._reader.bodies(ref, generation, seqs)

    def peek(self, ref: Ref) -> FilePeek:
        """Open a log for a single read; see `LooksAtOnce.peek`."""
        self._logs.check_open()
        return FilePeek(self._disk, ref, self._names.path_of(ref))

    def whole(self, ref: Ref) -> Whole | None:
        """Return all of a small log at once; see `LooksAtOnce.whole`."""
        self._logs.check_open()
        return read_whole(self._disk, self._names.path_of(ref))

    async def header_block(self, ref: Ref) -> bytes:
        """Return the header block of a log; see `Store.header_block`.

        Raises:
            NotASession: The file does not begin with a header.
            OSError: It cannot be read.
        """
        return await self._offload(self._header_block, ref)

    def _header_block(self, ref: Ref) -> bytes:
        path = self._names.path_of(ref)
        disk = reading_disk(self._disk, path) or self._disk
        with opened(disk, path) as fd:
            return read_head(disk, fd, path, disk.fstat(fd).size)[1]

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return data kept beside a log; see `Store.load`."""
        return await self._reader.load(ref, kind)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Save data beside a log; see `Store.save`.

        Failing to write a snapshot or a checkpoint is not an error, since both are derived.

        Raises:
            InvalidInput: The kind is unknown.
            LeafMoved: A leaf record was to be saved, and the log does not end at `head`.
            AppendFailed: The leaf record cannot be written; the previous one remains.
            AppendInDoubt: The leaf record was written, but may not survive a power cut.
        """
        check_kind(kind)
        log = self._logs.require_lease(lease)
        await self._logs.exclusively(log, lambda: save_blob(log, kind, head, data, sync=self._sync))

    # -- whole logs

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log atomically, and keep the replaced one as `.bak`; see `Store.put`.

        Raises:
            Conflict: Another program appended to the log: read it again.
            InvalidInput: The header is not valid, or a line is not whole.
            AppendInDoubt: The log was written, but may not survive a power cut.
        """
        log = self._logs.require_lease(lease)
        check_header(header, log.path)
        return await self._logs.exclusively(log, lambda: self._whole.put(log, header, lines))

    async def remove(self, lease: Lease) -> None:
        """Delete a log with the files beside it, including fragments and backups; see `Store.remove`.

        Raises:
            OSError: A file cannot be deleted. The log still exists, and the lease is kept.
        """
        await self._give_up(lease, self._whole.remove)

    async def remove_damaged(self, ref: Ref) -> None:
        """Delete a file under the root that has the name of a log and is none; see `RemovesDamaged.remove_damaged`.

        Raises:
            NotASession: It lies elsewhere, has another name, or is a directory. It is left unchanged.
            ReadOnly: This process may not write there.
            OSError: It cannot be deleted. It still exists.
        """
        self._logs.check_open()
        await carried_out(self._offload, self._whole.remove_damaged, ref)

    @property
    def can_pack(self) -> bool:
        """See `Packs.can_pack`."""
        return True

    async def pack(self, lease: Lease) -> None:
        """Pack a log; see `Packs.pack`.

        Raises:
            Conflict: Another program changed the log meanwhile, or its content is in doubt.
        """
        await self._give_up(lease, self._whole.pack)

    async def _give_up(self, lease: Lease, work: Callable[[Log], None]) -> None:
        """Do something to a log after which its lease ends."""
        log = self._logs.require_lease(lease)
        await self._logs.exclusively(log, lambda: work(log))
        if self._logs.leased(lease) is log:
            log.header = None  # its state must not be reused by readers
            await self._ownership.release(lease)

    async def unpack(self, lease: Lease) -> Lease:
        """Unpack a packed log; see `Packs.unpack`.

        Raises:
            LogReplaced: Another program has put a file in the log's place, which is owned now.
            LogDamaged: The packed form is damaged. It is left unchanged.
            ExtraMissing: Reading the packed form needs a package that is not installed.
        """
        log = self._logs.require_lease(lease)
        await self._logs.exclusively(log, lambda: self._whole.unpack(log))
        return self._ownership.lease(log, lease.owner)

    # -- which logs there are

    async def exists(self, ref: Ref) -> bool:
        """Tell whether a log of this name exists; see `Store.exists`."""
        return self._listing.holds(ref)

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """List the logs under the root; see `Store.page`."""
        self._logs.check_open()
        return await self._offload(self._listing.page, prefix, after, limit)

    def may_be_restored(self, ref: Ref) -> bool:
        """Tell whether there is a journal that may hold what a log's file lacks. Blocks."""
        self._logs.check_open()
        return self._replay.may_restore(self._disk.real_path(self._names.path_of(ref)))

    # -- closing

    async def aclose(self) -> None:
        """Wait for running writes, then release all files and locks."""
        logs = self._logs
        logs.closed = logs.closed or "this store is closed: open another one"
        with anyio.CancelScope(shield=True):
            for log in list(logs.owned.values()):
                if log.lease is not None:
                    await self._ownership.release(log.lease)
            if self._group is not None:
                await self._group.aclose()
        logs.open_files.close()
        logs.forget_all()
        self._locks.close()

    def leave_to_parent(self) -> None:
        """Disable this store in a forked child: the files and locks belong to the parent."""
        self._logs.closed = "this store belongs to the process that this one was forked from: open another one"
        self._logs.forget_all()
        self._locks.forget()
        self._logs.open_files.close()
        if self._group is not None:
            self._group.journals.leave_to_parent()


def _leave_all_to_parent() -> None:
    for store in list(_stores):
        store.leave_to_parent()


after_fork_in_child(_leave_all_to_parent)

"""The file store: each log is a file of JSON lines under one root, or anywhere.

    root/
      abc.jsonl                 a log
      abc.jsonl.index           its snapshot: derived, can be deleted
      abc.jsonl.leaf            its leaf record: where the leaf was moved to
      abc.jsonl.view-words      the checkpoint of a projection: derived, too
      abc.jsonl.torn-812-9ab1   a fragment that a crash left at its end
      abc.jsonl.bak             what it was before it was migrated, or another was put in its place; like the fragment, it
                                goes when the log is deleted
      --work--/2026_x.jsonl     a log in a folder
      .treering/locks/          who owns what
      .treering/journal/        what hosts with durability "group" appended lately

Small work is done at once, on the event loop: an append is one look, one write and one more look. What may take longer
goes to worker threads through the offload, and so does all that waits for the disk to flush. A log that a thread is
working on is `busy`: its next append waits, its readers do not.

Errors of the disk become `Failed` and `InDoubt` in appends. Elsewhere they pass as the `OSError` they are, with the
file's name: `PermissionError` when a file may not be opened says it best.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias
from uuid import uuid4

import anyio

from ...child_process import after_fork_in_child
from ...dialects.base import Dialect
from ...dialects.detect import detect
from ...disk import Disk, FileStat, OsDisk
from ...errors import (
    AppendFailed,
    Conflict,
    InvalidInput,
    LeafMoved,
    LogError,
    LogReplaced,
    SessionLocked,
    TreeringError,
    Where,
)
from ...offload import Offload, ThreadOffload, carried_out
from ...telemetry import logger
from ..base import Append, Blob, BlobKind, Cursor, Lease, LogInfo, Opening, Outcome, Page, Ref
from ..blobs import check_kind
from . import archiving, beside, listing, removal, writer
from .appender import Appender, Pace
from .codecs import SUFFIXES
from .group_committer import GroupCommitter
from .journal_replay import JournalReplay
from .locks import Locks
from .log import Log
from .logs import Logs
from .mounts import is_slow_device
from .names import Names
from .open_files import OpenFiles
from .open_files import open_files_max as default_open_files_max
from .packed import packed_forms
from .peek import FilePeek
from .private_locks import locks_of
from .rewriting import put
from .scan import scan
from .syncer import Syncer
from .table import CHUNK
from .unreadable_folders import UnreadableFolders
from .watcher import Watch

Durability: TypeAlias = Literal["os", "file", "group"]
"""When an append counts: when it is written (and survives the process), or flushed (and survives the power), each file by
itself or all together in a journal; see docs/durability.md."""
Writes: TypeAlias = Literal["auto", "inline", "thread"]
"""Where appends are written: on the event loop, in threads, or there where it is better."""

JOURNAL_MAX_BYTES = 64 * 1024 * 1024
"""How long the journal of durability "group" becomes, unless the program says otherwise."""


def _fresh_id() -> str:
    return str(uuid4())


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


class FileStore:
    """Keeps logs in files; see `Store` for what it promises.

    Args:
        root: The folder under which logs are; it need not be there yet.
        durability: When an append counts. "group" needs a local disk; logs outside the root are flushed by themselves.
        disk: The calls to the file system.
        offload: Where blocking work goes.
        writes: Where appends are written. "auto" uses threads on network file systems, and for a while after a write
            that was slow.
        open_files_max: How many log files are kept open; by default an eighth of what the process may open, up to 1,024.
        syncs_max: How many threads flush files at a time.
        readers_max: How many logs are remembered that are read, but not owned.
        journal_max_bytes: How long the journal of "group" becomes before the logs are flushed and another one is begun;
            appends wait for that.
        slow_write_s: How long a write may keep the event loop before threads are used.
        slow_for_s: For how long they are then.
        watch_poll_s: After how long a watch looks without having been told.
        locks: Who owns what; by default the operating system knows.
        timer: A clock that never goes back, in seconds.
        new_id: Gives what tells the journals of "group" apart, whatever they are called; it is called in a worker thread.
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
        if durability not in ("os", "file", "group"):
            raise InvalidInput(f"durability {durability!r} is not there: use 'os', 'file' or 'group'")
        if writes not in ("auto", "inline", "thread"):
            raise InvalidInput(f"writes {writes!r} is not there: use 'auto', 'inline' or 'thread'")
        files_max = default_open_files_max() if open_files_max is None else open_files_max
        if min(files_max, syncs_max, readers_max, journal_max_bytes) < 1:
            raise InvalidInput("open_files_max, syncs_max, readers_max and journal_max_bytes have to be 1 or more")
        self._disk: Disk = OsDisk() if disk is None else disk
        self._offload: Offload = ThreadOffload() if offload is None else offload
        self._names = Names(self._disk, os.fspath(root))
        self._locks = locks_of(self._disk, self._names.root) if locks is None else locks
        self._open_files = OpenFiles(self._disk, files_max)
        self._logs = Logs(self._disk, self._names, self._offload, self._open_files, readers_max)
        self._sync = durability != "os"
        pace = Pace(durability == "file", writes != "thread", writes == "auto", slow_write_s, slow_for_s)
        syncer = Syncer(self._offload, syncs_max)
        self._group: GroupCommitter | None = None
        if durability == "group":
            self._refuse_network()
            self._group = GroupCommitter(
                self._disk,
                self._names,
                self._logs,
                self._open_files,
                self._locks,
                self._offload,
                syncer,
                journal_max_bytes,
                new_id,
            )
        self._replay = JournalReplay(self._disk, self._locks, self._group.paths if self._group else frozenset())
        self._appender = Appender(self._disk, self._logs, self._open_files, syncer, pace, timer, self._group)
        self._watch_poll_s = watch_poll_s
        self._unreadable = UnreadableFolders()
        _stores.add(self)

    def _refuse_network(self) -> None:
        """Refuse "group" where other machines may hold the same files, or a flush may not mean what it says.

        Raises:
            InvalidInput: The root is on a network file system, or on one that a program serves.
        """
        if self._is_slow_folder(self.root):
            raise InvalidInput(
                f"durability 'group' needs a local disk, and {self.root} is on a network or FUSE file system, whose "
                "journal another machine could not replay: use 'file'"
            )

    @property
    def root(self) -> str:
        """The real path of the folder under which logs are."""
        return self._names.root

    @property
    def disk(self) -> Disk:
        """The calls to the file system, for what the catalog keeps under the root."""
        return self._disk

    @property
    def open_files(self) -> int:
        """How many log files are open at this moment."""
        return len(self._open_files)

    def path_of(self, ref: Ref) -> str:
        """Return the path of a log's file.

        Raises:
            InvalidSessionId: The ref leads out of the root, or is not in its plain form.
        """
        return self._names.path_of(ref)

    def ref_of(self, path: str | os.PathLike[str]) -> Ref:
        """Return the one ref of a file, whatever links lead to it."""
        return self._names.ref_of(os.fspath(path))

    # -- owning

    async def recover(self) -> None:
        """Bring back what a power cut took of sessions that a journal holds, so that they can be found.

        A writing host calls this before it looks for sessions; owning one does the same for journals that appear later.

        Raises:
            Conflict: Another host has been replaying for a minute.
            OSError: A journal cannot be read.
        """
        self._logs.check_open()
        await carried_out(self._offload, self._replay.under, self.root)

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Take the right to append; see `Store.acquire`.

        Raises:
            InvalidSessionId: A ref names no log.
            NotASession: A log does not begin with a header. It is left as it is, and none of the others is taken.
            UnsupportedVersion: A newer program wrote a log; likewise.
            OSError: A log, or its lock, may not be opened; likewise.
        """
        self._logs.check_open()
        wanted = [(ref, self.path_of(ref)) for ref in refs]
        found: list[Log | SessionLocked] = []
        try:
            await carried_out(self._offload, self._own, wanted, found)
        except BaseException:
            for each in found:
                if isinstance(each, Log) and each.held is not None:
                    self._locks.give_back(each.held)
            raise
        return [self._lease(each, owner) if isinstance(each, Log) else each for each in found]

    def _own(self, wanted: Sequence[tuple[Ref, str]], found: list[Log | SessionLocked]) -> None:
        for ref, path in wanted:
            real = self._disk.real_path(path)
            self._replay.before(real)
            held = self._locks.take(real)
            if isinstance(held, SessionLocked):
                found.append(held)
                continue
            log = Log(self._disk, ref, real)
            log.held, log.epoch = held, held.epoch
            found.append(log)
            log.named_folders, log.unnamed = self._names.named, self._names.folders_to_flush(real)
            log.own()
            if log.header is None:
                log.find_packed()
            elif packed_forms(self._disk, real):
                archiving.remove_leftovers(self._disk, real)
            if log.packed is not None:
                continue
            if log.header is None:
                log.slow = self._is_slow_folder(os.path.dirname(real))
            else:
                self._make_sure(log)

    def _make_sure(self, log: Log) -> None:
        """Have what stands in a log survive what an append to it would: reading it proves nothing.

        What was let go while a failed flush left it in doubt is written again. What another process wrote is flushed, since it
        may have ended before it did so, and a command of its that is repeated here writes nothing.
        """
        if self._logs.unsynced.get(log.path) in (0, log.inode):
            log.unsynced = True
            self._look_again(log)
        elif self._sync and self._logs.left.get(log.path) != (log.inode, log.size):
            try:
                writer.make_durable(self._disk, log)
            except OSError:
                self._logs.unsynced[log.path] = log.inode  # the next flush may succeed without what this one lost
                raise
        self._logs.unsynced.pop(log.path, None)

    def _is_slow_folder(self, folder: str) -> bool:
        while True:
            try:
                return is_slow_device(self._disk.stat(folder).device)
            except FileNotFoundError:
                folder = os.path.dirname(folder)

    def _lease(self, log: Log, owner: str) -> Lease:
        lease = Lease(log.ref, owner, log.epoch, log.head, log.header, log.dialect, log.torn, log.packed is not None)
        self._logs.own(log, lease)
        return lease

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Tell which leases are still held; they do not run out."""
        return [self._logs.held(lease) is not None for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back; see `Store.release`."""
        for lease in leases:
            while (log := self._logs.held(lease)) is not None and log.busy:
                await self._logs.until_idle(log)
            if log is not None:
                self._let_go(log)

    def _let_go(self, log: Log) -> None:
        if log.unjournaled or log.unsynced:
            self._logs.unsynced[log.path] = log.inode
        elif self._sync and log.header is not None and log.doubt is None:
            self._logs.left[log.path] = (log.inode, log.size)
        self._logs.disown(log)
        held, log.held = log.held, None
        if held is not None:
            self._locks.give_back(held)

    # -- appending

    def try_append(self, append: Append) -> Outcome | None:
        """Append at once, or return None; see `Store.try_append`.

        Raises:
            InvalidInput: A line is blank or does not end with its one newline, or a new log has no header.
        """
        return self._appender.try_append(append)

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs; see `Store.append`.

        Raises:
            InvalidInput: A line is blank or does not end with its one newline, or a new log has no header.
        """
        return self._appender.append(appends)

    async def resolve(self, lease: Lease) -> Cursor:
        """Look at the log again; see `Store.resolve`.

        Raises:
            Conflict: The lease is over.
            AppendInDoubt: The disk fails again.
            LogError: What stands there now is no session.
            OSError: It cannot be read.
        """
        log = self._logs.must_hold(lease)
        return await self._logs.exclusively(log, lambda: self._look_again(log))

    def _look_again(self, log: Log) -> Cursor:
        if log.unjournaled or (self._group is not None and log.doubt is not None):
            writer.flush_unjournaled(self._disk, log)  # no journal has what is in doubt
        head = writer.resolve(self._disk, log, sync=self._sync)
        if self._group is not None:
            self._group.written_again(log.path)
        return head

    async def checkpoint(self, lease: Lease) -> None:
        """Make a log durable by itself, so that no journal is needed for it: before its file is moved or copied elsewhere.

        Raises:
            Conflict: The lease is over.
            OSError: The disk refuses.
        """
        log = self._logs.must_hold(lease)
        await self._logs.exclusively(log, lambda: self._stand_alone(log))

    def _stand_alone(self, log: Log) -> None:
        """Flush a log whose appends a journal may hold, and have no journal bring anything of it back."""
        if self._group is not None and log.header is not None and log.doubt is None:
            try:
                writer.make_durable(self._disk, log)
            except FileNotFoundError:
                pass
            except OSError as error:
                self._group.distrust(log, error)
                raise
        self._replay.void(log.path)

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """Look at a log; see `Store.open`."""
        log = await self._logs.current(ref)
        if log.header is None or log.dialect is None:
            raise self._logs.not_found(ref)
        return Opening(log.header, log.dialect, log.head)

    def peek(self, ref: Ref) -> FilePeek:
        """Look at a log without waiting; see `LocalStore.peek`."""
        self._logs.check_open()
        return FilePeek(self._disk, ref, self.path_of(ref))

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Find where lines stand in their file; see `LocalStore.places`."""
        from ...doctor import places  # needed where there is damage, and nowhere else

        try:
            return places(self.path_of(ref), seqs, disk=self._disk)
        except (OSError, LogError):
            return {}

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page; see `Store.read`."""
        log = await self._logs.of(ref, generation)
        table, end = log.table, log.head.seq
        last = end if through is None else min(through, end)
        if after >= last:
            return Page(after + 1, [], after < end)
        last = table.last_that_fits(after, last, CHUNK)
        lines = await self._logs.lines(log, table, [(after + 1, last)])
        return Page(after + 1, lines, last < end)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`.

        Raises:
            InvalidInput: There is no such line.
        """
        log = await self._logs.of(ref, generation)
        table = log.table
        runs: list[tuple[int, int]] = []
        wanted = sorted(set(seqs))
        if wanted and not 0 < wanted[0] <= wanted[-1] <= log.head.seq:
            raise InvalidInput(f"{ref} has the lines 1 to {log.head.seq}, and not all of those that were asked for")
        for seq in wanted:
            if runs and runs[-1][1] == seq - 1 and table.ends[seq] - table.ends[runs[-1][0] - 1] <= CHUNK:
                runs[-1] = (runs[-1][0], seq)
            else:
                runs.append((seq, seq))
        lines = dict(zip(wanted, await self._logs.lines(log, table, runs), strict=True))
        return [lines[seq] for seq in seqs]

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return what was kept beside a log; see `Store.load`.

        Raises:
            InvalidInput: Nothing of this kind is kept.
        """
        suffix = beside.suffix_of(kind)
        try:
            log = await self._logs.current(ref)
            table, head = log.table, log.head
            self._disk.stat(log.path + suffix)
            if kind == "leaf":
                kept = await self._offload(log.load_leaf, table, head)
            elif kind == "index":
                kept = await self._offload(log.load_index, table)
            else:
                kept = await self._offload(log.load_record, suffix, head, table)
        except FileNotFoundError:
            return None
        return None if kept is None else Blob(Cursor(head.generation, kept[0]), kept[1])

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Keep something beside a log; see `Store.save`.

        A snapshot or a checkpoint that cannot be written is no error: it is derived.

        Raises:
            InvalidInput: Nothing of this kind is kept.
            Conflict: The lease is over.
            LeafMoved: The log does not end at `head`, and a leaf record is made at its end.
            AppendFailed: The leaf record cannot be written; the former one stands.
        """
        check_kind(kind)
        log = self._logs.must_hold(lease)
        await self._logs.exclusively(log, lambda: self._save(log, kind, head, data))

    def _save(self, log: Log, kind: BlobKind, head: Cursor, data: bytes) -> None:
        known = head.generation == log.generation and 0 <= head.seq <= log.head.seq and log.header is not None
        if kind == "leaf":
            if not known or head != log.head:
                raise LeafMoved(f"{log.ref} ends at {log.head.seq} and not at {head.seq}: read it again")
            try:
                log.save_leaf(data, sync=self._sync)
            except OSError as error:
                raise AppendFailed(
                    f"{log.path}{beside.LEAF_SUFFIX} could not be written ({error.strerror or error}): "
                    "see to the disk, then move the leaf again"
                ) from error
        elif known:
            try:
                if kind == "index":
                    log.save_snapshot(head.seq, data)
                else:
                    log.save_checkpoint(beside.suffix_of(kind), head, data)
            except (OSError, LogReplaced) as error:
                session_id = log.header.id if log.header is not None else None
                logger().debug("derived_not_saved", session_id=session_id, ref=log.ref, kind=kind, error=str(error))

    # -- whole logs

    async def remove(self, lease: Lease) -> None:
        """Delete a log and all that is kept of it: what stands beside it, fragments and old versions. See `Store.remove`.

        Raises:
            Conflict: The lease is over.
            OSError: It cannot be deleted; the log is there still, and the lease is kept.
        """
        log = self._logs.must_hold(lease)
        await self._logs.exclusively(log, lambda: self._remove(log))
        if self._logs.held(lease) is log:
            log.header = None  # nothing to remember
            self._let_go(log)

    def _remove(self, log: Log) -> None:
        self._stand_alone(log)
        removal.remove(self._disk, self.root, log.path)

    async def pack(self, lease: Lease) -> None:
        """Keep a log in its packed form; see `ArchivingStore.pack`.

        Raises:
            Conflict: The lease is over, another program changed the log meanwhile, or nobody knows what it holds.
            OSError: It cannot be packed; the log is as it was, and the lease is kept.
        """
        log = self._logs.must_hold(lease)
        await self._logs.exclusively(log, lambda: self._pack(log))
        if self._logs.held(lease) is log:
            log.header = None  # nothing to remember
            self._let_go(log)

    def _pack(self, log: Log) -> None:
        if log.header is None or log.packed is not None:
            return
        if log.doubt is not None:
            raise Conflict(f"{log.path} may hold more than is known: load the session, then archive it")
        self._stand_alone(log)
        archiving.pack(self._disk, log.path, lambda: _is_left(log, self._disk.stat(log.path)))

    async def unpack(self, lease: Lease) -> Lease:
        """Keep a packed log as it was before; see `ArchivingStore.unpack`.

        Raises:
            Conflict: The lease is over.
            LogDamaged: The packed form is damaged; it was left as it is.
            ExtraMissing: Reading it needs a package that is not installed.
            OSError: The log cannot be written; the packed form is as it was.
        """
        log = self._logs.must_hold(lease)
        await self._logs.exclusively(log, lambda: self._unpack(log))
        return self._lease(log, lease.owner)

    def _unpack(self, log: Log) -> None:
        if log.packed is not None:
            archiving.unpack(self._disk, log.path)
            log.unpacked(self._disk)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log in one step, and keep the one that was there as `.bak`; see `Store.put`.

        Raises:
            Conflict: The lease is over, or another program appended to the log: read it again.
            InvalidInput: The header is none, or a line is not whole.
            OSError: It cannot be written; the log is as it was.
        """
        log = self._logs.must_hold(lease)
        detect(header, log.path)
        return await self._logs.exclusively(log, lambda: self._put(log, header, lines))

    def _put(self, log: Log, header: bytes, lines: Iterable[bytes]) -> Cursor:
        self._unpack(log)
        self._stand_alone(log)
        head = put(self._disk, log, header, lines)
        log.unjournaled = False
        return head

    async def exists(self, ref: Ref) -> bool:
        """Tell whether there is a log of this name; see `Store.exists`."""
        found = self.look_at(ref)
        return found is not None and found.size > 0

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """List the logs under the root; see `Store.page`."""
        self._logs.check_open()
        return await self._offload(self._page, prefix, after, limit)

    def _page(self, prefix: str, after: Ref, limit: int) -> list[LogInfo]:
        self._bring_back()
        return listing.page_of(self._disk, self.root, prefix, after, limit, self._unreadable)

    def _bring_back(self) -> None:
        """Replay journals before logs are listed: one may know of logs whose names are lost."""
        try:
            self._replay.under(self.root)
        except (OSError, TreeringError) as error:
            logger().warning("replay_waits", ref=self.root, why=str(error))

    def scan(self) -> dict[Ref, FileStat]:
        """Return how the files of all logs under the root look, in no order; it may take a while, and opens none of them."""
        self._logs.check_open()
        self._bring_back()
        return scan(self._disk, self.root, self._unreadable)

    def look_at(self, ref: Ref) -> FileStat | None:
        """Return how the file of one log looks, or the packed form of it; None where there is none."""
        self._logs.check_open()
        path = self.path_of(ref)
        for each in (path, *(path + suffix for suffix in SUFFIXES)):
            with suppress(FileNotFoundError, NotADirectoryError):
                found = self._disk.stat(each)
                return None if found.is_directory else found
        return None

    def reads_all(self, ref: Ref) -> bool:
        """Tell whether what is read of a log here is all that its file holds.

        It is not while an append is in doubt or being flushed, and not where another program left a line without its
        newline in a log that is owned: what the log's file looks like then says nothing of what was read.
        """
        log = self._logs.owned.get(ref)
        return log is None or not (log.busy or log.doubt is not None or log.size > log.table.scanned)

    def left(self, ref: Ref) -> tuple[int, int, int] | None:
        """Return how an owned log was left: its last line's ordinal, its size, its inode.

        None while it is being written, and for a log that is not owned or not there.
        """
        log = self._logs.owned.get(ref)
        return None if log is None or log.busy or log.header is None else (log.head.seq, log.size, log.inode)

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield the logs whose files or leaf records may have changed since the call; see `Store.watch`."""
        self._logs.check_open()
        paths = {ref: self.path_of(ref) for ref in refs}
        return Watch(self._disk, paths, self._watch_poll_s, self._settled).changes()

    async def _settled(self, ref: Ref) -> None:
        while (log := self._logs.owned.get(ref)) is not None and log.busy:
            await self._logs.until_idle(log)

    # -- the end

    async def aclose(self) -> None:
        """Let go of all files and locks; what threads are writing is waited for."""
        logs = self._logs
        logs.closed = logs.closed or "this store was closed: make another one"
        with anyio.CancelScope(shield=True):
            for log in list(logs.owned.values()):
                while log.busy:
                    await logs.until_idle(log)
                if logs.owned.get(log.ref) is log:
                    self._let_go(log)
            if self._group is not None:
                await self._group.aclose()
        self._open_files.close()
        logs.forget_all()
        self._locks.close()

    def leave_to_parent(self) -> None:
        """Be of no use, in a forked child: the files and locks are the parent's."""
        self._logs.closed = "this store belongs to the process that this one was forked from: make another one"
        self._logs.forget_all()
        self._locks.forget()
        self._open_files.close()
        if self._group is not None:
            self._group.leave_to_parent()


def _is_left(log: Log, found: FileStat) -> bool:
    """Tell whether a log's file is as its owner left it."""
    return (found.device, found.inode, found.size) == (log.device, log.inode, log.size)


def _leave_all_to_parent() -> None:
    for store in list(_stores):
        store.leave_to_parent()


after_fork_in_child(_leave_all_to_parent)

"""Reading logs: those that are owned, those that are only read, and single reads without waiting, small ones whole."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

import anyio

from ...disk import Disk, FileStat, opened
from ...disk.packed import stat_if_exists
from ...errors import InvalidInput, LogReplaced, SessionNotFound
from ...offload import carried_out
from ..base import Blob, BlobKind, Opening, Page, Ref
from ..capabilities import Whole
from .log.head import TornHeader, read_head
from .log.log import Log
from .log.records import load_blob, suffix_of
from .log.table import CHUNK, INLINE_MAX, Table
from .logs import Logs
from .names import INDEX_SUFFIX

_RUNS_INLINE_MAX = 64

_SMALL_BYTES = 64 * 1024
"""The size up to which reading a file is as fast as reading its snapshot."""
_WHOLE_MAX = 4 * 1024 * 1024
"""The size up to which a file without a snapshot is read whole."""


class Reader:
    """The reads of one store."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._counters: OrderedDict[Ref, int] = OrderedDict()  # of logs that were missing, by ref

    async def open(self, ref: Ref) -> Opening:
        """Open a log; see `Store.open`."""
        log = await self._current(ref)
        assert log.header is not None
        assert log.dialect is not None
        return Opening(log.header, log.dialect, log.head)

    async def read(self, ref: Ref, generation: str, after: int, through: int | None) -> Page:
        """Read the next page; see `Store.read`."""
        log = await self._at_generation(ref, generation)
        end = log.head.seq
        last = end if through is None else min(through, end)
        if after >= last:
            return Page(after + 1, [], after < end)
        last = log.table.last_that_fits(after, last, CHUNK)
        return Page(after + 1, await self._lines(log, [(after + 1, last)]), last < end)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines; see `Store.bodies`.

        Raises:
            InvalidInput: A line does not exist.
        """
        log = await self._at_generation(ref, generation)
        sorted_seqs = sorted(set(seqs))
        if sorted_seqs and not 0 < sorted_seqs[0] <= sorted_seqs[-1] <= log.head.seq:
            raise InvalidInput(f"{ref} has only the lines 1 to {log.head.seq}, and others were requested")
        runs = log.table.runs(sorted_seqs, CHUNK)
        lines = dict(zip(sorted_seqs, await self._lines(log, runs), strict=True))
        return [lines[seq] for seq in seqs]

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return data kept beside a log; see `Store.load`.

        Raises:
            InvalidInput: The kind is unknown.
        """
        suffix = suffix_of(kind)
        try:
            log = await self._current(ref)
            table, head = log.table, log.head
            if stat_if_exists(self._logs.disk, log.path + suffix) is None:
                return None
            return await self._logs.offload(load_blob, log, kind, head, table)
        except FileNotFoundError:
            return None

    # -- the log as it is now

    async def _current(self, ref: Ref) -> Log:
        """Return a log as it is now, including what other programs did to it.

        Raises:
            SessionNotFound: The log does not exist.
            LogError: The log was replaced by a file that is not a session.
            OSError: The log cannot be read.
        """
        self._logs.check_open()
        log = self._logs.known(ref)
        if log is None:
            return await self._examine_new(ref)
        if log.lease is None:
            self._logs.touch(ref)
        elif log.header is None or not log.generation:  # no generation: its first lines are being made durable
            raise self._logs.not_found_error(ref)
        elif log.busy or log.doubt is not None:
            return log  # the file is ahead of what is committed
        try:
            stat = self._logs.disk.stat(log.path)
        except FileNotFoundError:
            stat = None
        if log.packed is not None and log.lease is None:
            if stat is None and log.packed.unchanged():
                return log
            self._logs.forget(ref)
            return await self._examine_new(ref)
        if stat is not None and self._catch_up(log, stat):
            return log
        if log.lease is not None:
            await self._logs.exclusively(log, log.refresh_with_own_fd)
        else:
            await self._gated(log, log.refresh_with_own_fd, lambda: not self._is_current(log))
        if log.header is None:
            self._logs.forget(ref)
            if log.lease is None:
                self._note_missing(log)
                return await self._examine_new(ref)  # another process may have packed it
            raise self._logs.not_found_error(ref)
        return log

    def _catch_up(self, log: Log, stat: FileStat) -> bool:
        """Index the lines that were appended to a log, on the event loop; return False if that takes a thread."""
        if log.gate is not None and log.gate.locked():  # a thread is changing the state that is compared here
            return False
        if log.is_unchanged(stat):
            return True
        if log.slow or not log.is_same(stat) or stat.size - log.table.scanned > INLINE_MAX:
            return False
        with suppress(LogReplaced):
            fd = self._logs.open_files.get(log)
            if log.continues(fd, stat):
                log.refresh(fd, stat)
                return True
        return False

    async def _at_generation(self, ref: Ref, generation: str) -> Log:
        """Return a log as it is now, if it has the given generation; wait for a thread that may be establishing it.

        Raises:
            LogReplaced: The log has another generation now.
            SessionNotFound: The log does not exist.
            LogError: The log was replaced by a file that is not a session.
            OSError: The log cannot be read.
        """
        log = await self._current(ref)
        while log.generation != generation and log.busy:
            await self._logs.until_idle(log)
        if log.generation != generation:
            raise log.replaced_error()
        return log

    async def _examine_new(self, ref: Ref) -> Log:
        path = self._logs.names.path_of(ref)
        log = Log(self._logs.disk, ref, path)
        log.counter = self._counters.get(ref, 0)
        await self._logs.offload(log.find)
        if log.header is None:
            self._note_missing(log)
            raise self._logs.not_found_error(ref)
        owned = self._logs.owned.get(ref)
        if owned is not None and owned.header is not None:
            return owned  # acquired in the meantime
        if owned is None and self._logs.closed is None:
            if self._logs.read(ref) is not None:
                # Read by another task in the meantime: only its log shows what has changed since.
                return await self._current(ref)
            self._logs.remember(log)
        return log

    def _note_missing(self, log: Log) -> None:
        """Keep the generation counter of a log that was read and is missing, or else it may seem unchanged later."""
        if log.counter:
            self._counters[log.ref] = log.counter
            if len(self._counters) > self._logs.readers_max:
                self._counters.popitem(last=False)

    def _is_current(self, log: Log) -> bool:
        """Tell whether a log in memory agrees with its file."""
        try:
            stat = self._logs.disk.stat(log.path)
        except FileNotFoundError:
            return False
        return log.is_unchanged(stat)

    async def _gated(self, log: Log, work: Callable[[], None], is_needed: Callable[[], bool]) -> None:
        """Run `work` on a log that is not owned in a worker thread, one at a time, if it is still needed by then."""
        if log.gate is None:
            log.gate = anyio.Lock()
        async with log.gate:
            if not is_needed():
                return
            self._logs.open_files.drop(log)
            inode = log.inode
            try:
                await carried_out(self._logs.offload, work)
            finally:
                if log.inode != inode:
                    self._logs.open_files.drop(log)

    # -- lines

    async def _lines(self, log: Log, runs: list[tuple[int, int]], *, again: bool = False) -> Sequence[bytes]:
        """Read runs of lines, on the event loop if they are small; once more if another form took the place of the log.

        Raises:
            LogReplaced: The file does not hold these lines; the log has been reloaded with a new generation.
            OSError: The file cannot be read.
        """
        table, generation = log.table, log.generation
        size = sum(table.ends[last] - table.ends[first - 1] for first, last in runs)
        try:
            if size <= INLINE_MAX and len(runs) <= _RUNS_INLINE_MAX and not log.slow and log.packed is None:
                return log.lines(self._logs.open_files.get(log), table, runs) if runs else []
            return await self._logs.offload(log.lines_with_own_fd, table, runs)
        except (LogReplaced, FileNotFoundError):
            if log.busy:  # for example being unpacked: that thread loads the file itself
                await self._logs.until_idle(log)
            elif log.table is table:
                await self._reload(log, table)
        if not again:
            with suppress(SessionNotFound):
                return await self._lines(await self._at_generation(log.ref, generation), runs, again=True)
        raise log.replaced_error()

    async def _reload(self, log: Log, table: Table) -> None:
        if log.lease is not None:
            await self._logs.exclusively(log, log.reload_changed)
        elif self._logs.read(log.ref) is log:
            await self._gated(log, log.reload_changed, lambda: log.table is table)


class FilePeek:
    """A log file, opened for a single read; later appends are not seen.

    Args:
        ref: The log's name.
        path: The path of the file.

    Raises:
        SessionNotFound: The file does not exist, or is empty.
        NotASession: The file does not begin with a header.
        UnsupportedVersion: The file was written by a newer program.
    """

    def __init__(self, disk: Disk, ref: Ref, path: str) -> None:
        self._log = Log(disk, ref, path)
        self._log.find()
        if self._log.header is None or self._log.dialect is None:
            raise SessionNotFound(f"there is no session at {path}, or no longer: load or create another one")
        self.opening = Opening(self._log.header, self._log.dialect, self._log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return data kept beside the log; see `Store.load`."""
        with self._detecting_removal():
            return load_blob(self._log, kind, self.opening.head, self._log.table)

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        log, end = self._log, self.opening.head.seq
        if after >= end:
            return Page(after + 1, [], False)
        last = log.table.last_that_fits(after, end, CHUNK)
        with self._detecting_removal(), log.opened(os.O_RDONLY) as fd:
            return Page(after + 1, log.lines(fd, log.table, [(after + 1, last)]), last < end)

    @contextmanager
    def _detecting_removal(self) -> Generator[None]:
        """Raise `LogReplaced` if the file was archived or removed since the peek began."""
        try:
            yield
        except FileNotFoundError:
            raise self._log.replaced_error() from None


def read_whole(disk: Disk, path: str) -> Whole | None:
    """Return all of a log's file; None if it is large, or missing, or packed.

    Raises:
        SessionNotFound: The file is empty, or holds only the beginning of a header.
        NotASession: It does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """
    try:
        with opened(disk, path) as fd:
            size = disk.fstat(fd).size
            if size > _SMALL_BYTES and (size > _WHOLE_MAX or stat_if_exists(disk, path + INDEX_SUFFIX) is not None):
                return None
            if not size:
                raise SessionNotFound(f"there is no session at {path}: the file is empty")
            try:
                found, _ = read_head(disk, fd, path, size)
            except TornHeader as error:
                raise SessionNotFound(f"there is no session at {path}: its first write was cut short") from error
            # Without the header, so that the lines need not be copied to be separated from it.
            return Whole(found.header, found.dialect, disk.pread(fd, size - found.size, found.size))
    except FileNotFoundError:
        return None

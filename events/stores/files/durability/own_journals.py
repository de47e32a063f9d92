"""The journals of one host: the one that is being written, and retired ones that are still needed.

Methods that write or flush block, so they are called in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from ....disk import Disk
from ....errors import LogError, SessionLocked
from ....telemetry import logger
from ...base import Append, Committed, Cursor, Outcome
from ..locks import Held, Locks
from ..log.head import read_head
from ..log.log import Log
from ..names import Names
from . import journal
from .journal import JOURNALS, Record, Segment


class LandedAppend(Struct, eq=False):
    """An append that was written to its session file, while its head is held back until the journal has it.

    Attributes:
        log: The session's log, which is busy until the round is settled.
        lines: The lines.
        block: The header block, if the append created the file.
        offset: Where in the file the lines begin; 0 if the append created it.
        before: The head before the append.
        head: The head after the append.
        outcome: The outcome to return to the caller.
    """

    log: Log
    lines: tuple[bytes, ...]
    block: bytes
    offset: int
    before: Cursor
    head: Cursor
    outcome: Outcome


def hold_back(log: Log, append: Append, before: Cursor, outcome: Outcome) -> LandedAppend | None:
    """Set a log's head back until the append is durable, and return the append as the journal needs it.

    If lines of another program came in between, or the append is incomplete, change nothing and return None.
    """
    if not isinstance(outcome, Committed) or outcome.head.seq != before.seq + len(append.lines):
        return None
    if before.generation:
        offset = log.table.ends[outcome.head.seq] - sum(map(len, append.lines))
        landed = LandedAppend(log, append.lines, b"", offset, before, outcome.head, outcome)
    else:
        landed = LandedAppend(log, append.lines, append.header or b"", 0, before, outcome.head, outcome)
    log.head = before
    return landed


class OwnJournal(Struct, eq=False):
    """A journal of this host with its lock, and the files and folders that depend on it.

    Attributes:
        segment: The journal file.
        held: Its lock.
        refs: The refs of the sessions with records in it, by path.
        names: The encoded names of the same sessions, by path.
        folders: The folders to flush before it can be dropped.
        failed: The files and folders that could not be flushed.
    """

    segment: Segment
    held: Held
    refs: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, bytes] = field(default_factory=dict[str, bytes])
    folders: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])


class OwnJournals:
    """The journals of one store.

    Args:
        names: The names of the store's logs; it provides the root.
        locks: Keep other hosts from replaying a journal that is in use.
        new_id: Returns a unique id for each journal.

    Attributes:
        current: The journal that is being written; while it is None, the next write begins one.
        paths: The paths of all journals that are in use.
    """

    def __init__(self, disk: Disk, names: Names, locks: Locks, new_id: Callable[[], str]) -> None:
        self._disk = disk
        self._names = names
        self._locks = locks
        self._new_id = new_id
        self._prefix = names.root.rstrip("/") + "/"
        self._folder = self._prefix + JOURNALS
        self._kept: list[OwnJournal] = []
        self.current: OwnJournal | None = None
        self.paths: set[str] = set()

    def covers(self, log: Log) -> bool:
        """Tell whether a log lies under the root, so that its appends can go to the journal."""
        return log.path.startswith(self._prefix)

    # -- writing

    def write(self, landed: Sequence[LandedAppend]) -> None:
        """Write appends to the current journal, and flush it.

        Raises:
            OSError: The journal cannot be created, or a write or the flush failed.
        """
        current = self.current
        if current is None:
            current = self.current = self._create()
        current.segment.write(self._records(current, landed))

    def _records(self, current: OwnJournal, landed: Sequence[LandedAppend]) -> Iterator[Record]:
        """Yield the journal records of appends, and note which files they cover."""
        names = current.names
        for each in landed:
            log, block = each.log, each.block
            path = log.path
            name = names.get(path)
            if name is None:
                name = names[path] = journal.encoded_name(path.removeprefix(self._prefix))
                current.refs[path] = log.ref
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

    def _create(self) -> OwnJournal:
        """Create a new journal; it is locked before its file exists."""
        self._disk.make_directory(self._folder)
        root = self._names.root
        flush = [self._folder, os.path.dirname(self._folder), root]
        if root not in self._names.durable_folders:
            flush.append(os.path.dirname(root))
        paths = journal.free_paths(self._folder)
        while True:
            path = next(paths)
            held = self._locks.take(path)
            if isinstance(held, SessionLocked):
                continue
            try:
                segment = Segment.begin(self._disk, path, self._new_id(), flush)
            except FileExistsError:
                self._locks.give_back(held)
                continue
            except BaseException:
                self._locks.give_back(held)
                raise
            self._names.durable_folders.add(root)
            self.paths.add(path)
            return OwnJournal(segment, held)

    # -- retiring

    def retire(self, retired: OwnJournal) -> None:
        """Close a journal, flush its folders, and drop it unless something could not be flushed."""
        retired.segment.close()
        for folder in sorted(retired.folders):
            try:
                self._disk.sync_directory(folder)
            except (FileNotFoundError, PermissionError):
                pass
            except OSError as error:
                retired.failed.add(folder)
                logger().warning("checkpoint_failed", folder=folder, error=str(error))
        if retired.failed:
            self._kept.append(retired)
        else:
            self._drop(retired)

    def _drop(self, retired: OwnJournal) -> None:
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

    def release_kept(self) -> None:
        """Leave the kept journals to the next host, which replays them."""
        for retired in self._kept:
            self._locks.give_back(retired.held)
        self._kept.clear()
        self.paths.clear()

    def leave_to_parent(self) -> None:
        """Close the journal in a forked child."""
        if self.current is not None:
            self.current.segment.close()
            self.current = None

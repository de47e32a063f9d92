"""The listing of a file store: rows in memory and in the index, each rebuilt when its file has changed.

A listing stats each file, and opens only those that changed since their row was made. The row of a session that is live
in this host is made from memory. The time when a session was last accessed is the only field that no log holds: it is
stored in the index and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from ...events.arguments import is_text
from ...events.disk import FileStat
from ...events.stores.base import Ref
from ...events.stores.capabilities import KeepsFiles
from ...events.stores.files.row_file import IndexFile, IndexLine
from ...events.telemetry import failure_of, logger
from ...projections.summary import CORRUPTED, SessionSummary
from ..actor import SessionActor
from ..host.registry import Registry
from ..host.runtime import Runtime
from .rows import Rows

_FILES_AT_ONCE = 64

_by_time = attrgetter("used", "ref")


class Remembered(NamedTuple):
    """A row that was made from memory, with the size and inode of the session's file at that moment."""

    row: SessionSummary
    size: int
    inode: int


class _Result(NamedTuple):
    """The result for a file: an index line, valid while the file is unchanged, or a row for this listing only."""

    line: IndexLine | None
    row: SessionSummary | None = None


class FileListing:
    """The rows of a file store.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        files: The files of the runtime's store.
        index: The file of the index.

    Attributes:
        changes: A counter that grows whenever the rows or their order may have changed.
        held: The current index lines, by session.
        unsaved: The sessions whose lines in the index file are outdated; a listener of `Touched`.
        gone: Deleted sessions that the index file may still hold; it must be rewritten without them.
        lock: The lock for work on this state.
    """

    def __init__(self, runtime: Runtime, registry: Registry, files: KeepsFiles, index: IndexFile) -> None:
        self._runtime = runtime
        self._registry = registry
        self._files = files
        self._index = index
        self._rows = Rows(runtime, files)
        self._accessed: dict[Ref, datetime] = {}
        self._passivated: dict[Ref, Remembered] = {}
        self._sorted: list[SessionSummary] | None = None
        self._loaded = False
        self.changes = 0
        self.held: dict[Ref, IndexLine] = {}
        self.unsaved: dict[Ref, None] = {}
        self.gone: set[Ref] = set()
        self.lock = anyio.Lock()

    # -- listing

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first; only files that changed are read."""
        async with self.lock:
            await self.load()
            files, stale, gone = await self._runtime.offload(self._compare, self.held.copy())
            temporary_rows = await self._make({ref: files[ref] for ref in stale})
            if gone:
                self.forget(gone)
            if temporary_rows or self._sorted is None:
                rows = [line.session for ref, line in self.held.items() if ref not in temporary_rows]
                self._sorted = sorted([*rows, *temporary_rows.values()], key=_by_time, reverse=True)
            rows = list(self._sorted)
            if temporary_rows:
                self._sorted = None
            return rows

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if it does not exist; its file is opened only if it changed."""
        async with self.lock:
            await self.load()
            stat = await self._runtime.offload(self._files.look_at, ref)
            if stat is None or not stat.size:
                return None
            held = self.held.get(ref)
            if held is not None and held.holds(stat):
                return held.session
            temporary_rows = await self._make({ref: stat})
            if ref in temporary_rows:
                return temporary_rows[ref]
            return self.held[ref].session if ref in self.held else None

    def _compare(self, held: Mapping[Ref, IndexLine]) -> tuple[Mapping[Ref, FileStat], list[Ref], list[Ref]]:
        """Stat all files; return them, the sessions whose rows are outdated, and those that are gone.

        Args:
            held: The current lines, which must not change meanwhile.
        """
        files = self._files.scan()
        stale = [ref for ref, stat in files.items() if (line := held.get(ref)) is None or not line.holds(stat)]
        if not stale and len(files) == len(held):
            return files, [], []
        gone = [ref for ref in held if ref not in files or not files[ref].size]
        return files, [ref for ref in stale if files[ref].size], gone

    async def _make(self, files: Mapping[Ref, FileStat]) -> dict[Ref, SessionSummary]:
        """Rebuild rows and hold them; return those that are valid for this listing only."""
        temporary_rows: dict[Ref, SessionSummary] = {}
        todo = [(ref, stat, self.remembered(ref)) for ref, stat in files.items()]
        for start in range(0, len(todo), _FILES_AT_ONCE):
            part = todo[start : start + _FILES_AT_ONCE]
            for (ref, _, _), result in zip(part, await self._runtime.offload(self._read, part), strict=True):
                if result.line is not None:
                    self.hold(result.line)
                    self.unsaved[ref] = None
                elif result.row is not None:
                    temporary_rows[ref] = result.row
        if any(ref in self.unsaved for ref in files):
            self._runtime.touched.wake()
        return temporary_rows

    def _read(self, todo: Iterable[tuple[Ref, FileStat, Remembered | None]]) -> list[_Result]:
        return [self.read(*each) for each in todo]

    def read(self, ref: Ref, stat: FileStat, known: Remembered | None) -> _Result:
        """Make a row from memory, or else from the file, which may wait for the disk."""
        if known is not None and known.inode == stat.inode and known.size >= stat.size:
            row = self._with_access_time(ref, self._rows.hashed(known.row))
            # The owner may have written after the file was statted: then the file's current state is unknown.
            return _Result(None, row) if known.size != stat.size else _result(ref, stat, row)
        read = self._rows.read(ref, stat)
        if read is None or read.status == CORRUPTED:  # it may become readable without a change to the file
            return _Result(None, read)
        return _result(ref, stat, self._with_access_time(ref, read))

    def remembered(self, ref: Ref) -> Remembered | None:
        """Make a session's row from memory; None if it is not live, or if its file may hold more than memory."""
        actor = self._registry.live(ref)
        if actor is None:
            return self._passivated.get(ref)
        file_state = self._files.left(ref)
        if file_state is None or file_state[0] != actor.log.index.seen:
            return None
        return Remembered(self._rows.of_live(actor), *file_state[1:])

    def _with_access_time(self, ref: Ref, row: SessionSummary) -> SessionSummary:
        """Return a row with the latest known access time of the session."""
        held = self.held.get(ref)
        times = (row.last_accessed, self._accessed.get(ref), None if held is None else held.session.last_accessed)
        latest = max((time for time in times if time is not None), default=None)
        return row if latest == row.last_accessed else replace(row, last_accessed=latest)

    def _update_access_time(self, ref: Ref) -> None:
        """Update the access time in the held row of a session."""
        held = self.held.get(ref)
        if held is not None:
            self.hold(replace(held, session=self._with_access_time(ref, held.session)))

    # -- events of sessions

    def accessed(self, ref: Ref) -> None:
        """Record that a session was loaded just now."""
        self._accessed[ref] = self._runtime.now()
        self._update_access_time(ref)
        self.unsaved[ref] = None
        self._runtime.touched.wake()

    def keep_passivated_row(self, actor: SessionActor) -> None:
        """Make the row of a session that is passivated while the host closes, while it can be made from memory.

        At other times a passivated session keeps no row in memory, since there may be very many of them.
        """
        ref = actor.log.ref
        if not self._registry.closing or ref not in self.unsaved:
            return
        try:
            known = self.remembered(ref)
        except Exception as error:  # noqa: BLE001  # a row can be made again, and must not prevent the passivation
            logger().error("background_failed", work="index", **failure_of(error))
            return
        if known is not None:
            self._passivated[ref] = known

    def saved(self, line: IndexLine) -> None:
        """Record that a session's line was written to the index; hold it if the index has been loaded."""
        ref, accessed = line.ref, self._accessed.get(line.ref)
        self._passivated.pop(ref, None)
        if self._loaded:
            self.hold(line)
            self._update_access_time(ref)  # the session may have been loaded while the line was written
        if accessed is not None and line.session.last_accessed is not None and accessed <= line.session.last_accessed:
            del self._accessed[ref]

    def hold(self, line: IndexLine) -> None:
        """Store the current line of a session."""
        self.held[line.ref] = line
        self._passivated.pop(line.ref, None)
        self._changed()

    def forget(self, refs: Iterable[Ref]) -> None:
        """Remove sessions that are gone; the index will be rewritten without them."""
        for ref in refs:
            self.held.pop(ref, None)
            self.unsaved.pop(ref, None)
            self._accessed.pop(ref, None)
            self._passivated.pop(ref, None)
            self.gone.add(ref)
        self._changed()
        self._runtime.touched.wake()

    def _changed(self) -> None:
        self.changes += 1
        self._sorted = None

    async def load(self) -> None:
        """Read the index before the first listing."""
        if not self._loaded:
            self.held = await self._runtime.offload(self._read_index) | self.held
            self._loaded = True
            self._changed()
            for ref in self._accessed:
                self._update_access_time(ref)

    def _read_index(self) -> dict[Ref, IndexLine]:
        """Return the lines of the index with fresh project hashes, which depend on more than the sessions' files."""
        lines = self._index.read().lines
        for line in lines.values():
            self._rows.update_hash(line.session)
        return lines


def is_indexable(ref: Ref) -> bool:
    """Return whether a session has a line in the index: it lies under the root, and its name is valid Unicode."""
    return not ref.startswith("/") and is_text(ref)


def _result(ref: Ref, stat: FileStat, row: SessionSummary) -> _Result:
    if not is_indexable(ref):
        return _Result(None, row)
    return _Result(IndexLine(ref, stat.size, stat.modified_ns, stat.inode, row))

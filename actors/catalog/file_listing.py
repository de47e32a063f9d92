"""The listing of a file store: rows held in memory and in the index, made anew where a file looks otherwise than then.

A listing looks at each file and opens those alone that changed since their row was made. Of a session that is live here,
the row is made from memory. What the rows say of when a session was last accessed is the one thing that no log says: it is
kept in the index and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from ...events.disk import FileStat
from ...events.stores.base import Ref
from ...events.stores.files import FileStore
from ...events.telemetry import failure_of, logger
from ...projections.summary import CORRUPTED, SessionSummary
from ..actor import SessionActor
from ..naming import is_text
from ..registry import Registry
from ..runtime import Runtime
from .index_file import IndexFile, IndexLine
from .rows import Rows

_FILES_AT_ONCE = 64

_by_time = attrgetter("used", "ref")


class Remembered(NamedTuple):
    """A row that was made from memory, and how the session's file was left then."""

    row: SessionSummary
    size: int
    inode: int


class _Made(NamedTuple):
    """What became of a file: the line that holds as long as it looks the same, or a row for this once."""

    line: IndexLine | None
    row: SessionSummary | None = None


class FileListing:
    """The rows of a file store.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        store: The runtime's store.
        index: The file of the index.

    Attributes:
        changes: Grows with each change of what is held, and so of the rows and their order.
        held: The lines that are known, by session.
        unsaved: The sessions whose lines in the index are outdated; a listener of `Touched`.
        gone: The sessions that are gone, and that the index may hold: it has to be written anew without them.
        alone: Held by whoever works on all of this.
    """

    def __init__(self, runtime: Runtime, registry: Registry, store: FileStore, index: IndexFile) -> None:
        self._runtime = runtime
        self._registry = registry
        self._store = store
        self._index = index
        self._rows = Rows(runtime, store)
        self._accessed: dict[Ref, datetime] = {}
        self._parted: dict[Ref, Remembered] = {}
        self._sorted: list[SessionSummary] | None = None
        self._loaded = False
        self.changes = 0
        self.held: dict[Ref, IndexLine] = {}
        self.unsaved: dict[Ref, None] = {}
        self.gone: set[Ref] = set()
        self.alone = anyio.Lock()

    # -- listing

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first; only files that changed are read."""
        async with self.alone:
            await self.load()
            found, stale, gone = await self._runtime.offload(self._compared, self.held.copy())
            others = await self._make({ref: found[ref] for ref in stale})
            if gone:
                self.forget(gone)
            if others or self._sorted is None:
                rows = [line.session for ref, line in self.held.items() if ref not in others]
                self._sorted = sorted([*rows, *others.values()], key=_by_time, reverse=True)
            rows = list(self._sorted)
            if others:
                self._sorted = None
            return rows

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None where it is not there; its file is opened only where it changed."""
        async with self.alone:
            await self.load()
            found = await self._runtime.offload(self._store.look_at, ref)
            if found is None or not found.size:
                return None
            held = self.held.get(ref)
            if held is not None and held.holds(found):
                return held.session
            others = await self._make({ref: found})
            return others[ref] if ref in others else self.held[ref].session if ref in self.held else None

    def _compared(self, held: Mapping[Ref, IndexLine]) -> tuple[Mapping[Ref, FileStat], list[Ref], list[Ref]]:
        """Look at all files: return them, the sessions whose rows are outdated, and those that are gone.

        Args:
            held: The lines that are known, which nobody changes meanwhile.
        """
        found = self._store.scan()
        stale = [ref for ref, stat in found.items() if (line := held.get(ref)) is None or not line.holds(stat)]
        if not stale and len(found) == len(held):
            return found, [], []
        gone = [ref for ref in held if ref not in found or not found[ref].size]
        return found, [ref for ref in stale if found[ref].size], gone

    async def _make(self, files: Mapping[Ref, FileStat]) -> dict[Ref, SessionSummary]:
        """Make rows anew and hold them; return those that are good for this once only."""
        others: dict[Ref, SessionSummary] = {}
        todo = [(ref, found, self.remembered(ref)) for ref, found in files.items()]
        for start in range(0, len(todo), _FILES_AT_ONCE):
            part = todo[start : start + _FILES_AT_ONCE]
            for (ref, _, _), made in zip(part, await self._runtime.offload(self._read, part), strict=True):
                if made.line is not None:
                    self.hold(made.line)
                    self.unsaved[ref] = None
                elif made.row is not None:
                    others[ref] = made.row
        if any(ref in self.unsaved for ref in files):
            self._runtime.touched.wake()
        return others

    def _read(self, todo: Iterable[tuple[Ref, FileStat, Remembered | None]]) -> list[_Made]:
        return [self.read(*each) for each in todo]

    def read(self, ref: Ref, found: FileStat, known: Remembered | None) -> _Made:
        """Make a row from memory, or else from the file, which may wait for the disk."""
        if known is not None and known.inode == found.inode and known.size >= found.size:
            row = self._dated(ref, self._rows.hashed(known.row))
            # The owner may have written since the file was looked at: then how it looks now is not known.
            return _Made(None, row) if known.size != found.size else _made(ref, found, row)
        made = self._rows.read(ref, found)
        if made is None or made.status == CORRUPTED:  # it may be readable tomorrow without having been written to
            return _Made(None, made)
        return _made(ref, found, self._dated(ref, made))

    def remembered(self, ref: Ref) -> Remembered | None:
        """Make a session's row from memory; None where it is not live, or its file may hold more than memory does."""
        actor = self._registry.live(ref)
        if actor is None:
            return self._parted.get(ref)
        left = self._store.left(ref)
        if left is None or left[0] != actor.log.index.seen:
            return None
        return Remembered(self._rows.of_live(actor), *left[1:])

    def _dated(self, ref: Ref, row: SessionSummary) -> SessionSummary:
        """Put into a row what is known of when the session was accessed."""
        held = self.held.get(ref)
        times = (row.last_accessed, self._accessed.get(ref), None if held is None else held.session.last_accessed)
        latest = max((time for time in times if time is not None), default=None)
        return row if latest == row.last_accessed else replace(row, last_accessed=latest)

    def _date(self, ref: Ref) -> None:
        """Put into the row that is held when the session was accessed."""
        held = self.held.get(ref)
        if held is not None:
            self.hold(replace(held, session=self._dated(ref, held.session)))

    # -- what becomes of sessions

    def accessed(self, ref: Ref) -> None:
        """Note that a session was loaded just now."""
        self._accessed[ref] = self._runtime.now()
        self._date(ref)
        self.unsaved[ref] = None
        self._runtime.touched.wake()

    def let_go(self, actor: SessionActor) -> None:
        """Make the row of a session that is let go for good, as long as that can be done from memory.

        While the host goes on, a session that is passivated keeps no row: it may be one of very many.
        """
        ref = actor.log.ref
        if not self._registry.closing or ref not in self.unsaved:
            return
        try:
            known = self.remembered(ref)
        except Exception as error:  # noqa: BLE001 - a row can be made again, and must not keep the session
            logger().error("background_failed", work="index", **failure_of(error))
            return
        if known is not None:
            self._parted[ref] = known

    def saved(self, line: IndexLine) -> None:
        """Note that a session's line is in the index; it is held where there was a listing, or else read when there is."""
        ref, accessed = line.ref, self._accessed.get(line.ref)
        self._parted.pop(ref, None)
        if self._loaded:
            self.hold(line)
            self._date(ref)  # it may have been loaded while the line was written
        if accessed is not None and line.session.last_accessed is not None and accessed <= line.session.last_accessed:
            del self._accessed[ref]

    def hold(self, line: IndexLine) -> None:
        """Know a session's line."""
        self.held[line.ref] = line
        self._parted.pop(line.ref, None)
        self._changed()

    def forget(self, refs: Iterable[Ref]) -> None:
        """Know nothing of sessions that are gone; the index is written anew without them."""
        for ref in refs:
            self.held.pop(ref, None)
            self.unsaved.pop(ref, None)
            self._accessed.pop(ref, None)
            self._parted.pop(ref, None)
            self.gone.add(ref)
        self._changed()
        self._runtime.touched.wake()

    def _changed(self) -> None:
        self.changes += 1
        self._sorted = None

    async def load(self) -> None:
        """Read the index, the first time that there is a listing."""
        if not self._loaded:
            self.held = await self._runtime.offload(self._kept) | self.held
            self._loaded = True
            self._changed()
            for ref in self._accessed:
                self._date(ref)

    def _kept(self) -> dict[Ref, IndexLine]:
        """Return what the index says, but for what follows from other things than the sessions' files."""
        lines = self._index.read().lines
        for line in lines.values():
            self._rows.hash_anew(line.session)
        return lines


def is_kept(ref: Ref) -> bool:
    """Tell whether the index has a line of a session: it lies under the root, and its name can be written down."""
    return not ref.startswith("/") and is_text(ref)


def _made(ref: Ref, found: FileStat, row: SessionSummary) -> _Made:
    if not is_kept(ref):
        return _Made(None, row)
    return _Made(IndexLine(ref, found.size, found.modified_ns, found.inode, row))

"""The listing: a row for each session, in memory and as the store keeps it, made again when its log has changed.

A listing looks at the stamps of all logs, and reads only the logs whose stamp is another one than when their row was
made. The row of a session that is live in this host is made from memory. The time when a session was last accessed is
the only field that no log holds: it is kept with the rows and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple, TypeGuard

from msgspec.structs import replace

from ...events.entries import EPOCH
from ...events.stores.base import LogInfo, Ref, Stamp
from ...events.stores.capabilities import KeepsRows, ScansChanges
from ...projections.summary import CORRUPTED, SessionSummary
from ..actor import SessionActor
from ..host.registry import Registry
from ..host.runtime import Runtime
from .core import HeldRows, ListingCore, last_used
from .rows import Row

_LOGS_AT_ONCE = 64
_PAGE = 1000
_MICROSECOND = timedelta(microseconds=1)

_by_time = attrgetter("used", "ref")


class Remembered(NamedTuple):
    """A row that was made from memory, with the size and identity of the log at that moment."""

    session: SessionSummary
    size: int
    identity: int


class SessionListing(ListingCore):
    """The rows of a host's sessions, all in memory.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        kept: The rows that the store keeps; None if it keeps none.

    Attributes:
        held: The current rows, by session.
    """

    def __init__(self, runtime: Runtime, registry: Registry, kept: KeepsRows | None) -> None:
        super().__init__(runtime, registry)
        self._kept = kept
        self._passivated: dict[Ref, Remembered] = {}
        self._sorted: list[SessionSummary] | None = None
        self._loaded = False
        self.held: dict[Ref, Row] = {}

    # -- listing

    async def now(self) -> HeldRows:
        """Return the rows as they are now."""
        return HeldRows(await self.rows())

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first; only logs that changed are read."""
        async with self.lock:
            await self._load()
            stale, gone = await self._compare()
            temporary_rows = await self._make(stale)
            if gone:
                self.forget(gone)
            if temporary_rows or self._sorted is None:
                rows = [row.session for ref, row in self.held.items() if ref not in temporary_rows]
                self._sorted = sorted([*rows, *temporary_rows.values()], key=_by_time, reverse=True)
            rows = list(self._sorted)
            if temporary_rows:
                self._sorted = None
            return rows

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if it does not exist; its log is read only if it changed."""
        async with self.lock:
            await self._load()
            stamp = await self._stamp_of(ref)
            if stamp is None or not stamp.size:
                return None
            held = self.held.get(ref)
            if held is not None and held.stamp == stamp:
                return held.session
            temporary_rows = await self._make({ref: stamp})
            if ref in temporary_rows:
                return temporary_rows[ref]
            return self.held[ref].session if ref in self.held else None

    async def _compare(self) -> tuple[Mapping[Ref, Stamp], Sequence[Ref]]:
        """Look at all logs; return those whose rows are outdated, with their stamps, and those that are gone."""
        held, scanning = self.held.copy(), self._runtime.scans  # the rows may change meanwhile
        if scanning is not None:
            return await self._runtime.blocking(lambda: _differences(scanning.scan(), held))
        stamps: dict[Ref, Stamp] = {}
        after = ""
        while page := await self._runtime.store.page("", after, _PAGE):
            stamps |= {info.ref: _stamp(info) for info in page}
            after = page[-1].ref
        return await self._runtime.offload(_differences, stamps, held)

    async def _stamp_of(self, ref: Ref) -> Stamp | None:
        if self._runtime.scans is not None:
            return await self._runtime.blocking(self._runtime.scans.look_at, ref)
        infos = await self._runtime.store.page(ref, "", 1)
        return _stamp(infos[0]) if infos and infos[0].ref == ref else None

    async def stamps_of(self, refs: Iterable[Ref]) -> dict[Ref, Stamp]:
        """Return the stamps of those sessions that can be looked at; a listing reports the others."""
        scanning = self._runtime.scans
        if scanning is not None:
            return await self._runtime.blocking(_looked_at, scanning, list(refs))
        stamps = {ref: await self._stamp_of(ref) for ref in refs}
        return {ref: stamp for ref, stamp in stamps.items() if stamp is not None and stamp.size}

    async def _make(self, stamps: Mapping[Ref, Stamp]) -> dict[Ref, SessionSummary]:
        """Make rows and hold them; return those that are valid for this listing only."""
        temporary_rows: dict[Ref, SessionSummary] = {}
        todo = [(ref, stamp, self.remembered(ref)) for ref, stamp in stamps.items()]
        for start in range(0, len(todo), _LOGS_AT_ONCE):
            for row, is_valid in await self.make(todo[start : start + _LOGS_AT_ONCE]):
                if is_valid:
                    self.hold(row)
                    self._note_unsaved(row.ref)
                else:
                    temporary_rows[row.ref] = row.session
        if any(ref in self.unsaved for ref in stamps):
            self._runtime.touched.wake()
        return temporary_rows

    async def make(self, todo: Sequence[tuple[Ref, Stamp, Remembered | None]]) -> list[tuple[Row, bool]]:
        """Make rows from memory, or else from their logs; sessions that were deleted meanwhile have none.

        Returns:
            Each row, and whether it is valid as long as the log has its stamp, or only now.
        """
        wanted = [(ref, stamp, known.session if _covers(known, stamp) else None) for ref, stamp, known in todo]
        results: list[tuple[Row, bool]] = []
        for (ref, stamp, known), session in zip(todo, await self._rows.make(wanted), strict=True):
            if session is None:
                continue
            if session.status == CORRUPTED:  # it may become readable without a change to the log
                results.append((Row(ref, stamp, session), False))
                continue
            if session.state is None:
                session = await self._with_state(ref, session)
            # The owner may have written after the stamp was taken: then the log's current stamp is unknown.
            is_valid = self.is_listed(ref) and not (_covers(known, stamp) and known.size != stamp.size)
            results.append((Row(ref, stamp, self._with_access_time(ref, session)), is_valid))
        return results

    def remembered(self, ref: Ref) -> Remembered | None:
        """Make a session's row from memory; None if it is not live, or if its log may hold more than memory."""
        actor = self._registry.live(ref)
        if actor is None:
            return self._passivated.get(ref)
        if self._runtime.scans is None:  # what memory holds may be later than any stamp
            return Remembered(self._rows.of_live(actor), sys.maxsize, 0)
        left = self._runtime.scans.left(ref)
        if left is None or left.seq != actor.log.index.seen:
            return None
        return Remembered(self._rows.of_live(actor), left.size, left.identity)

    def _with_access_time(self, ref: Ref, row: SessionSummary) -> SessionSummary:
        """Return a row with the latest known access time of the session."""
        held = self.held.get(ref)
        return last_used(row, self._accessed.get(ref), None if held is None else held.session.last_accessed)

    def _update_access_time(self, ref: Ref) -> None:
        """Update the access time in the held row of a session."""
        held = self.held.get(ref)
        if held is not None:
            self.hold(replace(held, session=self._with_access_time(ref, held.session)))

    # -- events of sessions

    async def leaving(self, ref: Ref) -> None:
        """Do nothing: the rows of sessions that will be removed are at hand."""

    def accessed(self, ref: Ref) -> None:
        """Record that a session was loaded just now."""
        self._accessed[ref] = self._runtime.now()
        self._update_access_time(ref)
        self._note_unsaved(ref)
        self._runtime.touched.wake()

    def _remember(self, actor: SessionActor) -> None:
        known = self.remembered(actor.log.ref)
        if known is not None:
            self._passivated[actor.log.ref] = known

    def saved(self, row: Row) -> None:
        """Record that the store keeps a session's row; hold it if the kept rows have been loaded."""
        ref, accessed = row.ref, self._accessed.get(row.ref)
        self._passivated.pop(ref, None)
        if self._loaded:
            self.hold(row)
            self._update_access_time(ref)  # the session may have been loaded while the row was written
        if accessed is not None and row.session.last_accessed is not None and accessed <= row.session.last_accessed:
            del self._accessed[ref]

    def hold(self, row: Row) -> None:
        """Store the current row of a session."""
        self.held[row.ref] = row
        self._passivated.pop(row.ref, None)
        self._changed()

    def forget(self, refs: Iterable[Ref]) -> None:
        """Remove sessions that are gone; the store will drop their rows."""
        for ref in refs:
            held = self.held.pop(ref, None)
            if held is not None:
                self._note_last(held.session)
            self.unsaved.pop(ref, None)
            self._accessed.pop(ref, None)
            self._passivated.pop(ref, None)
            if self._kept is not None:
                self.gone.add(ref)
        self._changed()
        self._runtime.touched.wake()

    def _note_unsaved(self, ref: Ref) -> None:
        if self._kept is not None:
            self.unsaved[ref] = None

    def _changed(self) -> None:
        self.changes += 1
        self._sorted = None

    async def _load(self) -> None:
        """Take up the kept rows before the first listing."""
        if not self._loaded:
            self.held = await self._runtime.blocking(self._restored) | self.held
            self._loaded = True
            self._changed()
            for ref in self._accessed:
                self._update_access_time(ref)

    def _restored(self) -> dict[Ref, Row]:
        kept = None if self._kept is None else self._kept.rows()
        rows = map(self._rows.restored, () if kept is None else kept.rows.values())
        return {row.ref: row for row in rows if row is not None}


def _looked_at(scanning: ScansChanges, refs: Sequence[Ref]) -> dict[Ref, Stamp]:
    stamps: dict[Ref, Stamp] = {}
    for ref in refs:
        with suppress(OSError):
            stamp = scanning.look_at(ref)
            if stamp is not None and stamp.size:
                stamps[ref] = stamp
    return stamps


def _covers(known: Remembered | None, stamp: Stamp) -> TypeGuard[Remembered]:
    """Return whether memory holds all that a stamp covers."""
    return known is not None and known.identity == stamp.identity and known.size >= stamp.size


def _differences(stamps: Mapping[Ref, Stamp], held: Mapping[Ref, Row]) -> tuple[dict[Ref, Stamp], list[Ref]]:
    """Return the logs whose rows are outdated, with their stamps, and those that are gone."""
    stale = {ref: stamp for ref, stamp in stamps.items() if (row := held.get(ref)) is None or row.stamp != stamp}
    if not stale and len(stamps) == len(held):
        return {}, []
    gone = [ref for ref in held if ref not in stamps or not stamps[ref].size]
    return {ref: stamp for ref, stamp in stale.items() if stamp.size}, gone


def _stamp(info: LogInfo) -> Stamp:
    """Return a stamp for a log of a store that has none."""
    return Stamp(info.size, (info.modified - EPOCH) // _MICROSECOND * 1000, 0)

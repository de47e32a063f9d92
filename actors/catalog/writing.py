"""The writer of the index: the store keeps rows some time after a change, not more often than an interval allows.

Any change to a session makes its row outdated. The writer then waits for further changes (`debounce_ms`) and for the
interval since its last write (`update_metadata_interval_ms`), and writes all changed rows together. Entries are never
held back for it. A host that closes writes the rest; if a write fails, nothing is lost, since missing rows are made
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from ...events.kinds import Kind
from ...events.offload import carried_out
from ...events.stores.base import Ref, Stamp
from ...events.stores.capabilities import KeepsRows
from ...events.telemetry import failure_of, logger
from ...projections.summary import SessionSummary
from ..host.registry import Registry
from ..host.runtime import Runtime
from .listing import Remembered, SessionListing
from .rows import Row, kept, session_of
from .settings import Settings
from .stored import StoredListing

_RETRY_S = 1.0
"""The minimum time in seconds before busy sessions are tried again."""

_ROWS_AT_ONCE = 16
"""How many rows are made from memory before the event loop serves everything else."""

_BUSY_S = 60.0
"""The maximum time in seconds that the row of a busy session is delayed; then its log is read."""


L = TypeVar("L", SessionListing, StoredListing)


class RowWriter(Generic[L]):
    """Writes the rows of a host's sessions when they are due.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        listing: The rows to write.
        settings: The intervals.
    """

    def __init__(self, runtime: Runtime, registry: Registry, listing: L, settings: Settings) -> None:
        self._runtime = runtime
        self._registry = registry
        self._listing: L = listing
        self._debounce_s = settings.debounce_ms / 1000
        self._interval_s = settings.update_metadata_interval_ms / 1000
        quiet = {
            Kind.ASSISTANT: not settings.save_after_assistant_message,
            Kind.TOOL_EXECUTION: not settings.save_after_tool_execution,
        }
        self._quiet = frozenset(kind for kind, is_quiet in quiet.items() if is_quiet)
        self._heads: dict[Ref, int] = {}
        self._busy_since: dict[Ref, float] = {}
        self._written_at = float("-inf")

    async def run(self) -> None:
        """Write the index whenever it is due, until the host closes."""
        touched = self._runtime.touched
        while not touched.closed:
            if not self._is_due():
                await touched.wait()
                continue
            await anyio.sleep(max(self._debounce_s, _RETRY_S if self._busy_since else 0.0))
            await anyio.sleep(max(0.0, self._written_at + self._interval_s - anyio.current_time()))
            if not await self.save() and not touched.closed:
                await touched.wait()  # the write failed: retry after the next change

    def _is_due(self) -> bool:
        listing = self._listing
        return bool(listing.gone) or any(map(self._needs_saving, listing.unsaved) if self._quiet else listing.unsaved)

    def _needs_saving(self, ref: Ref) -> bool:
        """Return whether a session has new entries other than those for which the settings do not save."""
        actor = self._registry.live(ref)
        if actor is None:
            return True
        kinds = actor.log.index.kinds
        return not self._quiet.issuperset(kinds[self._heads.get(ref, 0) + 1 :])

    async def save(self, *, at_once: bool = False) -> bool:
        """Write the rows that changed since the last write.

        Args:
            at_once: Include busy sessions.

        Returns:
            Whether the write succeeded. If it failed, the rows are written the next time.
        """
        listing = self._listing
        async with listing.lock:
            refs, gone = list(filter(listing.is_listed, listing.unsaved)), listing.gone
            listing.unsaved.clear()
            listing.gone = set()
            if not refs and not gone:
                return True
            self._written_at = anyio.current_time()
            saved = False
            try:
                await self._save(refs, gone, at_once=at_once)
                saved = True
            except OSError as error:
                logger().debug("index_not_written", **failure_of(error))
            finally:
                if not saved:  # after any failure, including a cancellation
                    listing.unsaved |= dict.fromkeys(refs)
                    listing.gone |= gone
            return saved

    async def _save(self, refs: Sequence[Ref], gone: set[Ref], *, at_once: bool) -> None:
        """Write the rows of sessions, and drop those of sessions that are gone.

        Raises:
            OSError: The write failed.
        """
        raise NotImplementedError

    def _heads_of(self, refs: Sequence[Ref]) -> dict[Ref, int]:
        live = self._registry.live
        return {ref: actor.log.index.head for ref in refs if self._quiet and (actor := live(ref)) is not None}

    def _note_heads(self, heads: Mapping[Ref, int]) -> None:
        """Record the heads of the saved logs, and drop those of sessions that are no longer live."""
        live = self._registry.live
        self._heads = {ref: head for ref, head in self._heads.items() if live(ref) is not None} | dict(heads)


class StoredRowWriter(RowWriter[StoredListing]):
    """Lets a store that finds rows keep those that changed."""

    async def _save(self, refs: Sequence[Ref], gone: set[Ref], *, at_once: bool) -> None:
        heads = self._heads_of(refs)
        if refs:
            await self._listing.bring_up_to_date(refs)
        await self._listing.drop(gone)
        self._note_heads(heads)


class IndexWriter(RowWriter[SessionListing]):
    """Writes the rows of a listing in memory into the index of a store.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        kept: The rows that the store keeps.
        listing: The rows to write.
        settings: The intervals.
    """

    def __init__(
        self, runtime: Runtime, registry: Registry, kept: KeepsRows, listing: SessionListing, settings: Settings
    ) -> None:
        super().__init__(runtime, registry, listing, settings)
        self._kept = kept

    async def _save(self, refs: Sequence[Ref], gone: set[Ref], *, at_once: bool) -> None:
        """Write the rows of sessions; busy sessions stay unsaved."""
        heads = self._heads_of(refs)
        rows, busy = await self._current_rows(refs, at_once=at_once)
        if rows or gone:
            await self._write(rows, gone)
        self._listing.unsaved |= dict.fromkeys(busy)
        now = anyio.current_time()
        self._busy_since = {ref: self._busy_since.get(ref, now) for ref in busy}
        self._note_heads({ref: head for ref, head in heads.items() if ref not in self._busy_since})
        for row in rows:
            self._listing.saved(row)

    async def _current_rows(self, refs: Sequence[Ref], *, at_once: bool) -> tuple[list[Row], list[Ref]]:
        """Return the current rows of sessions, and the sessions that must wait for the next time.

        A session to which this host is writing waits: reading its log would produce a row that is outdated before it is
        written.
        """
        late = anyio.current_time() - _BUSY_S
        may_wait = {ref for ref in refs if not at_once and self._busy_since.get(ref, late + 1) > late}
        live = self._registry.live
        busy = {ref for ref in may_wait if (actor := live(ref)) is not None and not actor.idle}
        known: dict[Ref, Remembered | None] = {}
        for ref in refs:
            if ref not in busy:
                known[ref] = self._listing.remembered(ref)
                if len(known) % _ROWS_AT_ONCE == 0:
                    await checkpoint()
        rows, grown = await self._make(known)
        to_read = {
            ref: None
            for ref in grown
            # If what is remembered has not changed, another program wrote to the log.
            if ref not in may_wait or self._listing.remembered(ref) == known[ref]
        }
        if to_read:
            rows += (await self._make(to_read))[0]
        return rows, [*busy, *(ref for ref in grown if ref not in to_read)]

    async def _make(self, known: Mapping[Ref, Remembered | None]) -> tuple[list[Row], list[Ref]]:
        """Return the rows of sessions whose logs can be read, and the sessions whose logs have grown meanwhile."""
        rows: list[Row] = []
        grown: list[Ref] = []
        todo: list[tuple[Ref, Stamp, Remembered | None]] = []
        for ref, stamp in (await self._listing.stamps_of(known)).items():
            held, remembered = self._listing.held.get(ref), known[ref]
            if held is not None and held.stamp == stamp:
                rows.append(held)
            elif remembered is not None and remembered.identity == stamp.identity and remembered.size < stamp.size:
                grown.append(ref)
            else:
                todo.append((ref, stamp, remembered))
        rows += [row for row, is_valid in await self._listing.make(todo) if is_valid]
        return rows, grown

    async def _write(self, rows: Sequence[Row], gone: set[Ref]) -> None:
        """Let the store keep rows, or all rows anew if that is due.

        Raises:
            OSError: A write failed.
        """
        blocking = self._runtime.blocking
        if await carried_out(blocking, lambda: self._kept.keep(list(map(kept, rows)), gone)):
            return
        # A host that only lists the sessions of others makes no place for rows among them.
        wrote = self._runtime.counters.activated > 0
        await carried_out(blocking, self._rewrite, self._listing.held.copy(), rows, gone, wrote)

    def _rewrite(self, held: Mapping[Ref, Row], rows: Sequence[Row], gone: set[Ref], may_create: bool) -> None:
        before = self._kept.rows()
        all_rows = {} if before is None else dict(before.rows)  # other processes write to it, too
        for ref, row in held.items():
            theirs = session_of(all_rows[ref]) if ref in all_rows else None
            if theirs is None or _used(theirs) <= _used(row.session):
                all_rows[ref] = kept(row)
        for ref in gone:
            all_rows.pop(ref, None)
        all_rows |= {row.ref: kept(row) for row in rows}
        self._kept.rewrite(all_rows, may_create=may_create)


def _used(session: SessionSummary) -> datetime:
    """Return when a session was last used."""
    return session.last_accessed or session.modified

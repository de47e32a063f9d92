"""The writer of the index: it writes some time after a change, and not more often than an interval allows.

Any change to a session makes its line outdated. The writer then waits for further changes (`debounce_ms`) and for the
interval since its last write (`update_metadata_interval_ms`), and writes all changed lines together. Entries are never
held back for it. A host that closes writes the rest; if a write fails, nothing is lost, since missing lines are
rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import anyio

from ...events.kinds import Kind
from ...events.offload import carried_out
from ...events.stores.base import Ref
from ...events.stores.capabilities import KeepsFiles
from ...events.stores.files.row_file import IndexFile, IndexLine
from ...events.telemetry import failure_of, logger
from ..host.registry import Registry
from ..host.runtime import Runtime
from .listing import FileListing, Remembered, is_indexable
from .settings import Settings

_RETRY_S = 1.0
"""The minimum time in seconds before busy sessions are tried again."""

_BUSY_S = 60.0
"""The maximum time in seconds that the line of a busy session is delayed; then its file is read."""


class IndexWriter:
    """Writes the index of one root.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        files: The files of the runtime's store.
        index: The file of the index.
        listing: The lines to write.
        settings: The intervals.
    """

    def __init__(
        self,
        runtime: Runtime,
        registry: Registry,
        files: KeepsFiles,
        index: IndexFile,
        listing: FileListing,
        settings: Settings,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._files = files
        self._index = index
        self._listing = listing
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
        """Write the lines that changed since the last write.

        Args:
            at_once: Include busy sessions.

        Returns:
            Whether the write succeeded. If it failed, the lines are written the next time.
        """
        listing = self._listing
        async with listing.lock:
            refs, gone = [ref for ref in listing.unsaved if is_indexable(ref)], listing.gone
            listing.unsaved.clear()
            listing.gone = set()
            if not refs and not gone:
                return True
            self._written_at = anyio.current_time()
            saved: list[IndexLine] | None = None
            try:
                saved = await self._save(refs, gone, at_once=at_once)
            except OSError as error:
                logger().debug("index_not_written", **failure_of(error))
            finally:
                if saved is None:  # after any failure, including a cancellation
                    listing.unsaved |= dict.fromkeys(refs)
                    listing.gone |= gone
            for line in saved or ():
                listing.saved(line)
            return saved is not None

    async def _save(self, refs: Sequence[Ref], gone: set[Ref], *, at_once: bool) -> list[IndexLine]:
        """Write the lines of sessions, and return them; busy sessions stay unsaved.

        Raises:
            OSError: The write failed.
        """
        heads = self._heads_of(refs)
        lines, busy = await self._lines(refs, at_once=at_once)
        if lines or gone:
            await self._write(lines, gone)
        self._listing.unsaved |= dict.fromkeys(busy)
        now = anyio.current_time()
        self._busy_since = {ref: self._busy_since.get(ref, now) for ref in busy}
        self._note_heads({ref: head for ref, head in heads.items() if ref not in self._busy_since})
        return lines

    def _heads_of(self, refs: Sequence[Ref]) -> dict[Ref, int]:
        live = self._registry.live
        return {ref: actor.log.index.head for ref in refs if self._quiet and (actor := live(ref)) is not None}

    def _note_heads(self, heads: Mapping[Ref, int]) -> None:
        """Record the heads of the saved logs, and drop those of sessions that are no longer live."""
        live = self._registry.live
        self._heads = {ref: head for ref, head in self._heads.items() if live(ref) is not None} | dict(heads)

    async def _lines(self, refs: Sequence[Ref], *, at_once: bool) -> tuple[list[IndexLine], list[Ref]]:
        """Return the current lines of sessions, and the sessions that must wait for the next time.

        A session to which this host is writing waits: reading its file would produce a line that is outdated before it
        is written.
        """
        late = anyio.current_time() - _BUSY_S
        may_wait = {ref for ref in refs if not at_once and self._busy_since.get(ref, late + 1) > late}
        live = self._registry.live
        busy = {ref for ref in may_wait if (actor := live(ref)) is not None and not actor.idle}
        known = {ref: self._listing.remembered(ref) for ref in refs if ref not in busy}
        lines, grown = await carried_out(self._runtime.offload, self._make_lines, known)
        to_read = {
            ref: None
            for ref in grown
            # If what is remembered has not changed, another program wrote to the file.
            if ref not in may_wait or self._listing.remembered(ref) == known[ref]
        }
        if to_read:
            lines += (await carried_out(self._runtime.offload, self._make_lines, to_read))[0]
        return lines, [*busy, *(ref for ref in grown if ref not in to_read)]

    def _make_lines(self, known: Mapping[Ref, Remembered | None]) -> tuple[list[IndexLine], list[Ref]]:
        """Return the lines of sessions whose files can be read, and the sessions whose files have grown meanwhile."""
        lines: list[IndexLine] = []
        grown: list[Ref] = []
        for ref, remembered in known.items():
            try:
                stat = self._files.look_at(ref)
            except OSError:  # a listing reports the problem
                continue
            if stat is None or not stat.size:
                continue
            held = self._listing.held.get(ref)
            if held is not None and held.holds(stat):
                lines.append(held)
            elif remembered is not None and remembered.inode == stat.inode and remembered.size < stat.size:
                grown.append(ref)
            elif (line := self._listing.read(ref, stat, remembered).line) is not None:
                lines.append(line)
        return lines, grown

    async def _write(self, lines: Sequence[IndexLine], gone: set[Ref]) -> None:
        """Append lines to the index, or rewrite it if that is due.

        Raises:
            OSError: A write failed.
        """
        offload = self._runtime.offload
        if not gone and await carried_out(offload, self._index.append, lines):
            return
        all_lines = (await offload(self._index.read)).lines  # other processes write to it, too
        for ref, line in self._listing.held.items():
            if ref not in all_lines or _used(all_lines[ref]) <= _used(line):
                all_lines[ref] = line
        for ref in gone:
            all_lines.pop(ref, None)
        all_lines |= {line.ref: line for line in lines}
        # A host that only lists the sessions of others does not create a folder among them.
        wrote = self._runtime.counters.activated > 0
        await carried_out(offload, partial(self._index.replace, all_lines, make_folder=wrote))


def _used(line: IndexLine) -> datetime:
    """Return when the session of a line was last used."""
    return line.session.last_accessed or line.session.modified

"""When the index is written: some time after something changed, and at most once in a while.

Whatever touches a session makes its line outdated. The writer then waits for more (`debounce_ms`), and for the time since
it wrote last (`update_metadata_interval_ms`), and writes what changed in one go. Entries are never held back for it. A host
that closes writes what is left; where the disk refuses, nothing is lost, since the lines are made anew when they are missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import anyio

from ...events.kinds import Kind
from ...events.offload import carried_out
from ...events.stores.base import Ref
from ...events.stores.files import FileStore
from ...events.telemetry import failure_of, logger
from ..registry import Registry
from ..runtime import Runtime
from .file_listing import FileListing, Remembered, is_kept
from .index_file import IndexFile, IndexLine
from .settings import Settings

_RETRY_S = 1.0
"""How many seconds sessions that are busy are left alone at least."""

_BUSY_S = 60.0
"""How many seconds a session that is never idle waits for its line at most; then its file is read for it."""


class IndexWriter:
    """Writes the index of one root.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        store: The runtime's store.
        index: The file of the index.
        listing: What is to be written.
        settings: When.
    """

    def __init__(
        self,
        runtime: Runtime,
        registry: Registry,
        store: FileStore,
        index: IndexFile,
        listing: FileListing,
        settings: Settings,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._store = store
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
        """Write the index whenever it is due, until nothing will be touched any more."""
        touched = self._runtime.touched
        while not touched.closed:
            if not self._is_due():
                await touched.wait()
                continue
            await anyio.sleep(max(self._debounce_s, _RETRY_S if self._busy_since else 0.0))
            await anyio.sleep(max(0.0, self._written_at + self._interval_s - anyio.current_time()))
            if not await self.save() and not touched.closed:
                await touched.wait()  # no sooner than something happens is the disk asked again

    def _is_due(self) -> bool:
        listing = self._listing
        return bool(listing.gone) or any(map(self._matters, listing.unsaved) if self._quiet else listing.unsaved)

    def _matters(self, ref: Ref) -> bool:
        """Tell whether more happened in a session than what the settings say is no reason to write."""
        actor = self._registry.live(ref)
        if actor is None:
            return True
        kinds = actor.log.index.kinds
        return not self._quiet.issuperset(kinds[self._heads.get(ref, 0) + 1 :])

    async def save(self, *, at_once: bool = False) -> bool:
        """Write what changed since the last time.

        Args:
            at_once: Let no session wait because it is busy.

        Returns:
            Whether it is written. Where the disk refuses, what was to be written waits for the next time.
        """
        listing = self._listing
        async with listing.alone:
            refs, gone = [ref for ref in listing.unsaved if is_kept(ref)], listing.gone
            listing.unsaved.clear()
            listing.gone = set()
            if not refs and not gone:
                return True
            self._written_at = anyio.current_time()
            is_saved, lines = False, list[IndexLine]()
            try:
                heads = self._heads_of(refs)
                lines, busy = await self._lines(refs, at_once=at_once)
                if lines or gone:
                    await self._write(lines, gone)
                listing.unsaved |= dict.fromkeys(busy)
                now = anyio.current_time()
                self._busy_since = {ref: self._busy_since.get(ref, now) for ref in busy}
                self._note_heads({ref: head for ref, head in heads.items() if ref not in self._busy_since})
                is_saved = True
            except OSError as error:
                logger().debug("index_not_written", **failure_of(error))
            finally:  # whatever it was, a cancellation too
                if not is_saved:
                    listing.unsaved |= dict.fromkeys(refs)
                    listing.gone |= gone
            if is_saved:
                for line in lines:
                    listing.saved(line)
            return is_saved

    def _heads_of(self, refs: Sequence[Ref]) -> dict[Ref, int]:
        live = self._registry.live
        return {ref: actor.log.index.head for ref in refs if self._quiet and (actor := live(ref)) is not None}

    def _note_heads(self, heads: Mapping[Ref, int]) -> None:
        """Note how long the logs are that are written down; only those of live sessions are looked at again."""
        live = self._registry.live
        self._heads = {ref: head for ref, head in self._heads.items() if live(ref) is not None} | dict(heads)

    async def _lines(self, refs: Sequence[Ref], *, at_once: bool) -> tuple[list[IndexLine], list[Ref]]:
        """Make the lines of sessions, and tell which have to wait for the next time.

        A session that this host writes to just now waits: its file would have to be read for a line that is outdated
        before it is written.
        """
        late = anyio.current_time() - _BUSY_S
        may_wait = {ref for ref in refs if not at_once and self._busy_since.get(ref, late + 1) > late}
        live = self._registry.live
        busy = {ref for ref in may_wait if (actor := live(ref)) is not None and not actor.idle}
        known = {ref: self._listing.remembered(ref) for ref in refs if ref not in busy}
        lines, grown = await carried_out(self._runtime.offload, self._made, known)
        others = {
            ref: None
            for ref in grown
            if ref not in may_wait or self._listing.remembered(ref) == known[ref]  # another program's
        }
        if others:
            lines += (await carried_out(self._runtime.offload, self._made, others))[0]
        return lines, [*busy, *(ref for ref in grown if ref not in others)]

    def _made(self, known: Mapping[Ref, Remembered | None]) -> tuple[list[IndexLine], list[Ref]]:
        """Make the lines of sessions whose files can be read, and tell which files have more than is remembered."""
        made: list[IndexLine] = []
        grown: list[Ref] = []
        for ref, remembered in known.items():
            try:
                found = self._store.look_at(ref)
            except OSError:  # a listing says what is the matter with it
                continue
            if found is None or not found.size:
                continue
            held = self._listing.held.get(ref)
            if held is not None and held.holds(found):
                made.append(held)
            elif remembered is not None and remembered.inode == found.inode and remembered.size < found.size:
                grown.append(ref)
            elif (line := self._listing.read(ref, found, remembered).line) is not None:
                made.append(line)
        return made, grown

    async def _write(self, lines: Sequence[IndexLine], gone: set[Ref]) -> None:
        """Add lines to the index, or write it anew where that is due.

        Raises:
            OSError: The disk refuses.
        """
        offload = self._runtime.offload
        if not gone and await carried_out(offload, self._index.append, lines):
            return
        whole = (await offload(self._index.read)).lines  # others write to it, too
        for ref, line in self._listing.held.items():
            if ref not in whole or _used(whole[ref]) <= _used(line):
                whole[ref] = line
        for ref in gone:
            whole.pop(ref, None)
        whole |= {line.ref: line for line in lines}
        # Who only lists what others wrote leaves no folder of its own among it.
        wrote = self._runtime.counters.activated > 0
        await carried_out(offload, partial(self._index.replace, whole, make_folder=wrote))


def _used(line: IndexLine) -> datetime:
    """Return when a session was used last, as a line says."""
    return line.session.last_accessed or line.session.modified

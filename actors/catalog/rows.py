"""Rows of the listing: how they are made, and the form in which a store keeps them.

The row of a live session is made from memory, any other from its log. Small logs are read whole, larger ones page by
page from the snapshot on; in both cases entries are dropped as soon as they are counted. A log that cannot be read also
has a row, which says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ...events.dialects.base import lines_of
from ...events.entries import ARCHIVED, EPOCH
from ...events.errors import SessionNotFound, TreeringError
from ...events.index import LogIndex
from ...events.projects import project_hash
from ...events.stores.base import Ref, Stamp
from ...events.stores.capabilities import KeptRow, Whole
from ...projections.session_state import SessionState, needed, state_of
from ...projections.summary import CORRUPTED, SessionSummary, corrupted, summarize
from ..actor import SessionActor
from ..host.runtime import Runtime
from ..log.open_log import OpenLog

_HASHES_MAX = 4096

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SessionSummary).decode


NO_STAMP = Stamp(-1, -1, -1)
"""The stamp of no log: a row with it is made again."""


class Row(Struct, frozen=True, gc=False):
    """A row that is valid as long as its log has the stamp that it had when the row was made."""

    ref: Ref
    stamp: Stamp
    session: SessionSummary


def kept(row: Row) -> KeptRow:
    """Return a row as a store keeps it: without the path, so that the root may be moved."""
    return KeptRow(row.ref, row.stamp, _encode(replace(row.session, path=None)))


def session_of(row: KeptRow) -> SessionSummary | None:
    """Return what a kept row says; None if it is damaged."""
    try:
        session = _decode(row.data)
    except (ValueError, RecursionError):
        return None
    if session.status == ARCHIVED:  # in a row from before there was `archived`
        force_setattr(session, "archived", True)
    return session


class Rows:
    """Makes the rows of a host's sessions.

    Args:
        runtime: The host's seams.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._files = runtime.files
        self._hashes: dict[str, str] = {}

    def of_live(self, actor: SessionActor) -> SessionSummary:
        """Make the row of a live session from memory; the hash of its project is left out if it is not cached.

        Its state is left out if one of the last entries is not cached.
        """
        log = actor.log
        path, state = self._path_of(log.ref), log.state_in_memory()
        return self._hashed(summarize(log.index, ref=log.ref, dialect=log.dialect.name, path=path, state=state))

    def restored(self, kept: KeptRow) -> Row | None:
        """Return a kept row, which may wait for the disk; None if it is damaged.

        The hash of its project is computed again, since the folder may have been moved, and a link left in its place.
        """
        session = session_of(kept)
        if session is None:
            return None
        try:
            force_setattr(session, "path", self._path_of(kept.ref))
        except TreeringError:  # it names no log
            return None
        if session.project is not None:
            if session.project not in self._hashes:
                self._hash_all((session.project,))
            force_setattr(session, "project_hash", self._hashes[session.project])
        stamp = kept.stamp
        if None in (session.state, session.labels) and session.status != CORRUPTED:
            stamp = NO_STAMP  # it is of an earlier version, such as one without labels, and made again
        return Row(kept.ref, stamp, session)

    async def make(self, wanted: Sequence[tuple[Ref, Stamp, SessionSummary | None]]) -> list[SessionSummary | None]:
        """Make rows of sessions, with the hashes of their projects.

        Args:
            wanted: Each session, its stamp, and its row if that was made from memory.

        Returns:
            Each row; None for a session that was deleted meanwhile.
        """
        if self._runtime.looks is not None:
            rows = await self._runtime.blocking(self._look_at_all, wanted)
        else:
            rows = [await self._read(ref, stamp) if row is None else row for ref, stamp, row in wanted]
        unhashed = [row for row in rows if row is not None and row.project_hash is None]
        projects = {row.project for row in unhashed if row.project is not None}
        if projects - self._hashes.keys():
            await self._runtime.offload(self._hash_all, projects)
        return [None if row is None else self._hashed(row) for row in rows]

    def _look_at_all(self, wanted: Sequence[tuple[Ref, Stamp, SessionSummary | None]]) -> list[SessionSummary | None]:
        return [self.look(ref, stamp) if row is None else row for ref, stamp, row in wanted]

    def _hash_all(self, projects: Iterable[str]) -> None:
        """Compute the hashes of projects, which waits for the disk."""
        if len(self._hashes) >= _HASHES_MAX:
            self._hashes.clear()
        self._hashes |= {project: project_hash(project) for project in projects}

    def look(self, ref: Ref, stamp: Stamp) -> SessionSummary | None:
        """Make the row of a session from its log, in a store that `LooksAtOnce`; None if it was deleted. Blocks."""
        looks = self._runtime.looks
        assert looks is not None
        try:
            whole = looks.whole(ref)
            if whole is None:
                log, state = OpenLog.look_at_state(self._runtime, ref)
                index, dialect = log.index, log.dialect
            else:
                (index, state), dialect = _folded(whole), whole.dialect
        except (SessionNotFound, FileNotFoundError):
            return None
        except (TreeringError, OSError) as error:
            return self._corrupted(ref, stamp, error)
        return summarize(index, ref=ref, dialect=dialect.name, path=self._path_of(ref), state=state)

    async def _read(self, ref: Ref, stamp: Stamp) -> SessionSummary | None:
        try:
            opening = await self._runtime.store.open(ref)
            log = OpenLog(self._runtime, ref, opening.header, opening.dialect, opening.head.generation)
            await log.take_up(opening.head.seq, caching=False)
            state = await log.state()
        except SessionNotFound:
            return None
        except (TreeringError, OSError) as error:
            return self._corrupted(ref, stamp, error)
        return summarize(log.index, ref=ref, dialect=log.dialect.name, path=self._path_of(ref), state=state)

    def _corrupted(self, ref: Ref, stamp: Stamp, error: TreeringError | OSError) -> SessionSummary:
        return corrupted(ref, self._path_of(ref), EPOCH + timedelta(microseconds=stamp.changed // 1000), error)

    def _path_of(self, ref: Ref) -> str | None:
        return None if self._files is None else self._files.path_of(ref)

    def _hashed(self, row: SessionSummary) -> SessionSummary:
        """Return a row with the hash of its project, if that is known."""
        known = self._hashes.get(row.project) if row.project is not None and row.project_hash is None else None
        return row if known is None else replace(row, project_hash=known)


def _folded(whole: Whole) -> tuple[LogIndex, SessionState]:
    """Fold the lines of a small log, of which the last may lack its newline, and say what its session is doing."""
    index, data = LogIndex(whole.header, model_changes_win=whole.dialect.model_changes_win), whole.lines
    end = data.rfind(b"\n") + 1
    entries = whole.dialect.decode_all(lines_of(data[:end]), 1)
    tail = data[end:]
    if tail and not tail.isspace() and (last := whole.dialect.decode(tail, len(entries) + 1)) is not None:
        entries.append(last)
    index.fold_all(entries)
    said = (entries[seq - 1] for seq in needed(index))
    return index, state_of(index, (entry for entry in said if entry is not None))

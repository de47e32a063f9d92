"""Digests: what stands for a session of a program until somebody opens it: its first words, and its last ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from ...events.entries import NATIVE_VERSION, Entry, Header, KnownEntry, OpaqueEntry, SessionInfo, entry_of
from ...events.index import LogIndex
from ...formats.base import ForeignSession
from ...formats.chain import derived_id
from ...formats.glances import Glance
from ...projections.session_state import DONE, needed
from .sessions import ProgramSession

RESTS_AFTER = timedelta(days=1)
"""After how long without a word nobody is taken to wait for a session, or to be needed by it."""


class Digest(Struct, frozen=True):
    """What was read of a session, as far as it is shown.

    Attributes:
        header: Its header.
        entries: Its first words and its last ones, each below the one before it.
    """

    header: Header
    entries: tuple[KnownEntry, ...]

    def session(self) -> ForeignSession:
        """Return it as a session to be written."""
        return ForeignSession(header=self.header, entries=iter(self.entries), findings=[])


def digest(row: ProgramSession, glance: Glance | None, now: datetime) -> Digest:
    """Return the digest of a session; one that rests says that it is done, whatever it said last.

    Args:
        row: Its row.
        glance: What was read of it; None if it cannot be read.
        now: The time.
    """
    header = Header(
        id=row.id,
        version=NATIVE_VERSION,
        timestamp=row.updated if glance is None else glance.header.timestamp,
        cwd=row.cwd,
        title=row.title,
        parent_session=None if glance is None else glance.header.parent_session,
    )
    return Digest(header, tuple(_entries(row, glance, rests=now - row.updated > RESTS_AFTER)))


def _entries(row: ProgramSession, glance: Glance | None, *, rests: bool) -> Iterator[KnownEntry]:
    above: str | None = None
    for entry in _chosen(glance):
        if isinstance(entry, OpaqueEntry):
            continue
        yield replace(entry, parent_id=above, batch=None, aside=False)
        above = entry.id
    if rests:
        info = SessionInfo(status=DONE)
        yield entry_of(info, id=derived_id("digest", row.id), parent_id=above, timestamp=row.updated)


def _chosen(glance: Glance | None) -> Iterator[Entry]:
    """Yield the first words of the user, and what says how the session stands."""
    if glance is None:
        return
    index = LogIndex(glance.header)
    index.fold_all([*glance.entries])
    last = needed(index)
    first = index.first_user
    for seq in (*([first] if first and first not in last else []), *last):
        yield glance.entries[seq - 1]

"""Keeping: archiving sessions, bringing them back, and the retention that archives by itself. Nothing here deletes.

An archived session says so in its own log, by a session_info entry, and is let go. Where the store can, its log is then packed
(see `ArchivingStore`). It is listed, searched, forked and opened read-only as before. Whoever writes to it, or loads it to do
so, brings it back: it is unpacked, and an entry says that it is active.

A retention goes by the time of the last entry, as the log says it, and never by the time of a file. What is in use, here or in
another process, it leaves alone and says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from ...events.entries import SessionInfo
from ...events.errors import LeafMoved, SessionNotFound, TreeringError
from ...events.holders import holder_of
from ...events.stores.base import ArchivingStore, Ref
from ...events.stores.files import FileStore
from ...projections.summary import ARCHIVED, CORRUPTED, SessionSummary
from ..commands import Append, Unarchive
from .settings import Settings

if TYPE_CHECKING:
    from ..core import HostCore
    from .catalog import Catalog

Reason: TypeAlias = Literal["inactive", "too_many"]
"""Why a retention archives a session: nothing was appended for long, or its project has too many that were used later."""


class Retired(Struct, frozen=True, kw_only=True):
    """A session that a retention archived, or would archive.

    Attributes:
        session_id: The session.
        ref: The name of its log in the store.
        name: Its name, if it has one.
        project: The folder that it belongs to.
        last_entry: When its last entry was appended.
        reason: Why.
    """

    session_id: str
    ref: Ref
    name: str | None
    project: str | None
    last_entry: datetime
    reason: Reason


class Spared(Struct, frozen=True, kw_only=True):
    """A session that a retention would have archived, and why it did not."""

    session_id: str
    ref: Ref
    why: str


class RetentionReport(Struct, frozen=True):
    """What a retention did; of a dry run, what it would have done.

    Attributes:
        archived: The sessions that were archived, the one that was used longest ago first.
        spared: Those that should have been, and could not.
        dry_run: Nothing was done.
    """

    archived: tuple[Retired, ...]
    spared: tuple[Spared, ...]
    dry_run: bool


async def archive(core: HostCore, catalog: Catalog, ref: Ref, *, last_entry: datetime | None = None) -> bool:
    """Archive a session.

    Args:
        core: The host's inside.
        catalog: What the host knows of its sessions.
        ref: The name of the session's log.
        last_entry: Only if nothing was appended after this.

    Returns:
        Whether it is archived; False where something was appended.

    Raises:
        SessionNotFound: There is no such session.
        SessionLocked: Another process or host owns it.
        AppendError: The disk refused; it is not archived.
        OSError: It could not be packed; it is archived, and takes the room that it took.
    """
    row = await catalog.listing.row(ref)
    if row is None:
        raise SessionNotFound(f"there is no session {ref!r} to archive: something has to be appended to it first")
    if row.status != ARCHIVED:
        actor = await core.registry.actor(ref)
        index = actor.log.index
        if last_entry is not None and index.last_time > last_entry:
            return False
        expected = None if last_entry is None else index.seen
        try:
            await actor.perform(Append((SessionInfo(status=ARCHIVED),), expected_seq=expected))
        except LeafMoved:  # another command came first
            return False
    store = core.runtime.store
    if isinstance(store, ArchivingStore):
        async with core.registry.leased(ref) as lease:
            await store.pack(lease)
    core.runtime.touched.add(ref)
    return True


async def unarchive(core: HostCore, ref: Ref) -> None:
    """Bring an archived session back; one that is not archived stays as it is.

    Raises:
        SessionNotFound: There is no such session.
        SessionLocked: Another process or host owns it.
        LogDamaged: Its packed form is damaged; it was left as it is.
        AppendError: The disk refused; it is archived still.
    """
    actor = await core.registry.actor(ref)
    if actor.archived:
        await actor.perform(Unarchive())


async def retire(core: HostCore, catalog: Catalog, settings: Settings, *, dry_run: bool) -> RetentionReport:
    """Archive what the settings no longer keep among the others; see `SessionHost.apply_retention`."""
    archived: list[Retired] = []
    spared: list[Spared] = []
    chosen = list(due(await catalog.listing.rows(), settings, core.runtime.now()))
    for each in sorted(chosen, key=lambda each: (each.last_entry, each.ref)):
        why = await _in_use(core, each.ref)
        if why is None and not dry_run:
            try:
                if not await archive(core, catalog, each.ref, last_entry=each.last_entry):
                    why = "something was appended to it just now"
            except (TreeringError, OSError) as error:
                why = str(error)
        if why is None:
            archived.append(each)
        else:
            spared.append(Spared(session_id=each.session_id, ref=each.ref, why=why))
    return RetentionReport(tuple(archived), tuple(spared), dry_run)


def due(rows: Sequence[SessionSummary], settings: Settings, now: datetime) -> Iterator[Retired]:
    """Yield the sessions that a retention archives, of the rows of all sessions.

    Sessions that belong to no project are not counted against each other.
    """
    longest = timedelta(days=min(settings.auto_archive_after_days, timedelta.max.days))
    kept: defaultdict[str, list[SessionSummary]] = defaultdict(list)
    for row in rows:
        if row.status in (ARCHIVED, CORRUPTED):
            continue
        if now - row.last_entry > longest:
            yield _retired(row, "inactive")
        elif row.project is not None:
            kept[row.project_hash or row.project].append(row)
    for those in kept.values():
        those.sort(key=lambda row: (row.last_entry, row.ref), reverse=True)
        for row in those[settings.max_sessions_per_project :]:
            yield _retired(row, "too_many")


def _retired(row: SessionSummary, reason: Reason) -> Retired:
    return Retired(
        session_id=row.id, ref=row.ref, name=row.name, project=row.project, last_entry=row.last_entry, reason=reason
    )


async def _in_use(core: HostCore, ref: Ref) -> str | None:
    """Say who is using a session, if anybody is."""
    if core.registry.live(ref) is not None:
        return "it is in use in this program"
    store = core.runtime.store
    if not isinstance(store, FileStore):
        return None
    holder = await core.runtime.offload(holder_of, store.disk, store.disk.real_path(store.path_of(ref)))
    return None if holder is None else f"it is owned by {holder}"

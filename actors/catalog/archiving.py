"""Archive and unarchive sessions, and apply the retention that archives automatically. Nothing here deletes.

Archiving a session appends a session_info entry that says so to its log, and passivates it. If the store supports it,
the log is then packed (see `Packs`). The session is listed, searched, forked and opened read-only as before.
Writing to it, or loading it for writing, unarchives it: it is unpacked, and another entry says so. A status that a
program set stays as it is throughout.

A retention uses the time of the last entry in the log, never the time of the file. It leaves sessions alone that are in
use, here or in another process, and the current sessions of projects, which a person chose to continue. It reports
them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
from msgspec import Struct

from ...events.entries import SessionInfo
from ...events.errors import LeafMoved, SessionNotFound, TreeringError
from ...events.stores.base import Ref
from ...events.stores.finding import RowQuery
from ...projections.summary import CORRUPTED, SessionSummary
from ..commands import Append, Unarchive
from ..host.listing import CurrentRows
from ..host.tasks import on_own_task
from .settings import Settings

if TYPE_CHECKING:
    from ..host.core import HostCore
    from .catalog import Catalog

Reason: TypeAlias = Literal["inactive", "too_many"]
"""Why a retention archives a session: no recent entries, or too many sessions of its project were appended to later."""


class Retired(Struct, frozen=True, kw_only=True):
    """A session that a retention archived, or would archive.

    Attributes:
        session_id: The session.
        ref: The name of its log in the store.
        name: Its name, if it has one.
        project: The folder to which it belongs.
        last_entry: When its last entry was appended.
        reason: Why it is archived.
    """

    session_id: str
    ref: Ref
    name: str | None
    project: str | None
    last_entry: datetime
    reason: Reason


class Spared(Struct, frozen=True, kw_only=True):
    """A session that a retention should have archived but did not, and why."""

    session_id: str
    ref: Ref
    why: str


class RetentionReport(Struct, frozen=True):
    """What a retention did, or what it would have done in a dry run.

    Attributes:
        archived: The sessions that were archived, those that were appended to longest ago first.
        spared: The sessions that should have been archived but could not be.
        dry_run: Whether this was a dry run, which changes nothing.
    """

    archived: tuple[Retired, ...]
    spared: tuple[Spared, ...]
    dry_run: bool


async def archive(core: HostCore, catalog: Catalog, ref: Ref, *, last_entry: datetime | None = None) -> bool:
    """Archive a session.

    Args:
        core: The core of the host.
        catalog: The host's catalog.
        ref: The name of the session's log.
        last_entry: Archive only if nothing was appended after this time.

    Returns:
        Whether it is archived; False if something was appended, which may have brought it back.

    Raises:
        SessionNotFound: There is no such session.
        SessionLocked: Another process or host owns it.
        AppendError: The write failed; it is not archived.
        OSError: It could not be packed; it is archived, but takes as much space as before. The error names the file,
            and says what to do.
    """
    row = await catalog.listing.row(ref)
    if row is None:
        raise SessionNotFound(f"there is no session {ref!r} to archive: something has to be appended to it first")
    if not row.archived:
        actor = await core.registry.actor(ref)
        index = actor.log.index
        if last_entry is not None and index.last_time > last_entry:
            return False
        expected = None if last_entry is None else index.seen
        try:
            await actor.perform(Append((SessionInfo(archived=True),), expected_seq=expected))
        except LeafMoved:  # another command came first
            return False
    pack = partial(_pack, core, catalog, ref)  # whole, even if the caller is cancelled
    packs = core.runtime.packs
    if packs is not None and packs.can_pack and not await on_own_task(core.runtime, pack):
        return False
    core.runtime.touched.add(ref)
    return True


async def _pack(core: HostCore, catalog: Catalog, ref: Ref) -> bool:
    """Pack a log, and return whether its session is still archived."""
    assert core.runtime.packs is not None
    async with core.registry.source(ref).leased() as lease:
        row = await catalog.listing.row(ref)
        if row is None or not row.archived:  # the actor still answered a command that brought it back
            return False
        with anyio.CancelScope(shield=True):  # a store has more to note when the file is packed
            await core.runtime.packs.pack(lease)
    return True


async def unarchive(core: HostCore, ref: Ref) -> None:
    """Unarchive a session; one that is not archived is left unchanged.

    Raises:
        SessionNotFound: There is no such session.
        SessionLocked: Another process or host owns it.
        LogDamaged: Its packed form is damaged; it was left unchanged.
        AppendError: The write failed; it is still archived.
    """
    actor = await core.registry.actor(ref)
    if actor.archived:
        await actor.perform(Unarchive())


async def retire(core: HostCore, catalog: Catalog, settings: Settings, *, dry_run: bool) -> RetentionReport:
    """Archive the sessions that are due by the settings; see `SessionHost.apply_retention`."""
    archived: list[Retired] = []
    spared: list[Spared] = []
    chosen = await _due(await catalog.listing.now(), settings, core.runtime.now())
    current = await catalog.current_among([each.ref for each in chosen])
    for each in sorted(chosen, key=lambda each: (each.last_entry, each.ref)):
        why = "it is the current session of its project" if each.ref in current else await _in_use(core, each.ref)
        if why is None and not dry_run:
            why = await _archive_due(core, catalog, each)
        if why is None:
            archived.append(each)
        else:
            spared.append(Spared(session_id=each.session_id, ref=each.ref, why=why))
    return RetentionReport(tuple(archived), tuple(spared), dry_run)


async def _archive_due(core: HostCore, catalog: Catalog, session: Retired) -> str | None:
    """Archive a session, and return why it was not archived, or None if it was."""
    try:
        if await archive(core, catalog, session.ref, last_entry=session.last_entry):
            return None
    except (TreeringError, OSError) as error:
        return str(error)
    return "something was appended to it just now"


async def _due(rows: CurrentRows, settings: Settings, now: datetime) -> list[Retired]:
    """Return the sessions that a retention archives, of all sessions, those with the latest entry first.

    Sessions that belong to no project are not counted against each other.
    """
    longest = timedelta(days=min(settings.auto_archive_after_days, timedelta.max.days))
    counted: Counter[str] = Counter()
    chosen: list[Retired] = []
    query = RowQuery(archived=False, without_status=CORRUPTED, order="last_entry")
    async with aclosing(rows.pages(query)) as pages:
        async for page in pages:
            for row in page:
                if now - row.last_entry > longest:
                    chosen.append(_retired(row, "inactive"))
                elif row.project is not None:
                    project = row.project_hash or row.project
                    counted[project] += 1
                    if counted[project] > settings.max_sessions_per_project:
                        chosen.append(_retired(row, "too_many"))
    return chosen


def _retired(row: SessionSummary, reason: Reason) -> Retired:
    return Retired(
        session_id=row.id, ref=row.ref, name=row.name, project=row.project, last_entry=row.last_entry, reason=reason
    )


async def _in_use(core: HostCore, ref: Ref) -> str | None:
    """Return who is using a session, or None if it is not in use."""
    if core.registry.live(ref) is not None:
        return "it is in use in this program"
    leases = core.runtime.leases
    if leases is None:
        return None
    holder = await core.runtime.offload(leases.holder, ref)
    return None if holder is None else f"it is owned by {holder}"

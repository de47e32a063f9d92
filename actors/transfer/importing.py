"""Importing: sessions of other programs become sessions of this host, and copies of a session are merged.

A session that does not exist here is written in one step while its source is read, so a large one takes no memory and a
broken one leaves nothing behind. An existing one gets what it lacks, see `existing`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from ...events.entries import SessionInfo
from ...events.errors import (
    AppendError,
    Conflict,
    ForeignFormatError,
    InvalidInput,
    LogError,
    SessionExists,
    SessionLocked,
    Where,
)
from ...events.findings import LeftOut
from ...events.stores.base import Append, Lease, Ref
from ...events.texts import entries_counted
from ...formats.base import ForeignSession, KeptSession
from ...formats.chain import Chain
from ...formats.opening import cannot_read, unreadable
from ...formats.walk import Found, Walk
from ..catalog.archiving import unarchive
from ..host.names import new_ref
from ..host.tasks import on_own_task
from ..log.open_log import encode_leaf
from .coming_back import origin_of
from .existing import (
    LogFinder,
    append,
    compare_with_log,
    count_advancing,
    existing_log,
    has_continued,
    keep_leaf,
    load_log,
    seqs_with_ids,
    split_ids,
)
from .incoming import NO_LOG, Converted, Copied, ExistingLog, Incoming
from .reports import ImportReport, ImportReports

if TYPE_CHECKING:
    from ..host.core import HostCore

_BATCH_BYTES = 4 * 1024 * 1024
_OF_ONE_SESSION = (Conflict, ForeignFormatError, InvalidInput, LogError, SessionLocked)
"""The errors that fail one session of several and no other; a full disk, or a closed host, fails the whole import."""


async def import_sessions(core: HostCore, path: str | os.PathLike[str], format: str | None) -> ImportReports:
    """Import all sessions of a file or folder; see `SessionHost.import_sessions`."""
    offload = core.runtime.offload
    files = core.runtime.files
    own_root = None if files is None else Path(files.root)
    walk = await offload(_walk, Path(path), format, own_root)
    sessions = walk.sessions()
    finder, reports = LogFinder(core), ImportReports()
    while (found := await offload(next, sessions, None)) is not None:
        try:
            reports.append(await _import(core, finder, found))
            finder.note(reports[-1].ref)
        except _OF_ONE_SESSION as error:
            walk.failed.append((found.path, error))
    if not reports and walk.is_folder:
        raise walk.nothing()
    if not reports and walk.failed:
        raise walk.failed[0][1]
    reports.unknown = walk.unknown
    reports.unknown_paths = tuple(map(str, walk.unknown_paths))
    reports.failed = tuple(unreadable(error, each) for each, error in walk.failed)
    return reports


def _walk(source: Path, format: str | None, own_root: Path | None) -> Walk:
    with _reading(source):
        if source.exists() and not (source.is_dir() or source.is_file()):  # opening a pipe might block forever
            raise ForeignFormatError("it is neither a file nor a folder", where=Where(str(source)))
        return Walk(source, format, apart=own_root)


async def _import(core: HostCore, finder: LogFinder, found: Found) -> ImportReport:
    """Import a session: under its own name, or into the session of this host that it is known to be."""
    session = found.session
    origin = await origin_of(core, finder, found)
    if origin is not None:
        return await _write(core, origin.incoming, origin.ref, found)
    if isinstance(session, KeptSession):
        return await _import_by_id(core, finder, Copied(session, str(found.path)), found)
    converted = Converted(session, str(found.path))
    if session.restate is None:
        return await _import_by_id(core, finder, converted, found)
    ref = new_ref(converted.dialect, converted.header)
    names = (converted.header.id, converted.header.key)
    for candidate in await finder.candidates(ref, converted.header):
        async with core.registry.leased(candidate) as lease:
            existing, dialect = lease.header, lease.dialect
            if existing is None or dialect is None or existing.id not in names:
                continue
            overlap = await compare_with_log(core, lease, session)
        if overlap.agrees and overlap.complete:
            report = _report(converted, candidate, found, existed=True)
            return replace(report, id=existing.id, entries=overlap.entries, messages=overlap.messages)
        if overlap.agrees and dialect.name == "native":
            ref, header = candidate, replace(session.header, id=existing.id, key=existing.key)
        else:
            header = overlap.separate_header(found.format.name, converted.header)
            ref = new_ref(converted.dialect, header)
        reread = await core.runtime.offload(_reread, found)
        return await _write(core, Converted(replace(reread, header=header), str(found.path)), ref, found)
    return await _write(core, converted, ref, found)


async def _import_by_id(core: HostCore, finder: LogFinder, incoming: Incoming, found: Found) -> ImportReport:
    """Import a session whose entries have ids into the log of its id, if there is one in any dialect.

    Raises:
        SessionExists: It exists in another dialect, and lacks some of the incoming entries.
    """
    ref = new_ref(incoming.dialect, incoming.header)
    for candidate in await finder.candidates(ref, incoming.header):
        async with core.registry.leased(candidate) as lease:
            existing, dialect = lease.header, lease.dialect
            if existing is None or dialect is None or existing.id != incoming.header.id:
                continue
            if dialect.name != incoming.dialect.name:
                await _check_complete(core, lease, incoming, found)
                return _report(incoming, candidate, found, existed=True)
        ref = candidate
        break
    return await _write(core, incoming, ref, found)


async def _check_complete(core: HostCore, lease: Lease, incoming: Incoming, found: Found) -> None:
    """Check that a log of another dialect has all incoming entries.

    Raises:
        SessionExists: It lacks some of them.
    """
    log = await load_log(core, lease)
    with_ids = await core.runtime.offload(seqs_with_ids, log.index)
    split = await split_ids(log, with_ids, incoming.header.id)
    existing = await existing_log(core, log, with_ids, incoming, frozenset())
    has = existing.has

    def has_split(entry_id: str) -> bool:
        return has(entry_id) or entry_id in split

    existing = replace(existing, has=has_split)
    await core.runtime.offload(deque, _lines(incoming, existing, found.path), 0)  # counts what it adds
    if incoming.added:
        assert lease.dialect is not None
        raise SessionExists(
            f"{lease.ref} holds this session in another dialect ({lease.dialect.name}), and lacks "
            f"{entries_counted(incoming.added)} of the import: move it, or import into another root"
        )


def _reread(found: Found) -> ForeignSession:
    """Read a session again, since its entries were used up; its file holds no other session."""
    with _reading(found.path):
        (session,) = found.format.read(found.path)
    assert isinstance(session, ForeignSession)
    return session


def _lines(incoming: Incoming, existing: ExistingLog, source: Path) -> Iterator[bytes]:
    """Yield the lines that the log lacks; failing to read the source is not an error of the store that writes them."""
    with _reading(source):
        yield from incoming.lines(existing)


@contextmanager
def _reading(source: Path) -> Generator[None]:
    """Name the source in the error if reading it fails."""
    try:
        yield
    except OSError as error:
        raise cannot_read(error, source) from error


async def _write(core: HostCore, incoming: Incoming, ref: Ref, found: Found) -> ImportReport:
    """Write a session out of reach of whoever cancels the caller: a part of it would look like a whole."""
    return await on_own_task(core.runtime, partial(write_whole, core, incoming, ref, found))


async def write_whole(core: HostCore, incoming: Incoming, ref: Ref, found: Found) -> ImportReport:
    """Write a session, or what the one that is there lacks; the caller is on a task of the host's."""
    existed = archived = False
    async with core.registry.leased(ref) as lease:
        existed = lease.header is not None
        with anyio.CancelScope(shield=True):  # a session is imported whole, with its leaf, or not at all
            if existed:
                archived = await _merge(core, lease, incoming, found)
            else:
                await put_lines(core, lease, incoming, found.path)
    if incoming.added and archived:
        await unarchive(core, ref)  # as every write to an archived session does
    if core.registry.feed_of(ref) is not None:
        await core.registry.actor(ref)  # so that its subscribers see the new entries, or the leaf
    return _report(incoming, ref, found, existed=existed)


def _report(incoming: Incoming, ref: Ref, found: Found, *, existed: bool) -> ImportReport:
    return ImportReport(
        id=incoming.header.id,
        ref=ref,
        source=str(found.path),
        format=found.format.name,
        entries=incoming.entries,
        messages=incoming.messages,
        added=incoming.added,
        existed=existed,
        findings=tuple(incoming.findings),
        left_out=tuple(each for each in incoming.findings if isinstance(each, LeftOut)),
    )


async def put_lines(core: HostCore, lease: Lease, incoming: Incoming, source: Path) -> None:
    """Write a whole session while its source is read: one that does not exist yet, or in the place of what is there."""
    store, lines = core.runtime.store, _lines(incoming, NO_LOG, source)
    async with core.runtime.whole_logs.put(lease, incoming.dialect, incoming.block, lines) as head:
        if incoming.leaf != incoming.last:
            await store.save(lease, "leaf", head, encode_leaf(incoming.leaf))
        if incoming.added:
            core.runtime.touched.add(lease.ref)


async def _merge(core: HostCore, lease: Lease, incoming: Incoming, found: Found) -> bool:
    """Append what an existing session lacks; return whether it was archived, packed or not.

    Raises:
        SessionExists: Another session has this name, or this one exists in another dialect.
    """
    runtime, header, dialect = core.runtime, lease.header, lease.dialect
    assert header is not None
    assert dialect is not None
    if header.id != incoming.header.id or dialect.name != incoming.dialect.name:
        raise SessionExists(f"{lease.ref} exists and holds another session, or this one in another dialect: move it")
    log = await load_log(core, lease)
    archived = log.index.info.archived is True
    with_ids = await runtime.offload(seqs_with_ids, log.index)
    advancing, descriptions = await count_advancing(log, with_ids, found)
    existing, leaf_before = await existing_log(core, log, with_ids, incoming, descriptions), log.index.leaf_id
    title = found.session.header.title
    is_untitled = header.title is None and log.index.info.name is None
    if title and is_untitled and isinstance(incoming, Converted) and not (incoming.restate or incoming.continues):
        chain = Chain(found.format.name, found.session.header.id, header.timestamp)
        chain.leaf = leaf_before
        incoming.title = replace(chain.describe(SessionInfo(name=title)), aside=True)
    lines, head = _lines(incoming, existing, found.path), lease.head
    try:
        while batch := await runtime.offload(_batch, lines):
            if lease.packed and runtime.packs is not None:
                lease = await runtime.packs.unpack(lease)
                head = lease.head
            head = await append(core, Append(lease, head, tuple(batch)))
    except (AppendError, ForeignFormatError) as error:
        await keep_leaf(core, lease, leaf_before, error)
        raise
    is_shorter = isinstance(incoming, Converted) and leaf_before is not None and incoming.lacks(leaf_before)
    if not incoming.added and (lease.packed or not is_shorter):
        return archived
    matching = existing.matching
    by_content = matching is not None and matching.last is not None
    is_at_leaf = matching is not None and matching.from_leaf  # also after messages that the file no longer holds
    continued = not is_at_leaf and (by_content or advancing > incoming.matched)
    if continued and isinstance(incoming, Converted) and incoming.is_of_source is not None:
        continued = await has_continued(log, with_ids, incoming.is_of_source, incoming.last_time)
    if incoming.continues is not None:
        continued = leaf_before not in incoming.continues
    leaf = leaf_before if continued else incoming.leaf
    if leaf != (incoming.last if incoming.added else leaf_before):
        await runtime.store.save(lease, "leaf", head, encode_leaf(leaf))
    runtime.touched.add(lease.ref)
    return archived


def _batch(lines: Iterator[bytes]) -> list[bytes]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= _BATCH_BYTES:
            break
    return batch

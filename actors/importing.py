"""Importing: sessions of other programs become sessions of this host, and copies of sessions come together again.

A session that is not here is written in one step while its source is read, so that a large one takes no memory and a
broken one leaves nothing. One that is here gets what it lacks, at its end. Its leaf then follows the source's, unless
the session has gone on by itself meanwhile: then it stays where it was, and what came is another branch. Who archived
it, or brought it back, said nothing in the conversation and did not go on; nor did who noted what was used.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from ..events.entries import Entry, MessageEntry, UsageEntry
from ..events.errors import Conflict, ForeignFormatError, InvalidInput, LogError, SessionExists, SessionLocked, Where
from ..events.foreign.base import ForeignSession
from ..events.foreign.kept import KeptSession
from ..events.foreign.opened import cannot_read
from ..events.foreign.several import unreadable
from ..events.foreign.walk import Found, Walk
from ..events.index import LogIndex
from ..events.kinds import Kind
from ..events.stores.base import Append, ArchivingStore, Committed, Cursor, Failed, InDoubt, Lease, Ref
from ..events.stores.files import FileStore
from .catalog.keeping import unarchive
from .half_said import Latest
from .import_report import ImportReport, ImportReports
from .incoming import NOTHING, Converted, Copied, Incoming, There, goes_on
from .leaf_record import encode_leaf
from .naming import new_ref
from .open_log import OpenLog
from .same import Refs, matching, opened_log, shared

if TYPE_CHECKING:
    from .core import HostCore

_BATCH_BYTES = 4 * 1024 * 1024
_LATEST_MAX = 2048  # the answers that may have been taken in half said are the last ones
_LINES_AT_ONCE = 256
_OF_ONE_SESSION = (Conflict, ForeignFormatError, InvalidInput, LogError, SessionLocked)
"""What keeps one session of a folder from coming in, and no other; not so a full disk, or a host that is closed."""


async def import_sessions(core: HostCore, path: str | os.PathLike[str], format: str | None) -> ImportReports:
    """Import all sessions of a file or folder; see `SessionHost.import_sessions`."""
    offload = core.runtime.offload
    store = core.runtime.store
    own = Path(store.root) if isinstance(store, FileStore) else None
    walk = await offload(_walk, Path(path), format, own)
    sessions = walk.sessions()
    refs, reports = Refs(core), ImportReports()
    while (found := await offload(next, sessions, None)) is not None:
        try:
            reports.append(await _take_in(core, refs, found))
        except _OF_ONE_SESSION as error:
            if not walk.is_folder:
                raise
            walk.failed.append((found.path, error))
    if walk.is_folder and not reports:
        raise walk.nothing()
    reports.unknown = walk.unknown
    reports.unknown_paths = tuple(map(str, walk.unknown_paths))
    reports.failed = tuple(unreadable(error, each) for each, error in walk.failed)
    return reports


def _walk(source: Path, format: str | None, own: Path | None) -> Walk:
    if "\0" in str(source):
        raise ForeignFormatError("no file has such a name", where=Where(str(source)))
    with _reading(source):
        if source.exists() and not (source.is_dir() or source.is_file()):  # whoever opens a pipe may wait for ever
            raise ForeignFormatError("it is neither a file nor a folder", where=Where(str(source)))
        return Walk(source, format, apart=own)


async def _take_in(core: HostCore, refs: Refs, found: Found) -> ImportReport:
    """Take in a session: as it is called, or as the one of this host that it is known to be."""
    session = found.session
    if isinstance(session, KeptSession):
        copied = Copied(session, str(found.path))
        return await _write(core, copied, new_ref(copied.dialect, copied.header), found)
    converted = Converted(session, str(found.path))
    ref = new_ref(converted.dialect, converted.header)
    if session.restate is None:
        return await _write(core, converted, ref, found)
    names = (converted.header.id, converted.header.key)
    for each in await refs.that_may_be(ref, converted.header):
        async with core.registry.leased(each) as lease:
            there, dialect = lease.header, lease.dialect
            if there is None or dialect is None or there.id not in names:
                continue
            both = await shared(core, lease, session)
        if both.any and both.all:
            return ImportReport(
                id=there.id,
                ref=each,
                source=str(found.path),
                format=found.format.name,
                entries=both.entries,
                messages=both.messages,
                added=0,
                existed=True,
                findings=tuple(session.findings),
            )
        if both.any and dialect.name == "native":
            ref, header = each, replace(session.header, id=there.id, key=there.key)
        else:
            header = both.apart(found.format.name, converted.header)
            ref = new_ref(converted.dialect, header)
        again = await core.runtime.offload(_again, found)
        return await _write(core, Converted(replace(again, header=header), str(found.path)), ref, found)
    return await _write(core, converted, ref, found)


def _again(found: Found) -> ForeignSession:
    """Read a session anew, since its entries were used up; its file holds no other."""
    with _reading(found.path):
        (session,) = found.format.read(found.path)
    assert isinstance(session, ForeignSession)
    return session


def _lines(incoming: Incoming, there: There, source: Path) -> Iterator[bytes]:
    """Make the lines that are not there; that the source cannot be read is no error of the store that writes them."""
    with _reading(source):
        yield from incoming.lines(there)


@contextmanager
def _reading(source: Path) -> Generator[None]:
    """Say what is being read, should that fail."""
    try:
        yield
    except OSError as error:
        raise cannot_read(error, source) from error


async def _write(core: HostCore, incoming: Incoming, ref: Ref, found: Found) -> ImportReport:
    runtime, source = core.runtime, found.path
    existed = archived = False
    async with core.registry.leased(ref) as lease:
        existed, archived = lease.header is not None, lease.packed
        with anyio.CancelScope(shield=True):  # a session comes in whole, with its leaf, or not at all
            if existed:
                await _merge(core, lease, incoming, source)
            else:
                await _put(core, lease, incoming, source)
    if incoming.added:
        runtime.touched.add(ref)
        if archived:
            await unarchive(core, ref)  # as whoever writes to it does
        if core.registry.feed_of(ref) is not None:
            await core.registry.actor(ref)  # its subscribers see what came
    return ImportReport(
        id=incoming.header.id,
        ref=ref,
        source=str(source),
        format=found.format.name,
        entries=incoming.entries,
        messages=incoming.messages,
        added=incoming.added,
        existed=existed,
        findings=tuple(incoming.findings),
    )


async def _put(core: HostCore, lease: Lease, incoming: Incoming, source: Path) -> None:
    """Write a session that is not there yet, while its source is read."""
    store, lines = core.runtime.store, _lines(incoming, NOTHING, source)
    if not isinstance(store, FileStore):  # which alone writes off the event loop for certain
        lines = iter(await core.runtime.offload(list, lines))
    head = await store.put(lease, incoming.dialect, incoming.block, lines)
    if incoming.leaf != incoming.last:
        await store.save(lease, "leaf", head, encode_leaf(incoming.leaf))


async def _merge(core: HostCore, lease: Lease, incoming: Incoming, source: Path) -> None:
    """Append what a session that is there lacks.

    Raises:
        SessionExists: Another session is there under this name, or this one in another dialect.
    """
    runtime, header, dialect = core.runtime, lease.header, lease.dialect
    assert header is not None
    assert dialect is not None
    if header.id != incoming.header.id or dialect.name != incoming.dialect.name:
        raise SessionExists(f"{lease.ref} is there and holds another session, or this one in another dialect: move it")
    log = await opened_log(core, lease)
    named = await runtime.offload(_named, log.index)
    there, before, count = await _there(core, log, named, incoming), log.index.leaf_id, await _count(log, named)
    lines, head = _lines(incoming, there, source), lease.head
    while batch := await runtime.offload(_batch, lines):
        if lease.packed and isinstance(runtime.store, ArchivingStore):
            lease = await runtime.store.unpack(lease)
            head = lease.head
        head = await _append(core, Append(lease, head, tuple(batch)))
    if not incoming.added:
        return
    matched = there.matching
    went_on = count > incoming.matched if matched is None or matched.last is None else not matched.from_leaf
    leaf = before if went_on else incoming.leaf
    if leaf != incoming.last:
        await runtime.store.save(lease, "leaf", head, encode_leaf(leaf))


async def _append(core: HostCore, append: Append) -> Cursor:
    (outcome,) = await core.runtime.store.append([append])
    if isinstance(outcome, Committed):
        return outcome.head
    if isinstance(outcome, (Failed, InDoubt)):
        raise outcome.error
    raise Conflict(f"another program wrote to {append.lease.ref} meanwhile: import again, which adds what is missing")


def _batch(lines: Iterator[bytes]) -> list[bytes]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= _BATCH_BYTES:
            break
    return batch


def _named(index: LogIndex) -> list[int]:
    """Return the ordinals of all entries that have ids."""
    return [seq for seq in range(1, index.head + 1) if index.is_entry(seq)]


async def _count(log: OpenLog, named: Sequence[int]) -> int:
    """Count the entries by which a log went on, of those that have ids."""
    kinds = log.index.kinds
    going = [seq for seq in named if kinds[seq] != Kind.USAGE]
    infos = await log.entries_at([seq for seq in going if kinds[seq] == Kind.SESSION_INFO])
    return len(going) - sum(not goes_on(entry) for entry in infos.values() if entry is not None)


async def _there(core: HostCore, log: OpenLog, named: Sequence[int], incoming: Incoming) -> There:
    """Tell what a log has, of whose entries these have ids."""
    index = log.index
    nameless = sorted({*range(1, index.seen + 1)}.difference(named))
    found: set[bytes] = set()
    for start in range(0, len(nameless), _LINES_AT_ONCE):
        found.update(await log.lines_at(nameless[start : start + _LINES_AT_ONCE]))
    latest = Latest(
        {each.id: each.message for each in await _latest(log, Kind.ASSISTANT) if isinstance(each, MessageEntry)},
        {each.id: each.usage.usage for each in await _latest(log, Kind.USAGE) if isinstance(each, UsageEntry)},
    )
    restate = incoming.restate if isinstance(incoming, Converted) else None
    matched = None if restate is None else await matching(core, log, restate)

    def parent(entry_id: str) -> str | None:
        above = index.parents[index.find(entry_id)]
        return index.ids[above] if above > 0 else None

    return There(index.seen, lambda entry_id: index.find(entry_id) > 0, frozenset(found), parent, latest, matched)


async def _latest(log: OpenLog, kind: int) -> Iterable[Entry]:
    """Return the last entries of a kind."""
    index = log.index
    seqs = (seq for seq in range(index.head, 0, -1) if index.kinds[seq] == kind)
    entries = await log.entries_at([*islice(seqs, _LATEST_MAX)])
    return [entry for entry in entries.values() if entry is not None]

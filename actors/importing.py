"""Importing: sessions of other programs become sessions of this host, and copies of sessions come together again.

A session that is not here is written in one step while its source is read, so that a large one takes no memory and a
broken one leaves nothing. One that is here gets what it lacks, at its end. Its leaf then follows the source's, unless the
session has gone on by itself meanwhile: then it stays where it was, and what came is another branch. Who archived it, or
brought it back, said nothing in the conversation and did not go on; nor did who noted what was used.
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
from ..events.foreign.chain import describes
from ..events.foreign.kept import KeptSession
from ..events.foreign.opened import cannot_read
from ..events.foreign.restated import ids_apart
from ..events.foreign.several import unreadable
from ..events.foreign.walk import Found, Walk
from ..events.index import LogIndex
from ..events.kinds import Kind
from ..events.stores.base import Append, ArchivingStore, Committed, Cursor, Failed, InDoubt, Lease, Ref
from ..events.stores.files import FileStore
from ..events.wording import entries_counted
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
_DESCRIBING = frozenset({Kind.SESSION_INFO, Kind.MODEL_CHANGE, Kind.COMPACTION})
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
    """Take in a session, and note under which name it is here now."""
    report = await _imported(core, refs, found)
    refs.note(report.ref)
    return report


async def _imported(core: HostCore, refs: Refs, found: Found) -> ImportReport:
    """Take in a session: as it is called, or as the one of this host that it is known to be."""
    session = found.session
    if isinstance(session, KeptSession):
        return await _by_ids(core, refs, Copied(session, str(found.path)), found)
    converted = Converted(session, str(found.path))
    if session.restate is None:
        return await _by_ids(core, refs, converted, found)
    ref = new_ref(converted.dialect, converted.header)
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


async def _by_ids(core: HostCore, refs: Refs, incoming: Incoming, found: Found) -> ImportReport:
    """Take in a session whose entries have ids, wherever it is here: an id has one log.

    Raises:
        SessionExists: It is here in another dialect, and lacks some of what comes.
    """
    ref = new_ref(incoming.dialect, incoming.header)
    for each in await refs.that_may_be(ref, incoming.header):
        async with core.registry.leased(each) as lease:
            there, dialect = lease.header, lease.dialect
            if there is None or dialect is None or there.id != incoming.header.id:
                continue
            if dialect.name != incoming.dialect.name:
                await _compare(core, lease, incoming, found)
                return _report(incoming, each, found, existed=True)
        ref = each
        break
    return await _write(core, incoming, ref, found)


async def _compare(core: HostCore, lease: Lease, incoming: Incoming, found: Found) -> None:
    """See that a log of another dialect has all that comes.

    Raises:
        SessionExists: It lacks some of it.
    """
    log = await opened_log(core, lease)
    named = await core.runtime.offload(_named, log.index)
    apart = await _apart(log, named, incoming.header.id)
    there = await _there(core, log, named, incoming, frozenset())
    has = there.has

    def knows(entry_id: str) -> bool:
        return has(entry_id) or entry_id in apart

    there = replace(there, has=knows)
    await core.runtime.offload(_exhaust, _lines(incoming, there, found.path))
    if incoming.added:
        assert lease.dialect is not None
        raise SessionExists(
            f"{lease.ref} is there and holds this session in another dialect ({lease.dialect.name}), which lacks "
            f"{entries_counted(incoming.added)} of what comes: move it, or import into another root"
        )


async def _apart(log: OpenLog, named: Sequence[int], session: str) -> frozenset[str]:
    """Return the ids of what an entry of a log becomes where a message answers one call alone."""
    found: set[str] = set()
    answering = [seq for seq in named if log.index.kinds[seq] in (Kind.TOOL, Kind.USER)]
    for start in range(0, len(answering), _LINES_AT_ONCE):
        entries = await log.entries_at(answering[start : start + _LINES_AT_ONCE])
        found.update(each for entry in entries.values() if entry for each in ids_apart(session, entry))
    return frozenset(found)


def _exhaust(lines: Iterator[bytes]) -> None:
    for _ in lines:
        pass


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
                await _merge(core, lease, incoming, found)
            else:
                await _put(core, lease, incoming, source)
    if incoming.added:
        runtime.touched.add(ref)
        if archived:
            await unarchive(core, ref)  # as whoever writes to it does
        if core.registry.feed_of(ref) is not None:
            await core.registry.actor(ref)  # its subscribers see what came
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
    )


async def _put(core: HostCore, lease: Lease, incoming: Incoming, source: Path) -> None:
    """Write a session that is not there yet, while its source is read."""
    store, lines = core.runtime.store, _lines(incoming, NOTHING, source)
    if not isinstance(store, FileStore):  # which alone writes off the event loop for certain
        lines = iter(await core.runtime.offload(list, lines))
    head = await store.put(lease, incoming.dialect, incoming.block, lines)
    if incoming.leaf != incoming.last:
        await store.save(lease, "leaf", head, encode_leaf(incoming.leaf))


async def _merge(core: HostCore, lease: Lease, incoming: Incoming, found: Found) -> None:
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
    count, described = await _count(log, named, found)
    there, before = await _there(core, log, named, incoming, described), log.index.leaf_id
    lines, head = _lines(incoming, there, found.path), lease.head
    while batch := await runtime.offload(_batch, lines):
        if lease.packed and isinstance(runtime.store, ArchivingStore):
            lease = await runtime.store.unpack(lease)
            head = lease.head
        head = await _append(core, Append(lease, head, tuple(batch)))
    if not incoming.added:
        return
    matching = there.matching
    told_by_words = matching is not None and matching.last is not None
    stands = matching is not None and matching.from_leaf  # also behind what a file held once and holds no more
    went_on = not stands and (told_by_words or count > incoming.matched)
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


async def _count(log: OpenLog, named: Sequence[int], found: Found) -> tuple[int, frozenset[str]]:
    """Count the entries by which a log went on, of those that have ids; return those by which its file described it, too."""
    kinds, format, session = log.index.kinds, found.format.name, found.session.header.id
    going = [seq for seq in named if kinds[seq] != Kind.USAGE]
    read = await log.entries_at([seq for seq in going if kinds[seq] in _DESCRIBING])
    entries = [entry for entry in read.values() if entry is not None]
    described = frozenset(entry.id for entry in entries if entry.id and describes(entry, format, session))
    return len(going) - len(described) - sum(not goes_on(entry) for entry in entries), described


async def _there(
    core: HostCore, log: OpenLog, named: Sequence[int], incoming: Incoming, described: frozenset[str]
) -> There:
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

    return There(
        index.seen, lambda entry_id: index.find(entry_id) > 0, frozenset(found), parent, latest, matched, described
    )


async def _latest(log: OpenLog, kind: int) -> Iterable[Entry]:
    """Return the last entries of a kind."""
    index = log.index
    seqs = (seq for seq in range(index.head, 0, -1) if index.kinds[seq] == kind)
    entries = await log.entries_at([*islice(seqs, _LATEST_MAX)])
    return [entry for entry in entries.values() if entry is not None]

"""Importing: sessions of other programs become sessions of this host, and copies of sessions come together again.

A session that is not here is written in one step while its source is read, so that a large one takes no memory and a
broken one leaves nothing. One that is here gets what it lacks, at its end. Its leaf then follows the source's, unless the
session has gone on by itself meanwhile: then it stays where it was, and what came is another branch. Who archived it, or
brought it back, said nothing in the conversation and did not go on.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..events.entries import MessageEntry
from ..events.errors import Conflict, ForeignFormatError, SessionExists, Where
from ..events.foreign.base import ForeignSession
from ..events.foreign.detect import format_named, recognized
from ..events.foreign.kept import KeptSession
from ..events.kinds import Kind
from ..events.stores.base import Append, ArchivingStore, Committed, Cursor, Failed, InDoubt, Lease
from ..events.stores.files import FileStore
from .catalog.keeping import unarchive
from .import_report import ImportReport
from .incoming import NOTHING, Converted, Copied, Incoming, There, goes_on
from .leaf_record import encode_leaf
from .naming import new_ref
from .open_log import OpenLog

if TYPE_CHECKING:
    from .core import HostCore

_BATCH_BYTES = 4 * 1024 * 1024
_ANSWERS_MAX = 256  # the answers that may have been taken in half said are the last ones
_LINES_AT_ONCE = 256


async def imported(core: HostCore, path: str | os.PathLike[str], format: str | None) -> list[ImportReport]:
    """Import all sessions of a file or folder; see `SessionHost.import_sessions`."""
    source, offload = Path(path), core.runtime.offload
    sessions = await offload(_sessions, source, format)
    reports: list[ImportReport] = []
    while (found := await offload(_next, sessions, source)) is not None:
        name, incoming = found
        reports.append(await _taken_in(core, incoming, name, source))
    return reports


def _sessions(source: Path, format: str | None) -> Iterator[tuple[str, ForeignSession | KeptSession]]:
    if "\0" in str(source):
        raise ForeignFormatError("no file has such a name", where=Where(str(source)))
    with _reading(source):
        if not (source.is_dir() or source.is_file() or not source.exists()):  # whoever opens a pipe may wait for ever
            raise ForeignFormatError("it is neither a file nor a folder", where=Where(str(source)))
        chosen = recognized(source) if format is None else format_named(format)
        for session in chosen.read(source):
            yield chosen.name, session


def _next(sessions: Iterator[tuple[str, ForeignSession | KeptSession]], source: Path) -> tuple[str, Incoming] | None:
    for name, session in islice(sessions, 1):
        kind = Copied(session, str(source)) if isinstance(session, KeptSession) else Converted(session, str(source))
        return name, kind
    return None


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
        raise ForeignFormatError(f"it cannot be read: {error}", where=Where(str(source))) from error


async def _taken_in(core: HostCore, incoming: Incoming, format: str, source: Path) -> ImportReport:
    runtime, ref = core.runtime, new_ref(incoming.dialect, incoming.header)
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
        format=format,
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
    log = OpenLog(runtime, lease.ref, header, dialect, lease.head.generation)
    await log.take_up()
    there, before, count = await _there(log), log.index.leaf_id, await _count(log)
    lines, head = _lines(incoming, there, source), lease.head
    while batch := await runtime.offload(_batch, lines):
        if lease.packed and isinstance(runtime.store, ArchivingStore):
            lease = await runtime.store.unpack(lease)
            head = lease.head
        head = await _appended(core, Append(lease, head, tuple(batch)))
    if not incoming.added:
        return
    leaf = before if count > incoming.matched else incoming.leaf
    if leaf != incoming.last:
        await runtime.store.save(lease, "leaf", head, encode_leaf(leaf))


async def _appended(core: HostCore, append: Append) -> Cursor:
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


async def _count(log: OpenLog) -> int:
    """Count the entries by which a log went on."""
    index = log.index
    named = [seq for seq in range(1, index.head + 1) if index.is_entry(seq)]
    infos = await log.entries_at([seq for seq in named if index.kinds[seq] == Kind.SESSION_INFO])
    return len(named) - sum(not goes_on(entry) for entry in infos.values() if entry is not None)


async def _there(log: OpenLog) -> There:
    """Tell what a log has."""
    index = log.index
    nameless = [seq for seq in range(1, index.seen + 1) if seq > index.head or not index.is_entry(seq)]
    found: set[bytes] = set()
    for start in range(0, len(nameless), _LINES_AT_ONCE):
        found.update(await log.lines_at(nameless[start : start + _LINES_AT_ONCE]))
    answers = [seq for seq in range(index.head, 0, -1) if index.kinds[seq] == Kind.ASSISTANT][:_ANSWERS_MAX]
    entries = (await log.entries_at(answers)).values()
    parts = {entry.id: len(entry.message.content) for entry in entries if isinstance(entry, MessageEntry)}
    return There(index.seen, lambda entry_id: index.find(entry_id) > 0, frozenset(found), parts)

"""Exporting: select a session's lines, convert them, and write them to the destination.

A session file is a copy of the lines in the session's own dialect, or its entries encoded in another one. Documents are
JSON that can be imported again, Markdown and HTML for people, and files of other programs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw

from ...events.arguments import check_word
from ...events.dialects.base import Dialect, still_torn
from ...events.dialects.detect import dialect_named
from ...events.dialects.native import NativeDialect
from ...events.entries import Entry, Header, KnownEntry
from ...events.errors import InvalidInput
from ...events.kinds import Kind
from ...events.offload import carried_out
from ...events.redaction import Redaction
from ...events.texts import whole
from ...formats.base import Format, WritesFile, WritesFolder
from ...formats.dialect_conversion import Restated
from ...formats.own import document_entry, document_head, document_tail
from ...formats.programs import format_named, format_names, is_written, written_names
from ...projections.context_edits import last_edits
from ...projections.documents.document import About, BranchBegins, BranchEnds, Show, Step, View, reading_order
from ...projections.tokens import message_tokens
from ..host.names import current
from ..log.open_log import OpenLog
from ..session.reading import read_log
from . import EXPORTS
from .selection import (
    LINES_AT_ONCE,
    Numbered,
    Selection,
    about,
    added_labels,
    decoded,
    first_message,
    header_of,
    kinds_of,
    numbered,
    selected,
    shown_entries,
    visible,
)
from .target import in_file, in_memory

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.reading import Handle


_REDACTABLE = ("json", "markdown", "html")
"""The formats from which secrets can be removed: those in which no conversation is continued."""


def export_names() -> tuple[str, ...]:
    """Return the names of all formats of an export; this loads the formats of all programs."""
    return (*EXPORTS, *written_names())


def foreign_format(name: object) -> Format | None:
    """Return the format of another program in which sessions are written, or None for one of `EXPORTS`.

    Raises:
        InvalidInput: There is no such format, or it is only read.
        ForeignFormatError: The package that adds it cannot be used.
    """
    if name in EXPORTS:
        return None
    found = format_named(name) if isinstance(name, str) and name in format_names() else None
    if found is None or not is_written(found):
        check_word("export format", name, export_names())
    return found


async def export(
    core: HostCore,
    handle: Handle,
    name: str,
    path: Path | None,
    leaf_id: str | None,
    redact: Redaction | None,
    *,
    overwrite: bool,
) -> bytes | Path:
    """Export a session; see `Session.export`."""
    offload = core.runtime.offload
    foreign = await offload(foreign_format, name)
    if redact is not None and name not in _REDACTABLE:
        raise InvalidInput(
            f"an export as {name!r} cannot be redacted, since a conversation with gaps cannot be continued: "
            f"redact one of {', '.join(_REDACTABLE)}"
        )
    target = path if path is None else await offload(_checked_path, path, core.path_of(handle.ref))

    async def write(log: OpenLog) -> bytes | Path:
        selection = selected(log, leaf_id, linear=foreign is not None or name == "markdown")
        if isinstance(foreign, WritesFolder):
            if target is None:
                raise InvalidInput(
                    f"{foreign.title} keeps a session in several files: give their folder as destination"
                )
            entries = await _path_entries(core, selection)
            write_folder = partial(foreign.write_folder, overwrite=overwrite, count=message_tokens)
            return await carried_out(offload, write_folder, log.index.header, entries, target)
        async with aclosing(_pieces(core, name, foreign, selection, redact)) as pieces:
            return await (
                in_memory(pieces) if target is None else in_file(offload, target, pieces, overwrite=overwrite)
            )

    return await read_log(handle, write)


def _checked_path(path: Path, own: str | None) -> Path:
    """Return the path to write to, refusing the session's own file."""
    if own is not None and os.path.realpath(path) == os.path.realpath(own):
        raise InvalidInput(f"{path} is the session's own file: export elsewhere")
    return path


def _pieces(
    core: HostCore, name: str, foreign: Format | None, selection: Selection, redact: Redaction | None
) -> AsyncGenerator[bytes]:
    if isinstance(foreign, WritesFile):
        return _foreign_file(core, selection, foreign)
    if name == "json":
        return _json_document(core, selection, redact)
    if name == "markdown" or name == "html":
        return _view_document(core, selection, name, redact)
    return _session_file(core, selection, dialect_named(name))


async def _foreign_file(core: HostCore, selection: Selection, format: WritesFile) -> AsyncGenerator[bytes]:
    """Yield a path as a file of another program, in one piece."""
    yield await core.runtime.offload(format.write, selection.log.index.header, await _path_entries(core, selection))


async def _path_entries(core: HostCore, selection: Selection) -> list[KnownEntry]:
    """Return the entries of a path as contexts show them."""
    entries: list[Entry] = []
    async for lines in numbered(selection.log, visible(selection)):
        entries += await core.runtime.offload(decoded, selection.log.dialect, lines, None)
    edits = last_edits(selection.log.index, entries)
    return await core.runtime.offload(shown_entries, entries, edits)


async def _session_file(core: HostCore, selection: Selection, dialect: Dialect) -> AsyncGenerator[bytes]:
    """Yield a session file piece by piece.

    Raises:
        DialectCannot: The dialect cannot express some part of the session.
    """
    log = selection.log
    if log.dialect.name != dialect.name:
        async for piece in _converted(core, selection, dialect):
            yield piece
        return
    # Copy all lines, including damaged ones and torn batches, since other entries may be their children.
    header = header_of(core, selection, current(log.dialect))
    labels = await added_labels(selection, selection.seqs, current(log.dialect))
    yield await _header_block(core, selection, header)
    async for lines in numbered(log, selection.seqs):
        yield b"".join(_copied_line(log, each, header.id) for each in lines)
    yield b"".join(map(current(log.dialect).encode, labels))


def _copied_line(log: OpenLog, one: Numbered, session_id: str) -> bytes:
    """Return a line in the current version of its dialect; a line of a torn batch stays torn in another session."""
    line = log.dialect.migrated(one.line, one.seq)
    if session_id != log.index.header.id and log.index.kinds[one.seq] == Kind.ABORTED:
        line = still_torn(current(log.dialect), line[:-1], session_id) + b"\n"
    return line


async def _header_block(core: HostCore, selection: Selection, header: Header) -> bytes:
    """Return the header of a copy, byte for byte if a whole file is copied, since it may hold unknown fields."""
    log, store = selection.log, core.runtime.store
    if selection.whole and await store.exists(log.ref):
        block = await store.header_block(log.ref)
        if not block.endswith(b"\n"):
            block += b"\n"
        return log.dialect.migrated_header(block)
    return current(log.dialect).encode_header(header)


async def _converted(core: HostCore, selection: Selection, dialect: Dialect) -> AsyncGenerator[bytes]:
    log, seqs = selection.log, _leaf_last(selection)
    labels = await added_labels(selection, seqs, dialect)
    yield dialect.encode_header(header_of(core, selection, dialect))
    restated = Restated(dialect, log.index.header.id, log.index.models, whole=selection.whole)
    async for lines in numbered(log, seqs):
        yield await core.runtime.offload(_restated, restated, log.dialect, lines)
    yield b"".join(map(dialect.encode, labels))


def _restated(restated: Restated, source: Dialect, lines: Sequence[Numbered]) -> bytes:
    return restated.lines(decoded(source, lines, None))


def _leaf_last(selection: Selection) -> list[int]:
    """Move the leaf to the end if it has no children, since most programs take a file's last entry for the leaf."""
    seqs, index = list(visible(selection)), selection.log.index
    leaf = selection.leaf
    if not leaf or not seqs or seqs[-1] == leaf or index.kinds[leaf] == Kind.ABORTED:
        return seqs
    if leaf in index.parents[leaf + 1 : selection.through + 1]:
        return seqs
    return [*(seq for seq in seqs if seq != leaf), leaf]


async def _json_document(core: HostCore, selection: Selection, redact: Redaction | None) -> AsyncGenerator[bytes]:
    """Yield the JSON document of a session piece by piece."""
    log = selection.log
    header, leaf_id = header_of(core, selection, NativeDialect()), selection.leaf_id
    if redact is not None:
        header, leaf_id = redact.header(header), None if leaf_id is None else redact.text(leaf_id)
    seqs = list(visible(selection))
    labels = await added_labels(selection, seqs, NativeDialect())
    yield document_head(header, leaf_id, redacted=redact is not None)
    separator = b""
    async for lines in numbered(log, seqs):
        entries = await core.runtime.offload(_json_entries, log.dialect, lines, redact)
        if entries:
            yield separator + b",\n".join(entries)
            separator = b",\n"
    for label in labels:
        yield separator + document_entry(label if redact is None else redact.entry(label))
    yield document_tail()


def _json_entries(dialect: Dialect, lines: Sequence[Numbered], redact: Redaction | None) -> list[bytes]:
    if redact is None and dialect.name == "native":
        # Copy the line itself, with its unknown fields, except for lone surrogates, which would make the JSON invalid.
        return [bytes(whole(Raw(each.line.strip()))) for each in lines if decoded(dialect, [each], None)]
    return [document_entry(entry) for entry in decoded(dialect, lines, redact)]


def _view_named(name: str) -> View:
    """Return a document writer; its dependencies are imported on first use, since that is slow."""
    if name == "markdown":
        from ...projections.documents.markdown import MarkdownText

        return MarkdownText()
    from ...projections.documents.html import HtmlPage

    return HtmlPage()


async def _view_document(
    core: HostCore, selection: Selection, name: str, redact: Redaction | None
) -> AsyncGenerator[bytes]:
    """Yield a document for people piece by piece; in a whole session, branches follow their parent."""
    log, offload = selection.log, core.runtime.offload
    view = await offload(_view_named, name)
    yield await offload(_head, view, about(selection, await first_message(core, selection, redact), redact))
    if selection.whole:
        parents, kinds = log.index.parents[: selection.through + 1], kinds_of(selection)
        steps: Iterator[Step] = iter(await offload(reading_order, parents, kinds, selection.leaf))
    else:
        steps = map(Show, visible(selection))
    while part := list(islice(steps, LINES_AT_ONCE)):
        needed = dict.fromkeys(each.seq for each in part if not isinstance(each, BranchEnds))
        lines = [line async for page in numbered(log, [*needed]) for line in page]
        yield await offload(_rendered, view, log.dialect, part, lines, redact)
    yield _bytes(view.tail())


def _head(view: View, about: About) -> bytes:
    return _bytes(view.head(about))


def _rendered(
    view: View, dialect: Dialect, steps: Sequence[Step], lines: Sequence[Numbered], redact: Redaction | None
) -> bytes:
    entries = {entry.seq: entry for entry in decoded(dialect, lines, redact)}
    return _bytes("".join(_rendered_steps(view, steps, entries)))


def _rendered_steps(view: View, steps: Sequence[Step], entries: dict[int, Entry]) -> Iterator[str]:
    for step in steps:
        match step:
            case Show(seq):
                yield view.entry(entries[seq])
            case BranchBegins(seq, count):
                yield view.branch_begins(entries[seq], count)
            case BranchEnds():
                yield view.branch_ends()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")

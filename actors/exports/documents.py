"""Exports as documents: JSON that can be imported again, Markdown and HTML for people, files of other programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Raw

from ...events.characters import whole
from ...events.dialects.base import Dialect
from ...events.dialects.native import NativeDialect
from ...events.entries import Entry, Header, KnownEntry
from ...events.redaction import Redaction
from ...formats.treering_json import document_entry, document_head, document_tail
from ...projections.context import last_edits
from ...projections.exporting.order import BranchBegins, BranchEnds, Show, Step, reading_order
from ...projections.exporting.view import About, View
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
    visible,
)
from .shown import shown_entries

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.reading import Handle

ForeignWriter: TypeAlias = Callable[[Header, Sequence[Entry]], bytes]
"""Writes the path of a session as a file of another program."""

ViewName: TypeAlias = Literal["markdown", "html"]
"""A document for people."""


async def json_document(
    core: HostCore, handle: Handle, selection: Selection, redact: Redaction | None
) -> AsyncGenerator[bytes]:
    """Yield the JSON document of a session piece by piece."""
    log = selection.log
    header, leaf_id = header_of(core, handle, selection, NativeDialect()), selection.leaf_id
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


def _view_named(name: ViewName) -> View:
    """Return a document writer; its dependencies are imported on first use, since that is slow."""
    if name == "markdown":
        from ...projections.exporting.markdown import MarkdownText

        return MarkdownText()
    from ...projections.exporting.html import HtmlPage

    return HtmlPage()


async def view_document(
    core: HostCore, selection: Selection, name: ViewName, redact: Redaction | None
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
        lines = [line async for page in numbered(log, _needed_seqs(part)) for line in page]
        yield await offload(_rendered, view, log.dialect, part, lines, redact)
    yield _bytes(view.tail())


def _head(view: View, about: About) -> bytes:
    return _bytes(view.head(about))


def _needed_seqs(steps: Sequence[Step]) -> list[int]:
    return list(dict.fromkeys(each.seq for each in steps if not isinstance(each, BranchEnds)))


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


async def path_entries(core: HostCore, selection: Selection) -> list[KnownEntry]:
    """Return the entries of a path as contexts show them."""
    entries: list[Entry] = []
    async for lines in numbered(selection.log, visible(selection)):
        entries += await core.runtime.offload(decoded, selection.log.dialect, lines, None)
    edits = last_edits(selection.log.index, entries)
    return await core.runtime.offload(shown_entries, entries, edits)


async def foreign_document(core: HostCore, selection: Selection, writer: ForeignWriter) -> AsyncGenerator[bytes]:
    """Yield a path as a file of another program, in one piece."""
    entries = await path_entries(core, selection)
    yield await core.runtime.offload(partial(writer, selection.log.index.header, entries))

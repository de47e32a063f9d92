"""What of a session goes into an export: all of it or one path, under which header, in which order it is read.

It is taken from the index once, at the beginning, so that an export tells of one moment however long it takes. Lines are
read as they are wanted, some at a time; what is made of them is made off the event loop.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ...events.content import plain_text
from ...events.dialects.base import Dialect
from ...events.entries import Entry, Header, LabelEntry, MessageEntry
from ...events.kinds import MESSAGE_KINDS, Kind
from ...events.previews import preview
from ...events.redaction import Redaction
from ...projections.exporting.view import About
from ..open_log import OpenLog
from ..path_labels import labels_for

if TYPE_CHECKING:
    from ..core import HostCore
    from ..handle import Handle

LINES_AT_ONCE = 64
"""How many lines are read and made into a piece of the export in one go."""

_TITLE_CHARS = 100
_DEAD = (Kind.DAMAGED, Kind.ABORTED)


class Numbered(Struct, frozen=True, gc=False):
    """A line of the log and its ordinal."""

    seq: int
    line: bytes


class Selection(Struct, frozen=True):
    """What of a session goes into an export.

    Attributes:
        log: The session's log.
        seqs: The ordinals of the lines, in the order in which they are written.
        leaf: The ordinal of the last entry of the path; 0 where there is none.
        whole: All of the session goes, on all branches.
        through: The ordinal of the last line that the session had.
    """

    log: OpenLog
    seqs: Sequence[int]
    leaf: int
    whole: bool
    through: int

    @property
    def leaf_id(self) -> str | None:
        """The id of the last entry of the path."""
        return self.log.index.ids[self.leaf] if self.leaf else None


def selected(log: OpenLog, leaf_id: str | None, *, linear: bool) -> Selection:
    """Choose the path to an entry; without one, the path to the leaf where the format is linear, else all.

    Raises:
        EntryNotFound: The session has no such entry.
        CorruptTree: The path runs into a cycle.
    """
    index = log.index
    leaf = index.path_end(leaf_id)
    whole = leaf_id is None and not linear
    seqs = range(1, index.head + 1) if whole else index.path(leaf)
    return Selection(log, seqs, leaf, whole, index.head)


def alive(selection: Selection) -> Iterator[int]:
    """Yield the lines that count: neither damaged, nor without an id, nor of a batch that was never completed."""
    kinds = kinds_of(selection)
    return (seq for seq in selection.seqs if kinds[seq] not in _DEAD)


def kinds_of(selection: Selection) -> array[int]:
    """Return the kind of each line by ordinal; one without an id, which is no entry, counts as damaged."""
    index = selection.log.index
    kinds = index.kinds[: selection.through + 1]
    for seq in range(1, len(kinds)):
        if not index.is_entry(seq):
            kinds[seq] = Kind.DAMAGED
    return kinds


async def added_labels(selection: Selection, written: Sequence[int], dialect: Dialect) -> list[LabelEntry]:
    """Return the label entries that one path is to end with; all of a session holds its labels itself.

    Args:
        selection: What goes into the export.
        written: The ordinals of the lines that go into it.
        dialect: What it is written in.
    """
    return [] if selection.whole else await labels_for(selection.log, written, selection.through, dialect)


def header_of(core: HostCore, handle: Handle, selection: Selection, dialect: Dialect) -> Header:
    """Return the header to write: the session's own with all of it, that of a child with one path.

    A path is another session than the whole is: it has an id of its own, and lines of a batch that are not all in it do
    not look torn.
    """
    own = selection.log.index.header
    if not selection.whole:
        parent = core.path_of(handle.ref) if dialect.name == "pi" else own.id
        return core.new_header(None, dialect=dialect, cwd=own.cwd, parent_session=parent or own.id)[0]
    return Header(
        id=own.id,
        version=dialect.version,
        timestamp=own.timestamp,
        cwd=own.cwd,
        parent_session=own.parent_session,
        parent_entry=own.parent_entry,
        key=own.key,
        title=own.title,
    )


async def numbered(log: OpenLog, seqs: Iterable[int]) -> AsyncGenerator[list[Numbered]]:
    """Read lines as they stand in the log, some at a time."""
    rest = iter(seqs)
    while part := list(islice(rest, LINES_AT_ONCE)):
        lines = await log.lines_at(part)
        yield [Numbered(seq, line) for seq, line in zip(part, lines, strict=True)]


def decoded(dialect: Dialect, lines: Sequence[Numbered], redact: Redaction | None) -> list[Entry]:
    """Return the entries of lines, without their secrets where that is asked for; lines without an id are left out."""
    entries = [dialect.decode(each.line, each.seq) for each in lines]
    named = [entry for entry in entries if entry is not None and entry.id is not None]
    return named if redact is None else [redact.entry(entry) for entry in named]


async def first_said(core: HostCore, selection: Selection, redact: Redaction | None) -> str:
    """Return how the first user message begins, for a title.

    Secrets are taken out before it is cut: what is left of one at the cut no longer has its form.
    """
    log = selection.log
    seq = log.index.first_user
    if redact is None or not seq:
        return log.index.first_message
    lines = [line async for page in numbered(log, [seq]) for line in page]
    return await core.runtime.offload(_beginning, log.dialect, lines, redact)


def _beginning(dialect: Dialect, lines: Sequence[Numbered], redact: Redaction) -> str:
    said = (entry.message for entry in decoded(dialect, lines, redact) if isinstance(entry, MessageEntry))
    return next((preview(plain_text(message.content)) for message in said), "")


def about(selection: Selection, first_message: str, redact: Redaction | None) -> About:
    """Return what is said of the session at the head of a document; the first message is without its secrets."""
    index = selection.log.index
    header = index.header if redact is None else redact.header(index.header)
    kinds = kinds_of(selection)
    shown = kinds[1:] if selection.whole else array("H", [kinds[seq] for seq in selection.seqs])
    text = str if redact is None else redact.text
    title = text(index.info.name or "") or header.title or first_message or f"Session {header.id}"
    return About(
        title=title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…",
        session_id=header.id,
        created=header.timestamp,
        modified=max(header.timestamp, index.last_time),
        cwd=header.cwd,
        parent_session=header.parent_session,
        message_count=sum(map(shown.count, MESSAGE_KINDS)),
        left_out=_living(kinds[1:]) - _living(shown),
        labels={text(entry_id): text(mark.label) for entry_id, mark in index.labels.items()},
        redacted=redact is not None,
    )


def _living(kinds: array[int]) -> int:
    return len(kinds) - sum(map(kinds.count, _DEAD))

"""The selection for an export: the whole session or one path, its header, and the order of its lines.

The selection is taken from the index once, at the beginning, so that an export is consistent however long it takes.
Lines are read on demand, some at a time, and converted off the event loop.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...events.content import plain_text, text
from ...events.dialects.base import Dialect
from ...events.entries import Entry, Header, LabelEntry, Message, MessageEntry
from ...events.kinds import MESSAGE_KINDS, Kind, asked_text
from ...events.previews import preview
from ...events.redaction import Redaction
from ...projections.exporting.view import About
from ..log.open_log import OpenLog
from ..session.branching import labels_for

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.reading import Handle

LINES_AT_ONCE = 64
"""The number of lines that are read and converted at a time."""

_TITLE_CHARS = 100
_INVISIBLE = (Kind.DAMAGED, Kind.ABORTED)


class Numbered(Struct, frozen=True, gc=False):
    """A line of the log, with its seq."""

    seq: int
    line: bytes


class Selection(Struct, frozen=True):
    """The lines of a session that are exported.

    Attributes:
        log: The session's log.
        seqs: The seqs of the lines, in the order in which they are written.
        leaf: The seq of the last entry of the path; 0 for none.
        whole: Whether the whole session is exported, with all branches.
        through: The seq of the session's last line when the export began.
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
    """Select the path to an entry; without an entry, the path to the leaf for a linear format, or else everything.

    Raises:
        EntryNotFound: The session has no such entry.
        CorruptTree: The path runs into a cycle.
    """
    index = log.index
    leaf = index.path_end(leaf_id)
    whole = leaf_id is None and not linear
    seqs = range(1, index.head + 1) if whole else index.path(leaf)
    return Selection(log, seqs, leaf, whole, index.head)


def visible(selection: Selection) -> Iterator[int]:
    """Yield the seqs of visible lines: not damaged, with an id, and not of a batch that was never completed."""
    kinds = kinds_of(selection)
    return (seq for seq in selection.seqs if kinds[seq] not in _INVISIBLE)


def kinds_of(selection: Selection) -> array[int]:
    """Return the kind of each line by seq; a line without an id is not an entry and counts as damaged."""
    index = selection.log.index
    kinds = index.kinds[: selection.through + 1]
    for seq in range(1, len(kinds)):
        if not index.is_entry(seq):
            kinds[seq] = Kind.DAMAGED
    return kinds


async def added_labels(selection: Selection, written: Sequence[int], dialect: Dialect) -> list[LabelEntry]:
    """Return the label entries to append to a path; none for a whole session, which has its labels already.

    Args:
        selection: The exported entries.
        written: The seqs of the exported lines.
        dialect: The dialect of the export.
    """
    return [] if selection.whole else await labels_for(selection.log, written, selection.through, dialect)


def header_of(core: HostCore, handle: Handle, selection: Selection, dialect: Dialect) -> Header:
    """Return the header to write: the session's own for a whole session, that of a new child session for a path.

    A path becomes a session with an id of its own, so that batches of which it holds only some lines do not look torn.
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
    """Yield lines of the log unchanged, some at a time."""
    rest = iter(seqs)
    while part := list(islice(rest, LINES_AT_ONCE)):
        lines = await log.lines_at(part)
        yield [Numbered(seq, line) for seq, line in zip(part, lines, strict=True)]


def decoded(dialect: Dialect, lines: Sequence[Numbered], redact: Redaction | None) -> list[Entry]:
    """Return the entries of lines, redacted if requested, without lines that have no id."""
    decoded_lines = [dialect.decode(each.line, each.seq) for each in lines]
    entries = [entry for entry in decoded_lines if entry is not None and entry.id is not None]
    return entries if redact is None else [redact.entry(entry) for entry in entries]


async def first_message(core: HostCore, selection: Selection, redact: Redaction | None) -> str:
    """Return the beginning of the first user message, for a title.

    It is redacted before it is cut, since a secret that is cut off may no longer be recognized.
    """
    log = selection.log
    seq = log.index.first_user
    if redact is None or not seq:
        return log.index.first_message
    lines = [line async for page in numbered(log, [seq]) for line in page]
    return await core.runtime.offload(_beginning, log.dialect, lines, redact)


def _beginning(dialect: Dialect, lines: Sequence[Numbered], redact: Redaction) -> str:
    entries = (entry for entry in decoded(dialect, lines, None) if isinstance(entry, MessageEntry))
    asked = (replace(each, message=Message("user", (text(asked_text(each.message)),))) for each in entries)
    redacted = (redact.entry(each) for each in asked)
    return next((preview(plain_text(each.message.content)) for each in redacted if isinstance(each, MessageEntry)), "")


def about(selection: Selection, first_message: str, redact: Redaction | None) -> About:
    """Return the information for the head of a document; `first_message` must be redacted already."""
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
        left_out=_count_visible(kinds[1:]) - _count_visible(shown),
        labels={text(entry_id): text(mark.label) for entry_id, mark in index.labels.items()},
        redacted=redact is not None,
    )


def _count_visible(kinds: array[int]) -> int:
    return len(kinds) - sum(map(kinds.count, _INVISIBLE))

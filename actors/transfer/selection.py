"""The selection for an export: the whole session or one path, its header, the order of its lines, and what is shown.

The selection is taken from the index once, at the beginning, so that an export is consistent however long it takes.
Lines are read on demand, some at a time, and converted off the event loop.

Files of programs that have no place for an edit get a path as contexts show it: `shown_entries`. An edit changes what
contexts show of an earlier entry, or leaves it out. A file that repeated the original would show the model of the other
program what was taken away from the model here.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import filterfalse, islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...events.content import Content, ToolResultPart, ToolUsePart, plain_text, text
from ...events.dialects.base import Dialect
from ...events.entries import (
    CompactionEntry,
    ContextEdit,
    Custom,
    CustomEntry,
    Entry,
    Header,
    KnownEntry,
    LabelEntry,
    Message,
    MessageEntry,
    ToolExecutionEntry,
    UsageEntry,
    asked_text,
)
from ...events.kinds import MESSAGE_KINDS, Kind
from ...events.redaction import Redaction
from ...events.texts import preview
from ...formats.dialect_conversion import kept
from ...projections.context import message_of
from ...projections.context_edits import with_edits
from ...projections.documents.document import About
from ..log.open_log import OpenLog
from ..session.branching import labels_for

if TYPE_CHECKING:
    from ..host.core import HostCore


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


def header_of(core: HostCore, selection: Selection, dialect: Dialect) -> Header:
    """Return the header to write: the session's own for a whole session, that of a new child session for a path.

    A path becomes a session with an id of its own, so that batches of which it holds only some lines do not look torn.
    """
    own = selection.log.index.header
    if not selection.whole:
        parent = core.path_of(selection.log.ref) if dialect.parent_by_path else own.id
        return core.new_header(None, dialect=dialect, cwd=own.cwd, parent_session=parent or own.id)[0]
    return replace(own, version=dialect.version)


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


LEFT_OUT_TYPE = "treering.left_out"
"""The custom type of the entries that stand for those that an edit leaves out; no file holds them."""


def shown_entries(path: Iterable[Entry], edits: Mapping[int, ContextEdit]) -> list[KnownEntry]:
    """Return the entries of a path as contexts show them.

    Where an edit leaves an entry out, an entry without content takes its place, since a compaction may name it. The
    results and the executions of calls that are left out are left out too, and a turn counts the messages that remain.
    A reset becomes a compaction.

    Args:
        path: The entries.
        edits: The last edit of each of them that has one, by its seq.
    """
    originals = [kept(entry) for entry in path]
    if not edits:
        return originals
    shown_by_seq = {each.seq: each for each in with_edits(originals, edits)}
    entries: list[KnownEntry] = []
    calls: set[str] = set()  # those that are left out
    remaining: list[bool] = []  # for each message so far, whether it is shown
    for original in originals:
        shown = shown_by_seq.get(original.seq)
        if isinstance(original, CompactionEntry) and shown is None:
            entries.append(replace(original, compaction=replace(original.compaction, summary="")))
        elif isinstance(original, ToolExecutionEntry) and original.tool_execution.tool_call_id in calls:
            entries.append(_left_out(original))
        elif isinstance(original, UsageEntry) and original.usage.messages:
            count = sum(remaining[-original.usage.messages :])
            entries.append(replace(original, usage=replace(original.usage, messages=count)))
        elif message_of(original) is None:
            entries.append(original)
        else:
            shown = None if shown is None else without_results(shown, calls)
            calls |= calls_of(original) - calls_of(shown)
            remaining.append(shown is not None)
            entries.append(_left_out(original) if shown is None else kept(shown))
    return entries


def calls_of(entry: Entry | None) -> set[str]:
    """Return the ids of the calls that an entry makes."""
    content = entry.message.content if isinstance(entry, MessageEntry) else ()
    return {part.tool_use.id for part in content if isinstance(part, ToolUsePart)}


def results_of(entry: Entry) -> set[str]:
    """Return the ids of the calls to which an entry has results."""
    content = entry.message.content if isinstance(entry, MessageEntry) else ()
    return {part.tool_result.tool_use_id for part in content if isinstance(part, ToolResultPart)}


def without_results(entry: Entry, calls: AbstractSet[str]) -> Entry | None:
    """Return an entry without the results of these calls, or None if nothing else is in it."""

    def answers(part: Content) -> bool:
        return isinstance(part, ToolResultPart) and part.tool_result.tool_use_id in calls

    if not isinstance(entry, MessageEntry) or not any(map(answers, entry.message.content)):
        return entry
    rest = tuple(filterfalse(answers, entry.message.content))
    return replace(entry, message=replace(entry.message, content=rest)) if rest else None


def _left_out(entry: KnownEntry) -> CustomEntry:
    return CustomEntry(
        id=entry.id, parent_id=entry.parent_id, timestamp=entry.timestamp, seq=entry.seq, custom=Custom(LEFT_OUT_TYPE)
    )

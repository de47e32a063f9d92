"""The tools that read: a part of a path, an entry piece by piece, and where a session branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from ..actors.log.open_log import OpenLog
from ..events.entries import Moment
from ..events.errors import EntryNotFound, InvalidInput
from ..events.index import LogIndex
from ..events.redaction import Redaction
from ..projections.outline import descendants, part_of, place_on
from .reach import Reach, place_of
from .shown import (
    ENTRY_CHARS_MAX,
    OUTPUT_CHARS_MAX,
    ShownEntry,
    entry_shown,
    redacted,
    role_of,
    size_of,
    spread,
    text_of,
    within,
    word,
)

_PIECE_CHARS = 4 * ENTRY_CHARS_MAX
_BEGINNING_CHARS = 200
_LABELS_MAX = 20
_INLINE_MAX = 20_000
"""Lines of a log up to which its index is looked through on the event loop."""

SessionId = Annotated[str, Meta(description="The id of the session.")]
EntryId = Annotated[str, Meta(description="The id of an entry.")]


class ReadSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of which path to read: its end, or what is before, after or around an entry."""

    session: SessionId
    leaf: Annotated[str, Meta(description="The end of the path; by default where the session is.")] | None = None
    before: Annotated[str, Meta(description="`before` of an answer: what comes before it.")] | None = None
    after: Annotated[str, Meta(description="`after` of an answer: what comes after it.")] | None = None
    around: Annotated[str, Meta(description="An entry, on whatever branch: what stands beside it.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class PathPage(Struct, frozen=True):
    """A part of a path, in its order.

    Attributes:
        session: The session.
        entries: The entries.
        before: What to pass as `before` for what comes before; null at the beginning.
        after: What to pass as `after` for what follows; null at the end.
        leaf: The end of the path.
    """

    session: str
    entries: list[ShownEntry]
    before: str | None
    after: str | None
    leaf: str | None


class ReadEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entry to read, and where to begin."""

    session: SessionId
    entry: EntryId
    offset: Annotated[int, Meta(description="`next` of the answer before.", ge=0)] = 0


class EntryPart(Struct, frozen=True):
    """A piece of what an entry says; `next` is the offset of the next one."""

    session: str
    entry: str
    role: str
    at: Moment
    text: str
    chars: int
    next: int | None


class Tree(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session to show the branches of."""

    session: SessionId
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    page: Annotated[str, Meta(description="`next` of the page before.")] | None = None


class Stretch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a tree without branches.

    Attributes:
        first: Its first entry.
        last: Its last entry, below which the tree ends or branches.
        below: The entry at which it branches off; absent at a root.
        entries: How many entries it has.
        begins: How its first entry begins.
        ends: Whether nothing comes below it.
        current: Whether the path to where the session is leads through it.
        labels: Labelled entries in it, each with its label.
    """

    first: str
    last: str
    below: str | None = None
    entries: int
    begins: str
    ends: bool = False
    current: bool = False
    labels: dict[str, str] = {}


class TreePage(Struct, frozen=True):
    """A page of a tree, parents before children, and the entry at which the session is."""

    session: str
    stretches: list[Stretch]
    next: str | None
    leaf: str | None


async def read_path(reach: Reach, redaction: Redaction, asked: ReadSession) -> PathPage:
    """Return a part of a path, within the bounds of an answer.

    Raises:
        SessionNotFound: There is no such session.
        EntryNotFound: An entry is not of the session, or not on the path.
        InvalidInput: More than one of `before`, `after` and `around` is given.
    """
    if sum(each is not None for each in (asked.before, asked.after, asked.around)) > 1:
        raise InvalidInput("give one of `before`, `after` and `around`")
    session = await reach.reading(asked.session)
    log = await session.log()
    index = log.index
    leaf = index.path_end(asked.leaf)
    if asked.around is not None and asked.leaf is None:
        leaf = await _end_through(index, leaf, index.seq_of(asked.around))
    part = part_of(index, leaf, asked.limit, before=asked.before, after=asked.after, around=asked.around)
    seqs = list(part.seqs)
    if asked.around is not None:
        order: Sequence[int] = spread(seqs.index(index.seq_of(asked.around)), len(seqs))
    else:
        order = range(len(seqs)) if asked.after is not None else range(len(seqs) - 1, -1, -1)
    shown = await _shown(log, [seqs[at] for at in order], redaction)
    kept = [each for each in seqs if each in shown]
    before, after = part.before, part.after
    if kept and kept[0] != seqs[0]:
        before = index.ids[kept[0]]
    if kept and kept[-1] != seqs[-1]:
        after = index.ids[kept[-1]]
    entries = [entry for seq in kept if (entry := shown[seq]) is not None]
    return PathPage(session.id, entries, before, after, index.ids[leaf] if leaf else None)


async def _end_through(index: LogIndex, leaf: int, seq: int) -> int:
    """Return the end of a path through an entry: the present one if it leads there, or the newest below the entry."""
    if place_on(index.path(leaf), seq) is not None:
        return leaf
    find = partial(descendants, index)
    last, _ = find() if index.head <= _INLINE_MAX else await anyio.to_thread.run_sync(find)
    return last[seq]


async def _shown(log: OpenLog, seqs: Iterable[int], redaction: Redaction) -> dict[int, ShownEntry | None]:
    """Return the first entries that an answer has room for, by their seqs; None for a line that is damaged."""
    shown: dict[int, ShownEntry | None] = {}
    left = OUTPUT_CHARS_MAX
    for seq in seqs:
        entry_shown_ = None
        for entry, size in await log.sized_entries_in([seq]):
            text = text_of(await redacted(entry, size, redaction))
            entry_shown_ = entry_shown(entry, text, log.index.label_of(entry.id), redaction)
            left -= size_of(entry_shown_)
        if shown and left < 0:
            break
        shown[seq] = entry_shown_
    return shown


async def read_entry(reach: Reach, redaction: Redaction, asked: ReadEntry) -> EntryPart:
    """Return a piece of what an entry says.

    Raises:
        SessionNotFound: There is no such session.
        EntryNotFound: There is no such entry.
        InvalidInput: It is shorter than that.
    """
    session = await reach.reading(asked.session)
    log = await session.log()
    sized = await log.sized_entries_in([log.index.seq_of(asked.entry)])
    if not sized:
        raise EntryNotFound(asked.entry)
    entry, _ = sized[0]
    text = text_of(await redacted(*sized[0], redaction))
    if asked.offset > len(text):
        raise InvalidInput(f"the entry has {len(text)} characters: give an offset within them")
    end = asked.offset + _PIECE_CHARS
    role = word(role_of(entry), redaction) or ""
    piece = text[asked.offset : end]
    next_ = end if end < len(text) else None
    return EntryPart(session.id, asked.entry, role, entry.timestamp, piece, len(text), next_)


async def read_tree(reach: Reach, redaction: Redaction, asked: Tree) -> TreePage:
    """Return a page of a tree.

    Raises:
        SessionNotFound: There is no such session.
        InvalidInput: There is no such page.
    """
    start = place_of(asked.page)
    session = await reach.reading(asked.session)
    log = await session.log()
    index = log.index
    find = partial(stretches_of, index, start, asked.limit + 1)
    found = find() if index.head <= _INLINE_MAX else await anyio.to_thread.run_sync(find)
    path, leaf = index.path(index.leaf), index.leaf_id
    shown: list[Stretch] = []
    for seqs, ends in found[: asked.limit]:
        texts = [text_of(await redacted(*each, redaction)) for each in await log.sized_entries_in(seqs[:1])]
        labelled = [(index.ids[seq], label) for seq in seqs if (label := index.label_of(index.ids[seq])) is not None]
        above = index.parents[seqs[0]]
        shown.append(
            Stretch(
                first=index.ids[seqs[0]],
                last=index.ids[seqs[-1]],
                below=index.ids[above] if above > 0 else None,
                entries=len(seqs),
                begins=" ".join(texts[0][:_BEGINNING_CHARS].split()) if texts else "",
                ends=ends,
                current=place_on(path, seqs[0]) is not None,
                labels={entry_id: word(label, redaction) or "" for entry_id, label in labelled[:_LABELS_MAX]},
            )
        )
    kept = within(shown)
    is_last = len(kept) == len(found)
    return TreePage(session.id, kept, None if is_last else str(index.seq_of(kept[-1].first)), leaf)


def stretches_of(index: LogIndex, after: int, limit: int) -> list[tuple[list[int], bool]]:
    """Return the parts of a tree without branches that begin after a seq: their entries, and whether they end there.

    Args:
        index: The log's index.
        after: The seq after whose line the first one begins.
        limit: The maximum number of parts.
    """
    parents = index.parents
    children: list[int] = [0] * (index.head + 1)
    only = [0] * (index.head + 1)
    for seq in range(1, index.head + 1):
        if index.is_entry(seq) and parents[seq] > 0:
            children[parents[seq]] += 1
            only[parents[seq]] = seq
    found: list[tuple[list[int], bool]] = []
    for seq in range(after + 1, index.head + 1):
        if not index.is_entry(seq) or (parents[seq] > 0 and children[parents[seq]] == 1):
            continue
        stretch = [seq]
        while children[stretch[-1]] == 1:
            stretch.append(only[stretch[-1]])
        found.append((stretch, not children[stretch[-1]]))
        if len(found) == limit:
            break
    return found

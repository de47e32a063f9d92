"""Routes of the tree: the tree itself, labels, the leaf, branches, and cutting the path short."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote

from msgspec import Struct

from ...actors.session.session import Session
from ...events.entries import Entry, MessageEntry, OpaqueEntry, payload_of
from ...events.errors import EntryNotFound
from ...events.texts import preview
from ...projections.building.report import words_of
from ...projections.outline import is_failure
from ...projections.tree import Tree, TreeColumns, tree_columns
from ...wire import LeafReply
from ..http.fields import Count, Seqs
from ..preconditions import appended, check_match, once, state_tag
from ..routing import Call, Nothing, ReadQuery, Reply, Routes

routes = Routes()


class TreeReply(Struct, frozen=True):
    """All entries as a tree, and the end of the log that it shows."""

    tree: Tree
    cursor: str


class ColumnsReply(Struct, frozen=True):
    """All entries as a tree of columns, and the end of the log that it shows."""

    tree: TreeColumns
    cursor: str


class WordsQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seqs of the entries."""

    seqs: Seqs


class EntryWords(Struct, frozen=True):
    """What a line of a tree shows beside an entry.

    Attributes:
        seq: The seq of the entry.
        id: Its id.
        timestamp: Its time.
        text: Its beginning, on one line.
        error: Whether a tool failed there, or a model's answer.
    """

    seq: int
    id: str
    timestamp: datetime
    text: str
    error: bool


class WordsPage(Struct, frozen=True):
    """The words of the entries, in the order in which they were asked for."""

    items: list[EntryWords]
    cursor: str


class LabelledEntryReply(Struct, frozen=True):
    """A labelled entry."""

    entry_id: str
    label: str


class LabelsReply(Struct, frozen=True):
    """All labels, those of the path first."""

    labels: list[LabelledEntryReply]
    cursor: str


class NewLabel(Struct, frozen=True, forbid_unknown_fields=True):
    """A label to give to an entry."""

    label: str


class Written(Struct, frozen=True):
    """The entry that was appended, if any, and where the session is now."""

    entry_id: str | None
    leaf: str | None
    cursor: str


class NewLeaf(Struct, frozen=True, forbid_unknown_fields=True):
    """The entry to make the leaf; null for a place before the first one."""

    entry_id: str | None


class Branch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entry to go on from, and a summary of the path that is left, which models are shown there."""

    entry_id: str | None
    summary: str | None = None


class Truncation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many messages of the history to keep, and a summary that stands for the others."""

    keep_last: Count
    summary: str | None = None


def written(session: Session, entry_id: str | None) -> Written:
    """Return what a write did."""
    return Written(entry_id, session.leaf_id, str(session.cursor))


@routes.read("/v1/sessions/{session_id}/tree", TreeReply)
async def get_tree(call: Call[ReadQuery, None]) -> TreeReply:
    """Return all entries of a session as a tree."""
    session = await call.reading()
    call.unless_known(state_tag(session))
    return TreeReply(session.tree(), str(session.cursor))


@routes.read("/v1/sessions/{session_id}/tree/columns", ColumnsReply)
async def get_columns(call: Call[ReadQuery, None]) -> ColumnsReply:
    """Return all entries of a session as a tree of columns, in a tenth of the bytes."""
    session = await call.reading()
    call.unless_known(f"{state_tag(session)}/columns")
    log = await session.log()
    return ColumnsReply(tree_columns(log.index), str(session.cursor))


@routes.read("/v1/sessions/{session_id}/tree/words", WordsPage, query=WordsQuery)
async def get_words(call: Call[WordsQuery, None]) -> WordsPage:
    """Return how some entries begin, wherever they are in the tree."""
    session, seqs = await call.reading(), call.query.seqs
    call.unless_known(f"{session.cursor.generation}/{quote(repr(seqs))}")
    log = await session.log()
    missing = next((seq for seq in seqs if not (0 < seq <= log.index.head and log.index.is_entry(seq))), None)
    if missing is not None:
        raise EntryNotFound(str(missing))
    return WordsPage(list(_words(await log.entries_in(seqs))), str(session.cursor))


_WORDS_CHARS_MAX = 120
"""The greatest length of the beginning of an entry."""


def _words(entries: list[Entry]) -> Iterator[EntryWords]:
    for entry in entries:
        text = preview(_text(entry).strip(), _WORDS_CHARS_MAX)
        yield EntryWords(entry.seq, entry.id or "", entry.timestamp, text, is_failure(entry))


def _text(entry: Entry) -> str:
    if isinstance(entry, OpaqueEntry):
        return "" if entry.reason == "unknown type" else entry.reason
    if isinstance(entry, MessageEntry):
        return words_of(entry.message)
    return payload_of(entry).preview(lambda _: "")


@routes.read("/v1/sessions/{session_id}/labels", LabelsReply)
async def get_labels(call: Call[ReadQuery, None]) -> LabelsReply:
    """Return the labelled entries of a session."""
    session = await call.reading()
    call.unless_known(state_tag(session))
    return LabelsReply([LabelledEntryReply(*each) for each in session.labels()], str(session.cursor))


@routes.add(
    "PUT",
    "/v1/sessions/{session_id}/labels/{entry_id}",
    right="write",
    body=NewLabel,
    reply=Written,
    errors=(404, 409, 422, 423, 507),
    keyed=True,
    conditional=True,
)
async def set_label(call: Call[Nothing, NewLabel]) -> Written:
    """Give an entry a label."""
    return await _label(call, call.body.label)


@routes.add(
    "DELETE",
    "/v1/sessions/{session_id}/labels/{entry_id}",
    right="write",
    reply=Written,
    errors=(404, 409, 423, 507),
    keyed=True,
    conditional=True,
)
async def remove_label(call: Call[Nothing, None]) -> Written:
    """Remove the label of an entry."""
    return await _label(call, None)


async def _label(call: Call[Nothing, NewLabel] | Call[Nothing, None], label: str | None) -> Written:
    session, entry_id = await call.writing(), call.names["entry_id"]
    await session.refresh()  # another process may have labelled it
    if (session.label(entry_id) or None) == (label or None) and call.key is None:
        await check_match(call, session)
        session.path(entry_id)  # refuses an entry that does not exist
        return written(session, None)
    return written(
        session, await appended(call, session, lambda options: session.set_label(entry_id, label, **options))
    )


@routes.read("/v1/sessions/{session_id}/leaf", LeafReply)
async def get_leaf(call: Call[ReadQuery, None]) -> LeafReply:
    """Return the leaf of a session."""
    session = await call.reading()
    call.unless_known(state_tag(session))
    return LeafReply(session.leaf_id, str(session.cursor))


@routes.add(
    "PUT",
    "/v1/sessions/{session_id}/leaf",
    right="write",
    body=NewLeaf,
    reply=LeafReply,
    errors=(404, 409, 423),
    keyed=True,
    conditional=True,
)
async def move_leaf(call: Call[Nothing, NewLeaf]) -> LeafReply:
    """Make an entry the leaf, so that the next append goes below it."""
    session = await call.writing()
    await _move(call, session, call.body.entry_id)
    return LeafReply(session.leaf_id, str(session.cursor))


async def _move(call: Call[Nothing, object], session: Session, entry_id: str | None) -> None:
    """Move the leaf, unless this very request did so before: another's move since then stays."""

    async def move() -> None:
        await check_match(call, session)
        if entry_id is None:
            await session.reset_leaf()
        else:
            await session.branch(entry_id)

    await once(call, session, f"leaf {entry_id!r}", move)


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/branch",
    right="write",
    body=Branch,
    reply=Written,
    statuses=(201,),
    errors=(404, 409, 422, 423, 507),
    keyed=True,
    conditional=True,
)
async def branch(call: Call[Nothing, Branch]) -> Reply:
    """Go on from an entry, with or without a summary of the path that is left."""
    session, body = await call.writing(), call.body
    if (summary := body.summary) is None:
        await _move(call, session, body.entry_id)
        return Reply(written(session, None))
    entry_id = await appended(
        call, session, lambda options: session.branch_with_summary(body.entry_id, summary, **options)
    )
    return Reply(written(session, entry_id), status=201)


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/truncate",
    right="write",
    body=Truncation,
    reply=Written,
    errors=(404, 409, 422, 423, 507),
    keyed=True,
    conditional=True,
)
async def truncate(call: Call[Nothing, Truncation]) -> Written:
    """Leave all but the last messages of the history out of contexts; they stay in the log."""
    session, body = await call.writing(), call.body
    entry_id = await appended(
        call, session, lambda options: session.truncate_history(body.keep_last, summary=body.summary, **options)
    )
    return written(session, entry_id)

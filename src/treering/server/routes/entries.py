"""Routes of entries: reading them page by page, one by one or along a path, and appending."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ...actors.commands import AppendOptions
from ...actors.session.reading import append_placed
from ...actors.session.session import Session
from ...events.errors import EntryNotFound, LeafMoved, LogReplaced, NotAuthorized, NotFound
from ...events.json_values import JSON
from ...events.stores.base import Cursor
from ...wire import Appended, EntryPage
from ..http.fields import After, Count, Limit, Name, Seconds, cursor_of
from ..http.pages import check_limit
from ..http.problems import Malformed
from ..http.wire import convert, entry_raw, read_payloads
from ..preconditions import REPEATED, appending, state_tag
from ..routing import Call, Nothing, ReadQuery, Routes
from ..waiting import until_newer, while_there

routes = Routes()


class EntriesQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries to read: those after a cursor or a seq, or those with these ids; `types` leaves out all others.

    Attributes:
        after: The cursor or seq.
        ids: The ids, one at least, which make `after` and `limit` meaningless.
        types: The types of entries to read; by default all.
        limit: How many.
        wait: Seconds to wait for such an entry if there is none yet; the page is empty if none comes. Not beside `ids`.
    """

    after: After | None = None
    ids: Annotated[tuple[Name, ...], Meta(min_length=1)] = ()
    types: tuple[Name, ...] = ()
    limit: Limit = 100
    wait: Seconds = 0.0


class NewEntries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries to append, all or none, and what they rely on.

    Attributes:
        entries: The entries, as each may be sent alone.
        below: The entry to append to; null begins a new root. By default the leaf.
        aside: Whether the leaf stays where it is.
        expected_leaf: The leaf that the caller knows; null for none.
        expected_seq: The last seq that the caller knows.
        command_id: The caller's id of the request, where it is none that a header can carry as Idempotency-Key.
    """

    entries: list[Any]  # checked by `read_payloads`
    below: str | UnsetType | None = UNSET
    aside: bool = False
    expected_leaf: str | UnsetType | None = UNSET
    expected_seq: Count | None = None
    command_id: Name | None = None


class PathQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which path to read: to `leaf`, by default the session's; with `bodies`, its entries, not only their ids."""

    leaf: Name | None = None
    bodies: bool = False
    after: Name | None = None
    limit: Limit = 100


class PathPage(Struct, frozen=True):
    """A page of a path, from the root on. `next` is the entry after which the next page begins, or null."""

    ids: list[str]
    entries: list[Raw]
    next: str | None
    cursor: str


@routes.read("/v1/sessions/{session_id}/entries", EntryPage, query=EntriesQuery, errors=(404, 409, 422))
async def read_entries(call: Call[EntriesQuery, None]) -> EntryPage:
    """Read entries in the order of the log, page by page."""
    session, query, limits = await call.reading(), call.query, call.service.limits
    check_limit(query.limit, limits.page_max)
    if len(query.ids) > limits.page_max:
        raise Malformed(f"one page has `page_max` ({limits.page_max}) entries, not {len(query.ids)}", status=422)
    seq = _seq_after(query.after, session.cursor)
    if query.wait:
        await _wait(call, session, seq)
    end = session.cursor
    seq = _seq_after(query.after, end)  # which is of no use if the log was replaced while this waited
    call.unless_known(f"{state_tag(session)}/{seq}.{quote(repr(query))}")
    if query.ids:
        items = list[Raw]()
        for entry_id in query.ids:
            named = await session.entry(entry_id)
            if named is None:
                raise EntryNotFound(entry_id)
            if not query.types or named.type in query.types:
                items.append(entry_raw(named))
        return EntryPage(items, str(end), up_to_date=True, leaf=session.leaf_id)
    items = list[Raw]()
    size = 0
    async for entry in session.iter_entries(seq):
        if len(items) == query.limit or size >= limits.page_bytes_max:
            return EntryPage(items, str(Cursor(end.generation, seq)), up_to_date=False, leaf=session.leaf_id)
        seq = entry.seq
        if not query.types or entry.type in query.types:
            items.append(raw := entry_raw(entry))
            size += len(memoryview(raw))
    read = Cursor(end.generation, max(seq, end.seq))
    up_to_date = read.seq >= session.cursor.seq  # what was appended meanwhile is on the next page, and moved the leaf
    return EntryPage(items, str(read), up_to_date=up_to_date, leaf=session.leaf_id)


async def _wait(call: Call[EntriesQuery, None], session: Session, seq: int) -> None:
    """Wait until there is something to read after a seq, as long as the request says and its caller stays.

    Raises:
        Malformed: It asks for entries by their ids, or to wait for longer than the server does.
        NotAuthorized: The caller's token was revoked or expired meanwhile.
    """
    query, service, principal = call.query, call.service, call.principal
    if query.ids:
        raise Malformed("`wait` is for entries that are to come, which have no ids yet: leave out `ids`", status=422)
    if query.wait > service.limits.wait_max_s:
        wait_max_s = service.limits.wait_max_s
        raise Malformed(f"`wait` is {query.wait:g} seconds, more than `wait_max_s` ({wait_max_s:g})", status=422)
    async with while_there(call):
        await until_newer(service, session, seq, query.types, min(query.wait, service.time_left_s(principal)))
    if service.time_left_s(principal) <= 0 or not service.still_knows(principal):
        raise NotAuthorized("the token was revoked or expired while the request waited: send another one")


def _seq_after(after: str | None, end: Cursor) -> int:
    """Return the seq after which a page begins.

    Raises:
        LogReplaced: The cursor is of another generation, or of entries that were lost: what follows cannot be told.
    """
    if after is None:
        return 0
    if after.isascii() and after.isdigit():
        return int(after)
    cursor = cursor_of(after)
    if cursor.seq > (end.seq if cursor.generation == end.generation else 0):
        raise LogReplaced(f"the cursor {after!r} is not of the log that is there now: read from the start")
    return cursor.seq


@routes.read("/v1/sessions/{session_id}/entries/{entry_id}", Raw)
async def read_entry(call: Call[ReadQuery, None]) -> Raw:
    """Read one entry."""
    session, entry_id = await call.reading(), call.names["entry_id"]
    call.unless_known(f"{session.cursor.generation}/{quote(entry_id)}")
    entry = await session.entry(entry_id)
    if entry is None:
        raise EntryNotFound(entry_id)
    return entry_raw(entry)


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/entries",
    right="write",
    body=NewEntries,
    handler_converts=True,
    reply=Appended,
    status=201,
    errors=(404, 409, 422, 423, 507),
    keyed=True,
    conditional=True,
)
async def append_entries(call: Call[Nothing, JSON]) -> Appended:
    """Append one entry, or several, all or none."""
    value = call.body
    new = None if isinstance(value, dict) and "type" in value else convert(value, NewEntries)
    entries_given: list[JSON] = [value] if new is None else new.entries
    limits = call.service.limits
    if not 1 <= len(entries_given) <= limits.batch_max:
        raise Malformed(f"one request appends 1 to {limits.batch_max} entries, not {len(entries_given)}")
    payloads = read_payloads(entries_given)
    session = await call.service.writing(call.principal, call.session_id)
    expected: AppendOptions = {} if new is None else _expected(new)
    if new is not None and new.command_id is not None:
        call.key = new.command_id

    async with appending(call, session) as options:
        by_headers = dict(options)
        if any(by_headers.get(name, value) != value for name, value in expected.items()):
            raise LeafMoved("If-Match names another state than the body expects: one at most can hold")
        before = 0 if call.key is None else session.cursor.seq  # without a key, nothing can be a repetition
        placed = await append_placed(session, tuple(payloads), options | expected)
    if placed.entries[-1].seq <= before:
        call.reply_headers |= REPEATED
    ids, seqs = [each.id or "" for each in placed.entries], [each.seq for each in placed.entries]
    entries: list[Raw] = []
    if call.incoming.preferred("return") == "representation":
        entries = [entry_raw(each) for each in await (await session.log()).entries_in(seqs)]
        call.reply_headers["preference-applied"] = "return=representation"
    return Appended(ids, seqs, placed.leaf_id, str(placed.cursor), entries)


def _expected(new: NewEntries) -> AppendOptions:
    """Return what the body of an append relies on."""
    options: AppendOptions = {}
    if new.below is not UNSET:
        options["below"] = new.below
    if new.aside:
        options["aside"] = True
    if new.expected_leaf is not UNSET:
        options["expected_leaf"] = new.expected_leaf
    if new.expected_seq is not None:
        options["expected_seq"] = new.expected_seq
    return options


@routes.read("/v1/sessions/{session_id}/path", PathPage, query=PathQuery)
async def read_path(call: Call[PathQuery, None]) -> PathPage:
    """Read the path from the root to an entry, page by page."""
    session, query, limits = await call.reading(), call.query, call.service.limits
    check_limit(query.limit, limits.page_max)
    call.unless_known(f"{state_tag(session)}/{quote(repr(query))}")
    ids = session.path(query.leaf)
    start = 0
    if query.after is not None:
        if query.after not in ids:
            raise EntryNotFound(query.after)
        start = ids.index(query.after) + 1
    shown = ids[start : start + query.limit]
    entries: list[Raw] = []
    if query.bodies:
        size = 0
        for place, entry_id in enumerate(shown):
            entry = await session.entry(entry_id)
            if entry is None:
                raise NotFound(f"entry {entry_id!r} was in the path a moment ago: the log was replaced, read it again")
            entries.append(raw := entry_raw(entry))
            size += len(memoryview(raw))
            if size >= limits.page_bytes_max:
                shown = shown[: place + 1]
                break
    is_last = start + len(shown) >= len(ids)
    return PathPage(shown, entries, None if is_last else shown[-1], str(session.cursor))

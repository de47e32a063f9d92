"""Routes of sessions: the listing, creating, describing, copying, archiving and deleting them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ...actors.host.names import absolute
from ...actors.session.branching import copy_of, path_of
from ...actors.session.session import Session
from ...events.entries import SessionInfo, SessionInfoEntry
from ...events.errors import EntryNotFound, InvalidInput, NotAuthorized, SessionExists, SessionNotFound
from ...events.json_values import raw_object
from ...events.projects import real_path
from ...events.stores.finding import RowQuery
from ...projections.summary import SessionSummary
from ...wire import SessionDetail, SessionPage, SessionRow
from ..creation import NewSession, check_own_key, write_new
from ..filters import Order, SessionFilter, filtered
from ..http.fields import Count, Folder, Limit, Name, NewFolder, NewId
from ..http.pages import check_limit
from ..http.problems import Malformed
from ..preconditions import REPEATED, appended, check_match
from ..repeats import id_for, used_otherwise
from ..routing import Call, Nothing, ReadQuery, Reply, Routes
from ..service import Service
from .states import state_of_row

routes = Routes()

_SHOWN = frozenset(SessionRow.__struct_fields__)


class ListQuery(SessionFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list, and which page; with "state", what each is doing.

    Attributes:
        start: Where the page begins, counted from 0, for a list that is scrolled: instead of `page`.
        count: Whether to say how many there are on all pages, and how many are in which group.
    """

    order: Order = "used"
    limit: Limit = 100
    page: Name | None = None
    start: Count | None = None
    count: bool = False
    fields: tuple[Literal["state"], ...] = msgspec.field(name="with", default=())


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a session: an absent field stays as it is, null clears it."""

    title: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    status: Name | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET
    project: NewFolder | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET


class Copy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A copy of a session: of all of it, or of the path to one entry."""

    id: NewId | None = None
    entry_id: Name | None = None


def row_of(service: Service, summary: SessionSummary, *, with_state: bool = False) -> SessionRow:
    """Return the row of a listing as a client gets it, without paths of the server."""
    fields: dict[str, Any] = {
        name: getattr(summary, name) for name in SessionSummary.__struct_fields__ if name in _SHOWN
    }
    if summary.problem is not None:
        fields["problem"] = service.shown(summary.problem)
    fields["state"] = state_of_row(service, summary) if with_state else UNSET
    foreign = None if service.programs is None else service.programs.row(summary.id)
    if foreign is not None:
        is_partial = service.is_partial(summary.id)
        fields |= {"program": foreign.program_title, "partial": is_partial}
        if is_partial:  # what was counted is a part
            fields["usage"] = None
            if fields["state"]:
                fields["state"] = replace(fields["state"], cost=None)
        if foreign.problem is not None:
            fields["problem"] = service.shown(foreign.problem)
        if foreign.state is None and with_state:
            fields["state"] = None
    return SessionRow(**fields)


def detail_of(
    service: Service, summary: SessionSummary, session: Session, *, with_state: bool = False
) -> SessionDetail:
    """Return a row with where its session stands."""
    row = row_of(service, summary, with_state=with_state)
    fields = {name: getattr(row, name) for name in SessionRow.__struct_fields__}
    return SessionDetail(
        **fields,
        leaf=session.leaf_id,
        cursor=str(session.cursor),
        metadata=session.metadata.info.metadata,
        header=session.header,
    )


# -- listing


@routes.add("GET", "/v1/sessions", right="read", query=ListQuery, reply=SessionPage, errors=(422,))
async def list_sessions(call: Call[ListQuery, None]) -> SessionPage:
    """List sessions, page by page."""
    service, query = call.service, call.query
    position = str(service.host.sessions_position())
    if query.page is not None and query.start is not None:
        raise Malformed("give `page` or `start`, not both: a page says where it begins", status=422)
    check_limit(query.limit, service.limits.page_max)
    found = await filtered(service, call.principal, query)
    counts = await found.counts() if query.count else None
    total = None if counts is None else found.total(counts)
    page = await found.page(query.order, query.page, query.start or 0, query.limit)
    items = [row_of(service, row, with_state="state" in query.fields) for row in page.items]
    return SessionPage(items, None if query.start is not None else page.next, position, total, counts)


# -- one session


@routes.add(
    "POST",
    "/v1/sessions",
    right="write",
    body=NewSession,
    schema={"not": {"required": ["id", "key"], "properties": {"id": {"type": "string"}, "key": {"type": "string"}}}},
    reply=SessionRow,
    status=201,
    errors=(409,),
    keyed=True,
)
async def create_session(call: Call[Nothing, NewSession]) -> Reply:
    """Create a session."""
    service, body = call.service, call.body
    service.check_writable()
    check_own_key(call.principal, body.key)
    if body.id is not None and body.key is not None:
        raise InvalidInput("give an `id` or a `key`, not both: a key determines the id")
    derived = None if body.id or body.key else id_for(call.principal, call.key)
    async with service.repeats.request(call.principal, call.key, _what(call), "") as request:
        try:
            session = await write_new(service.host, body, body.id or derived)
        except SessionExists:
            if (before := request.result or derived) is None:
                raise
            return await _as_before(call, body, before)
        request.result = session.id
    return await _created(call, session)


async def _as_before(call: Call[Nothing, NewSession], body: NewSession, session_id: str) -> Reply:
    """Answer a repeated request as the first one was answered."""
    row = await call.service.row(call.principal, session_id)
    session = await call.service.reading_row(row)
    header = session.header
    cwd = None if body.cwd is None else absolute(body.cwd)
    is_other = (header.cwd, header.parent_session, header.parent_entry) != (cwd, body.parent_session, body.parent_entry)
    if is_other or (body.title is not None and await _first_title(session) != body.title.split()):
        raise used_otherwise("session")
    return _repeated(call, row)


async def _first_title(session: Session) -> list[str] | None:
    """Return the words of the title that a session began with, whatever space its format keeps between them."""
    log = await session.log()
    begins_with_entry = log.index.head > 0 and log.index.is_entry(1)
    for entry in await log.entries_in([1] if begins_with_entry else []):
        if isinstance(entry, SessionInfoEntry) and entry.session_info.name is not None:
            return entry.session_info.name.split()
    return None


def _what(call: Call[Nothing, object]) -> str:
    """Return a word for what a request with a key asks for, which no other one has, however long its body is."""
    if call.key is None:
        return ""
    return blake2b(f"{call.incoming.raw_path()!r} {call.body!r}".encode(), digest_size=16).hexdigest()


def _repeated(call: Call[Nothing, object], row: SessionSummary) -> Reply:
    """Answer a request whose session was created before."""
    return Reply(row_of(call.service, row), headers={"Location": place_of(call, row.id), **REPEATED})


async def _created(call: Call[Nothing, object], session: Session) -> Reply:
    row = await call.service.host.resolve(session)
    return Reply(row_of(call.service, row), status=201, headers={"Location": place_of(call, row.id)})


def place_of(call: Call[object, object], session_id: str) -> str:
    """Return the address of a session on this server."""
    return f"{call.incoming.scope.get('root_path', '')}/v1/sessions/{quote(session_id, safe='')}"


class ProjectQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The folder of a project."""

    project: Folder


class NewCurrent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session to go on with in a project; null for none."""

    project: Folder
    session: Name | None


@routes.add("GET", "/v1/current", right="read", query=ProjectQuery, reply=SessionRow, errors=(404,))
async def get_current(call: Call[ProjectQuery, None]) -> SessionRow:
    """Return the current session of a project."""
    row = await call.service.host.current_session(call.query.project)
    if row is None or not call.principal.sees(row.key):
        raise SessionNotFound("this project has no current session")
    return row_of(call.service, row)


@routes.add("PUT", "/v1/current", right="write", body=NewCurrent, status=204, errors=(404, 409))
async def set_current(call: Call[Nothing, NewCurrent]) -> Reply:
    """Make a session the current one of a project."""
    service, body = call.service, call.body
    service.check_writable()
    if call.principal.prefix is not None:
        raise NotAuthorized("a project is for sessions of any key: this takes a token without a prefix", known=True)
    row = None if body.session is None else await service.row(call.principal, body.session)
    await service.host.set_current_session(body.project, row)
    return Reply()


@routes.add("GET", "/v1/keys/{key}", right="read", reply=SessionRow, errors=(404,))
async def get_by_key(call: Call[Nothing, None]) -> SessionRow:
    """Return the session of a key."""
    key = call.names["key"]
    rows = await call.service.host.catalog.listing.now()
    found = await rows.find(RowQuery(key=key, limit=1)) if call.principal.sees(key) else []
    if not found:
        raise SessionNotFound(f"no session has the key {key[:200]!r}: create one by a PUT")
    return row_of(call.service, found[0])


class KeyedSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session that does not exist yet is created with."""

    cwd: NewFolder | None = None


@routes.add("PUT", "/v1/keys/{key}", right="write", body=KeyedSession, reply=SessionRow, statuses=(201,), errors=(409,))
async def get_or_create_by_key(call: Call[Nothing, KeyedSession]) -> Reply:
    """Return the session of a key, which is created if it does not exist."""
    key = call.names["key"]
    call.service.check_writable()
    check_own_key(call.principal, key)
    found = await call.service.host.find_by_key(key)
    if found is None:
        try:
            return await _created(call, await write_new(call.service.host, NewSession(key=key, cwd=call.body.cwd)))
        except SessionExists:  # created by another request meanwhile
            found = await call.service.host.get_or_create(key)
    return Reply(row_of(call.service, await call.service.host.resolve(found)))


class SessionQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to add to the row of a session: "state", what it is doing."""

    fields: tuple[Literal["state"], ...] = msgspec.field(name="with", default=())


@routes.add(
    "GET", "/v1/sessions/{session_id}", right="read", query=SessionQuery, reply=SessionDetail, errors=(404, 409)
)
async def get_session(call: Call[SessionQuery, None]) -> SessionDetail:
    """Return a session: its row, its leaf and the end of its log."""
    row = await call.service.row(call.principal, call.session_id)
    session = await call.service.reading_row(row)
    if call.query.at_least is not None:
        await call.service.reached(session, call.query.at_least)
        row = await call.service.row(call.principal, call.session_id)
    return detail_of(call.service, row, session, with_state="state" in call.query.fields)


@routes.add(
    "PATCH",
    "/v1/sessions/{session_id}",
    right="write",
    body=Change,
    reply=SessionRow,
    errors=(404, 409, 423),
    keyed=True,
    conditional=True,
)
async def change_session(call: Call[Nothing, Change]) -> SessionRow:
    """Change a session's title, description, summary, status, project or metadata."""
    session, body = await call.writing(), call.body
    project = body.project
    if isinstance(project, str):  # beside the rest, in the one entry that If-Match and the key are for
        project = await call.service.host.core.runtime.offload(real_path, absolute(project))
    info = SessionInfo(
        name=_given(body.title),
        description=_given(body.description),
        summary=_given(body.summary),
        status=_given(body.status, cleared="active"),
        project=_given(project),
        raw_metadata=None if isinstance(body.metadata, UnsetType) else raw_object(body.metadata or {}, "metadata"),
    )
    if info != SessionInfo():
        await appended(call, session, lambda options: session.append(info, **options))
    return row_of(call.service, await call.service.host.resolve(session))


def _given(value: str | UnsetType | None, *, cleared: str = "") -> str | None:
    """Return the value of an entry for a field of the request: None leaves it, "" removes it."""
    if isinstance(value, UnsetType):
        return None
    return cleared if value is None else value


async def _row_to_change(call: Call[Nothing, None]) -> SessionSummary:
    """Return the row of a session that is changed as a whole, after checking that it is in the state of If-Match."""
    service = call.service
    service.check_writable()
    row = await service.row(call.principal, call.session_id)
    if b"if-match" in call.headers:
        await check_match(call, await service.reading_row(row))
    return row


async def _row(call: Call[Nothing, None]) -> SessionRow:
    return row_of(call.service, await call.service.row(call.principal, call.session_id))


@routes.add("DELETE", "/v1/sessions/{session_id}", right="admin", status=204, errors=(404, 423), conditional=True)
async def delete_session(call: Call[Nothing, None]) -> Reply:
    """Delete a session permanently, with every copy of its content."""
    await call.service.host.delete(await _row_to_change(call))
    call.service.forget(call.session_id)  # whose handle would keep its entries in memory
    return Reply()


@routes.add(
    "POST", "/v1/sessions/{session_id}/archive", right="write", reply=SessionRow, errors=(404, 423), conditional=True
)
async def archive_session(call: Call[Nothing, None]) -> SessionRow:
    """Archive a session: compressed, out of the listing, still readable."""
    await call.service.host.archive(await _row_to_change(call))
    return await _row(call)


@routes.add(
    "POST", "/v1/sessions/{session_id}/unarchive", right="write", reply=SessionRow, errors=(404, 423), conditional=True
)
async def unarchive_session(call: Call[Nothing, None]) -> SessionRow:
    """Bring an archived session back."""
    await call.service.host.unarchive(await _row_to_change(call))
    return await _row(call)


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/fork",
    right="write",
    body=Copy,
    reply=SessionRow,
    status=201,
    errors=(404, 409),
    keyed=True,
)
async def fork_session(call: Call[Nothing, Copy]) -> Reply:
    """Copy a session, with all branches or as the path to one entry, into a new one whose parent it is."""
    service, body = call.service, call.body
    service.check_writable()
    if call.principal.prefix is not None:
        raise NotAuthorized("a copy has no key, so a token with a prefix could not see it", known=True)
    session = await call.reading()
    if body.entry_id is not None and await session.entry(body.entry_id) is None:
        raise EntryNotFound(body.entry_id)
    copy = await (copy_of(session) if body.entry_id is None else path_of(session, body.entry_id))
    derived = None if body.id else id_for(call.principal, call.key)
    async with service.repeats.request(call.principal, call.key, _what(call), "") as request:
        try:
            created = await service.host.write_fork(copy, body.id or derived)
        except SessionExists:
            if (before := request.result or derived) is None:
                raise
            row = await service.row(call.principal, before)
            await _check_same_copy(await service.reading_row(row), session, body.entry_id)
            return _repeated(call, row)
        request.result = created.id
    return await _created(call, created)


async def _check_same_copy(copy: Session, source: Session, entry_id: str | None) -> None:
    """Refuse to take a session for the copy that a request asks for, if the key made it of something else.

    Raises:
        CommandConflict: It is no copy of that session, or not of the path to that entry.
    """
    is_of_source = copy.header.parent_session in (source.id, source.file_path)
    if not is_of_source or (entry_id is not None and await copy.entry(entry_id) is None):
        raise used_otherwise("copy or session")

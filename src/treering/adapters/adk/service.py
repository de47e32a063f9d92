"""The session service: sessions of the kit as sessions of a host, and what refuses an object that is stale."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec

from ...actors.commands import AppendOptions
from ...actors.host.host import SessionHost
from ...actors.session.session import Session as OwnSession
from ...events.entries import Custom, Payload
from ...events.errors import CommandConflict, InvalidEntry, LeafMoved
from ...events.json_values import raw_object
from ...formats.adk.events import Event as EventData
from ...formats.adk.events import payload_of
from ...formats.adk.names import BEGUN, TEMPORARY, Name
from ..hosting import Hosting, HostOrRoot, lock_of
from ..versions import GOOGLE_ADK
from .history import events_of, time_of
from .state import Known, State, known_of, values_of, write

try:
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
    from google.adk.sessions.session import Session
except ImportError as error:
    raise GOOGLE_ADK.missing(error, "sessions for it need Google's Agent Development Kit") from error

GOOGLE_ADK.check()

__all__ = ["StaleSessionError", "TreeringSessionService"]

SETTLED_MAX = 10_000
"""For how many sessions it is remembered that a change for others was written to them; else it is looked up."""


class TreeringSessionService(BaseSessionService):
    """A session service whose sessions are those of a host.

    A session that was changed since it was read is refused by `append_event` as stale. An event that is appended again
    is there once. Programs that use the host directly find a session by its key, "app/user/id", each part as in a URL.
    State with the prefixes "app:" and "user:" is in sessions of its own, with the keys "app:app" and "user:app/user".

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot) -> None:
        self._hosting = Hosting(host)
        self._settled: OrderedDict[str, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"TreeringSessionService({self._hosting!r})"

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session.

        Args:
            app_name: The app.
            user_id: The user.
            state: The initial state, of all scopes; what is no JSON is written in words, and what is temporary not.
            session_id: Its id, without spaces around it; a fresh one by default.

        Raises:
            AlreadyExistsError: There is one with this id.
            TreeringError: It could not be written.
        """
        name = Name(app_name, user_id, (session_id or "").strip() or str(uuid4()))
        actions = msgspec.json.decode(EventActions(state_delta=state or {}).model_dump_json(by_alias=True))
        return await self._hosting.run(lambda host: self._create(host, name, actions["stateDelta"]))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events, or None if there is none.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: Its id.
            config: How many of the last events to return, or since when; by default all.
        """
        name = Name(app_name, user_id, session_id.strip())
        return await self._hosting.run(lambda host: self._get(host, name, config or GetSessionConfig()))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, without their events, the one changed last at the end.

        Args:
            app_name: The app.
            user_id: The user; None for all.
        """
        found = await self._hosting.run(lambda host: self._list(host, app_name, user_id))
        found.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; do nothing if there is none. The state of its user and app stays."""
        name = Name(app_name, user_id, session_id.strip())

        async def run(host: SessionHost) -> None:
            own = await host.find_by_key(name.key)
            if own is not None:
                await host.delete(own)

        await self._hosting.run(run)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, whose names have no prefix here; empty if there is none."""
        return await self._hosting.run(lambda host: values_of(host, Name(app_name, user_id, "").scope("user:")))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, both to the object and to what is stored; a partial one to neither.

        Raises:
            SessionNotFoundError: There is no such session.
            StaleSessionError: The session was changed since the object was read: get it again.
            InvalidEntry: The event cannot be written as JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        if event.partial:
            return event
        data = _data(event)
        return await self._hosting.run(lambda host: self._append(host, session, event, data))

    # -- on the host's loop

    async def _create(self, host: SessionHost, name: Name, state: State) -> Session:
        own = await host.get_or_create(name.key)
        kept = {each: value for each, value in state.items() if not each.startswith(TEMPORARY)}
        begun = Custom(BEGUN, raw_object({"created": time.time(), "state": kept}, "the state"))
        try:
            await own.append(begun, expected_seq=0)
        except LeafMoved:
            raise AlreadyExistsError(f"there is a session {name.session_id!r} already: give another id") from None
        known = await known_of(own)
        await self._settle(host, name, known, late=False)
        return await self._shown(host, name, known, [], "")

    async def _get(self, host: SessionHost, name: Name, config: GetSessionConfig) -> Session | None:
        own = await host.find_by_key(name.key)
        if own is None:
            return None
        leaf = own.leaf_id  # read first: an event that comes meanwhile makes the object stale, not wrong
        known = await known_of(own)
        if not known.begun:
            return None
        await self._settle(host, name, known)
        most, since = config.num_recent_events, config.after_timestamp
        found = await events_of(
            own, leaf, known, author=name.app_name, most=None if most is None else max(most, 1), since=since
        )
        marker = found[-1].entry_id if found else ""
        if most is not None:
            found = found[len(found) - most :] if most < len(found) else found
        if since is not None:
            older = (at for at in range(len(found), 0, -1) if time_of(found[at - 1]) < since)
            found = found[next(older, 0) :]
        return await self._shown(host, name, known, [Event.model_validate(each.event) for each in found], marker)

    async def _list(self, host: SessionHost, app_name: str, user_id: str | None) -> list[Session]:
        above = "/".join(quote(part, safe="") for part in (app_name, *(() if user_id is None else (user_id,)))) + "/"
        found: list[Session] = []
        states: dict[str, State] = {}
        for row in await host.list_sessions(status="any"):
            key = row.key or ""
            if not key.startswith(above) or key.count("/") != 2:
                continue
            own = await (host.load(row, read_only=True) if row.archived else host.find_by_key(key))
            known = None if own is None else await known_of(own)
            if known is not None and known.begun:
                name = Name(*map(unquote, key.split("/")))
                found.append(await self._shown(host, name, known, [], None, states))
        return found

    async def _append(self, host: SessionHost, session: Session, event: Event, data: EventData) -> Event:
        name = Name(session.app_name, session.user_id, session.id.strip())
        async with lock_of(host, name.key):
            own = await host.find_by_key(name.key)
            if own is None:
                raise _missing(session)
            while True:
                await own.refresh()
                leaf = own.leaf_id
                known = await known_of(own)
                if not known.begun:
                    raise _missing(session)
                await self._settle(host, name, known)
                last = known.last
                if last is not None and leaf != last:  # something else was appended, or the leaf was moved
                    tail = await events_of(own, leaf, known, author=name.app_name, most=1)
                    last = tail[-1].entry_id if tail else None
                _check_fresh(session, known, last)
                before = own.cursor.seq
                try:
                    entry_id = await _put(own, leaf, known, name, data, last)
                except LeafMoved:
                    continue
                break
            entry = await own.entry(entry_id)
            if entry is not None and entry.seq <= before:
                return event  # it was there already
            await self._settle(host, name, await known_of(own), late=False)
            session._storage_update_marker = entry_id  # where the kit has its own services keep it
            session.last_update_time = event.timestamp
            return await super().append_event(session, event)

    async def _settle(self, host: SessionHost, name: Name, known: Known, *, late: bool = True) -> None:
        """Write a session's last change for others to them, unless it was: the process may have ended in between."""
        shared, key = known.shared, name.key
        if shared is None or self._settled.get(key) == shared.entry_id:
            return
        at = shared.at if late else None
        for prefix, values in shared.scopes.items():
            await write(host, name.scope(prefix), shared.entry_id, values, at)
        self._settled[key] = shared.entry_id
        if len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)

    async def _shown(
        self,
        host: SessionHost,
        name: Name,
        known: Known,
        events: list[Event],
        marker: str | None,
        states: dict[str, State] | None = None,
    ) -> Session:
        """Return a session as the kit has it, with the state of all scopes."""
        state = deepcopy(known.state)
        for prefix in ("app:", "user:"):
            scope = name.scope(prefix)
            values = None if states is None else states.get(scope.key)
            if values is None:
                values = await values_of(host, scope)
            if states is not None:
                states[scope.key] = values
            state.update({prefix + each: deepcopy(value) for each, value in values.items()})
        session = Session(
            app_name=name.app_name,
            user_id=name.user_id,
            id=name.session_id,
            state=state,
            events=events,
            last_update_time=known.updated,
        )
        session._storage_update_marker = marker
        return session


def _data(event: Event) -> EventData:
    """Return an event as JSON, without what is temporary.

    Raises:
        InvalidEntry: It holds something that is no JSON.
    """
    try:
        data: EventData = msgspec.json.decode(event.model_dump_json(by_alias=True, exclude_defaults=True))
    except ValueError as error:
        raise InvalidEntry(f"event {event.id!r} cannot be written: {error}") from error
    actions = data.get("actions")
    delta = actions.get("stateDelta") if isinstance(actions, dict) else None
    if isinstance(actions, dict) and isinstance(delta, dict):
        actions["stateDelta"] = {name: value for name, value in delta.items() if not name.startswith(TEMPORARY)}
    return data


def _missing(session: Session) -> SessionNotFoundError:
    return SessionNotFoundError(f"there is no session {session.id!r}: it was deleted, or never created")


def _check_fresh(session: Session, known: Known, last: str | None) -> None:
    """Refuse a session that was changed since it was read.

    Raises:
        StaleSessionError: It was.
    """
    marker = session._storage_update_marker
    if marker is None:  # made by the caller, or copied by way of JSON: only its events and its time can tell
        seen = session.events[-1].id if session.events else None
        if seen == known.event_id or known.updated <= session.last_update_time:
            return
    elif marker == (last or ""):
        return
    raise StaleSessionError(f"session {session.id!r} was modified in storage since it was read: get it again")


async def _put(own: OwnSession, leaf: str | None, known: Known, name: Name, data: EventData, last: str | None) -> str:
    """Append an event below the leaf, or one that rewinds above what it takes back; return its entry.

    Raises:
        LeafMoved: The leaf is another one.
    """
    options: AppendOptions = {"expected_leaf": leaf}
    actions = data.get("actions")
    rewound = actions.get("rewindBeforeInvocationId") if isinstance(actions, Mapping) else None
    payload: Payload = payload_of(data)
    if rewound is not None:
        all_of_it = await events_of(own, leaf, known, author=name.app_name)
        first = next((each for each in all_of_it if each.event.get("invocationId") == rewound), None)
        if first is not None:
            payload = payload_of(data, after=last)
            options["below"] = known.rewinds.get(first.entry_id, first.parent_id)
    try:
        options["command_id"] = str(data["id"])
        return await own.append(payload, **options)
    except CommandConflict:  # another event has the same id
        del options["command_id"]
        return await own.append(payload, **options)

"""What the Agent Development Kit knows of a session beside its events: its state, folded from what they changed.

The kit's state has scopes: a session's own, a user's and an app's. Each change is written with the event that makes it.
What changes for a user or an app is then written into a session of that user or app, whose fold is the scope's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import Custom, CustomEntry, Entry, Header
from ...events.errors import CommandConflict
from ...events.json_values import JSON, raw_object
from ...formats.adk.events import Event, Kept, event_of, kept_of
from ...formats.adk.names import APP, BEGUN, CHANGE, TEMPORARY, USER, Scope
from ..session_index import append_and_let_go, let_go

State: TypeAlias = dict[str, Any]
"""JSON values by name; msgspec, which reads them, knows no type that contains itself."""


class Shared(Struct, frozen=True):
    """A change that other sessions see, too: the entry that made it, when, and the values by scope."""

    entry_id: str
    at: datetime
    scopes: dict[str, State]


class Begun(Struct, frozen=True):
    """What the beginning of a session holds: when it was created, in seconds, and with which state."""

    created: float
    state: State


class Known(Struct, frozen=True, omit_defaults=True):
    """What is known of a session after an entry.

    Attributes:
        begun: Whether it was created, or holds an event.
        state: The values of the session's own scope.
        updated: When it was created, or the time of its last event, in seconds.
        last: The entry of the last event.
        event_id: The id of that event.
        author: The agent that wrote the last event that is not the user's.
        shared: The last change that other sessions see.
        rewinds: For each event that rewinds, the entry of the last event before it.
    """

    begun: bool = False
    state: State = {}
    updated: float = 0.0
    last: str | None = None
    event_id: str | None = None
    author: str | None = None
    shared: Shared | None = None
    rewinds: dict[str, str | None] = {}


class KnownFold:
    """The projection of what is known of a session."""

    name = "adk-known"

    def initial(self, header: Header) -> Known:
        """Return what is known of a session without entries."""
        return Known()

    def apply(self, value: Known, entry: Entry) -> tuple[Known, None]:
        """Return what is known after an entry."""
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == BEGUN:
            begun = msgspec.json.decode(entry.custom.raw_data or b"{}", type=Begun)
            return _changed(msgspec.structs.replace(value, begun=True, updated=begun.created), entry, begun.state), None
        kept = kept_of(entry)
        event = event_of(entry, "") if kept is None else kept.event
        return (value if event is None else _after(value, entry, event, kept)), None

    def dump(self, value: Known) -> bytes:
        """Return what is known as bytes."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> Known:
        """Return what is known, from bytes."""
        return msgspec.json.decode(blob, type=Known)


def _after(value: Known, entry: Entry, event: Event, kept: Kept | None) -> Known:
    author, moment, actions = event.get("author"), event.get("timestamp"), event.get("actions")
    is_agent = kept is not None and isinstance(author, str) and author not in ("", "user")
    known = msgspec.structs.replace(
        value,
        begun=True,
        updated=float(moment) if isinstance(moment, (int, float)) else value.updated,
        last=entry.id,
        event_id=str(event.get("id")),
        author=author if is_agent else value.author,
    )
    if not isinstance(actions, dict):
        return known
    if kept is not None and actions.get("rewindBeforeInvocationId") is not None:
        known = msgspec.structs.replace(known, rewinds={**value.rewinds, entry.id or "": kept.after})
    delta = actions.get("stateDelta")
    return _changed(known, entry, delta) if isinstance(delta, dict) and delta else known


def _changed(value: Known, entry: Entry, delta: State) -> Known:
    own, scopes = split(delta)
    shared = Shared(entry.id or "", entry.timestamp, scopes) if scopes else value.shared
    return msgspec.structs.replace(value, state={**value.state, **own} if own else value.state, shared=shared)


def split(delta: Mapping[str, JSON]) -> tuple[State, dict[str, State]]:
    """Return what a change means for the session, and for each other scope; without what is temporary."""
    own: State = {}
    scopes: dict[str, State] = {}
    for name, value in delta.items():
        scope = next((each for each in (APP, USER) if name.startswith(each)), None)
        if scope is not None:
            scopes.setdefault(scope, {})[name.removeprefix(scope)] = value
        elif not name.startswith(TEMPORARY):
            own[name] = value
    return own, scopes


# -- the state of a user or an app


class Values(Struct, frozen=True):
    """The values of a scope, and when each was written."""

    state: State = {}
    written: dict[str, datetime] = {}


class ScopeFold:
    """The projection of a scope's values."""

    name = "adk-scope"

    def initial(self, header: Header) -> Values:
        """Return the values of a scope in which nothing was written."""
        return Values()

    def apply(self, value: Values, entry: Entry) -> tuple[Values, None]:
        """Return the values after an entry; one that comes late overwrites nothing that was written after it."""
        if not isinstance(entry, CustomEntry) or entry.custom.custom_type != CHANGE or entry.custom.raw_data is None:
            return value, None
        change = msgspec.json.decode(entry.custom.raw_data, type=_Change)
        late = change.at
        fresh = {
            name: each
            for name, each in change.values.items()
            if late is None or name not in value.written or value.written[name] <= late
        }
        written = dict.fromkeys(fresh, late or entry.timestamp)
        return Values({**value.state, **fresh}, {**value.written, **written}), None

    def dump(self, value: Values) -> bytes:
        """Return the values as bytes."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> Values:
        """Return the values, from bytes."""
        return msgspec.json.decode(blob, type=Values)


class _Change(Struct, frozen=True, omit_defaults=True):
    values: State
    at: datetime | None = None


KNOWN, SCOPE = KnownFold(), ScopeFold()


async def known_of(session: Session) -> Known:
    """Return what is known of a session, after all that was appended to it."""
    return await session.view(KNOWN)


async def values_of(host: SessionHost, scope: Scope) -> State:
    """Return the values of a scope."""
    session = await host.find_by_key(scope.key)
    if session is None:
        return {}
    await let_go(session)
    return deepcopy((await session.view(SCOPE)).state)


async def write(host: SessionHost, scope: Scope, command_id: str, values: State, at: datetime | None = None) -> None:
    """Write values of a scope, once for a command id.

    Args:
        host: The host.
        scope: The scope.
        command_id: The entry that made the change.
        values: The values.
        at: When the change was made, if it comes late: it overwrites nothing that was written after that.
    """
    session = await host.get_or_create(scope.key)
    if session.cursor.seq == 0:
        await session.append_session_info(scope.title)
    change: dict[str, Any] = {"values": values} if at is None else {"values": values, "at": at.isoformat()}
    with suppress(CommandConflict):  # it was written already, as one that is late or as one that is not
        await append_and_let_go(session, Custom(CHANGE, raw_object(change, "the state")), command_id=command_id)

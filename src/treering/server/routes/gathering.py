"""Streams of many sessions over one connection, whose set changes while they run.

The caller owns the map from each session to the cursor that it has, and sends all of it when it connects again; the
server keeps nothing between connections. A change of the set is answered in the stream: before the event `set` with its
revision the old set holds, after it the new one.
"""

from __future__ import annotations

import secrets
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct

from ...actors.session.session import Session
from ...events.errors import Conflict, InvalidInput, SessionNotFound, TreeringError
from ...events.problem import Problem
from ..event_stream import AGAIN, Bye, EventStream, Push
from ..http.blocks import block
from ..http.fields import Count, Since
from ..http.wire import encode
from ..routing import Call, Nothing, Routes
from ..service import Service
from .session_stream import Kind, SessionStream, place

routes = Routes()

_SESSIONS_MAX = 4096


class Following(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to follow a session from: "start", "end" or a cursor; and which events, see `StreamQuery`."""

    since: Since = "start"
    kinds: tuple[Kind, ...] = ("entry",)


class NewGathering(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sessions to follow, by their ids."""

    sessions: dict[str, Following]


class GatheringChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to add and remove; `revision` is the one that the caller knows."""

    revision: Count
    add: dict[str, Following] = {}
    remove: tuple[str, ...] = ()


class GatheringSet(Struct, frozen=True):
    """The set has changed: which sessions are followed from here on, which no longer, and which cannot be."""

    stream: str
    revision: Count
    added: list[str] = []
    removed: list[str] = []
    refused: dict[str, Problem] = {}


class SessionProblem(Struct, frozen=True):
    """One of the sessions can no longer be followed; the others go on."""

    session: str
    problem: Problem


def gone() -> SessionNotFound:
    """Return the error for a stream that has ended."""
    return SessionNotFound("there is no such stream: open another one with all sessions")


class Gathering:
    """A stream of many sessions.

    Args:
        service: The server.
        call: The request that opened it.
    """

    def __init__(self, service: Service, call: Call[Nothing, NewGathering]) -> None:
        self.name = secrets.token_hex(8)
        self.principal = call.principal.name
        self._service = service
        self._call = call
        self._revision = 0
        self._is_open = False  # the first set has revision 0
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._sending = anyio.Lock()
        self._push: Push
        self._tasks: TaskGroup
        self._changing = anyio.Lock()
        self._ending: Bye | None = None

    async def run(self, push: Push) -> Bye | None:
        """Send the events of all sessions until the reader leaves, or has to come again; see `change`."""
        self._push = push
        _open.setdefault(self._service, {})[self.name] = self
        try:
            async with anyio.create_task_group() as self._tasks:
                async with self._changing:
                    await self._change(GatheringChange(revision=0, add=self._call.body.sessions))
                await anyio.sleep_forever()
        finally:
            del _open[self._service][self.name]
        return self._ending

    async def change(self, change: GatheringChange) -> GatheringSet:
        """Change the set, and return what came of it once the stream says so.

        Raises:
            Conflict: The caller does not know the present revision.
            SessionNotFound: The stream has ended.
        """
        async with self._changing:
            if change.revision != self._revision:
                raise Conflict(
                    f"the stream is at revision {self._revision}, not {change.revision}: read its last `set`"
                )
            return await self._change(change)

    async def _change(self, change: GatheringChange) -> GatheringSet:
        removed = [each for each in change.remove if each in self._scopes]
        for session_id in removed:
            self._scopes.pop(session_id).cancel()
        added: dict[str, tuple[Session, Following]] = {}
        refused: dict[str, Problem] = {}
        for session_id, following in change.add.items():
            try:
                if session_id not in self._scopes:
                    self._check_room(len(added))
                    added[session_id] = await self._opened(session_id), following
            except TreeringError as error:
                refused[session_id] = self._service.problem(error)
        self._revision += self._is_open
        self._is_open = True
        result = GatheringSet(self.name, self._revision, list(added), removed, refused)
        async with self._sending:  # what is removed sends nothing after this
            self._check_open()  # its reply may have ended while sessions were opened, and takes nothing more
            await self._push(block("set", encode(result)))
        self._check_open()
        for session_id, (session, following) in added.items():
            scope = self._scopes[session_id] = anyio.CancelScope()
            self._tasks.start_soon(self._follow, session_id, session, following, scope)
        return result

    def _check_open(self) -> None:
        if self.name not in _open.get(self._service, {}):
            raise gone()

    def _check_room(self, adding: int) -> None:
        if len(self._scopes) + adding >= _SESSIONS_MAX:
            raise InvalidInput(f"one stream follows at most {_SESSIONS_MAX} sessions: open another one")

    async def _opened(self, session_id: str) -> Session:
        return await self._service.reading_row(await self._service.row(self._call.principal, session_id))

    async def _follow(self, session_id: str, session: Session, following: Following, scope: anyio.CancelScope) -> None:
        """Send the events of one session until it is removed from the set."""

        async def push(events: bytes) -> None:
            async with self._sending:
                if scope.cancel_called:  # what is removed sends nothing more
                    await anyio.lowlevel.checkpoint_if_cancelled()
                with anyio.CancelScope(shield=True):  # events that are cut off would spoil the stream
                    await self._push(events)

        after = place(session, following.since)
        with scope:
            try:
                await SessionStream(self._service, session, after, following.kinds, push, name=session_id).run()
            except TreeringError as error:
                problem = self._service.problem(error)
                if problem.retry:
                    self._ending = AGAIN  # with all sessions, each from where it was
                    self._tasks.cancel_scope.cancel()
                    return
                self._scopes.pop(session_id, None)
                await push(block("problem", encode(SessionProblem(session_id, problem))))


_open: WeakKeyDictionary[Service, dict[str, Gathering]] = WeakKeyDictionary()
"""The streams that are open, by their servers and names."""


@routes.add(
    "POST", "/v1/events", right="read", body=NewGathering, reply=bytes, media_types=("text/event-stream",), streams=True
)
async def follow_many(call: Call[Nothing, NewGathering]) -> EventStream:
    """Follow many sessions over one connection."""
    return EventStream(call.service, call.principal, Gathering(call.service, call).run)


@routes.add("PATCH", "/v1/events/{stream}", right="read", body=GatheringChange, reply=GatheringSet, errors=(404, 409))
async def change_gathering(call: Call[Nothing, GatheringChange]) -> GatheringSet:
    """Change which sessions a stream follows."""
    gathering = _open.get(call.service, {}).get(call.names["stream"])
    if gathering is None or gathering.principal != call.principal.name:
        raise gone()
    return await gathering.change(call.body)

"""What all handlers share: the host, who may see which of its sessions, and the state of the server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio

from ..actors.host.host import SessionHost
from ..actors.session.session import Session
from ..events.errors import (
    InvalidInput,
    InvalidSessionId,
    LeafMoved,
    LogReplaced,
    NotFound,
    ReadOnly,
    SessionNotFound,
    TooMany,
    TreeringError,
    Unavailable,
)
from ..events.problem import Problem
from ..events.stores.base import Ref
from ..events.stores.capabilities import TriesWriting
from ..events.stores.finding import RowQuery
from ..projections.base import Projection
from ..projections.summary import SessionSummary
from ..projections.usage import UsageProjection
from .conversations import Conversations
from .http.blocks import Encoded
from .http.fields import cursor_of
from .http.limits import ServerLimits
from .http.problems import Stale, problem_of, without_paths
from .mcp.clients import McpClients
from .metrics import Metrics
from .principals import EVERYBODY, Principal
from .repeats import Repeats
from .tokens import Tokens

if TYPE_CHECKING:
    from ..actors.host.runtime import Runtime
    from ..actors.programs.mirror import ProgramMirror
    from .cluster.forwarding import Forwarding
    from .tracing import Tracing

_WRITERS_MAX = 10_000
"""Handles of sessions that were written to which are kept, so that a request need not look its session up again."""
_READERS_MAX = 64
"""Handles of sessions that were only read which are kept, so that not each request reads a whole log again."""


class _Handles:
    """The handles that requests used last, by the ids of their sessions."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._handles: dict[str, tuple[Session, str | None]] = {}

    def keep(self, row: SessionSummary, session: Session) -> Session:
        """Keep a handle, and let go of the one that was not used for longest if there are too many."""
        self._handles[row.id] = session, row.key
        if len(self._handles) > self._most:
            del self._handles[next(iter(self._handles))]
        return session

    def find(self, principal: Principal, session_id: str) -> Session | None:
        """Return the handle of a session that a principal may see, if there is one."""
        session, key = self._handles.get(session_id, (None, None))
        if session is not None:
            self._handles[session_id] = self._handles.pop(session_id)
            if not principal.sees(key):
                raise not_found(session_id)
        return session

    def of(self, session_id: str) -> Session | None:
        """Return the handle of a session, whoever asks."""
        return self._handles.get(session_id, (None, None))[0]

    def forget(self, session_id: str) -> bool:
        """Let go of the handle of a session; return whether there was one."""
        return self._handles.pop(session_id, None) is not None


def not_found(session_id: str) -> SessionNotFound:
    """Return the error for a session that does not exist, or that the principal may not see: they look the same."""
    return SessionNotFound(f"no session has the id {session_id[:200]!r}, or no longer: load or create another one")


Followed: TypeAlias = Literal["context", "tree", "labels"] | Projection[Any, Any]
"""What a session can be asked to keep current for a follower."""


def views_of(projections: Sequence[Projection[Any, Any]]) -> dict[str, Followed]:
    """Return what can be followed, by its names.

    Raises:
        InvalidInput: Two have the same name.
    """
    views: dict[str, Followed] = {"context": "context", "tree": "tree", "labels": "labels", "usage": UsageProjection()}
    for each in projections:
        if each.name in views:
            raise InvalidInput(f"there is a view {each.name!r} already: give the projection another name")
        views[each.name] = each
    return views


class Service:
    """The state of one server.

    Args:
        host: The host, which is open.
        limits: The bounds.
        tokens: The tokens that are known, if any.
        describe: Returns the description of the interface.
        read_only: Whether all writes are refused.
        projections: Views of the program's own that can be followed.
        programs: Fills the host with the sessions of other programs, if it shows those.

    Attributes:
        stopping: Set when the server stops; streams end then.
        metrics: Its figures.
        encoded: What was encoded last for streams.
        repeats: The requests that were carried out.
        conversations: The items of what was asked for last as OpenAI's clients ask.
        mcp_clients: The clients of the Model Context Protocol that said hello.
        tracing: Its spans; None where OpenTelemetry is not installed.
        append_turns: The turns of the host's appends.
        forwarding: Sends requests on to the hosts that own their sessions; None if they are refused.
    """

    def __init__(
        self,
        host: SessionHost,
        limits: ServerLimits,
        tokens: Tokens | None = None,
        *,
        describe: Callable[[], bytes],
        read_only: bool = False,
        projections: Sequence[Projection[Any, Any]] = (),
        programs: ProgramMirror | None = None,
    ) -> None:
        self.host = host
        self.programs = programs
        self.limits = limits
        self.tokens = tokens
        self.read_only = read_only
        self._views = views_of(projections)
        self.metrics = Metrics(host)
        self.encoded = Encoded()
        self.repeats = Repeats()
        self.conversations = Conversations()
        self.mcp_clients = McpClients()
        self.tracing = _tracing_of(host.core.runtime)
        self.append_turns = host.core.runtime.append_turns
        self.forwarding: Forwarding | None = None
        self.stopping = anyio.Event()
        self._writers = _Handles(_WRITERS_MAX)
        self._readers = _Handles(_READERS_MAX)
        self._running: dict[str, int] = {}
        self._streaming: dict[str, int] = {}
        self._total = 0  # of both
        self._ended: anyio.Event | None = None
        files = host.core.runtime.files
        self._root = None if files is None else files.root
        self._describe = describe
        self._openapi: tuple[str, bytes] | None = None

    # -- sessions

    async def row(self, principal: Principal, session_id: str) -> SessionSummary:
        """Return the row of a session that a principal may see.

        Raises:
            SessionNotFound: There is none with exactly this id, or it is not theirs.
            ForeignFormatError: It is another program's, and cannot be read.
        """
        if self.programs is not None and principal.prefix is None:
            await self.programs.open(session_id)
        try:
            row = await self.host.resolve(session_id)
        except (NotFound, InvalidSessionId):
            raise not_found(session_id) from None
        if row.id != session_id or not principal.sees(row.key):
            raise not_found(session_id)
        return row

    async def reading(self, principal: Principal, session_id: str) -> Session:
        """Return a handle of a session, to read from; nothing is locked or brought back for it.

        Raises:
            SessionNotFound: See `row`.
        """
        if self.programs is not None and principal.prefix is None:
            await self.programs.open(session_id)
        session = self._writers.find(principal, session_id) or self._readers.find(principal, session_id)
        if session is None:
            return await self.reading_row(await self.row(principal, session_id))
        await session.refresh()
        return session

    async def reading_row(self, row: SessionSummary) -> Session:
        """Return a handle of the session of a row, to read from."""
        kept = self._readers.of(row.id)
        if kept is not None and kept.ref == row.ref:
            try:
                await kept.refresh()
            except (SessionNotFound, LogReplaced):
                pass  # another log has this name now
            else:
                return kept
        session = self._readers.keep(row, await self.host.load(row, read_only=True))
        await session.refresh()
        return session

    async def writing(self, principal: Principal, session_id: str) -> Session:
        """Return a handle of a session, to write to.

        Raises:
            SessionNotFound: See `row`.
            ReadOnly: The server is read-only.
        """
        self.check_writable()
        session = self._writers.find(principal, session_id)
        if session is None or (self.forwarding is not None and not self.is_live(session.ref)):  # it may live elsewhere
            row = await self.row(principal, session_id)
            session = self._writers.keep(row, await self.host.load(row))
        return session

    async def reached(self, session: Session, text: str) -> None:
        """Wait until the log of a session has the entries up to a cursor, which another process may be appending.

        Raises:
            LogReplaced: The cursor is of another log.
            Unavailable: They did not come within `at_least_for_s`.
        """
        wanted, now = cursor_of(text), session.cursor
        if wanted.seq and wanted.generation != now.generation:
            raise LogReplaced(f"the cursor {text!r} is of another generation: the log was replaced, read it anew")
        if now.seq >= wanted.seq:
            return
        with anyio.move_on_after(self.limits.at_least_for_s):
            async with session.subscribe(after=now) as entries:
                while entries.cursor.seq < wanted.seq:
                    try:
                        await entries.receive_many()
                    except StopAsyncIteration:
                        raise not_found(session.id) from None
            return
        raise Unavailable(f"the log ends at {session.cursor}, not at {text!r} yet: repeat the request")

    async def ids_of(self, principal: Principal) -> frozenset[str] | None:
        """Return the ids of the sessions that a principal may see; None if these are all."""
        if principal.prefix is None:
            return None
        listing = await self.host.catalog.listing.now()
        return frozenset(
            [row.id async for page in listing.pages(RowQuery(key_prefix=principal.prefix)) for row in page]
        )

    def is_partial(self, session_id: str) -> bool:
        """Return whether only the beginning and the end of a session are here, which is another program's."""
        return self.programs is not None and not self.programs.is_whole(session_id)

    def is_live(self, ref: Ref) -> bool:
        """Return whether the host holds a session active; of another program's, whether that was just at work on it."""
        if self.programs is not None:
            return self.programs.is_live(ref)
        return self.host.core.registry.live(ref) is not None

    def live_refs(self) -> frozenset[Ref]:
        """Return the logs of the sessions that `is_live` tells of."""
        if self.programs is not None:
            return self.programs.live_refs()
        return frozenset(actor.log.ref for actor in self.host.core.registry.actors())

    def forget(self, session_id: str) -> bool:
        """Forget the handles of a session that no longer exists as it was; return whether there was one."""
        was_written = self._writers.forget(session_id)
        return self._readers.forget(session_id) or was_written

    def stale(self, error: LeafMoved, session_id: str) -> LeafMoved:
        """Return a refused expectation with what the state is now, so that its reader need not ask for it."""
        session = self._writers.of(session_id)
        if session is None or isinstance(error, Stale):
            return error
        return Stale(error.message, leaf=session.leaf_id, cursor=str(session.cursor))

    def view(self, name: str) -> Followed:
        """Return what to subscribe to for a view.

        Raises:
            NotFound: There is none with this name.
        """
        view = self._views.get(name)
        if view is None:
            raise NotFound(f"there is no view {name[:200]!r}: choose {', '.join(map(repr, self._views))}")
        return view

    def problem(self, error: BaseException, *, instance: str | None = None) -> Problem:
        """Return the document that tells a client of an error; see `problem_of`."""
        return problem_of(error, root=self._root, instance=instance)

    def shown(self, text: str) -> str:
        """Return a text without folders of the server."""
        return without_paths(text, self._root)

    def check_writable(self) -> None:
        """Refuse a write if the server is read-only."""
        if self.read_only:
            raise ReadOnly("this server was started with --read-only or --programs: it writes nothing")

    def time_left_s(self, principal: Principal) -> float:
        """Return for how many seconds a principal is known from now on."""
        if principal.expires is None:
            return math.inf
        present = datetime.now(UTC) if self.tokens is None else self.tokens.present()
        return (principal.expires - present).total_seconds()

    def still_knows(self, principal: Principal) -> bool:
        """Return whether a principal may go on with what was allowed: its token was not revoked."""
        tokens = self.tokens
        if tokens is None:
            return True
        if principal is EVERYBODY:  # nobody needed a token when it asked
            return not tokens.any()
        return principal.token is None or tokens.has(principal.token)

    # -- bounds

    def enter(self, principal: Principal, *, streams: bool) -> None:
        """Count a request until it leaves.

        Raises:
            TooMany: The principal has as many running, or as many streams open, as it may.
            Unavailable: All principals together do.
        """
        name, limits = principal.name, self.limits
        running = self._running.get(name, 0)
        if streams:
            self.check_room_for_stream(principal)
        if running >= limits.requests_max:
            raise TooMany(f"as many requests are running as `requests_max` allows ({limits.requests_max})")
        if self._total >= limits.connections_max:
            raise Unavailable(f"the server has as many requests as `connections_max` allows ({limits.connections_max})")
        self._running[name] = running + 1
        self._total += 1

    def check_room_for_stream(self, principal: Principal) -> None:
        """Refuse another stream to a principal that has as many open as it may.

        Raises:
            TooMany: It has.
        """
        if self._streaming.get(principal.name, 0) >= self.limits.streams_max:
            raise TooMany(f"as many streams are open as `streams_max` allows ({self.limits.streams_max}): close one")

    def leave(self, principal: Principal) -> None:
        """Count a request no longer."""
        self._total -= 1
        _count_down(self._running, principal.name)

    def hold_stream(self, principal: Principal) -> None:
        """Count a stream until it is released; see `check_room_for_stream`, since others may have begun meanwhile."""
        self.check_room_for_stream(principal)
        self._streaming[principal.name] = self._streaming.get(principal.name, 0) + 1
        self._total += 1

    def release_stream(self, principal: Principal) -> None:
        """Count a stream no longer."""
        self._total -= 1
        _count_down(self._streaming, principal.name)

    def note_end(self) -> None:
        """Wake whoever waits for a request to end."""
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def one_ended(self) -> None:
        """Wait until a request ends."""
        if self._ended is None:
            self._ended = anyio.Event()
        await self._ended.wait()

    async def disk_problem(self) -> str | None:
        """Return why sessions cannot be listed or written at present, or None."""
        runtime = self.host.core.runtime
        trying = None if self.read_only else runtime.store.capability(TriesWriting)
        doing = "read"
        try:
            await self.host.list_sessions(limit=1)
            doing = "written"
            if trying is not None:
                await runtime.blocking(trying.try_writing)
        except (TreeringError, OSError) as error:
            return f"sessions cannot be {doing}: {type(error).__name__}"
        return None

    def openapi(self) -> tuple[str, bytes]:
        """Return the description of the interface, with a tag that changes with it."""
        if self._openapi is None:
            text = self._describe()
            self._openapi = hashlib.sha256(text).hexdigest()[:16], text
        return self._openapi


def _tracing_of(runtime: Runtime) -> Tracing | None:
    """Return the spans of a host, which all applications over it share."""
    if find_spec("opentelemetry") is None:
        return None
    from .tracing import Tracing

    if not isinstance(runtime.tracing, Tracing):
        runtime.tracing = Tracing(runtime.timer)
    return runtime.tracing


def _count_down(counts: dict[str, int], name: str) -> None:
    if counts[name] == 1:
        del counts[name]
    else:
        counts[name] -= 1

"""What a host does for its handles: finds the actor behind each one, and serves the views over its log.

This is the internal part of `SessionHost`; programs do not use it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from anyio import Lock
from anyio.lowlevel import checkpoint_if_cancelled

from ...events.arguments import check_text, check_word
from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import HostClosed, InvalidInput, SessionLocked, WrongThread
from ...events.stores.base import Cursor, Ref
from ...events.stores.capabilities import Recovers
from ...projections.base import Projection, Valued
from ...projections.subscriptions import VIEWS as NAMED_VIEWS
from ...projections.views import FoldStepper, SharedView, Stepper
from ..actor import SessionActor
from ..folds import VIEWS, kind_of
from ..log.open_log import OpenLog
from ..log.source import Source
from .names import checked_id, id_of_key, new_ref
from .registry import Registry
from .runtime import Runtime

if TYPE_CHECKING:
    from .elsewhere import Elsewhere

V = TypeVar("V")


class HostCore:
    """The actors, followers and views of one host.

    Attributes:
        runtime: The seams, bounds and counters.
        registry: The live actors.
        dialect: The dialect of new sessions.
        elsewhere: The commands for sessions that other hosts own; None if they are refused.
        unfinished_copies: The heads of copied logs whose callers got an error, and may repeat the call.
        recovers: What brings back what owners left behind when they died, if the store may hold such.
    """

    def __init__(self, runtime: Runtime, dialect: Dialect) -> None:
        self.runtime = runtime
        self.dialect = dialect
        self.registry = Registry(runtime)
        self.elsewhere: Elsewhere | None = None
        self.unfinished_copies: dict[Ref, Cursor] = {}
        self.recovers = runtime.store.capability(Recovers)
        self._views: WeakValueDictionary[tuple[Ref, str], SharedView[Any, Any]] = WeakValueDictionary()
        self._is_recovered = False
        self._recovering = Lock()  # many look for sessions at once when a program begins
        self._dead = False
        self._failure: BaseException | None = None

    def new_header(
        self,
        session_id: str | None,
        *,
        dialect: Dialect | None = None,
        cwd: str | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> tuple[Header, Ref]:
        """Return the header of a new session and the name of its log.

        Raises:
            InvalidSessionId: The id or the key cannot name a file.
            InvalidInput: Both an id and a key are given, a field is not a string, or the host's clock has no time zone.
        """
        dialect = dialect or self.dialect
        now = self.runtime.now()
        if now.tzinfo is None:  # checked here and not for each entry, of which there are many more
            raise InvalidInput(
                "the host's clock has no time zone: give one that has, such as `lambda: datetime.now(UTC)`"
            )
        for name, value in (("cwd", cwd), ("parent_session", parent_session), ("parent_entry", parent_entry)):
            check_text(name, value)
        if key is not None:
            if session_id is not None:
                raise InvalidInput("the id of a session with a key follows from the key: give one of the two")
            session_id = id_of_key(key)
        header = Header(
            id=checked_id(session_id, is_new=True) if session_id is not None else self.runtime.new_id(),
            version=dialect.version,
            timestamp=now,
            cwd=cwd,
            parent_session=parent_session,
            parent_entry=parent_entry,
            key=key,
        )
        return header, new_ref(dialect, header)

    def check(self) -> None:
        """Refuse calls that cannot be served.

        Raises:
            HostClosed: The host was closed, or this process was forked from the one that the host lives in.
            WrongThread: The call comes from a thread other than the host's.
        """
        if self.registry.closing:
            state = "belongs to the process that this one was forked from" if self._dead else "is closed"
            if self._failure is not None:
                state = f"was ended by a failure ({self._failure!r})"
            raise HostClosed(f"the host {state}: open another one") from self._failure
        self.check_thread()

    def check_thread(self) -> None:
        """Refuse calls from a thread other than the host's.

        Raises:
            WrongThread: The call comes from such a thread.
        """
        if threading.get_ident() != self.registry.thread:
            raise WrongThread("the handle belongs to the event loop of another thread: use `SyncHost` from threads")

    def ended(self, failure: BaseException | None) -> None:
        """Refuse all further calls: the host's task ended, because of this failure if it is not None."""
        self._failure = failure
        self.registry.closing = True

    def die(self) -> None:
        """Refuse all further calls: this is the child process of a fork."""
        self._dead = True
        self.registry.closing = True

    def path_of(self, ref: Ref) -> str | None:
        """Return the path of a session's file, or None if the store keeps no files."""
        files = self.runtime.files
        return None if files is None else files.path_of(ref)

    async def activated(self, source: Source, *, waits: bool = True) -> SessionActor | None:
        """Return the actor of a session; None if another host owns it, to which commands are sent; see `activate`.

        Raises:
            SessionLocked: Another process or host owns it, and commands are not sent there.
        """
        await self.turn()
        try:
            return await self.registry.activate(source, waits=waits)
        except SessionLocked:
            if self.elsewhere is None:
                raise
            return None

    async def recover(self) -> None:
        """Bring back what dead owners left behind, once, before a session is looked up for writing.

        Raises:
            Conflict: Another host is still at it.
        """
        if self._is_recovered or self.recovers is None:
            return
        async with self._recovering:
            if not self._is_recovered:
                await self.recovers.recover()
                self._is_recovered = True

    # -- reading

    async def turn(self) -> None:
        """Begin to read or to open: small logs take no other pause, so let others go on if it is their turn."""
        await checkpoint_if_cancelled()
        if self.runtime.turns.is_over():
            await self.runtime.turns.pass_on()

    async def view(self, source: Source, log: OpenLog, projection: Valued[V], *, from_scratch: bool) -> V:
        """Return the value of a projection; computing it from scratch also restarts the view of its subscribers."""
        value, _ = await source.values().value(log, projection, from_scratch=from_scratch)
        shared = self._views.get((source.ref, projection.name)) if from_scratch else None
        if shared is not None:
            shared.restart()
        return value

    # -- following

    def shared_view(self, source: Source, view: str | Projection[Any, Any]) -> SharedView[Any, Any]:
        """Return the view that a session's subscribers share, creating it for the first of them.

        Raises:
            InvalidInput: There is no view of this name, or the object is not a projection.
        """
        stepper: Stepper[Any, Any]
        if not isinstance(view, str):
            kind_of(view)
            stepper = FoldStepper(view, lambda log, projection: source.values().value(log, projection))
        else:
            check_word("view", view, VIEWS)
            stepper = NAMED_VIEWS[view]()
        key = (source.ref, stepper.name)
        shared = self._views.get(key)
        if shared is None or shared.closed:
            shared = self._views[key] = SharedView(source, stepper)
        return shared

"""What a host does for its handles: finds the actor behind each one, and serves the views over its log.

This is the internal part of `SessionHost`; programs do not use it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from anyio.lowlevel import checkpoint_if_cancelled

from ...events.arguments import check_text, check_word
from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import HostClosed, InvalidInput, WrongThread
from ...events.index import LogIndex
from ...events.stores.base import Cursor, Ref
from ...projections.base import Projection, Valued
from ...projections.feed import Feed, LogView, Source, Transient
from ...projections.subscriptions import VIEWS as NAMED_VIEWS
from ...projections.views import FoldStepper, SharedView, Stepper
from ..folds import VIEWS, Folds, Values, kind_of
from ..log.follower import Follower
from ..log.open_log import OpenLog
from .names import checked_id, id_of_key, new_ref
from .registry import NewLog, Registry
from .runtime import Runtime

V = TypeVar("V")


class OwnedSource:
    """A session that this host may own, as its subscribers see it."""

    __slots__ = ("_core", "_new_log", "_ref")

    def __init__(self, core: HostCore, ref: Ref, new_log: NewLog | None) -> None:
        self._core = core
        self._ref = ref
        self._new_log = new_log

    def open_feed(self) -> Feed:
        """Return the session's feed, counting one more subscriber."""
        return self._core.registry.open_feed(self._ref)

    def close_feed(self, feed: Feed) -> None:
        """Count one subscriber less."""
        self._core.registry.close_feed(self._ref, feed)

    async def ready(self) -> OpenLog:
        """Return the log that the feed publishes, caught up with the file; see `Registry.log_of_feed`."""
        return await self._core.registry.log_of_feed(self._ref, self._new_log)


class HostCore:
    """The actors, followers and views of one host.

    Attributes:
        runtime: The seams, bounds and counters.
        registry: The live actors.
        dialect: The dialect of new sessions.
        unfinished_copies: The heads of copied logs whose callers got an error, and may repeat the call.
    """

    def __init__(self, runtime: Runtime, dialect: Dialect) -> None:
        self.runtime = runtime
        self.dialect = dialect
        self.folds = Folds(runtime)
        self.registry = Registry(runtime, self.folds.save)
        self.unfinished_copies: dict[Ref, Cursor] = {}
        self._views: WeakValueDictionary[tuple[Ref, str, bool], SharedView[Any, Any]] = WeakValueDictionary()
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

    # -- reading

    def source(self, ref: Ref, new_log: NewLog | None, follower: Follower | None) -> OwnedSource | Follower:
        """Return the source that the views of a session read from."""
        return follower if follower is not None else OwnedSource(self, ref, new_log)

    async def log(self, ref: Ref, new_log: NewLog | None, follower: Follower | None) -> OpenLog:
        """Return a session's log, caught up with the file; a session that is not read-only is activated."""
        await checkpoint_if_cancelled()  # what is in memory is read without any other pause
        if self.runtime.turns.is_over():
            await self.runtime.turns.pass_on()
        return await (self.registry.log(ref, new_log) if follower is None else follower.ready())

    def index(self, ref: Ref, new_log: NewLog | None, follower: Follower | None) -> tuple[LogIndex, str]:
        """Return a session's index and generation without waiting; a passivated session's log is read from its file."""
        if follower is not None:
            return follower.log.index, follower.log.generation
        actor = self.registry.use(ref)
        if actor is not None:
            return actor.log.index, actor.log.generation
        return OpenLog.peek(self.runtime, ref, new_log.header if new_log and not new_log.creation.settled else None)

    async def view(self, log: OpenLog, follower: Follower | None, projection: Valued[V], *, from_scratch: bool) -> V:
        """Return the value of a projection; computing it from scratch also restarts the views of its subscribers."""
        value, _ = await self.folds.value(
            log.ref, self._values(log.ref, follower), log, projection, from_scratch=from_scratch
        )
        if from_scratch:
            for shared in self._shared(log.ref, projection.name):
                shared.restart()
        return value

    def _values(self, ref: Ref, follower: Follower | None) -> Values:
        """Return the values of a session's projections, which are kept as long as it is live or followed."""
        values = self.folds.of(ref, live=self.registry.live(ref) is not None)
        if follower is not None:
            follower.values = values
        return values

    async def _fold(
        self, ref: Ref, follower: Follower | None, log: LogView, projection: Projection[V, Any]
    ) -> tuple[V, int]:
        return await self.folds.value(ref, self._values(ref, follower), log, projection)

    # -- following

    def shared_view(self, ref: Ref, source: Source, view: str | Projection[Any, Any]) -> SharedView[Any, Any]:
        """Return the view that a session's subscribers share, creating it for the first of them.

        Raises:
            InvalidInput: There is no view of this name, or the object is not a projection.
        """
        stepper: Stepper[Any, Any]
        if not isinstance(view, str):
            kind_of(view)
            follower = source if isinstance(source, Follower) else None
            stepper = FoldStepper(view, partial(self._fold, ref, follower))
        else:
            check_word("view", view, VIEWS)
            stepper = NAMED_VIEWS[view]()
        key = (ref, stepper.name, isinstance(source, Follower))
        shared = self._views.get(key)
        if shared is None or shared.closed:
            shared = self._views[key] = SharedView(source, stepper)
        return shared

    def _shared(self, ref: Ref, name: str) -> Iterator[SharedView[Any, Any]]:
        for followed in (False, True):
            shared = self._views.get((ref, name, followed))
            if shared is not None:
                yield shared

    def emit(self, ref: Ref, event: Transient) -> None:
        """Publish a transient event to a session's subscribers."""
        feed = self.registry.feed_of(ref)
        if feed is not None:
            feed.publish(event, len(event.raw))

    async def answered(self, ref: Ref) -> None:
        """Wait until every command that a session accepted before this call has its reply."""
        await self.registry.answered(ref)

"""Hosts for programs without an event loop, and conversations by key."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias, get_args

from ...events.arguments import check_word
from ...events.dialects.detect import DialectName
from ...events.disk import Disk
from ...events.errors import InvalidInput
from ...events.offload import Offload
from ...events.stores.base import Store
from ...events.stores.opening import Durability, Writes
from ...projections.summary import SessionSummary
from ..catalog.settings import Settings
from ..host.host import SessionHost
from ..host.keyed import SAVE_EVERY_S, KeyedSessions
from ..host.listing import ListPosition, SessionChanged
from ..host.lookup import SessionLike
from ..host.placement import Placement
from ..host.runtime import Clock, Limits, NewId, random_id, system_clock
from .bridge import Bridge, exit_on_signals
from .session import Facade, SyncSession, awaited, like, opened, read, searched
from .subscriptions import SyncSubscription

BackendName: TypeAlias = Literal["asyncio", "trio"]
"""The event loops that a blocking host can run."""

SyncSessionLike: TypeAlias = SyncSession | SessionSummary | str | os.PathLike[str]
"""A reference to a session: its handle, its row, or a string or path that `SessionHost.resolve` accepts."""


class SyncHost(Facade[SessionHost]):
    """A host of sessions for programs without an event loop; every method may be called from any thread.

    Leaving the block refuses new calls, ends the subscriptions, completes the calls in progress and passivates all
    sessions.

    Args:
        root: See `SessionHost`, as for all arguments that are not listed here.
        signals: Drain and exit on SIGTERM and SIGINT; the host must then be opened in the main thread.
        clock: Called in the host's thread, like all callbacks of the program.
        host: The host to open, instead of one that the other arguments describe: `RemoteHost("http://...")`.
        backend: The event loop of the host: "asyncio" or "trio".
        backend_options: Its options, as for `anyio.run`: `{"use_uvloop": True}`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        dialect: DialectName = "native",
        durability: Durability = "os",
        writes: Writes = "auto",
        limits: Limits | None = None,
        settings: Settings | None = None,
        placement: Placement = "local",
        address: str | None = None,
        signals: bool = False,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        disk: Disk | None = None,
        offload: Offload | None = None,
        host: SessionHost | None = None,
        backend: BackendName = "asyncio",
        backend_options: Mapping[str, Any] | None = None,
    ) -> None:
        check_word("backend", backend, get_args(BackendName))
        if host is None:
            host = SessionHost(
                root,
                store=store,
                dialect=dialect,
                durability=durability,
                writes=writes,
                limits=limits,
                settings=settings,
                placement=placement,
                address=address,
                clock=clock,
                new_id=new_id,
                disk=disk,
                offload=offload,
            )
        elif root is not None or store is not None:
            raise InvalidInput("a host is given, which knows where its sessions are: leave out the root and the store")
        super().__init__(Bridge(host, backend, backend_options), host)
        self._signals = signals
        self._exits = contextlib.ExitStack()

    def __repr__(self) -> str:
        return f"Sync{str(self.twin).removeprefix('Session')}"

    # -- opening and closing

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as exits:
            if self._signals:
                exits.enter_context(exit_on_signals(signal.SIGTERM, signal.SIGINT))
            exits.callback(self.bridge.stop)
            self.bridge.start()
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    # -- making sessions

    create = opened(SessionHost.create)

    @like(SessionHost.load)
    def load(self, session: SyncSessionLike, *, read_only: bool = False) -> SyncSession:
        found = self.bridge.wait(lambda: self.twin.load(_twin_of(session), read_only=read_only))
        return SyncSession(self.bridge, found)

    open = opened(SessionHost.open)
    get_or_create = opened(SessionHost.get_or_create)
    find_by_key = opened(SessionHost.find_by_key)
    find_recent = opened(SessionHost.find_recent)
    continue_recent = opened(SessionHost.continue_recent)

    @like(SessionHost.fork_from)
    def fork_from(self, source: SyncSessionLike, *, session_id: str | None = None) -> SyncSession:
        if isinstance(source, SyncSession):  # perhaps of another host, whose loop reads it
            copy = source.copy()
            forked = self.bridge.wait(lambda: self.twin.write_fork(copy, session_id))
        else:
            forked = self.bridge.wait(lambda: self.twin.fork_from(source, session_id=session_id))
        return SyncSession(self.bridge, forked)

    @like(SessionHost.put)
    def put(self, session: SyncSession, *, replace: bool = False) -> SyncSession:
        if not isinstance(session, SyncSession):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} is not a session: pass a handle that a host returned")
        copy = session.copy()
        return SyncSession(self.bridge, self.bridge.wait(lambda: self.twin.write_copy(copy, replace=replace)))

    import_sessions = awaited(SessionHost.import_sessions)

    # -- finding sessions

    list_sessions = awaited(SessionHost.list_sessions)

    @like(SessionHost.resolve)
    def resolve(self, session: SyncSessionLike) -> SessionSummary:
        return self.bridge.wait(lambda: self.twin.resolve(_twin_of(session)))

    @like(SessionHost.get_session)
    def get_session(self, session: SyncSessionLike) -> SessionSummary | None:
        return self.bridge.wait(lambda: self.twin.get_session(_twin_of(session)))

    current_session = awaited(SessionHost.current_session)

    @like(SessionHost.set_current_session)
    def set_current_session(self, project: str | os.PathLike[str], session: SyncSessionLike | None) -> None:
        self.bridge.wait(lambda: self.twin.set_current_session(project, None if session is None else _twin_of(session)))

    @like(SessionHost.subscribe_sessions)
    def subscribe_sessions(
        self, *, after: ListPosition | None = None
    ) -> SyncSubscription[list[SessionSummary] | SessionChanged]:
        return SyncSubscription(self.bridge, self.bridge.read(lambda: self.twin.subscribe_sessions(after=after)))

    sessions_position = read(SessionHost.sessions_position)

    @like(SessionHost.delete)
    def delete(self, session: SyncSessionLike) -> None:
        self.bridge.wait(lambda: self.twin.delete(_twin_of(session)))

    # -- searching

    search = searched(SessionHost.search)

    # -- keeping sessions

    @like(SessionHost.archive)
    def archive(self, session: SyncSessionLike) -> None:
        self.bridge.wait(lambda: self.twin.archive(_twin_of(session)))

    @like(SessionHost.unarchive)
    def unarchive(self, session: SyncSessionLike) -> None:
        self.bridge.wait(lambda: self.twin.unarchive(_twin_of(session)))

    apply_retention = awaited(SessionHost.apply_retention)

    # -- looking at the host

    statistics = read(SessionHost.statistics)
    flush = awaited(SessionHost.flush)
    passivate_idle = awaited(SessionHost.passivate_idle)


def _twin_of(session: SyncSessionLike) -> SessionLike:
    return session.twin if isinstance(session, SyncSession) else session


class SyncKeyedSessions(Facade[KeyedSessions]):
    """The sessions of a `SyncHost` by their keys; every method may be called from any thread.

    Args:
        host: The host, which must be open when a method is called.
    """

    __slots__ = ("host",)

    def __init__(self, host: SyncHost) -> None:
        super().__init__(host.bridge, KeyedSessions(host.twin))
        self.host = host

    get_or_create = opened(KeyedSessions.get_or_create)
    keys = awaited(KeyedSessions.keys)

    # -- adding

    add_message = awaited(KeyedSessions.add_message)
    add_full_message = awaited(KeyedSessions.add_full_message)

    # -- the history

    history = awaited(KeyedSessions.history)
    set_history = awaited(KeyedSessions.set_history)
    truncate_history = awaited(KeyedSessions.truncate_history)

    # -- the summary

    summary = awaited(KeyedSessions.summary)
    set_summary = awaited(KeyedSessions.set_summary)

    # -- saving and deleting

    save = awaited(KeyedSessions.save)
    save_all = awaited(KeyedSessions.save_all)

    def save_every(self, interval_s: float = SAVE_EVERY_S, *, until: threading.Event) -> None:
        """Save every conversation at intervals until the event is set; meant for a thread of its own.

        Unlike its twin `KeyedSessions.save_every`, which is ended by cancellation, it takes an event.

        Args:
            interval_s: The seconds between two rounds.
            until: Set this event to end the loop.
        """
        while not until.wait(interval_s):
            self.save_all()

    delete = awaited(KeyedSessions.delete)

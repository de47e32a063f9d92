"""The blocking twin of `SessionHost`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from ...events.disk import Disk
from ...events.errors import InvalidInput
from ...events.offload import Offload
from ...events.stores.base import Store
from ...events.stores.opening import Durability, Writes
from ...events.words import check_word
from ...projections.summary import SessionSummary
from ..catalog.settings import Settings
from ..host.host import SessionHost
from ..host.listing import SessionChanged
from ..host.lookup import SessionLike
from ..host.names import DialectName
from ..host.runtime import Clock, HostStatistics, Limits, NewId, random_id, system_clock
from ..imports.report import ImportReports
from ..session.session import Session, fork, put
from .bridge import Bridge
from .searches import SyncSearch
from .session import SyncSession
from .signals import exit_on_signals
from .subscriptions import SyncSubscription

if TYPE_CHECKING:
    from ..catalog.archiving import RetentionReport


SyncSessionLike: TypeAlias = SyncSession | SessionSummary | str | os.PathLike[str]
"""A reference to a session: its handle, its row, or a string or path that `SessionHost.resolve` accepts."""

BackendName: TypeAlias = Literal["asyncio", "trio"]
"""The event loops that a blocking host can run."""


class SyncHost:
    """A host of sessions for programs without an event loop; every method may be called from any thread.

    Leaving the block refuses new calls, ends the subscriptions, completes the calls in progress and passivates all
    sessions.

    Args:
        root: See `SessionHost`, as for all arguments that are not listed here.
        signals: Drain and exit on SIGTERM and SIGINT; the host must then be opened in the main thread.
        clock: Called in the host's thread, like all callbacks of the program.
        backend: The event loop of the host: "asyncio" or "trio".
        backend_options: Its options, as for `anyio.run`: `{"use_uvloop": True}`.

    Attributes:
        twin: The host in the event loop's thread, which does the work; internal.
        bridge: The connection to that thread; internal.
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
        signals: bool = False,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        disk: Disk | None = None,
        offload: Offload | None = None,
        backend: BackendName = "asyncio",
        backend_options: Mapping[str, Any] | None = None,
    ) -> None:
        check_word("backend", backend, get_args(BackendName))
        self.twin = SessionHost(
            root,
            store=store,
            dialect=dialect,
            durability=durability,
            writes=writes,
            limits=limits,
            settings=settings,
            clock=clock,
            new_id=new_id,
            disk=disk,
            offload=offload,
        )
        self._signals = signals
        self.bridge = Bridge(self.twin, backend, backend_options)
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

    def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> SyncSession:
        """See `SessionHost.create`."""
        return self._session(
            self.bridge.wait(
                lambda: self.twin.create(
                    session_id, cwd=cwd, parent_session=parent_session, parent_entry=parent_entry, key=key
                )
            )
        )

    def load(self, session: SyncSessionLike, *, read_only: bool = False) -> SyncSession:
        """See `SessionHost.load`."""
        return self._session(self.bridge.wait(lambda: self.twin.load(_twin_of(session), read_only=read_only)))

    def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.open`."""
        return self._session(self.bridge.wait(lambda: self.twin.open(session_id, cwd=cwd)))

    def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.get_or_create`."""
        return self._session(self.bridge.wait(lambda: self.twin.get_or_create(key, cwd=cwd)))

    def find_by_key(self, key: str) -> SyncSession | None:
        """See `SessionHost.find_by_key`."""
        session = self.bridge.wait(lambda: self.twin.find_by_key(key))
        return None if session is None else self._session(session)

    def find_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession | None:
        """See `SessionHost.find_recent`."""
        session = self.bridge.wait(lambda: self.twin.find_recent(cwd=cwd))
        return None if session is None else self._session(session)

    def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.continue_recent`."""
        return self._session(self.bridge.wait(lambda: self.twin.continue_recent(cwd=cwd)))

    def fork_from(self, source: SyncSessionLike, *, session_id: str | None = None) -> SyncSession:
        """See `SessionHost.fork_from`."""
        if not isinstance(source, SyncSession):
            return self._session(self.bridge.wait(lambda: self.twin.fork_from(source, session_id=session_id)))
        copy = source.copy()
        return self._session(self.bridge.wait(lambda: fork(self.twin.core, copy, session_id)))

    def put(self, session: SyncSession, *, replace: bool = False) -> SyncSession:
        """See `SessionHost.put`."""
        if not isinstance(session, SyncSession):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} is not a session: pass a handle that a host returned")
        copy = session.copy()
        return self._session(self.bridge.wait(lambda: put(self.twin.core, copy, replacing=replace)))

    def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """See `SessionHost.import_sessions`."""
        return self.bridge.wait(lambda: self.twin.import_sessions(path, format=format))

    # -- finding sessions

    def list_sessions(
        self,
        *,
        project: str | os.PathLike[str] | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionSummary]:
        """See `SessionHost.list_sessions`."""
        return self.bridge.wait(
            lambda: self.twin.list_sessions(project=project, status=status, limit=limit, offset=offset)
        )

    def resolve(self, session: SyncSessionLike) -> SessionSummary:
        """See `SessionHost.resolve`."""
        return self.bridge.wait(lambda: self.twin.resolve(_twin_of(session)))

    def get_session(self, session: SyncSessionLike) -> SessionSummary | None:
        """See `SessionHost.get_session`."""
        return self.bridge.wait(lambda: self.twin.get_session(_twin_of(session)))

    def current_session(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """See `SessionHost.current_session`."""
        return self.bridge.wait(lambda: self.twin.current_session(project))

    def set_current_session(self, project: str | os.PathLike[str], session: SyncSessionLike | None) -> None:
        """See `SessionHost.set_current_session`."""
        self.bridge.wait(lambda: self.twin.set_current_session(project, None if session is None else _twin_of(session)))

    def subscribe_sessions(self) -> SyncSubscription[list[SessionSummary] | SessionChanged]:
        """See `SessionHost.subscribe_sessions`."""
        return SyncSubscription(self.bridge, self.bridge.read(self.twin.subscribe_sessions))

    def delete(self, session: SyncSessionLike) -> None:
        """See `SessionHost.delete`."""
        self.bridge.wait(lambda: self.twin.delete(_twin_of(session)))

    # -- searching

    def search(
        self,
        query: str,
        *,
        project: str | os.PathLike[str] | None = None,
        role: str | None = None,
        tool: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        index: bool | None = None,
    ) -> SyncSearch:
        """See `SessionHost.search`."""
        return SyncSearch(
            self.bridge,
            self.bridge.read(
                lambda: self.twin.search(
                    query,
                    project=project,
                    role=role,
                    tool=tool,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                    index=index,
                )
            ),
        )

    # -- keeping sessions

    def archive(self, session: SyncSessionLike) -> None:
        """See `SessionHost.archive`."""
        self.bridge.wait(lambda: self.twin.archive(_twin_of(session)))

    def unarchive(self, session: SyncSessionLike) -> None:
        """See `SessionHost.unarchive`."""
        self.bridge.wait(lambda: self.twin.unarchive(_twin_of(session)))

    def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """See `SessionHost.apply_retention`."""
        return self.bridge.wait(lambda: self.twin.apply_retention(dry_run=dry_run))

    # -- looking at the host

    def statistics(self) -> HostStatistics:
        """See `SessionHost.statistics`."""
        return self.bridge.read(self.twin.statistics)

    def flush(self) -> None:
        """See `SessionHost.flush`."""
        self.bridge.wait(self.twin.flush)

    def passivate_idle(self) -> int:
        """See `SessionHost.passivate_idle`."""
        return self.bridge.wait(self.twin.passivate_idle)

    def _session(self, session: Session) -> SyncSession:
        return SyncSession(self.bridge, session)


def _twin_of(session: SyncSessionLike) -> SessionLike:
    return session.twin if isinstance(session, SyncSession) else session

"""The blocking twin of `SessionHost`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ...events.disk import Disk
from ...events.offload import Offload
from ...events.stores.base import Store
from ...projections.summary import SessionSummary
from ..catalog.settings import Settings
from ..forking import forked, put
from ..host import SessionHost
from ..import_report import ImportReports
from ..listing import SessionChanged
from ..runtime import Clock, Durability, Limits, NewId, random_id, system_clock
from ..session import Session
from ..statistics import HostStatistics
from .bridge import Bridge
from .searches import SyncSearch
from .session import SyncSession
from .signals import exit_on_signals
from .subscriptions import SyncSubscription

if TYPE_CHECKING:
    from ..catalog.keeping import RetentionReport


class SyncHost:
    """Where sessions live, for programs without an event loop; every method may be called from any thread.

    Leaving the block takes no more calls, ends the subscriptions, answers what was taken and lets every session go.

    Args:
        root: See `SessionHost`, as for all that is not listed here.
        signals: Drain and exit on SIGTERM and SIGINT; the host must then be opened in the main thread.
        clock: Called in the host's thread, like all that the program gives.
        backend: What runs the host's event loop: "asyncio" or "trio".
        backend_options: Its options, as for `anyio.run`: `{"use_uvloop": True}`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        dialect: Literal["native", "pi", "omp"] = "native",
        durability: Durability = "os",
        writes: Literal["auto", "inline", "thread"] = "auto",
        limits: Limits | None = None,
        settings: Settings | None = None,
        signals: bool = False,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        disk: Disk | None = None,
        offload: Offload | None = None,
        backend: Literal["asyncio", "trio"] = "asyncio",
        backend_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._host = SessionHost(
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
        self._bridge = Bridge(self._host, backend, backend_options)
        self._exits = contextlib.ExitStack()

    def __repr__(self) -> str:
        return f"Sync{str(self._host).removeprefix('Session')}"

    # -- opening and closing

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as exits:
            if self._signals:
                exits.enter_context(exit_on_signals())
            exits.callback(self._bridge.stop)
            self._bridge.start()
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            self._bridge.wait(
                lambda: self._host.create(
                    session_id, cwd=cwd, parent_session=parent_session, parent_entry=parent_entry, key=key
                )
            )
        )

    def load(self, session: str | os.PathLike[str], *, read_only: bool = False) -> SyncSession:
        """See `SessionHost.load`."""
        return self._session(self._bridge.wait(lambda: self._host.load(session, read_only=read_only)))

    def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.open`."""
        return self._session(self._bridge.wait(lambda: self._host.open(session_id, cwd=cwd)))

    def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.get_or_create`."""
        return self._session(self._bridge.wait(lambda: self._host.get_or_create(key, cwd=cwd)))

    def find_by_key(self, key: str) -> SyncSession | None:
        """See `SessionHost.find_by_key`."""
        found = self._bridge.wait(lambda: self._host.find_by_key(key))
        return None if found is None else self._session(found)

    def find_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession | None:
        """See `SessionHost.find_recent`."""
        found = self._bridge.wait(lambda: self._host.find_recent(cwd=cwd))
        return None if found is None else self._session(found)

    def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `SessionHost.continue_recent`."""
        return self._session(self._bridge.wait(lambda: self._host.continue_recent(cwd=cwd)))

    def fork_from(self, source: SyncSession | str | os.PathLike[str], *, session_id: str | None = None) -> SyncSession:
        """See `SessionHost.fork_from`."""
        if not isinstance(source, SyncSession):
            return self._session(self._bridge.wait(lambda: self._host.fork_from(source, session_id=session_id)))
        whole = source.whole()
        return self._session(self._bridge.wait(lambda: forked(self._host.core, whole, session_id)))

    def put(self, session: SyncSession, *, replace: bool = False) -> SyncSession:
        """See `SessionHost.put`."""
        whole = session.whole()
        return self._session(self._bridge.wait(lambda: put(self._host.core, whole, replacing=replace)))

    def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """See `SessionHost.import_sessions`."""
        return self._bridge.wait(lambda: self._host.import_sessions(path, format=format))

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
        return self._bridge.wait(
            lambda: self._host.list_sessions(project=project, status=status, limit=limit, offset=offset)
        )

    def resolve(self, text: str | os.PathLike[str]) -> SessionSummary:
        """See `SessionHost.resolve`."""
        return self._bridge.wait(lambda: self._host.resolve(text))

    def get_session(self, session: str | os.PathLike[str]) -> SessionSummary | None:
        """See `SessionHost.get_session`."""
        return self._bridge.wait(lambda: self._host.get_session(session))

    def current_session(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """See `SessionHost.current_session`."""
        return self._bridge.wait(lambda: self._host.current_session(project))

    def set_current_session(self, project: str | os.PathLike[str], session: SyncSession | str | None) -> None:
        """See `SessionHost.set_current_session`."""
        wanted = session.twin if isinstance(session, SyncSession) else session
        self._bridge.wait(lambda: self._host.set_current_session(project, wanted))

    def subscribe_sessions(self) -> SyncSubscription[list[SessionSummary] | SessionChanged]:
        """See `SessionHost.subscribe_sessions`."""
        return SyncSubscription(self._bridge, self._bridge.read(self._host.subscribe_sessions))

    def delete(self, session: SyncSession | str) -> None:
        """See `SessionHost.delete`."""
        wanted = session.twin if isinstance(session, SyncSession) else session
        self._bridge.wait(lambda: self._host.delete(wanted))

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
            self._bridge,
            self._bridge.read(
                lambda: self._host.search(
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

    def archive(self, session: SyncSession | str | os.PathLike[str]) -> None:
        """See `SessionHost.archive`."""
        wanted = session.twin if isinstance(session, SyncSession) else session
        self._bridge.wait(lambda: self._host.archive(wanted))

    def unarchive(self, session: SyncSession | str | os.PathLike[str]) -> None:
        """See `SessionHost.unarchive`."""
        wanted = session.twin if isinstance(session, SyncSession) else session
        self._bridge.wait(lambda: self._host.unarchive(wanted))

    def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """See `SessionHost.apply_retention`."""
        return self._bridge.wait(lambda: self._host.apply_retention(dry_run=dry_run))

    # -- looking at the host

    def statistics(self) -> HostStatistics:
        """See `SessionHost.statistics`."""
        return self._bridge.read(self._host.statistics)

    def flush(self) -> None:
        """See `SessionHost.flush`."""
        self._bridge.wait(self._host.flush)

    def passivate_idle(self) -> int:
        """See `SessionHost.passivate_idle`."""
        return self._bridge.wait(self._host.passivate_idle)

    def _session(self, session: Session) -> SyncSession:
        return SyncSession(self._bridge, session)

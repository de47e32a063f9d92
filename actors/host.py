"""The host: opens, finds and supervises sessions, and closes them all in order.

    async with SessionHost("~/sessions") as host:
        session = await host.create(cwd="/work/project")
        await session.append_message("user", "Hello")

A host belongs to one event loop. Everything that it starts ends with it: leaving the block answers every command that
was accepted, lets every session go, and releases every lock.
"""

from __future__ import annotations

import os
import signal
import socket
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
from anyio.abc import TaskGroup

from ..events.disk import Disk, OsDisk
from ..events.errors import HostClosed, SessionExists, SessionLocked, SessionNotFound
from ..events.offload import Offload, ThreadOffload
from ..events.stores.base import Ref, Store
from ..events.stores.files import FileStore
from ..events.stores.memory import MemoryStore
from ..projections.summary import CORRUPTED, SessionSummary
from .core import HostCore
from .follower import Follower
from .forking import forked
from .listing import Listing, SessionsSubscription
from .naming import SUFFIX, checked_id, dialect_named
from .registry import Birth
from .runtime import Clock, Durability, Limits, NewId, Runtime, random_id, system_clock
from .session import Session
from .statistics import HostStatistics, SessionStatistics

_hosts: weakref.WeakSet[SessionHost] = weakref.WeakSet()


class SessionHost:
    """Where sessions live.

    Args:
        root: The directory of the session files, made when the first is written; None keeps everything in memory.
        store: A store of your own, instead of `root`.
        dialect: What new sessions are written in: "native", "pi" or "omp". A file that is there keeps its own.
        durability: What an acknowledged append survives: "os" the process, "file" and "group" a power cut.
        writes: "inline" writes on the event loop, "thread" never does, "auto" decides by the disk.
        limits: The bounds of queues, caches and live sessions.
        signals: Drain and exit on SIGTERM and SIGINT; for programs that leave signals to the host.
        clock: Tells the time.
        new_id: Gives fresh uuid4 strings.
        disk: The disk that a file store writes to.
        offload: Runs blocking work off the event loop.
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
        signals: bool = False,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        disk: Disk | None = None,
        offload: Offload | None = None,
    ) -> None:
        offload = offload or ThreadOffload()
        if store is None:
            if root is None:
                store = MemoryStore()
            else:
                store = FileStore(
                    Path(root).expanduser(),
                    durability=durability,
                    writes=writes,
                    disk=disk or OsDisk(),
                    offload=offload,
                )
        self._store = store
        self._dialect = dialect_named(dialect)
        self._limits = limits or Limits()
        self._signals = signals
        self._clock = clock
        self._new_id = new_id
        self._offload = offload
        self._group: TaskGroup | None = None
        self._core: HostCore | None = None
        self._listing: Listing | None = None
        self._signalled: int | None = None
        self._recovered = False

    # -- opening and closing

    async def __aenter__(self) -> Self:
        owner = f"{socket.gethostname()}:{os.getpid()}:{self._new_id()}"
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        runtime = Runtime(
            store=self._store,
            owner=owner,
            clock=self._clock,
            new_id=self._new_id,
            offload=self._offload,
            limits=self._limits,
            spawn=self._spawn,
        )
        self._core = HostCore(runtime, self._dialect)
        self._listing = Listing(runtime, self._core.registry, self._core.path_of)
        self._spawn(self._core.registry.sweep)
        if self._signals:
            self._spawn(self._obey_signals)
        _hosts.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        _hosts.discard(self)
        with anyio.CancelScope(shield=True):
            await self.core.registry.drain()
            await self._store.aclose()
        self._group.cancel_scope.cancel()
        # The program's own error passes as it is; only a cancellation is the task group's to judge.
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        ended = (kind, error, trace) if cancelled else (None, None, None)
        await self._group.__aexit__(*ended)
        if self._signalled is not None:
            raise SystemExit(128 + self._signalled)

    def _spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None
        self._group.start_soon(run)

    async def _obey_signals(self) -> None:
        """End the host's block on the first signal; leaving it drains the host."""
        assert self._group is not None
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._signalled = int(number)
                self._group.cancel_scope.cancel()
                return

    @property
    def core(self) -> HostCore:
        """What the host does for its handles; not for programs.

        Raises:
            HostClosed: The host was not entered.
        """
        if self._core is None:
            raise HostClosed("the host is not open: use it as `async with SessionHost(...) as host`")
        return self._core

    # -- making sessions

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> Session:
        """Make a new session; its file appears with the first append.

        Args:
            session_id: Its id; a fresh uuid4 where none is given.
            cwd: The directory that the conversation is about.
            parent_session: The session that it was forked from, or that started it.
            parent_entry: The entry of that session at which it was started.
            key: The name under which the program asks for it.

        Raises:
            InvalidSessionId: The id cannot name a file.
            SessionExists: There is a session with this id.
        """
        core = self.core
        core.check()
        header, ref = core.new_header(
            session_id,
            cwd=None if cwd is None else os.fspath(cwd),
            parent_session=parent_session,
            parent_entry=parent_entry,
            key=key,
        )
        if session_id is not None:
            await self._recover()
            if await self._exists(ref):
                raise SessionExists(f"there is a session {session_id!r} already: load it, or give another id")
        return Session(core, ref, header.id, birth=Birth(header, self._dialect))

    async def load(self, session: str | os.PathLike[str], *, read_only: bool = False) -> Session:
        """Open a session that is there.

        Args:
            session: Its id, the unique beginning of one, or the path of its file.
            read_only: Take no lock and change no byte, and follow what another process writes.

        Raises:
            SessionNotFound: There is no such session.
            SessionLocked: Another process or host owns it; it can be loaded read-only.
            NotASession: The file does not begin with a header; it was left as it is.
            UnsupportedVersion: A newer program wrote the file; it was left as it is.
        """
        core = self.core
        core.check()
        if not read_only:
            await self._recover()
        ref = await self._find(session)
        if read_only:
            follower = await Follower.open(core.runtime, ref)
            return Session(core, ref, follower.log.index.header.id, follower=follower)
        actor = await core.registry.actor(ref)
        return Session(core, ref, actor.log.index.header.id)

    async def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session by its id, or make it where it is not there; see `load` and `create`."""
        checked_id(session_id)
        try:
            return await self.load(session_id)
        except SessionNotFound:
            return await self.create(session_id, cwd=cwd)

    async def find_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session | None:
        """Open the session that was used last, or return None where there is none.

        Args:
            cwd: Only sessions of this directory.
        """
        await self._recover()
        wanted = None if cwd is None else os.fspath(cwd)
        for row in await self.list_sessions():
            if row.status != CORRUPTED and wanted in (None, row.cwd):
                return await self.load(row.path or row.ref)
        return None

    async def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session that was used last, or make one where there is none."""
        return await self.find_recent(cwd=cwd) or await self.create(cwd=cwd)

    async def fork_from(self, source: Session | str | os.PathLike[str], *, session_id: str | None = None) -> Session:
        """Copy a session, all branches included, into a new one of this host whose parent it is.

        Args:
            source: The session, its id, or the path of its file, which may lie anywhere; it is not changed.
            session_id: The id of the copy.
        """
        if isinstance(source, Session):
            return await forked(self.core, source, session_id)
        original = await self.load(source, read_only=True)
        try:
            return await forked(self.core, original, session_id)
        finally:
            await original.close()

    # -- finding sessions

    async def list_sessions(self) -> list[SessionSummary]:
        """Return a row for each session, the most recently used first; unreadable files have the status "corrupted"."""
        self.core.check()
        assert self._listing is not None
        return await self._listing.rows()

    def subscribe_sessions(self) -> SessionsSubscription:
        """Follow the listing: first all rows, then each row that changes through this host."""
        self.core.check()
        assert self._listing is not None
        return SessionsSubscription(self._listing, self.core.runtime.touched)

    async def delete(self, session: Session | str) -> None:
        """Delete a session's file and what is kept beside it, for good; one that is not there is no error.

        Raises:
            SessionLocked: Another process or host owns it.
        """
        core = self.core
        core.check()
        await self._recover()
        try:
            ref = session.ref if isinstance(session, Session) else await self._find(session)
        except SessionNotFound:
            return
        actor = core.registry.live(ref)
        if actor is not None:
            await actor.quiet()
            await core.registry.passivate(ref)
        (lease,) = await self._store.acquire([ref], core.runtime.owner)
        if isinstance(lease, SessionLocked):
            raise lease
        await self._store.remove(lease)
        core.runtime.touched.add(ref)

    # -- looking at the host

    def statistics(self) -> HostStatistics:
        """Return figures about the host and its live sessions."""
        core = self.core
        counters = core.runtime.counters
        sessions = tuple(
            SessionStatistics(
                session_id=actor.log.index.header.id,
                mailbox_depth=actor.mailbox_depth,
                head=actor.log.index.head,
                subscribers=core.registry.subscribers(actor.log.ref),
                lag_max=core.registry.lag(actor.log.ref),
            )
            for actor in core.registry.actors()
        )
        return HostStatistics(
            live=len(core.registry),
            activated=counters.activated,
            passivated=counters.passivated,
            appends=counters.appends,
            batches=counters.batches,
            bytes=counters.bytes,
            failures=counters.failures,
            commit=counters.latency(),
            subscribers=core.registry.subscribers_of_all,
            sessions=sessions,
        )

    async def flush(self) -> None:
        """Return when every command that was accepted has its answer."""
        for actor in self.core.registry.actors():
            await actor.quiet()

    async def passivate_idle(self) -> int:
        """Let all idle sessions go now, and return how many that were."""
        core = self.core
        refs = [actor.log.ref for actor in core.registry.actors()]
        return sum([await core.registry.passivate(ref) for ref in refs])

    # -- how sessions are found

    async def _recover(self) -> None:
        """Have the store bring back what only a journal holds, before the first session is looked for to be written."""
        if not self._recovered and isinstance(self._store, FileStore):
            await self._store.recover()
        self._recovered = True

    async def _exists(self, ref: Ref) -> bool:
        return self.core.registry.look_at(ref) is not None or await self._store.exists(ref)

    async def _find(self, session: str | os.PathLike[str]) -> Ref:
        """Return the name of a session's log: by path, by the name of its file, by its id or a unique beginning."""
        if not isinstance(session, str) or os.sep in session or session.endswith(SUFFIX):
            return self._ref_of_path(session)
        checked_id(session)
        if await self._exists(session + SUFFIX):
            return session + SUFFIX
        rows = await self.list_sessions()
        exact = [row for row in rows if row.id == session]
        found = exact or [row for row in rows if row.id.startswith(session)]
        if len(found) != 1:
            what = f"{len(found)} sessions begin with" if found else "no session has the id"
            raise SessionNotFound(f"{what} {session!r}: list the sessions and give one id")
        return found[0].ref

    def _ref_of_path(self, path: str | os.PathLike[str]) -> Ref:
        if isinstance(self._store, FileStore):
            return self._store.ref_of(path)
        return os.fspath(path)


def _after_fork() -> None:
    """Close every host in the child of a fork: its locks, files and tasks are the parent's."""
    for host in list(_hosts):
        host.core.die()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

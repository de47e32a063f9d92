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
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup

from ..events.child_process import after_fork_in_child
from ..events.disk import Disk, OsDisk
from ..events.entries import Header
from ..events.errors import HostClosed, InvalidInput, SessionExists, TreeringError, WrongThread
from ..events.offload import Offload, ThreadOffload
from ..events.stores.base import Ref, Store
from ..events.stores.files import Durability, FileStore, Writes
from ..events.stores.memory import MemoryStore
from ..events.telemetry import failure_of, logger
from .background import attempted, kept_up
from .catalog.settings import Settings
from .core import HostCore
from .forking import copy_of, fork, put
from .hits import Search
from .import_report import ImportReports
from .lookup import SessionLike, SessionLookup
from .naming import DialectName, absolute, check_text, checked_id, checked_path, dialect_named, ref_of_key
from .runtime import Clock, Limits, NewId, Runtime, random_id, system_clock
from .session import Session
from .statistics import HostStatistics, SessionStatistics

if TYPE_CHECKING:
    from .catalog.keeping import RetentionReport

_hosts: weakref.WeakSet[SessionHost] = weakref.WeakSet()


class SessionHost(SessionLookup):
    """Where sessions live.

    Args:
        root: The directory of the session files, made when the first is written; None keeps everything in memory.
        store: A store of your own, instead of `root`.
        dialect: What new sessions are written in: "native", "pi" or "omp". A file that is there keeps its own.
        durability: What an acknowledged append survives: "os" the process, "file" and "group" a power cut.
        writes: "inline" writes on the event loop, "thread" never does, "auto" decides by the disk.
        limits: The bounds of queues, caches and live sessions.
        settings: What is kept, and how often the index is written; with `auto_persist` off, all sessions are in memory.
        signals: Drain and exit on SIGTERM and SIGINT; for programs that leave signals to the host.
        clock: Tells the time.
        new_id: Gives fresh uuid4 strings.
        disk: The disk that a file store writes to.
        offload: Runs blocking work off the event loop.

    Raises:
        InvalidInput: An argument is none of what can be chosen from, or of the wrong type; when the host is entered, also
            where the root is no directory.
        HostClosed: It is entered a second time.
        WrongThread: It is entered with `signals` in another thread than the main one.
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
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"`limits` is of type `{type(limits).__name__}`: give `Limits(live_max=...)`")
        if settings is not None and not isinstance(settings, Settings):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"`settings` is of type `{type(settings).__name__}`: give `Settings.load(...)` of it")
        if store is not None and not callable(getattr(store, "acquire", None)):
            raise InvalidInput(f"`store` is of type `{type(store).__name__}`: give a `FileStore(...)` or another store")
        offload = offload or ThreadOffload()
        self._settings = settings or Settings()
        if store is not None and not self._settings.auto_persist:
            raise InvalidInput("`auto_persist` is off and a store is given: leave one of them out")
        if store is None:
            if root is None or not self._settings.auto_persist:
                store = MemoryStore()
            else:
                store = FileStore(
                    checked_path(root),
                    durability=durability,
                    writes=writes,
                    disk=disk or OsDisk(),
                    offload=offload,
                )
        super().__init__(store)
        self._dialect = dialect_named(dialect)
        self._limits = limits or Limits()
        self._signals = signals
        self._clock = clock
        self._new_id = new_id
        self._offload = offload
        self._group: TaskGroup | None = None
        self._signalled: int | None = None

    def __repr__(self) -> str:
        store = self._store
        place = repr(os.fspath(store.root)) if isinstance(store, FileStore) else f"store={type(store).__name__}()"
        return f"{type(self).__name__}({place})"

    # -- opening and closing

    async def __aenter__(self) -> Self:
        if self._signals and threading.current_thread() is not threading.main_thread():
            raise WrongThread("signals reach the main thread alone: enter the host there, or make it without `signals`")
        if self._core is not None:
            raise HostClosed("a host is used once: make another one")
        if isinstance(self._store, FileStore):
            await self._offload(_require_directory, self._store)
        owner = f"{socket.gethostname()}:{os.getpid()}:{self._new_id()}"
        runtime = Runtime(
            store=self._store,
            owner=owner,
            clock=self._clock,
            new_id=self._new_id,
            offload=self._offload,
            limits=self._limits,
            spawn=self._spawn,
        )
        from .catalog.catalog import Catalog  # not needed to import the package

        core = HostCore(runtime, self._dialect)
        catalog = Catalog(core, self._settings)
        self._core, self._catalog = core, catalog
        self._group = anyio.create_task_group()  # last, since what is entered has to be left
        await self._group.__aenter__()
        self._spawn(partial(kept_up, "sweep", core.registry.sweep))
        self._spawn(partial(kept_up, "index", catalog.run))
        if self._settings.apply_retention_at_start:
            self._spawn(partial(kept_up, "retention", self._retire))
        if self._signals:
            self._spawn(self._obey_signals)
        _hosts.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        _hosts.discard(self)
        try:
            with anyio.CancelScope(shield=True):
                await self._close()
        finally:
            self._group.cancel_scope.cancel()
            # The program's own error passes as it is; only a cancellation is the task group's to judge.
            cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            ended = (kind, error, trace) if cancelled else (None, None, None)
            await self._group.__aexit__(*ended)
        if self._signalled is not None:
            raise SystemExit(128 + self._signalled)

    async def _close(self) -> None:
        """Answer what was accepted, keep what is kept, and let everything go, also where one of these fails."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self._store.aclose)
            if self._searching is not None:
                last_first.push_async_callback(self._searching.aclose)
            if self._catalog is not None:
                last_first.push_async_callback(attempted, "index", self._catalog.flush)
            last_first.push_async_callback(self.core.registry.drain)
            if self._signalled is not None:
                self._note_use()

    def _note_use(self) -> None:
        """Note that the live sessions were in use until now."""
        for actor in self.core.registry.actors():
            self._sessions.accessed(actor.log.ref)

    async def _retire(self) -> None:
        """Apply the retention once; that it fails is no reason to end the host."""
        try:
            report = await self.apply_retention()
        except (TreeringError, OSError) as error:
            logger().error("retention_failed", **failure_of(error))
        else:
            logger().info("retention_applied", archived=len(report.archived), spared=len(report.spared))

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
            cwd: The directory that the conversation is about; its absolute path is kept.
            parent_session: The session that it was forked from, or that started it.
            parent_entry: The entry of that session at which it was started.
            key: The name under which the program asks for it, which makes its id; see `get_or_create`.

        Raises:
            InvalidSessionId: The id or the key cannot name a file.
            InvalidInput: Both are given.
            SessionExists: There is a session with this id or key, or (in the native dialect) somebody holds a new one to
                which nothing was appended yet.
        """
        core = self.core
        core.check()
        header, ref = core.new_header(
            session_id,
            cwd=None if cwd is None else absolute(cwd),
            parent_session=parent_session,
            parent_entry=parent_entry,
            key=key,
        )
        if session_id is not None or key is not None:
            await self._recover()
            if core.registry.is_spoken_for(ref) or await self._is_taken(header.id, ref):
                raise SessionExists(f"there is a session {session_id or key!r} already: load it, or give another name")
        return self._unwritten(header, ref)

    async def _is_taken(self, session_id: str, ref: Ref) -> bool:
        """Tell whether there is a session with an id; in dialects that put the time into a file's name, under any name."""
        if await self._exists(ref):
            return True
        return self._dialect.shared and await self._exact(session_id) is not None

    def _unwritten(self, header: Header, ref: Ref) -> Session:
        """Return a handle of a session whose log begins with the first append to it."""
        return Session(self.core, ref, header.id, birth=self.core.registry.birth(ref, header, self._dialect))

    async def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session by its id, or make it where it is not there.

        Raises:
            InvalidSessionId: The id cannot name a file.
            SessionLocked: Another process or host owns the session; `load` has all that opening may raise.
        """
        checked_id(session_id)
        ref = await self._exact(session_id)
        if ref is not None:
            return await self.load(self.core.path_of(ref) or ref)
        return self._unwritten(*self.core.new_header(session_id, cwd=None if cwd is None else absolute(cwd)))

    async def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session that a key means, or make it where it is not there.

        One key means one session, whoever asks and however often. What is in memory is not read again.

        Args:
            key: Any name, such as "telegram:123456"; `SessionKey` makes those of agents and channels.
            cwd: The directory that the conversation is about, for a session that is made.

        Raises:
            InvalidSessionId: It is no key: empty, ".", "..", or longer than 1 KiB.
            SessionExists: The file of this name is another session's.
            SessionLocked: Another process or host owns the session.
        """
        core = self.core
        core.check()
        ref = ref_of_key(key)
        actor = core.registry.use(ref)
        if actor is None:
            await self._recover()
            header, _ = core.new_header(None, cwd=None if cwd is None else absolute(cwd), key=key)
            actor = await core.registry.actor(ref, core.registry.birth(ref, header, self._dialect))
            self._sessions.accessed(ref)
        found = actor.log.index.header
        if found.key != key:
            raise SessionExists(f"{ref} is there and is not the session of the key {key!r}: move it, or load it by id")
        return Session(core, ref, found.id, birth=core.registry.birth(ref, found, actor.log.dialect))

    async def find_by_key(self, key: str) -> Session | None:
        """Open the session that a key means, or return None where it is not there; see `get_or_create`."""
        self.core.check()
        ref = ref_of_key(key)
        if self.core.registry.live(ref) is None:
            await self._recover()
            if not await self._store.exists(ref):
                return None
        return await self.get_or_create(key)

    async def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session with the latest message, or make one where there is none; see `find_recent`.

        Raises:
            SessionLocked: Another process or host owns that session; `load` has all that opening may raise.
        """
        return await self.find_recent(cwd=cwd) or await self.create(cwd=cwd)

    async def fork_from(self, source: SessionLike, *, session_id: str | None = None) -> Session:
        """Copy a session, all branches included, into a new one of this host whose parent it is.

        Args:
            source: The session, its id, its row, or the path of its file, which may lie anywhere; it is not changed.
            session_id: The id of the copy.

        Raises:
            SessionExists: There is a session with the id that the copy is to have.
            SessionNotFound: There is no session to copy.
            AmbiguousSession: The text means several.
        """
        if isinstance(source, Session):
            return await fork(self.core, await copy_of(source), session_id)
        async with await self.load(source, read_only=True) as original:
            return await fork(self.core, await copy_of(original), session_id)

    async def put(self, session: Session, *, replace: bool = False) -> Session:
        """Write a session of another host, one in memory say, whole into this one's store, under its own id.

        It is there after a crash or it is not. What is appended to the session that is returned persists by itself, as
        ever; the one that was given stays what it was.

        Args:
            session: The session; one of this host is there already, and is returned as it is.
            replace: Let it take the place of a session with its id, whose file is kept as `.bak`.

        Raises:
            SessionExists: There is a session with its id, and it is not to be replaced.
            SessionLocked: Another process or host owns that one.
        """
        if not isinstance(session, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} is no session: give the handle that a host returned")
        return await put(self.core, await copy_of(session), replacing=replace)

    async def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """Take in the sessions of other programs, or of a copy of one's own; see docs/formats.md.

        Sessions of treering, pi and oh-my-pi keep their lines byte for byte; all others become native ones. A session
        that is here already gets what it lacks, so that an import can be repeated while its source grows, and two
        copies that both went on come together, as two branches. What is there of a session is in place when an import
        that takes in several fails at a later one.

        Args:
            path: A file, or a folder, which is gone through with all that lies below it; it is not changed.
            format: What it is, such as "claude-code"; told from what each file holds where None is given.

        Returns:
            A report for each session, those of sub-agents after the one that started them; and which files of a folder
            were no session, or could not be taken in.

        Raises:
            InvalidInput: The path is none, or the format is no text.
            ForeignFormatError: It is of no known format, or nothing of it can be salvaged; nothing was written of it.
            UnsupportedVersion: A newer program wrote it.
            SessionExists: Another session is here under the name of one of them.
            SessionLocked: Another process or host owns one of them.
        """
        from .importing import import_sessions

        self.core.check()
        given = checked_path(path)
        check_text("the format", format)
        await self._recover()
        return await import_sessions(self.core, given, format)

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
    ) -> Search:
        """Find entries of all sessions, archived ones included: `async for hit in host.search("timeout"): ...`.

        An entry is found when its text holds all words and "phrases" of the query, also in the middle of words, whatever
        their letter case; see docs/search.md. The most recently used session comes first.

        Args:
            query: Words and phrases.
            project: Only sessions of this folder.
            role: Only messages of this role; or "compaction", "label", or the type of another entry that has a text.
            tool: Only messages that call this tool, or that come from it.
            after: Only entries that were appended then or later.
            before: Only entries that were appended earlier.
            limit: How many hits are wanted at most.
            offset: How many are passed over first.
            index: Answer from the root's index, which is brought up to date first. True makes it where it is not there,
                None uses it where it is, False reads the logs. All of them find the same.

        Raises:
            InvalidInput: The query says nothing to look for, `limit` or `offset` is no count, or a time has no zone.
        """
        self.core.check()
        return self._searching_of().search(
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

    # -- keeping sessions

    async def archive(self, session: SessionLike) -> None:
        """Archive a session: it leaves the default listing, and its file is compressed where the store can do that.

        Nothing of it is lost: it is listed under its status, searched, and opened read-only as before. Loading it
        otherwise, or writing to it, brings it back, as `unarchive` does. See docs/keeping.md.

        Raises:
            SessionNotFound: There is no such session, or nothing was appended to it yet.
            AmbiguousSession: The text means several.
            SessionLocked: Another process or host owns it.
            AppendError: The disk refused; it is not archived.
            OSError: The file could not be compressed; the session is archived, and its file is as it was.
        """
        from .catalog.keeping import archive

        self.core.check()
        await self._recover()
        await archive(self.core, self._sessions, await self._find(session))

    async def unarchive(self, session: SessionLike) -> None:
        """Bring an archived session back, byte for byte; one that is not archived stays as it is.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: The text means several.
            SessionLocked: Another process or host owns it.
            LogDamaged: Its compressed file is damaged; it was left as it is.
            AppendError: The disk refused; it is archived still.
        """
        from .catalog.keeping import unarchive

        self.core.check()
        await self._recover()
        await unarchive(self.core, await self._find(session))

    async def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """Archive the sessions that the host's settings no longer keep among the others; nothing is ever deleted.

        These are the sessions to which nothing was appended for `auto_archive_after_days`, and of each project those
        beyond its `max_sessions_per_project` that were appended to longest ago. Sessions in use, here or elsewhere, are
        spared. What was created with no directory belongs to no project.

        Args:
            dry_run: Do nothing, and tell what would be done.
        """
        from .catalog.keeping import retire

        self.core.check()
        await self._recover()
        return await retire(self.core, self._sessions, self._settings, dry_run=dry_run)

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
        """Return when every command that was accepted has its answer, and the index is written."""
        for actor in self.core.registry.actors():
            await actor.quiet()
        await self._sessions.flush()

    async def passivate_idle(self) -> int:
        """Let all idle sessions go now, and return how many were let go.

        One that fails to go keeps no other, and is logged.
        """
        registry = self.core.registry
        return sum([await registry.passivate_safely(actor) for actor in registry.actors()])


def _require_directory(store: FileStore) -> None:
    """Refuse a root that can hold no files; one that is not there yet is made when the first is written.

    Raises:
        InvalidInput: Something else has its name, or that of a folder above it.
    """
    try:
        found = store.disk.stat(store.root)
    except NotADirectoryError as error:
        raise InvalidInput(f"the root {store.root} cannot be made, since it lies below a file: give another") from error
    except OSError:  # not there, or not to be looked at: whoever needs it first is told
        return
    if not found.is_directory:
        raise InvalidInput(f"the root {store.root} is no directory: give the directory of the session files")


def _after_fork() -> None:
    """Close every host in the child of a fork: its locks, files and tasks are the parent's."""
    for host in list(_hosts):
        host.core.die()


after_fork_in_child(_after_fork)

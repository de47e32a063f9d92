"""The host: opens, finds and supervises sessions, and closes them all in order.

    async with SessionHost("~/sessions") as host:
        session = await host.create(cwd="/work/project")
        await session.append_message("user", "Hello")

A host belongs to one event loop, and to no task: where no block fits, as in a notebook or a framework, it is opened by
`host = await SessionHost.start("~/sessions")` and closed by `await host.aclose()`, in any task. Everything that it
starts ends with it: closing answers every command that was accepted, passivates every session, and releases every lock.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

import anyio

from ...events.arguments import check_text, check_word, scheme_of, without_file_scheme
from ...events.dialects.detect import DialectName, dialect_named
from ...events.disk import Disk, OsDisk
from ...events.entries import Header
from ...events.errors import HostClosed, InvalidInput, SessionExists, SessionNotFound, TreeringError, WrongThread
from ...events.offload import Offload, ThreadOffload, after_fork_in_child
from ...events.stores.base import Ref, Store
from ...events.stores.memory import MemoryStore
from ...events.stores.opening import Durability, Writes, check_scheme, file_store, store_of_scheme
from ...events.telemetry import failure_of, logger
from ..catalog.settings import Settings
from ..search.hits import Search
from ..session.branching import copy_of, fork, put
from ..session.session import Session
from ..transfer.reports import ImportReports
from .core import HostCore
from .lookup import SessionLike, SessionLookup
from .names import absolute, checked_id, checked_path, ref_of_key
from .runtime import Clock, HostStatistics, Limits, NewId, Runtime, SessionStatistics, random_id, system_clock
from .tasks import HostTask, attempt, keep_running

if TYPE_CHECKING:
    from ..catalog.archiving import RetentionReport

_hosts: weakref.WeakSet[SessionHost] = weakref.WeakSet()


class SessionHost(SessionLookup):
    """The runtime for the sessions of one root directory or store.

    Open it with `async with`, or with `start` and close it with `aclose`, in any task of its event loop. A host that is
    never closed loses nothing either: it closes itself when the loop ends, and a `ResourceWarning` says so.

    Args:
        root: The directory of the session files, created by the first write; None keeps everything in memory. A text
            that begins like an address is a URL: "file:/path", "memory:", or one of an installed store (entry points
            `treering.stores`); other schemes are refused. "./sqlite:" is a path, and so is every `Path`.
        store: A store of your own, instead of `root`.
        dialect: The format of new sessions: "native", "pi" or "omp". An existing file keeps its own.
        durability: What an acknowledged append survives: "os" the end of the process, "file" and "group" a power cut.
        writes: "inline" writes on the event loop, "thread" never does, "auto" decides by the disk.
        limits: The bounds of queues, caches and live sessions.
        settings: Which sessions are kept, and how often the index is written; with `auto_persist` off, all sessions are
            in memory.
        signals: Drain and exit on SIGTERM and SIGINT; for programs that leave signals to the host. A signal ends the
            block `async with`, which must be left in the task that entered it.
        clock: Returns the time.
        new_id: Returns fresh uuid4 strings; under "group" it is also called in a worker thread, for the journal.
        disk: The disk that a file store writes to.
        offload: Runs blocking work off the event loop.

    Raises:
        InvalidInput: An argument has an unknown value or the wrong type. Also raised when the host is entered, if the
            root is not a directory.
        HostClosed: The host is entered a second time.
        WrongThread: The host is entered with `signals` in a thread other than the main one.
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
            raise InvalidInput(f"`settings` is of type `{type(settings).__name__}`: give `Settings.load(...)`")
        if store is not None and not callable(getattr(store, "capability", None)):
            raise InvalidInput(f"`store` is of type `{type(store).__name__}`: give a `FileStore(...)` or another store")
        if root is not None:
            check_scheme(root)
        check_word("durability", durability, get_args(Durability))
        check_word("value of `writes`", writes, get_args(Writes))
        offload = offload or ThreadOffload()
        self._settings = settings or Settings()
        if store is not None and not self._settings.auto_persist:
            raise InvalidInput("`auto_persist` is off, but a store is given: use one or the other")
        if store is None:
            if root is None or not self._settings.auto_persist:
                store = MemoryStore(offload=offload)
            elif isinstance(root, str) and scheme_of(root) not in (None, "file"):
                store = store_of_scheme(root, durability=durability, offload=offload, new_id=new_id)
            else:
                store = file_store(
                    Path(checked_path(without_file_scheme(root))),
                    durability=durability,
                    writes=writes,
                    disk=disk or OsDisk(),
                    offload=offload,
                    new_id=new_id,
                )
        super().__init__(store)
        self._dialect = dialect_named(dialect)
        self._limits = limits or Limits()
        self._signals = signals
        self._clock = clock
        self._new_id = new_id
        self._offload = offload
        self._task: HostTask | None = None
        self._block: anyio.CancelScope | None = None
        self._signalled: int | None = None

    def __repr__(self) -> str:
        place = repr(self._files.root) if self._files is not None else f"store={type(self._store).__name__}()"
        return f"{type(self).__name__}({place})"

    # -- opening and closing

    start = Starting(__init__)

    async def aclose(self) -> None:
        """Close the host: answer every command that was accepted, passivate every session, release every lock.

        Any task of the host's event loop may do this, also several at once, and again later: each returns when the host
        is closed, even if it is cancelled meanwhile.

        Raises:
            WrongThread: The host belongs to the event loop of another thread.
            BaseException: What went wrong in the host's own tasks, or when it was closed; it is closed nevertheless.
        """
        if self._task is None:
            return
        self.core.check_thread()
        await self._task.end()
        await anyio.lowlevel.checkpoint_if_cancelled()

    async def __aenter__(self) -> Self:
        if self._signals and threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "signals reach only the main thread: enter the host there, or create it without `signals`"
            )
        await self._begin()
        if self._signals:
            self._block = anyio.CancelScope()
            self._block.__enter__()
            self._spawn(self._obey_signals)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        try:
            with anyio.CancelScope(shield=True):
                await self._task.end()
        finally:
            if self._block is not None:
                self._block.__exit__(kind, error, trace)
        if self._signalled is not None:
            raise SystemExit(128 + self._signalled)

    async def _begin(self) -> None:
        """Begin the host's task, and in it what runs as long as the host is open."""
        if self._core is not None:
            raise HostClosed("a host can be used only once: create another one")
        if self._files is not None:
            await self._offload(self._files.check_root)
        owner = f"{os.uname().nodename}:{os.getpid()}:{self._new_id()}"
        runtime = Runtime(
            store=self._store,
            owner=owner,
            clock=self._clock,
            new_id=self._new_id,
            offload=self._offload,
            limits=self._limits,
            spawn=self._spawn,
        )
        from ..catalog.catalog import Catalog  # deferred to keep the import of the package small

        core = HostCore(runtime, self._dialect)
        catalog = Catalog(core, self._settings)
        self._core, self._catalog = core, catalog
        self._task = HostTask(repr(self), self._close, self._ended)
        await self._task.start()
        _hosts.add(self)
        self._spawn(partial(keep_running, "sweep", core.registry.sweep))
        self._spawn(partial(keep_running, "index", catalog.run))
        if self._settings.apply_retention_at_start:
            self._spawn(partial(keep_running, "retention", self._retire))

    def _ended(self, failure: BaseException | None, was_asked: bool) -> None:
        """Note that the host's task ended, which nobody may be waiting for."""
        _hosts.discard(self)
        self.core.ended(failure)
        if failure is not None:
            logger().error("host_failed", **failure_of(failure))
        elif not was_asked:
            Unclosed(repr(self))

    async def _close(self) -> None:
        """Answer accepted commands, write what is kept, and release everything, even if one of these steps fails."""
        async with AsyncExitStack() as cleanup:  # runs what was pushed last first
            cleanup.push_async_callback(self._store.aclose)
            if self._searching is not None:
                cleanup.push_async_callback(self._searching.aclose)
            if self._catalog is not None:
                cleanup.push_async_callback(attempt, "index", self._catalog.flush)
            cleanup.push_async_callback(self.core.registry.drain)
            if self._signalled is not None:
                self._note_use()

    def _note_use(self) -> None:
        """Note that the live sessions were in use until now."""
        for actor in self.core.registry.actors():
            self._sessions.accessed(actor.log.ref)

    async def _retire(self) -> None:
        """Apply retention once; a failure is logged and does not end the host."""
        try:
            report = await self.apply_retention()
        except (TreeringError, OSError) as error:
            logger().error("retention_failed", **failure_of(error))
        else:
            logger().info("retention_applied", archived=len(report.archived), spared=len(report.spared))

    def _spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._task is not None
        self._task.spawn(run)

    async def _obey_signals(self) -> None:
        """End the host's block on the first signal; leaving it drains the host."""
        assert self._block is not None
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._signalled = int(number)
                self._block.cancel()
                return

    # -- creating and opening sessions

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> Session:
        """Create a session; its file appears with the first append.

        Args:
            session_id: The session's id; a fresh uuid4 by default.
            cwd: The directory that the conversation is about; its absolute path is stored.
            parent_session: The session that it was forked from, or that started it.
            parent_entry: The entry of that session at which it was started.
            key: The name under which the program finds the session, which determines its id; see `get_or_create`.

        Raises:
            InvalidSessionId: The id or the key cannot name a file.
            InvalidInput: Both an id and a key are given.
            SessionExists: A session with this id or key exists, or (in the native dialect) a handle of a new one is
                held to which nothing has been appended yet.
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
            if core.registry.is_reserved(ref) or await self._is_taken(header.id, ref):
                raise SessionExists(f"session {session_id or key!r} already exists: load it, or choose another name")
        return self._unwritten(header, ref)

    async def _is_taken(self, session_id: str, ref: Ref) -> bool:
        """Return whether a session with this id exists.

        Some dialects put the time into the file's name, so sessions with other file names are checked too.
        """
        if self.core.registry.live(ref) is not None or await self._store.exists(ref):
            return True
        return self._dialect.shared and await self._exact(session_id) is not None

    def _unwritten(self, header: Header, ref: Ref) -> Session:
        """Return a handle of a session whose log begins with the first append."""
        return Session(self.core, ref, header.id, new_log=self.core.registry.new_log(ref, header, self._dialect))

    async def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session by its id, or create it if it does not exist.

        Raises:
            InvalidSessionId: The id cannot name a file.
            SessionLocked: Another process or host owns the session; `load` lists everything that opening may raise.
        """
        checked_id(session_id)
        self.core.check()
        ref = await self._exact(session_id)
        if ref is not None:
            with suppress(SessionNotFound):  # deleted meanwhile, or its first write was cut short
                return await self.load(self.core.path_of(ref) or ref)
        return self._unwritten(*self.core.new_header(session_id, cwd=None if cwd is None else absolute(cwd)))

    async def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session of a key, or create it if it does not exist.

        A key always means the same session, whoever calls and however often. A session in memory is not read again.

        Args:
            key: Any name, such as "telegram:123456"; `SessionKey` makes those of agents and channels.
            cwd: The directory that the conversation is about, if the session is created.

        Raises:
            InvalidSessionId: The key is invalid: empty, ".", "..", or longer than 1 KiB.
            SessionExists: The file of this name belongs to another session.
            SessionLocked: Another process or host owns the session.
            ReadOnly: This process may not write there.
        """
        core = self.core
        core.check()
        ref = ref_of_key(key)
        actor = core.registry.use(ref)
        if actor is None:
            await self._recover()
            header, _ = core.new_header(None, cwd=None if cwd is None else absolute(cwd), key=key)
            actor = await core.registry.actor(ref, core.registry.new_log(ref, header, self._dialect))
            self._sessions.accessed(ref)
        stored = actor.log.index.header
        if stored.key != key:
            raise SessionExists(f"{ref} exists but is not the session of the key {key!r}: move it, or load it by id")
        return Session(core, ref, stored.id, new_log=core.registry.new_log(ref, stored, actor.log.dialect))

    async def find_by_key(self, key: str) -> Session | None:
        """Open the session of a key, or return None if it does not exist; see `get_or_create`."""
        self.core.check()
        ref = ref_of_key(key)
        if self.core.registry.live(ref) is None:
            await self._recover()
            if not await self._store.exists(ref):
                return None
        return await self.get_or_create(key)

    async def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session with the latest message, or create one if there is none; see `find_recent`.

        Raises:
            SessionLocked: Another process or host owns that session; `load` lists everything that opening may raise.
        """
        return await self.find_recent(cwd=cwd) or await self.create(cwd=cwd)

    async def fork_from(self, source: SessionLike, *, session_id: str | None = None) -> Session:
        """Copy a session, including all branches, into a new session of this host whose parent it is.

        Args:
            source: The session, its id, its row, or the path of its file, which may lie anywhere; it is not changed.
            session_id: The id of the copy.

        Raises:
            SessionExists: A session with the id of the copy exists.
            SessionNotFound: There is no session to copy.
            AmbiguousSession: The text matches several sessions.
            AppendInDoubt: The copy was written with its leaf, but may not survive a power cut: load it, or repeat the
                call with the same `session_id`.
        """
        if isinstance(source, Session):
            return await fork(self.core, await copy_of(source), session_id)
        async with await self.load(source, read_only=True) as original:
            return await fork(self.core, await copy_of(original), session_id)

    async def put(self, session: Session, *, replace: bool = False) -> Session:
        """Write a whole session of another host, such as one in memory, into this host's store under its own id.

        After a crash it is there whole or not at all. Appends to the returned session are persisted as usual; the
        session that was passed in does not change.

        Args:
            session: The session. One that this host already holds is returned as it is.
            replace: Replace an existing session with the same id, whose file is kept as `.bak`.

        Raises:
            SessionExists: A session with the same id exists, and `replace` is not set.
            SessionLocked: Another process or host owns the existing session.
            ReadOnly: This process may not write there.
            AppendInDoubt: The session was written with its leaf, but may not survive a power cut: load it, or repeat
                the call.
        """
        if not isinstance(session, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} is not a session: give the handle that a host returned")
        return await put(self.core, await copy_of(session), replacing=replace)

    async def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """Import the sessions of other programs, or copies of treering's own; see docs/formats.md.

        Sessions of treering, pi and oh-my-pi keep their lines byte for byte; all others become native. A session that
        already exists here gets what it lacks, so an import can be repeated while its source grows, and two copies that
        were both continued are merged, as two branches. When an import of several sessions fails at one of them, those
        before it stay imported.

        Args:
            path: A file, or a folder, which is searched with everything below it; it is not changed.
            format: The format, such as "claude-code"; by default it is detected from the content of each file.

        Returns:
            A report for each session, those of sub-agents after the session that started them; and which files of a
            folder were not sessions, or could not be imported.

        Raises:
            InvalidInput: The path is not a path, or the format is not text.
            ForeignFormatError: The format is unknown, or nothing can be salvaged; nothing of it was written.
            UnsupportedVersion: A newer program wrote it.
            SessionExists: A different session exists under the name of one of them.
            SessionLocked: Another process or host owns one of them.
            ReadOnly: This process may not write there.
        """
        from ..transfer.importing import import_sessions

        self.core.check()
        source = checked_path(path)
        check_text("the format", format)
        await self._recover()
        return await import_sessions(self.core, source, format)

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
        """Find entries in all sessions, including archived ones: `async for hit in host.search("timeout"): ...`.

        An entry matches when its text contains all words and "phrases" of the query, also inside longer words and
        regardless of case; see docs/search.md. The most recently used session comes first.

        Args:
            query: Words and phrases.
            project: Only sessions of this folder.
            role: Only messages of this role, also of a program's own; or "compaction", "branch_summary",
                "custom_message", "context_edit", "label" or "session_info", for entries of this type.
            tool: Only messages that call this tool, and its results.
            after: Only entries appended at this time or later.
            before: Only entries appended before this time.
            limit: The maximum number of hits.
            offset: How many hits to skip.
            index: Whether to answer from the root's index, which is brought up to date first: True creates it if it is
                missing, None uses it if it exists, False reads the logs. The hits are the same.

        Raises:
            InvalidInput: The query contains nothing to search for, the role or the tool is empty, `limit` or `offset`
                is not a whole number of 0 or more, or a time has no time zone.
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
        """Archive a session: remove it from the default listing, and compress its file if the store can do that.

        Nothing is lost: the session is still listed under its status, searched, and opened read-only. Loading it for
        writing, or writing to it, brings it back, as `unarchive` does. See docs/keeping.md.

        Raises:
            SessionNotFound: There is no such session, or nothing has been appended to it yet.
            AmbiguousSession: The text matches several sessions.
            SessionLocked: Another process or host owns it.
            ReadOnly: This process may not write there.
            AppendError: The write failed; the session is not archived.
            Conflict: Another program changed the file meanwhile; the session is archived, and its file stays.
            OSError: The file could not be compressed; the session is archived, and its file is as it was.
        """
        from ..catalog.archiving import archive

        self.core.check()
        await self._recover()
        await archive(self.core, self._sessions, await self._find_to_write(session))

    async def unarchive(self, session: SessionLike) -> None:
        """Bring an archived session back, byte for byte; one that is not archived stays as it is.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: The text matches several sessions.
            SessionLocked: Another process or host owns it.
            ReadOnly: This process may not write there.
            LogDamaged: Its compressed file is damaged; it was left as it is.
            AppendError: The write failed; the session is still archived.
        """
        from ..catalog.archiving import unarchive

        self.core.check()
        await self._recover()
        await unarchive(self.core, await self._find_to_write(session))

    async def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """Archive the sessions that exceed the retention limits of the host's settings; nothing is ever deleted.

        These are the sessions to which nothing has been appended for `auto_archive_after_days`, and in each project
        those beyond `max_sessions_per_project` that were appended to longest ago. Sessions in use, here or elsewhere,
        and the current session of each project are spared. Sessions created without a directory belong to no project.

        Args:
            dry_run: Change nothing, and report what would be done.
        """
        from ..catalog.archiving import retire

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
        """Wait until every command that was accepted before has its reply, and the index is written."""
        await self.core.registry.all_answered()
        await self._sessions.flush()

    async def passivate_idle(self) -> int:
        """Passivate all idle sessions now, and return how many there were.

        A session that fails to passivate is logged and does not hold up the others.
        """
        registry = self.core.registry
        return sum([await registry.passivate_safely(actor) for actor in registry.actors()])


def _after_fork() -> None:
    """Close every host in the child of a fork: its locks, files and tasks are the parent's."""
    for host in list(_hosts):
        host.core.die()
    _hosts.clear()


@atexit.register
def _at_exit() -> None:
    """Warn of hosts whose event loops ended without telling their tasks; appended entries are in the store."""
    for host in list(_hosts):
        Unclosed(repr(host))


after_fork_in_child(_after_fork)

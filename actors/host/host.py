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
import warnings
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, get_args

import anyio

from ...events.arguments import check_word, scheme_of, without_file_scheme
from ...events.dialects.detect import DialectName, dialect_named
from ...events.disk import Disk, OsDisk
from ...events.errors import HostClosed, InvalidInput, TreeringError, WrongThread
from ...events.offload import Offload, ThreadOffload, after_fork_in_child
from ...events.stores.base import Store
from ...events.stores.memory import MemoryStore
from ...events.stores.opening import Durability, Writes, check_scheme, file_store, store_of_scheme
from ...events.telemetry import failure_of, logger
from ..catalog.settings import Settings
from .core import HostCore
from .names import checked_path
from .opening import SessionOpening
from .placement import Placement, checked_placement, place
from .runtime import Clock, HostStatistics, Limits, NewId, Runtime, SessionStatistics, random_id, system_clock
from .tasks import HostTask, attempt, keep_running

P = ParamSpec("P")
H = TypeVar("H", bound="Beginning")

_hosts: weakref.WeakSet[SessionHost] = weakref.WeakSet()


class Beginning(Protocol):
    """A host that is not open yet."""

    async def _begin(self) -> None:
        """Open it, in the present event loop."""
        ...


class Starting(Generic[P]):
    """The call `SessionHost.start`, which takes the arguments of the host.

    Args:
        init: The host's `__init__`, for its signature.
    """

    def __init__(self, init: Callable[Concatenate[Any, P], None]) -> None:
        self.__wrapped__ = init

    def __get__(self, instance: object, owner: type[H]) -> Callable[P, Coroutine[Any, Any, H]]:
        construct = cast("Callable[..., H]", owner)  # checkers cannot see that it has the signature of its `__init__`

        async def start(*args: P.args, **kwargs: P.kwargs) -> H:
            if kwargs.get("signals"):
                raise InvalidInput("`signals` end a block: open the host with `async with`, or handle signals yourself")
            host = construct(*args, **kwargs)
            await host._begin()  # pyright: ignore[reportPrivateUsage]  # a method would be public
            return host

        start.__signature__ = signature(owner).replace(return_annotation=owner)  # type: ignore[attr-defined]  # for `help`
        start.__doc__ = DOC
        return start


DOC = """Open a host without a block: `host = await SessionHost.start("~/sessions")`.

It takes the arguments of `SessionHost`, and any task of the event loop may close it, with `aclose`.

Raises:
    InvalidInput: An argument has an unknown value or the wrong type, the root is not a directory, or `signals` are
        given, which end a block.
"""


class SessionHost(SessionOpening):
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
        placement: What becomes of a command for a session that another host owns: "local" refuses it, with
            `SessionLocked`; "inbox" sends it to that host through the store, which has to have an inbox; "forward" is
            for a server, which sends the whole request there.
        address: Where this host answers requests, for other hosts that forward some.
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
        placement: Placement = "local",
        address: str | None = None,
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
        settings = settings or Settings()
        if store is not None and not settings.auto_persist:
            raise InvalidInput("`auto_persist` is off, but a store is given: use one or the other")
        if store is None:
            if root is None or not settings.auto_persist:
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
        super().__init__(store, dialect_named(dialect), settings)
        self._address = address
        self._placement: Placement = checked_placement(placement, store)
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
        is closed, even if it is cancelled meanwhile. Within work that the host itself runs, it returns at once, and the
        host is closed when that work has ended.

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
        elsewhere = place(core, self._placement, self._address)
        self._task = HostTask(repr(self), self._close, self._ended)
        await self._task.start()
        _hosts.add(self)
        self._spawn(partial(keep_running, "sweep", core.registry.sweep))
        self._spawn(partial(keep_running, "index", catalog.run))
        if runtime.leases is not None and runtime.leases.lease_s:
            self._spawn(partial(keep_running, "leases", partial(core.registry.keep_leases, runtime.leases)))
        if elsewhere is not None:
            self._spawn(partial(keep_running, "inbox", elsewhere.look))
            self._spawn(partial(keep_running, "answers", elsewhere.answer))
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
            if self.core.elsewhere is not None:
                cleanup.push_async_callback(self.core.elsewhere.close)
            if self._signalled is not None:
                self._note_use()

    def _note_use(self) -> None:
        """Note that the live sessions were in use until now."""
        for actor in self.core.registry.actors():
            self.catalog.listing.accessed(actor.log.ref)

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

    # -- looking at the host

    def statistics(self) -> HostStatistics:
        """Return figures about the host and its live sessions."""
        core = self.core
        counters = core.runtime.counters
        sessions = tuple(
            SessionStatistics(
                session_id=actor.log.index.header.id,
                mailbox_depth=actor.mailbox.depth,
                head=actor.log.index.head,
                subscribers=0 if actor.log.feed is None else actor.log.feed.subscribers,
                lag_max=0 if actor.log.feed is None else actor.log.feed.lag_max,
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
            subscribers=sum(feed.subscribers for feed in core.registry.feeds()),
            sessions=sessions,
        )

    async def flush(self) -> None:
        """Wait until every command that was accepted before has its reply, and the index is written."""
        await self.core.registry.all_answered()
        await self.catalog.flush()

    async def passivate_idle(self) -> int:
        """Passivate all idle sessions now, and return how many there were.

        A session that fails to passivate is logged and does not hold up the others.
        """
        return await self.core.registry.passivate_idle()


class Unclosed:
    """The warning that a host was not closed.

    It is given when this object is deleted, at once: there, a program that turns warnings into errors gets an
    unraisable one, as for a file that was not closed, and the event loop that ends goes on to end.
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def __del__(self) -> None:
        warnings.warn(
            f"unclosed {self._host}: call `await host.aclose()`, or open it with `async with`",
            ResourceWarning,
            stacklevel=2,
        )


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

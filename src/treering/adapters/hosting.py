"""The host behind an adapter: one that the program opened, or one per root that opens itself at first use.

A framework's objects are made anywhere: before a loop runs, in several loops one after the other, in threads. A host
that a program opened serves its own event loop directly. A root is therefore served by a host in a thread of its own,
which all objects with that root share, whichever loop or thread they are used in; it is closed when the process exits.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
import anyio.to_thread

from ..actors.host.host import SessionHost
from ..actors.host.names import absolute, checked_path
from ..actors.host.runtime import Limits
from ..actors.sync.host import SyncHost
from ..events.errors import InvalidInput, WrongThread

T = TypeVar("T")

HostOrRoot: TypeAlias = SessionHost | SyncHost | str | os.PathLike[str]
"""An open host, or the root of one: a directory, a store's URL, or the URL of a server ("http://...")."""

Work: TypeAlias = Callable[[SessionHost], Awaitable[T]]
"""Something to do with a host, on its event loop."""

OF_ROOTS = Limits(idle_after_s=5.0, locked_wait_s=15.0)
"""The bounds of the hosts of roots: several processes use one, and whose turn it is gets a session soon."""

_shared: dict[str, SyncHost] = {}
_opening = threading.Lock()
_locks: WeakKeyDictionary[SessionHost, WeakValueDictionary[str, anyio.Lock]] = WeakKeyDictionary()


class Hosting:
    """Where an adapter's sessions live.

    Args:
        host: An open host or blocking host; or a root, whose host is opened at first use and shared.

    Raises:
        InvalidInput: It is neither.
    """

    def __init__(self, host: HostOrRoot) -> None:
        self._host: SessionHost | SyncHost | None = None
        self._root = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        if isinstance(host, (SessionHost, SyncHost)):
            self._host = host
            self._loop = _running_loop()
        else:
            self._root = _normal(host)

    def __repr__(self) -> str:
        return repr(self._root) if self._host is None else repr(self._host)

    async def run(self, work: Work[T]) -> T:
        """Do something with the host, and return its result.

        Raises:
            WrongThread: The program opened the host in another event loop.
            HostClosed: The host is closed.
        """
        host = self._host if self._host is not None else _shared.get(self._root)
        if host is None:
            host = await anyio.to_thread.run_sync(self.opened)
        if isinstance(host, SyncHost):
            return await asyncio.wrap_future(host.bridge.post(lambda: work(host.twin)))
        self._loop = asyncio.get_running_loop()
        return await work(host)

    def run_blocking(self, work: Work[T]) -> T:
        """Do something with the host from a thread without an event loop, and return its result.

        Raises:
            WrongThread: The caller is the event loop of the host, which would wait for itself; or it is not known which
                loop that is, since the host was given outside of it.
            HostClosed: The host is closed.
        """
        host = self.opened()
        return host.bridge.wait(lambda: work(host.twin)) if isinstance(host, SyncHost) else self.begin(work).result()

    def begin(self, work: Work[T]) -> Future[T]:
        """Begin to do something with the host from any thread, and return what its result will be in.

        Raises:
            WrongThread: As `run_blocking` does.
            HostClosed: The host is closed.
        """
        host = self.opened()
        if isinstance(host, SyncHost):
            return host.bridge.post(lambda: work(host.twin))
        if self._loop is None or self._loop is _running_loop():
            raise WrongThread(
                "a blocking call would hold up the event loop that has to answer it: call the async twin,"
                " or give the adapter a root or a `SyncHost`"
            )
        return asyncio.run_coroutine_threadsafe(_coroutine(work, host), self._loop)

    def opened(self) -> SessionHost | SyncHost:
        """Return the host; that of a root is opened if this process has none."""
        return self._host if self._host is not None else _host_of(self._root)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait until something is over that must not be left half done, even if the caller is cancelled meanwhile.

    What is asked for so is begun in the order in which it is asked for, since each is a task of its own.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # the caller has left, and hears of its cancellation alone
        raise cancelled
    return task.result()


def lock_of(host: SessionHost, key: str) -> anyio.Lock:
    """Return the lock of a key, for changes that depend on what was read before; all objects of a host share it."""
    return _locks.setdefault(host, WeakValueDictionary()).setdefault(key, anyio.Lock(fast_acquire=True))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _coroutine(work: Work[T], host: SessionHost) -> T:
    return await work(host)


def _normal(root: str | os.PathLike[str]) -> str:
    """Return a root by one name, which does not change with the working directory.

    Raises:
        InvalidInput: It is no root.
    """
    if not isinstance(root, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the host is of type `{type(root).__name__}`: give an open host, a directory or a URL")
    if isinstance(root, str) and (":" in root.partition("/")[0]):
        return root
    return absolute(checked_path(root))


def _host_of(root: str) -> SyncHost:
    """Return the host of a root, opened if this process has none."""
    with _opening:
        host = _shared.get(root)
        if host is None:
            is_server = root.startswith(("http:", "https:"))
            host = SyncHost(host=_remote(root)) if is_server else SyncHost(root, limits=OF_ROOTS)
            host.__enter__()
            _shared[root] = host  # whoever finds it there finds it open
        return host


def _remote(url: str) -> SessionHost:
    from ..remote import RemoteHost

    return RemoteHost(url)


@atexit.register
def close_shared() -> None:
    """Close the hosts of all roots; an adapter that is used again opens its own anew."""
    while _shared:
        _shared.popitem()[1].__exit__(None, None, None)


os.register_at_fork(after_in_child=_shared.clear)

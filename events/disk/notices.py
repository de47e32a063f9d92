"""The operating system's notifications of changed files, shared by all watches of an event loop.

Notifications need a few descriptors and a thread, so all watches share them: they are opened for the first watch and
closed after the last. No task is dedicated to them. One of the waiting watches listens, in a thread that it awaits, and
wakes the watches that are affected; when it leaves, another one takes over.

A notification only says that it is time to check the files. Whenever notifications may have been lost, all watches are
told to check. If none are available, the watches check when their timeouts expire. So do those of a folder whose path
is not UTF-8, which cannot be watched, and those of the folders beyond the bound on all watches together: watches of few
folders are served first, and each names its folders in the order in which they matter.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Literal

from anyio import CapacityLimiter, Event, current_time, move_on_after, to_thread
from anyio.lowlevel import RunVar, checkpoint

from ..telemetry import failure_of, logger

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


FOLDERS_MAX = 2048
"""How many folders are watched at most; files in other folders are checked only when a watch's timeout expires."""

AGAIN_S = 60.0
"""After how many seconds to try again if notifications are not available."""

REOPEN_S = 1.0
"""After how many seconds to open notifications again that broke off: a change of a file whose name is not UTF-8 ends
them."""

CHANGED_MAX = 4096
"""How many paths are told to a watch at a time; if there are more, it may be any."""

_STEP_MS = 5
_DEBOUNCE_MS = 20


class PathWatch:
    """One watch: its paths, and its wait for their changes.

    Attributes:
        paths: The files and folders whose changes concern the watch, the most important first. A path that ends with a
            slash stands for everything in that folder.
        noticed: Whether one of them may have changed since its last wait.
        changed: The paths that changed meanwhile, as they were reported; None if it may be any.
        wakeup: Wakes the watch while it waits and another one listens.
    """

    __slots__ = ("_notices", "changed", "noticed", "paths", "wakeup")

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.paths: dict[str, None] = {}
        self.noticed = False
        self.changed: set[str] | None = set()
        self.wakeup: Event | None = None

    @property
    def is_told(self) -> bool:
        """Whether every change of its paths is told: none of them has to be checked by time."""
        return self._notices.tells(self)

    def set_paths(self, paths: Iterable[str]) -> None:
        """Watch these paths, and no others, from the next wait on; the folder of each exists.

        The watch is notified once when that has begun.
        """
        self._notices.set_paths(self, dict.fromkeys(paths))

    async def wait(self, timeout_s: float) -> set[str] | None:
        """Wait until something may have changed since the last wait, or until the timeout expires.

        Returns:
            The paths that changed, none after the timeout; None if it may be any.
        """
        await self._notices.wait(self, timeout_s)
        changed, self.changed = self.changed, set()
        return changed

    def notice(self, changed: Iterable[str] | None) -> None:
        """Tell the watch to check its files: those at these paths, or all."""
        self.noticed = True
        if changed is not None and self.changed is not None:
            self.changed.update(changed)
        if changed is None or len(self.changed or ()) > CHANGED_MAX:
            self.changed = None
        self.wake()

    def wake(self) -> None:
        """Interrupt the wait of the watch, so that it checks whether to listen."""
        if self.wakeup is not None:
            self.wakeup.set()
            self.wakeup = None


class Notices:
    """The notifications of one event loop; see `here`."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)  # the thread blocks for long, so it must not count against the default limit
        self._watches: dict[PathWatch, None] = {}
        self._counts_by_folder: Counter[str] = Counter()
        self._random = random.Random()  # the program's own generator is left alone
        self._native: RustNotify | None = None
        self._watched: frozenset[str] = frozenset()
        self._outdated = False
        self._again_at: float | None = None  # when to open notifications again after they failed
        self._is_failing = False
        self._stop: threading.Event | None = None  # set while a watch listens

    @contextmanager
    def watching(self) -> Generator[PathWatch]:
        """Provide a watch, which ends with the block."""
        watch = PathWatch(self)
        self._watches[watch] = None
        try:
            yield watch
        finally:
            self.set_paths(watch, {})
            del self._watches[watch]
            if not self._watches:
                self._close()

    def set_paths(self, watch: PathWatch, paths: dict[str, None]) -> None:
        """Set the paths whose changes concern a watch."""
        for path in watch.paths.keys() - paths.keys():
            folder = os.path.dirname(path)
            self._counts_by_folder[folder] -= 1
            if not self._counts_by_folder[folder]:
                del self._counts_by_folder[folder]
        for path in paths.keys() - watch.paths.keys():
            self._counts_by_folder[os.path.dirname(path)] += 1
        watch.paths = paths
        # Reopening makes every watch check its files, so folders that are no longer needed may stay for a while.
        is_full = len(self._watched) >= FOLDERS_MAX
        is_watched = is_full or self._watched.issuperset(map(os.path.dirname, paths))
        if len(self._watched) > 2 * len(self._counts_by_folder) or not is_watched:
            self._outdated = True
            if self._stop is not None:
                self._stop.set()

    def tells(self, watch: PathWatch) -> bool:
        """Return whether every change of a watch's paths is told."""
        return self._native is not None and self._watched.issuperset(map(os.path.dirname, watch.paths))

    async def wait(self, watch: PathWatch, timeout_s: float) -> None:
        """Wait for a watch; see `PathWatch.wait`."""
        deadline = current_time() + timeout_s
        try:
            while not watch.noticed and (left_s := deadline - current_time()) > 0:
                if self._must_listen():
                    await self._listen(left_s)
                else:
                    watch.wakeup = Event()
                    if self._again_at is not None:
                        left_s = min(left_s, self._again_at - current_time())
                    with move_on_after(left_s):
                        await watch.wakeup.wait()
        finally:
            watch.wakeup = None
            if self._must_listen():
                # A random one: it costs much if the watch that listens ends, and watches may end in their order.
                waiting = [each for each in self._watches if each.wakeup is not None]
                self._random.choice(waiting or [watch]).wake()
        watch.noticed = False

    # -- listening

    def _must_listen(self) -> bool:
        """Tell whether there are notifications to listen to, or to open, and no watch does so."""
        if self._again_at is not None and current_time() >= self._again_at:
            self._outdated = True
        return self._stop is None and (self._outdated or self._native is not None)

    async def _listen(self, timeout_s: float) -> None:
        """Listen for all watches, and wake those that are affected."""
        self._stop = stop = threading.Event()
        try:
            if self._outdated:
                await checkpoint()  # lets watches that start at the same time be opened together
                self._open()
            elif self._native is not None:
                wait_ms = max(1, int(timeout_s * 1000))
                changes = await to_thread.run_sync(
                    self._native.watch,
                    _DEBOUNCE_MS,
                    _STEP_MS,
                    wait_ms,
                    stop,
                    limiter=self._limiter,
                    abandon_on_cancel=True,
                )
                self._is_failing = False
                self._notify_affected(changes)
        except Exception as error:  # noqa: BLE001  # the watcher has its own error types, and polling works without it
            self._fail(error)
        except BaseException:
            self._outdated = True  # the notifications that the abandoned thread receives are lost
            raise
        finally:
            stop.set()
            self._stop = None

    def _open(self) -> None:
        """Open notifications for all folders of interest, and tell all watches to check for earlier changes."""
        from watchfiles._rust_notify import RustNotify

        folders = sorted(islice(filter(_can_be_watched, self._wanted()), FOLDERS_MAX))
        self._discard()
        self._watched = frozenset(folders)
        self._notify_all()
        self._native = RustNotify(folders, False, False, 0, False, True)
        self._again_at = None

    def _wanted(self) -> Iterable[str]:
        """Return all folders of interest, each once, those of watches of few paths first."""
        watches = sorted(self._watches, key=lambda watch: len(watch.paths))
        return dict.fromkeys(os.path.dirname(path) for watch in watches for path in watch.paths)

    def _notify_affected(self, changes: set[tuple[int, str]] | Literal["signal", "stop", "timeout"]) -> None:
        """Notify the watches that the changes concern."""
        if isinstance(changes, str):
            return
        paths = {path for _, path in changes}
        folders = set(map(os.path.dirname, paths))
        if folders <= self._watched:
            affected = paths.union(map(_folder_of, paths))
            for watch in self._watches:
                if not watch.paths.keys().isdisjoint(affected):
                    watch.notice(path for path in paths if path in watch.paths or _folder_of(path) in watch.paths)
        else:
            self._notify_all()  # a path is reported under another name than it was requested by

    def _notify_all(self) -> None:
        for watch in self._watches:
            watch.notice(None)

    def _fail(self, error: Exception) -> None:
        """Continue without notifications for a while."""
        if not self._is_failing:
            logger().warning("watch_polls", **failure_of(error))
        self._is_failing = True
        self._again_at = current_time() + (AGAIN_S if self._native is None else REOPEN_S)
        self._discard()
        self._notify_all()

    def _discard(self) -> None:
        self._native = None  # closes itself when a thread that still uses it is done
        self._outdated = False

    def _close(self) -> None:
        """Stop all notifications."""
        self._discard()
        self._watched = frozenset()
        self._again_at = None
        self._is_failing = False


def _folder_of(path: str) -> str:
    """Return a file's folder as a watch names it."""
    return f"{os.path.dirname(path)}/"


def _can_be_watched(folder: str) -> bool:
    """Tell whether a folder is there, and its path is UTF-8; Python keeps other bytes of a path as surrogates."""
    try:
        folder.encode()
    except UnicodeEncodeError:
        return False
    return os.path.isdir(folder)


_here: RunVar[Notices] = RunVar("treering.notices")


def here() -> Notices:
    """Return the notifications of the running event loop."""
    notices = _here.get(None)
    if notices is None:
        notices = Notices()
        _here.set(notices)
    return notices

"""The operating system's notifications of changed folders, shared by all watches of an event loop.

Notifications need a few descriptors and a thread, so all watches share them: they are opened for the first watch and
closed after the last. No task is dedicated to them. One of the waiting watches listens, in a thread that it awaits, and
wakes the watches that are affected; when it leaves, another one takes over.

A notification only says that it is time to check the files. Whenever notifications may have been lost, all watches are
told to check. If none are available, the watches check when their timeouts expire.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from anyio import CapacityLimiter, Event, current_time, move_on_after, to_thread
from anyio.lowlevel import RunVar, checkpoint

from ...telemetry import failure_of, logger

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

FOLDERS_MAX = 1024
"""How many folders are watched at most; files in other folders are checked only when a watch's timeout expires."""

AGAIN_S = 60.0
"""After how many seconds to try again if notifications are not available."""

_STEP_MS = 5
_DEBOUNCE_MS = 20


class Place:
    """The waiting place of one watch.

    Attributes:
        folders: The folders that the watch is interested in.
        noticed: Whether something may have changed in them since its last wait.
        wakeup: Wakes the watch while it waits and another one listens.
    """

    __slots__ = ("_notices", "folders", "noticed", "wakeup")

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.folders: frozenset[str] = frozenset()
        self.noticed = False
        self.wakeup: Event | None = None

    def watch_folders(self, folders: frozenset[str]) -> None:
        """Watch these folders, and no others, from the next wait on. The watch is notified once when that has begun."""
        if folders != self.folders:
            self._notices.watch_folders(self, folders)

    async def wait(self, timeout_s: float) -> None:
        """Wait until something may have changed since the last wait, or until the timeout expires."""
        await self._notices.wait(self, timeout_s)

    def notice(self) -> None:
        """Tell the watch to check its files."""
        self.noticed = True
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
        self._places: dict[Place, None] = {}
        self._places_by_folder: dict[str, set[Place]] = {}
        self._native: RustNotify | None = None
        self._watched: frozenset[str] = frozenset()
        self._outdated = False
        self._failed_at: float | None = None
        self._stop: threading.Event | None = None  # set while a watch listens

    @contextmanager
    def place(self) -> Generator[Place]:
        """Provide a watch with a place to wait."""
        place = Place(self)
        self._places[place] = None
        try:
            yield place
        finally:
            self.watch_folders(place, frozenset())
            del self._places[place]
            if not self._places:
                self._close()

    def watch_folders(self, place: Place, folders: frozenset[str]) -> None:
        """Set the folders that a place is interested in."""
        for folder in place.folders - folders:
            places = self._places_by_folder[folder]
            places.discard(place)
            if not places:
                del self._places_by_folder[folder]
        for folder in folders - place.folders:
            self._places_by_folder.setdefault(folder, set()).add(place)
        place.folders = folders
        # Reopening makes every watch check its files, so folders that are no longer needed may stay for a while.
        is_full = len(self._watched) >= FOLDERS_MAX
        if len(self._watched) > 2 * len(self._places_by_folder) or not (is_full or folders <= self._watched):
            self._outdated = True
            if self._stop is not None:
                self._stop.set()

    async def wait(self, place: Place, timeout_s: float) -> None:
        """Wait at a place; see `Place.wait`."""
        deadline = current_time() + timeout_s
        try:
            while not place.noticed and (left_s := deadline - current_time()) > 0:
                if self._must_listen():
                    await self._listen(left_s)
                else:
                    place.wakeup = Event()
                    with move_on_after(left_s):
                        await place.wakeup.wait()
        finally:
            place.wakeup = None
            if self._must_listen():
                next((each for each in self._places if each.wakeup is not None), place).wake()
        place.noticed = False

    # -- listening

    def _must_listen(self) -> bool:
        """Tell whether there are notifications to listen to, or to open, and no watch does so."""
        if self._failed_at is not None and current_time() >= self._failed_at + AGAIN_S:
            self._outdated = True
        return self._stop is None and (self._outdated or self._native is not None)

    async def _listen(self, timeout_s: float) -> None:
        """Listen for all places, and wake those that are affected."""
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

        folders = [folder for folder in sorted(self._places_by_folder) if os.path.isdir(folder)][:FOLDERS_MAX]
        self._discard()
        self._watched = frozenset(folders)
        self._notify(self._places)
        self._native = RustNotify(folders, False, False, 0, False, True)
        self._failed_at = None

    def _notify_affected(self, changes: set[tuple[int, str]] | Literal["signal", "stop", "timeout"]) -> None:
        """Notify the places that are interested in the changed folders."""
        if isinstance(changes, str):
            return
        for folder in {os.path.dirname(path) for _, path in changes}:
            # A folder that is reported under another name than it was requested by concerns all places.
            self._notify(self._places_by_folder.get(folder, self._places))

    @staticmethod
    def _notify(places: Iterable[Place]) -> None:
        for place in places:
            place.notice()

    def _fail(self, error: Exception) -> None:
        """Continue without notifications for a while."""
        if self._failed_at is None:
            logger().warning("watch_polls", **failure_of(error))
        self._discard()
        self._failed_at = current_time()
        self._notify(self._places)

    def _discard(self) -> None:
        self._native = None  # closes itself when a thread that still uses it is done
        self._outdated = False

    def _close(self) -> None:
        """Stop all notifications."""
        self._discard()
        self._watched = frozenset()
        self._failed_at = None


_here: RunVar[Notices] = RunVar("treering.notices")


def here() -> Notices:
    """Return the notifications of the running event loop."""
    notices = _here.get(None)
    if notices is None:
        notices = Notices()
        _here.set(notices)
    return notices

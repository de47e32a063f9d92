"""What the operating system tells of folders, heard once for all watches of an event loop.

The system's notices take a descriptor or a few and a thread, so all watches share them: they are opened with the first watch
and closed with the last. They need no task of their own. Of the watches that wait, one listens, in a thread that it waits
for, and wakes those that are concerned; when it leaves, another one listens on.

A notice says when to look and nothing else. Whenever some may have been lost, every watch is told to look. Where none are
to be had, the watches look when their patience ends.
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
"""How many folders the system is asked about; what is in others is looked at only when a watch's patience ends."""

AGAIN_S = 60.0
"""After how many seconds notices are asked for again where there were none to be had."""

_STEP_MS = 5
_TOGETHER_MS = 20


class Place:
    """Where one watch waits.

    Attributes:
        folders: What it asks about.
        noticed: Something may have happened there since it waited last.
        woken: Wakes it while it waits and another one listens.
    """

    __slots__ = ("_notices", "folders", "noticed", "woken")

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.folders: frozenset[str] = frozenset()
        self.noticed = False
        self.woken: Event | None = None

    def ask(self, folders: frozenset[str]) -> None:
        """Ask about these folders, and no others, from the next wait on; it is told to look when that has begun."""
        if folders != self.folders:
            self._notices.ask(self, folders)

    async def wait(self, patience_s: float) -> None:
        """Wait until something may have happened since the last wait, or for so many seconds."""
        await self._notices.wait(self, patience_s)

    def notice(self) -> None:
        """Have it look."""
        self.noticed = True
        self.wake()

    def wake(self) -> None:
        """Have it see what there is to do, where it waits."""
        if self.woken is not None:
            self.woken.set()
            self.woken = None


class Notices:
    """The notices of one event loop; see `here`."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)  # the thread waits for long: it takes nobody else's place
        self._places: dict[Place, None] = {}
        self._asked: dict[str, set[Place]] = {}
        self._native: RustNotify | None = None
        self._watched: frozenset[str] = frozenset()
        self._outdated = False
        self._failed_at: float | None = None
        self._stop: threading.Event | None = None  # of the one that listens

    @contextmanager
    def place(self) -> Generator[Place]:
        """Give a watch a place to wait at."""
        place = Place(self)
        self._places[place] = None
        try:
            yield place
        finally:
            self.ask(place, frozenset())
            del self._places[place]
            if not self._places:
                self._close()

    def ask(self, place: Place, folders: frozenset[str]) -> None:
        """Have a place ask about folders, and about no others."""
        for folder in place.folders - folders:
            asking = self._asked[folder]
            asking.discard(place)
            if not asking:
                del self._asked[folder]
        for folder in folders - place.folders:
            self._asked.setdefault(folder, set()).add(place)
        place.folders = folders
        # Opening anew costs everybody a look, so folders that nobody asks about any more may stay for a while.
        full = len(self._watched) >= FOLDERS_MAX
        if len(self._watched) > 2 * len(self._asked) or not (full or folders <= self._watched):
            self._outdated = True
            if self._stop is not None:
                self._stop.set()

    async def wait(self, place: Place, patience_s: float) -> None:
        """Wait for a place; see `Place.wait`."""
        ends = current_time() + patience_s
        try:
            while not place.noticed and (left_s := ends - current_time()) > 0:
                if self._must_listen():
                    await self._listen(left_s)
                else:
                    place.woken = Event()
                    with move_on_after(left_s):
                        await place.woken.wait()
        finally:
            place.woken = None
            if self._must_listen():
                next((each for each in self._places if each.woken is not None), place).wake()
        place.noticed = False

    # -- listening

    def _must_listen(self) -> bool:
        """Tell whether there is something to listen to, or to open, and nobody does."""
        if self._failed_at is not None and current_time() >= self._failed_at + AGAIN_S:
            self._outdated = True
        return self._stop is None and (self._outdated or self._native is not None)

    async def _listen(self, patience_s: float) -> None:
        """Listen for all places, and wake those that are concerned."""
        self._stop = stop = threading.Event()
        try:
            if self._outdated:
                await checkpoint()  # those who begin at the same time are asked for together
                self._open()
            elif self._native is not None:
                wait_ms = max(1, int(patience_s * 1000))
                heard = await to_thread.run_sync(
                    self._native.watch,
                    _TOGETHER_MS,
                    _STEP_MS,
                    wait_ms,
                    stop,
                    limiter=self._limiter,
                    abandon_on_cancel=True,
                )
                self._tell(heard)
        except Exception as error:  # noqa: BLE001  # the watcher's own kinds of errors: looking does without it
            self._fail(error)
        except BaseException:
            self._outdated = True  # the thread that is left alone takes along what it hears
            raise
        finally:
            stop.set()
            self._stop = None

    def _open(self) -> None:
        """Ask the system about all folders that are asked about now; what happened before has to be looked for."""
        from watchfiles._rust_notify import RustNotify

        folders = [folder for folder in sorted(self._asked) if os.path.isdir(folder)][:FOLDERS_MAX]
        self._let_go()
        self._watched = frozenset(folders)
        self._notice(self._places)
        self._native = RustNotify(folders, False, False, 0, False, True)
        self._failed_at = None

    def _tell(self, heard: set[tuple[int, str]] | Literal["signal", "stop", "timeout"]) -> None:
        """Have those look who asked about the folders in which something happened."""
        if isinstance(heard, str):
            return
        for folder in {os.path.dirname(path) for _, path in heard}:
            self._notice(self._asked.get(folder, self._places))  # it may be called otherwise than it was asked about

    @staticmethod
    def _notice(places: Iterable[Place]) -> None:
        for place in places:
            place.notice()

    def _fail(self, error: Exception) -> None:
        """Do without notices for a while."""
        if self._failed_at is None:
            logger().warning("watch_polls", **failure_of(error))
        self._let_go()
        self._failed_at = current_time()
        self._notice(self._places)

    def _let_go(self) -> None:
        self._native = None  # it closes itself when the thread that may still be in it is through
        self._outdated = False

    def _close(self) -> None:
        """Ask the system about nothing."""
        self._let_go()
        self._watched = frozenset()
        self._failed_at = None


_here: RunVar[Notices] = RunVar("treering.notices")


def here() -> Notices:
    """Return the notices of the event loop that is running."""
    notices = _here.get(None)
    if notices is None:
        notices = Notices()
        _here.set(notices)
    return notices

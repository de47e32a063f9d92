"""Which files of some folders changed, as the operating system tells it.

Notifications only say where it is time to look. Where there are none, because there are too many folders, or the system
has no more of them, everything is looked at every now and then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, current_time, sleep, to_thread

from ...events.telemetry import failure_of, logger

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

FOLDERS_MAX = 2048
"""How many folders are watched at most."""

LOOKS_EVERY_S = 60.0
"""After how many seconds everything is looked at, in case that a notification was lost."""

POLLS_EVERY_S = 2.0
"""After how many seconds everything is looked at where there are no notifications, or too few."""

_STEP_MS = 5
_DEBOUNCE_MS = 20


class FolderWatch:
    """The changes in some folders, not in those below them."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)  # the thread blocks for long, so it must not count against the default limit
        self._native: RustNotify | None = None
        self._watched: frozenset[str] = frozenset()
        self._is_partial = self._is_failing = False
        self._look_at = 0.0

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch these folders, the most important first; return whether others were watched before.

        What changed before that is not told.
        """
        wanted = [each for each in folders if _is_utf8(each)]
        first = frozenset(wanted[:FOLDERS_MAX])
        if first == self._watched and self._native is not None:
            return False
        self._is_partial = len(wanted) > len(first)
        self._look_at = current_time() + (POLLS_EVERY_S if self._is_partial else LOOKS_EVERY_S)
        self._watched = first
        try:
            from watchfiles._rust_notify import RustNotify

            self._native = RustNotify([*first], False, False, 0, False, True)
            self._is_failing = False
        except Exception as error:  # noqa: BLE001  # the watcher has its own error types, and looking works without it
            self._fail(error)
        return True

    async def changes(self, within_s: float) -> set[str] | None:
        """Wait until something may have changed; return the paths, none after a time, or None if it may be anything."""
        left_s = self._look_at - current_time()
        if left_s > 0:
            left_s = min(left_s, within_s)
        else:
            self._look_at = current_time() + (LOOKS_EVERY_S if self._is_complete else POLLS_EVERY_S)
            return None
        if self._native is None:
            await sleep(left_s)
            return set()
        stop = threading.Event()
        try:
            found = await to_thread.run_sync(
                self._native.watch,
                _DEBOUNCE_MS,
                _STEP_MS,
                max(1, int(left_s * 1000)),
                stop,
                limiter=self._limiter,
                abandon_on_cancel=True,
            )
        except Exception as error:  # noqa: BLE001  # see `watch`
            self._fail(error)
            return None
        except BaseException:
            self._native = None  # the notifications that the abandoned thread receives are lost
            self._look_at = 0.0
            raise
        finally:
            stop.set()
        return set() if isinstance(found, str) else {path for _, path in found}

    @property
    def _is_complete(self) -> bool:
        return self._native is not None and not self._is_partial

    def _fail(self, error: Exception) -> None:
        """Go on without notifications, until folders are watched again."""
        if not self._is_failing:
            logger().warning("watch_polls", **failure_of(error))
        self._is_failing = True
        self._native = None
        self._look_at = current_time() + POLLS_EVERY_S


def _is_utf8(path: str) -> bool:
    """Tell whether a path is UTF-8; Python keeps other bytes of a path as surrogates."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True

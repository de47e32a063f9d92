"""What every actor of a host shares: the seams, the bounds, the counters.

The seams (clock, id source, disk, offload) are given by the program, so that a test or a simulation can hold all of
time, chance and disk in its hands.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec import Struct

from ..events.offload import Offload
from ..events.stores.base import Store
from .bodies import BodyCache
from .bounds import check_bounds
from .statistics import Counters
from .touched import Touched

Clock: TypeAlias = Callable[[], datetime]
"""Tells the time, in UTC."""

NewId: TypeAlias = Callable[[], str]
"""Gives a fresh uuid4 as a string of 36 characters."""


_IDS_AT_ONCE = 64
_FIXED_BITS = int.from_bytes(bytes.fromhex("ffffffffffff0fff3fffffffffffffff") * _IDS_AT_ONCE)
_VERSION_4 = int.from_bytes(bytes.fromhex("00000000000040008000000000000000") * _IDS_AT_ONCE)
_DIGITS = re.compile(
    "(.{4})-(.{24})-(.{4})-(.{4})"
)  # of an id, in groups of four: those in the middle keep their dashes


class SystemClock:
    """Tells the system's time, to the millisecond; all calls within one share a value."""

    __slots__ = ("_last", "_last_ms")

    def __init__(self) -> None:
        self._last_ms = 0
        self._last = datetime.fromtimestamp(0, UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        now_ms = time.time_ns() // 1_000_000
        if now_ms != self._last_ms:
            self._last = datetime.fromtimestamp(now_ms / 1000, UTC)
            self._last_ms = now_ms  # last, since hosts of other threads look at it
        return self._last


system_clock = SystemClock()
"""The clock of a host that is given none."""


class RandomIds:
    """Gives fresh uuid4 strings (RFC 9562, section 5.4), a good deal faster than the standard library makes them.

    The operating system's randomness is fetched for many ids at once, and forgotten by the child of a fork.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self) -> str:
        """Return a fresh uuid4."""
        try:
            return self._ids.pop()
        except IndexError:
            self._ids = ids = _random_ids()
            return ids.pop()

    def forget(self) -> None:
        """Fetch anew for the next id."""
        self._ids = []


def _random_ids() -> list[str]:
    """Return some uuid4 strings, all of one fetch."""
    size = 16 * _IDS_AT_ONCE
    bits = int.from_bytes(os.urandom(size)) & _FIXED_BITS | _VERSION_4
    return list(map("".join, _DIGITS.findall(bits.to_bytes(size).hex("-", 2))))


random_id = RandomIds()
"""The id source of a host that is given none."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=random_id.forget)


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a host. Every queue and cache has one, and reaching it makes callers wait or memory be let go.

    Attributes:
        mailbox_max: Commands that may wait in one session; more senders wait.
        batch_max: Commands that are written in one go.
        live_max: Sessions that are kept active; the least recently used idle ones beyond are passivated.
        idle_after_s: Seconds without a command after which a session is passivated.
        feed_events_max: Events that a feed keeps for slow subscribers before they read from the log.
        feed_bytes_max: Bytes of lines that a feed keeps.
        cache_bytes_max: Bytes of lines whose entries are kept decoded, over all sessions.
        snapshot_after_lines: Lines that a log must have grown by before passivation rewrites its snapshot; of a long
            log, a hundredth of its lines.
        inline_for_s: Seconds that commands may run to completion on their callers' tasks before the loop gets its turn.
    """

    mailbox_max: int = 1024
    batch_max: int = 1024
    live_max: int = 10_000
    idle_after_s: float = 60.0
    feed_events_max: int = 1024
    feed_bytes_max: int = 8 * 1024 * 1024
    cache_bytes_max: int = 64 * 1024 * 1024
    snapshot_after_lines: int = 100
    inline_for_s: float = 0.0002

    def __post_init__(self) -> None:
        """Refuse bounds that nothing would ever get through.

        Raises:
            InvalidInput: One is no number, or too small.
        """
        check_bounds(self, dict.fromkeys(self.__struct_fields__, 1) | _LEAST)


_LEAST = {"idle_after_s": 1e-6, "cache_bytes_max": 0, "snapshot_after_lines": 0, "inline_for_s": 0}
"""The least that a bound may be, where that is not 1."""


class Runtime:
    """The seams, bounds and counters that a host hands to its actors.

    Attributes:
        spawn: Starts a task in the host's task group.
        touched: Which logs were written to, for whoever follows the listing.
        turn_at: When (on `timer`) the event loop last had its turn, as far as inline commands know.
    """

    __slots__ = (
        "bodies",
        "clock",
        "counters",
        "limits",
        "new_id",
        "offload",
        "owner",
        "spawn",
        "store",
        "timer",
        "touched",
        "turn_at",
    )

    def __init__(
        self,
        *,
        store: Store,
        owner: str,
        clock: Clock,
        new_id: NewId,
        offload: Offload,
        limits: Limits,
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.store = store
        self.owner = owner
        self.clock = clock
        self.new_id = new_id
        self.offload = offload
        self.limits = limits
        self.spawn = spawn
        self.timer = timer
        self.bodies = BodyCache(limits.cache_bytes_max)
        self.counters = Counters()
        self.touched = Touched()
        self.turn_at = timer()

    def now(self) -> datetime:
        """Return the clock's time, to the millisecond that every dialect can write."""
        now = self.clock()
        rest = now.microsecond % 1000
        return now.replace(microsecond=now.microsecond - rest) if rest else now

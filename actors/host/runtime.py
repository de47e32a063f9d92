"""What all actors of a host share: the seams, the bounds, the counters, the logs that were written to.

The program provides the seams (clock, id source, disk, offload), so that a test or a simulation can control time,
randomness and the disk.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio
from msgspec import Struct

from ...events.errors import InvalidInput
from ...events.offload import Offload, after_fork_in_child, run_inline
from ...events.stores.base import Ref, Store
from ...events.stores.capabilities import (
    AppendsAtOnce,
    Leases,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    NeverBlocks,
    Packs,
    ScansChanges,
    Watches,
)
from ..commands import Decision
from ..log.bodies import BodyCache
from ..log.whole_logs import WholeLogs
from .turns import Turns

Clock: TypeAlias = Callable[[], datetime]
"""Returns the time, in UTC."""

NewId: TypeAlias = Callable[[], str]
"""Returns a fresh uuid4 as a string of 36 characters."""


_IDS_AT_ONCE = 128
_FORM = b"xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx "
_STRIDE = len(_FORM)
_DIGIT_COLUMNS = [column for column, char in enumerate(_FORM) if char not in b"- "]
_VERSION_COLUMN = _FORM.index(b"4")
_VARIANT_COLUMN = _FORM.index(b"y")
_TO_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


_latest = [(0, datetime.fromtimestamp(0, UTC))]
"""The latest millisecond for which `system_clock` made a time, and that time; a list, to be replaced in one step."""


def system_clock() -> datetime:
    """Return the system's time to the millisecond; calls within one millisecond share a value."""
    latest_ms, now = _latest[0]
    now_ms = time.time_ns() // 1_000_000
    if now_ms != latest_ms:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        _latest[0] = (now_ms, now)  # hosts in other threads read it
    return now


_prepared_ids: list[str] = []


def random_id() -> str:
    """Return a fresh uuid4 (RFC 9562, section 5.4), much faster than the standard library.

    Random bytes of the operating system are fetched for many ids at once, and discarded in the child process of a fork.
    """
    try:
        return _prepared_ids.pop()
    except IndexError:
        first, *others = _several_ids()
        _prepared_ids.extend(others)
        return first


def _several_ids() -> list[str]:
    """Return fresh ids, made together: each column of digits is set for all of them in one step."""
    digits = os.urandom(16 * _IDS_AT_ONCE).hex().encode()
    text = bytearray(_FORM * _IDS_AT_ONCE)
    for place, column in enumerate(_DIGIT_COLUMNS):
        text[column::_STRIDE] = digits[place::32]
    text[_VERSION_COLUMN::_STRIDE] = b"4" * _IDS_AT_ONCE
    text[_VARIANT_COLUMN::_STRIDE] = text[_VARIANT_COLUMN::_STRIDE].translate(_TO_VARIANT)
    return text.decode().split()


after_fork_in_child(_prepared_ids.clear)


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a host. Every queue and cache has one; reaching it makes callers wait or frees memory.

    Attributes:
        mailbox_max: Commands that may wait in one session; further senders wait.
        batch_max: Commands that are written in one call.
        live_max: Sessions that are kept active; beyond that, the least recently used idle ones are passivated.
        idle_after_s: Seconds without a command or a read after which a session is passivated.
        locked_wait_s: Seconds for which a session is waited for that another process has locked.
        feed_events_max: Events that a feed keeps for slow subscribers before they read from the log.
        feed_bytes_max: Bytes of lines that a feed keeps.
        cache_bytes_max: Bytes of lines whose entries are kept decoded, over all sessions; those of a context that is
            kept count again.
        snapshot_after_lines: Lines by which a log must have grown before passivation rewrites its snapshot; for a long
            log, a hundredth of its lines.
        inline_for_s: Seconds for which commands may run on their callers' tasks before the event loop serves everything
            else; up to a millisecond as long as nothing else needs it.
    """

    mailbox_max: int = 1024
    batch_max: int = 1024
    live_max: int = 10_000
    idle_after_s: float = 60.0
    locked_wait_s: float = 0
    feed_events_max: int = 1024
    feed_bytes_max: int = 8 * 1024 * 1024
    cache_bytes_max: int = 64 * 1024 * 1024
    snapshot_after_lines: int = 100
    inline_for_s: float = 0.00006

    def __post_init__(self) -> None:
        """Refuse bounds that would let nothing through.

        Raises:
            InvalidInput: A bound is not a number, or too small.
        """
        check_bounds(self, dict.fromkeys(self.__struct_fields__, 1) | _LEAST)


_LEAST = {"idle_after_s": 1e-6, "locked_wait_s": 0, "cache_bytes_max": 0, "snapshot_after_lines": 0, "inline_for_s": 0}
"""The minimum of a bound where that is not 1."""


class TracesWrites(Protocol):
    """What is told of each write."""

    def written(self, group: Sequence[Decision], started: float) -> None:
        """Note that commands were written together, in a write that began at this time of the host's timer."""
        ...


class Runtime:
    """The seams, bounds and counters that a host hands to its actors.

    Attributes:
        now: Returns the time of the program's clock, in whole milliseconds.
        spawn: Starts a task in the host's task group.
        blocking: Runs calls of the store that may block; what takes the processor long goes through `offload`.
        lost: Called when it shows that another host took a log that this one held.
        moves: Packs, writes and deletes whole logs, and tells readers where a log is now.
        touched: The logs that were written to, for subscribers of the listing.
        tracing: What is told of each write, if anything.
        turns: Decides how long commands may run on their callers' tasks.
        append_turns: The same for appends. If the store never appends at once, their turns do not end: a task whose
            append waits for the store lets others go on, and the store gathers the appends that wait.
    """

    __slots__ = (
        "append_turns",
        "blocking",
        "bodies",
        "counters",
        "files",
        "leases",
        "limits",
        "looks",
        "lost",
        "new_id",
        "now",
        "offload",
        "owner",
        "packs",
        "places",
        "scans",
        "spawn",
        "store",
        "timer",
        "touched",
        "tracing",
        "turns",
        "watches",
        "whole_logs",
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
    ) -> None:
        self.store = store
        self.owner = owner
        self.now = clock if clock is system_clock else partial(_in_whole_ms, clock)
        self.new_id = new_id
        self.offload = offload
        self.blocking = offload if store.capability(NeverBlocks) is None else run_inline
        self.limits = limits
        self.spawn = spawn
        self.timer = time.perf_counter
        self.bodies = BodyCache(limits.cache_bytes_max)
        self.counters = Counters()
        self.whole_logs = WholeLogs(store)
        self.touched = Touched()
        self.tracing: TracesWrites | None = None
        self.turns = self.append_turns = Turns(limits.inline_for_s, self.timer)
        self.files = store.capability(NamesFiles)
        self.leases = store.capability(Leases)
        self.lost: Callable[[Ref], None] = _nobody
        self.looks = store.capability(LooksAtOnce)
        self.packs = store.capability(Packs)
        self.places = store.capability(NamesPlaces)
        self.scans = store.capability(ScansChanges)
        self.watches = store.capability(Watches)
        if store.capability(AppendsAtOnce) is None:
            self.append_turns = Turns(math.inf, self.timer)


def _nobody(_: Ref) -> None:
    """Tell nobody, before there is a registry."""


def _in_whole_ms(clock: Clock) -> datetime:
    """Return a clock's time, to the millisecond that every dialect can write."""
    now = clock()
    excess_us = now.microsecond % 1000
    return now.replace(microsecond=now.microsecond - excess_us) if excess_us else now


def check_bounds(settings: Struct, least: Mapping[str, float], *, may_be_none: Collection[str] = ()) -> None:
    """Refuse settings that are not numbers, or too small.

    Args:
        settings: The program's settings. A field whose name ends with `_s` counts seconds, and may be a fraction.
        least: The minimum of each field; other fields are not checked.
        may_be_none: The fields that may be None, which means no bound.

    Raises:
        InvalidInput: A setting is not a number, or too small.
    """
    for name, smallest in least.items():
        bound: object = getattr(settings, name)
        if bound is None and name in may_be_none:
            continue
        accepted_types = (int, float) if name.endswith("_s") else int
        if not isinstance(bound, accepted_types) or isinstance(bound, bool) or not bound >= smallest:
            raise InvalidInput(f"`{name}` cannot be {bound!r}: give a number of {smallest} or more")


class Touched:
    """The logs that were written to, for subscribers of the listing.

    Attributes:
        listeners: For each subscriber, the names of the changed logs, each once, in the order of their first change.
        watchers: The same for those who also want to know of sessions that were activated or passivated.
        closed: Whether nothing will be written any more.
    """

    __slots__ = ("_event", "closed", "listeners", "watchers")

    def __init__(self) -> None:
        self.listeners: list[dict[Ref, None]] = []
        self.watchers: list[dict[Ref, None]] = []
        self.closed = False
        self._event: anyio.Event | None = None

    def add(self, ref: Ref) -> None:
        """Note that a log was written to, or removed."""
        for listener in self.listeners:
            listener[ref] = None
        if self._event is not None:
            self.wake()

    def stir(self, ref: Ref) -> None:
        """Note that a session was activated or passivated."""
        if self.watchers:
            for watcher in self.watchers:
                watcher[ref] = None
            self.wake()

    def close(self) -> None:
        """Let the subscribers read what is there, and then end."""
        self.closed = True
        self.wake()

    async def wait(self) -> None:
        """Wait for the next log that is written to."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

    def wake(self) -> None:
        """Wake the waiting subscribers, even if no log was written to."""
        if self._event is not None:
            self._event.set()
            self._event = None


class Latency(Struct, frozen=True):
    """Commit latency in seconds: the time from deciding a batch until it is as durable as promised."""

    p50_s: float
    p99_s: float


class SessionStatistics(Struct, frozen=True):
    """Figures of one live session: how many commands wait, how many subscribers it has, and the lag of the slowest."""

    session_id: str
    mailbox_depth: int
    head: int
    subscribers: int
    lag_max: int


class HostStatistics(Struct, frozen=True):
    """Figures of a host since it was opened.

    `live` sessions hold their index in memory; `passivated` and `activated` count how often a session was passivated
    and activated. `appends` counts entries, `batches` writes, `bytes` the size of the writes.
    """

    live: int
    activated: int
    passivated: int
    appends: int
    batches: int
    bytes: int
    failures: int
    commit: Latency
    subscribers: int
    sessions: tuple[SessionStatistics, ...]


class Counters:
    """Running counts of a host. Latencies are counted in buckets that double in width, starting at one microsecond."""

    __slots__ = ("activated", "appends", "buckets", "bytes", "failures", "passivated")

    def __init__(self) -> None:
        self.activated = 0
        self.passivated = 0
        self.appends = 0
        self.bytes = 0
        self.failures = 0
        self.buckets = [0] * 64  # enough for any number of microseconds

    def committed(self, entries: int, size: int, seconds: float) -> None:
        """Count one write."""
        self.appends += entries
        self.bytes += size
        self.buckets[int(seconds * 1e6).bit_length()] += 1

    @property
    def batches(self) -> int:
        """How many writes were counted."""
        return sum(self.buckets)

    def latency(self) -> Latency:
        """Return the commit latency, each figure as the upper end of its bucket."""
        return Latency(self._quantile(0.50), self._quantile(0.99))

    def _quantile(self, share: float) -> float:
        rank = share * self.batches
        seen = 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if count and seen >= rank:
                return 2.0**bucket / 1e6
        return 0.0

"""Figures about a host: what it did, how long commits took, how many subscribers there are."""

from __future__ import annotations

from msgspec import Struct


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

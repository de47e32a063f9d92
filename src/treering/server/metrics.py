"""The figures of a server: its own, and those of its host, in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from ..actors.host.host import SessionHost

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one server. None is labelled with a session, a key or a principal.

    Args:
        host: The host.
    """

    def __init__(self, host: SessionHost) -> None:
        self._registry = CollectorRegistry()
        self.streams = Gauge("treering_http_streams", "Streams that are open.", registry=self._registry)
        self.abandoned = Counter(
            "treering_http_searches_abandoned", "Searches and waiting reads whose reader left.", registry=self._registry
        )
        self.connections = Gauge("treering_http_connections", "Connections that are open.", registry=self._registry)
        self.dropped = Counter(
            "treering_http_streams_dropped",
            "Streams and replies whose reader accepted nothing.",
            registry=self._registry,
        )
        self.errors = Counter("treering_errors", "Errors by class.", ("error",), registry=self._registry)
        self.disk = Gauge("treering_disk_ready", "Whether sessions can be read and written.", registry=self._registry)
        self._registry.register(_HostCollector(host))
        self._routes: dict[str, _Answered] = {}
        self._registry.register(_RequestCollector(self._routes))

    def answered(self, route: str, status: int, duration_s: float | None) -> None:
        """Count a request, and its time unless it was a stream."""
        known = self._routes.get(route)
        if known is None:
            known = self._routes[route] = _Answered()
        known.statuses[status] = known.statuses.get(status, 0) + 1
        if duration_s is not None:
            known.buckets[bisect_left(_SECONDS, duration_s)] += 1
            known.seconds += duration_s

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self._registry)


class _Answered:
    """How often each status of a route was answered, and within how many seconds; plain numbers, for each request."""

    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.buckets = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0


class _RequestCollector(Collector):
    """The figures of requests."""

    def __init__(self, routes: Mapping[str, _Answered]) -> None:
        self._routes = routes

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "treering_http_requests", "Requests that were answered.", labels=("route", "status")
        )
        seconds = HistogramMetricFamily(
            "treering_http_request_seconds", "Seconds until a request was answered.", labels=("route",)
        )
        for route, answered in self._routes.items():
            for status, count in answered.statuses.items():
                requests.add_metric((route, str(status)), count)
            counts = list(zip((*map(str, _SECONDS), "+Inf"), accumulate(answered.buckets), strict=True))
            if counts[-1][1]:
                seconds.add_metric((route,), counts, answered.seconds)
        yield requests
        yield seconds


class _HostCollector(Collector):
    """The figures of a host, read when they are asked for."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    def describe(self) -> Iterator[Metric]:
        return iter(())  # collecting at registration would ask a host that may not be open yet

    def collect(self) -> Iterator[Metric]:
        figures = self._host.statistics()
        for name, help_text, value in (
            ("treering_appends", "Entries that were appended.", figures.appends),
            ("treering_batches", "Writes.", figures.batches),
            ("treering_written_bytes", "Bytes that were written.", figures.bytes),
            ("treering_failures", "Writes that failed.", figures.failures),
            ("treering_activations", "Sessions that were activated.", figures.activated),
            ("treering_passivations", "Sessions that were passivated.", figures.passivated),
        ):
            yield CounterMetricFamily(name, help_text, value)
        lag_max = max((each.lag_max for each in figures.sessions), default=0)
        depths = [each.mailbox_depth for each in figures.sessions]
        gauges: tuple[tuple[str, str, float], ...] = (
            ("treering_sessions_live", "Sessions whose index is in memory.", figures.live),
            ("treering_subscribers", "Subscriptions that are open.", figures.subscribers),
            ("treering_lag_max", "Events that the slowest subscriber has not read.", lag_max),
            ("treering_mailbox_depth", "Commands that wait.", sum(depths)),
            ("treering_mailbox_depth_max", "Commands that wait in the fullest mailbox.", max(depths, default=0)),
            ("treering_commit_p50_seconds", "Half of all commits took no longer.", figures.commit.p50_s),
            ("treering_commit_p99_seconds", "99 of 100 commits took no longer.", figures.commit.p99_s),
        )
        for name, help_text, level in gauges:
            yield GaugeMetricFamily(name, help_text, level)

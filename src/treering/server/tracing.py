"""Spans of requests, of what they write and of what streams deliver; imported only where OpenTelemetry is installed.

A request continues the trace of the program that it is mounted in, or else the one that its `traceparent` names. What
an append writes is a child of its request, also where one write carries the appends of several, and so is each delivery
of its entries to a stream. Little is done as long as no program has set up a provider.

No span holds content, a token, or the id of a session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..actors.commands import Decision
from ..events.entries import Entry

_REMEMBERED_MAX = 4096
"""Entries whose append is remembered for the streams that deliver them."""

_PARENT = (b"traceparent", b"tracestate")
_NS = 1_000_000_000


class Begun(NamedTuple):
    """The span of a request, and what makes the span before it the current one again."""

    span: Span
    token: Token[Context]


class Tracing:
    """The spans of a host and of the applications that serve it.

    Args:
        timer: The clock by which the host times its writes, in seconds.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self._tracer = trace.get_tracer("treering.server")
        self._timer = timer
        self._is_recording = False  # whether any request was recorded yet
        self._appends: dict[str, Context] = {}  # by the id of an entry

    @property
    def remembered(self) -> int:
        """How many entries are remembered."""
        return len(self._appends)

    def begin(self, method: str, route: str, headers: Mapping[bytes, bytes]) -> Begun | None:
        """Begin the span of a request and make it the current one; return None if nobody records it."""
        parent = None
        if b"traceparent" in headers and not trace.get_current_span().get_span_context().is_valid:
            sent = {name.decode(): headers[name].decode("latin-1") for name in _PARENT if name in headers}
            parent = TraceContextTextMapPropagator().extract(sent)
        span = self._tracer.start_span(f"{method} {route}", parent, SpanKind.SERVER)
        if not span.is_recording():
            return None
        self._is_recording = True
        span.set_attributes({"http.request.method": method, "http.route": route})
        return Begun(span, attach(trace.set_span_in_context(span)))

    def end(self, begun: Begun, status: int) -> None:
        """End the span of a request that was answered with this status."""
        detach(begun.token)
        begun.span.set_attribute("http.response.status_code", status)
        if status >= 500:
            begun.span.set_status(StatusCode.ERROR)
        begun.span.end()

    def written(self, group: Sequence[Decision], started: float) -> None:
        """Note a write that began at this time of the host's timer and has just been committed."""
        if not self._is_recording:
            return
        ended_ns = time.time_ns()
        begun_ns = ended_ns - int((self._timer() - started) * _NS)
        for decision in group:
            mail = decision.mail
            parent = trace.get_current_span() if mail is None else mail.context.run(trace.get_current_span)
            if not parent.is_recording():
                continue
            context = trace.set_span_in_context(parent)
            figures = {"treering.entries": len(decision.entries), "treering.commands_in_write": len(group)}
            span = self._tracer.start_span("treering write", context, attributes=figures, start_time=begun_ns)
            span.end(ended_ns)
            for entry_id in decision.ids:
                self._appends[entry_id] = context
        while len(self._appends) > _REMEMBERED_MAX:
            del self._appends[next(iter(self._appends))]

    def delivered(self, entries: Iterable[Entry], begun_ns: int) -> None:
        """Note that a stream has sent entries, which it began to do at this time."""
        if not self._appends:
            return
        for entry in entries:
            context = self._appends.get(entry.id or "")
            if context is not None:
                self._tracer.start_span("treering deliver", context, start_time=begun_ns).end()

"""What streams and pages of `treering serve` cost: the time from an append to its receipt, the memory of a stream that
waits, and a page of the listing beside the library's own call."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from treering import SessionHost

from .http import ask, entry, reply_of, request, served

FOLLOWERS = 100
APPENDS_PER_S = 200
IDLE_STREAMS = 500
SESSIONS = 10_000
PAGE = 100


async def receipt_p99_s(space: Path, appends: int = 1000) -> float:
    """Return the 99th percentile of the time from sending an append until each of 100 idle followers has the entry."""
    sent: list[float] = []
    waits: list[float] = []

    async def follow(stream: SocketStream) -> None:
        seen, rest = 0, b""
        while seen < appends:
            data = rest + await stream.receive(1 << 16)
            now = time.perf_counter()
            for _ in range(data.count(b"\nevent: entry")):
                waits.append(now - sent[seen])
                seen += 1
            rest = data[-12:] if not data.endswith(b"\n\n") else b""

    async with served("treering", str(space / "receipt")) as server:
        await ask(server.port, b"POST", "/v1/sessions", b'{"id":"a"}')
        async with anyio.create_task_group() as tasks, followers(server.port, "a", FOLLOWERS) as streams:
            for stream in streams:
                tasks.start_soon(follow, stream)
            async with await anyio.connect_tcp("127.0.0.1", server.port) as writer:
                begun = time.perf_counter()
                for number in range(appends):
                    await anyio.sleep(max(0.0, begun + number / APPENDS_PER_S - time.perf_counter()))
                    sent.append(time.perf_counter())
                    await writer.send(request(b"POST", "/v1/sessions/a/entries", entry(100)))
                    await reply_of(writer)
            while len(waits) < appends * FOLLOWERS:  # noqa: ASYNC110  # the followers only count
                await anyio.sleep(0.01)
    return statistics.quantiles(waits, n=100)[98]


async def idle_stream_bytes(kind: str, space: Path) -> float:
    """Return how much memory of a server a stream takes that waits; see `bench.served` for the kinds."""
    async with served(kind, str(space / "idle")) as server:
        if kind == "treering":
            await ask(server.port, b"POST", "/v1/sessions", b'{"id":"a"}')
        async with followers(server.port, "a", 10):
            before = rss_of(server.pid)
            async with followers(server.port, "a", IDLE_STREAMS):
                return (rss_of(server.pid) - before) / IDLE_STREAMS


def rss_of(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@asynccontextmanager
async def followers(port: int, session_id: str, count: int) -> AsyncIterator[list[SocketStream]]:
    """Open streams of a session, each of which has begun."""
    streams: list[SocketStream] = []
    try:
        for _ in range(count):
            stream = await anyio.connect_tcp("127.0.0.1", port)
            streams.append(stream)
            await stream.send(request(b"GET", f"/v1/sessions/{session_id}/events?since=end", b""))
            await stream.receive()
        yield streams
    finally:
        for stream in streams:
            await stream.aclose()


async def page_seconds(space: Path, rounds: int = 30) -> tuple[float, float]:
    """Return how long a page of 100 of 10,000 sessions takes over HTTP, and how long by the library; the medians."""
    root = space / "page"
    async with SessionHost(root) as host:
        for number in range(SESSIONS):
            await (await host.create(f"s{number}")).append_message("user", f"Question {number}")
        await host.list_sessions(limit=PAGE)
        library: list[float] = []
        for _ in range(rounds):
            begun = time.perf_counter()
            await host.list_sessions(limit=PAGE)
            library.append(time.perf_counter() - begun)
    over_http: list[float] = []
    async with served("treering", str(root)) as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        for _ in range(rounds + 3):
            begun = time.perf_counter()
            await stream.send(request(b"GET", f"/v1/sessions?limit={PAGE}", b""))
            await reply_of(stream)
            over_http.append(time.perf_counter() - begun)
    return statistics.median(over_http[3:]), statistics.median(library) or math.nan

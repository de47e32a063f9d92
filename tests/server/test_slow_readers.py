"""A reader that reads nothing costs the server a bound and the writers nothing, is dropped, and resumes."""

import socket
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest

from treering import Cursor, Limits, SessionHost
from treering.events.disk.disk import OsDisk
from treering.server import ServerLimits
from treering.testing.disks import WrappedDisk

from .conftest import Client, Serve

MEMORY_MAX = 8 * 1024 * 1024
LIMITS = Limits(cache_bytes_max=1024 * 1024, feed_bytes_max=1024 * 1024, feed_events_max=256)


class LogDisk(WrappedDisk):
    """Counts the calls that change logs."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.changes: Counter[str] = Counter()

    def on_call(self, call: str, *paths: str) -> None:
        names = {path.rpartition("/")[2] for path in paths}
        if call in ("write", "datasync", "truncate", "rename") and names & {"quiet.jsonl", "watch.jsonl"}:
            self.changes[call] += 1


async def append(host: SessionHost, session_id: str, count: int, text: str) -> None:
    session = await host.load(session_id)
    for number in range(count):
        await session.append_message("user", f"{number} {text}")


async def work(disk: LogDisk, host: SessionHost, session_id: str, count: int, text: str) -> tuple[Counter[str], int]:
    """Append; return how often a log was changed for it, and the most memory that it took."""
    disk.changes.clear()
    tracemalloc.start()
    try:
        await append(host, session_id, count, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Counter(disk.changes), peak


async def prove(root: Path, served: Serve, count: int, size: int) -> None:
    """Append so many entries of a size while one reader reads nothing, and let it resume."""
    disk, text = LogDisk(), "x" * size
    limits = ServerLimits(send_for_s=0.5)
    async with SessionHost(root, disk=disk, limits=LIMITS) as host, served(host, limits=limits) as client:
        for name in ("quiet", "watch"):
            await (await host.create(name)).append_message("user", "first")
        alone, peak_alone = await work(disk, host, "quiet", count, text)
        async with await connected(client) as stream:
            await stream.send(b"GET /v1/sessions/watch/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            received = await stream.receive()
            beside, peak = await work(disk, host, "watch", count, text)
            assert beside == alone == {"write": count}, "the writer does what it does when nobody watches"
            assert peak < peak_alone + MEMORY_MAX, "the server keeps a bound, not the backlog"
            assert count * size > MEMORY_MAX
            while "dropped_total 1.0" not in client.application.service.metrics.text().decode():
                await anyio.lowlevel.checkpoint()
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    received += await stream.receive()
        assert host.statistics().subscribers == 0
        whole = [part for part in received.split(b"\n\n") if b"event: entry" in part and b"data: {" in part][:-1]
        last = whole[-1].split(b"id: ")[1].split(b"\n")[0].decode()
        seen = Cursor.parse(last).seq
        assert 1 <= seen < count
        seqs: list[int] = []
        while seqs[-1:] != [count + 1]:  # again, where the machine is so busy that this one, too, is dropped
            before = len(seqs)
            with suppress(httpx2.RemoteProtocolError):
                path = "/v1/sessions/watch/events?live=false"
                async with client.follow(path, headers={"Last-Event-ID": last}) as events:
                    async for event in events:
                        seqs.append(event.data["seq"])
                        last = event.id or ""
            assert len(seqs) > before, "each time it gets on"
        assert seqs == [*range(seen + 1, count + 2)]


async def connected(client: Client) -> anyio.abc.SocketStream:
    """Return a connection whose receiving side takes little."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await anyio.to_thread.run_sync(raw.connect, client.address)
    raw.setblocking(False)
    return await anyio.abc.SocketStream.from_socket(raw)


async def test_a_reader_that_reads_nothing_is_dropped_and_resumes(tmp_path: Path, served: Serve) -> None:
    await prove(tmp_path, served, 2000, 5000)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-18")
async def test_one_that_reads_nothing_for_a_hundred_thousand_entries(tmp_path: Path, served: Serve) -> None:
    await prove(tmp_path, served, 100_000, 1000)

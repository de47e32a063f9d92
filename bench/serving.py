"""What HTTP costs: appends and followers of `treering serve`, beside a program on the same server that keeps nothing.

Rounds of both sides alternate, each side is its median, and the figures are ratios of one run. The client shares the
machine's cores with the servers.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import click
import msgspec
from anyio.abc import SocketStream
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from .served import ENTRIES
from .workspace import Workspace

_CONNECTIONS = 8
_FOLLOWERS = 100
_BODY = msgspec.json.encode(
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": {"content": "x" * 900}}]}}
)
_BURST = msgspec.json.encode(
    {"entries": [{"type": "message", "message": {"role": "user", "content": "x" * 100}}] * ENTRIES}
)


class Comparison(Struct):
    """A figure of both sides, more being better."""

    what: str
    unit: str
    treering: float
    constant: float

    @property
    def ratio(self) -> float:
        """Treering's share of the program that keeps nothing."""
        return self.treering / self.constant


async def measure(space: Path, rounds: int = 5, appends: int = 2000, bursts: int = 50) -> list[Comparison]:
    """Return the figures.

    Args:
        space: A folder for the sessions.
        rounds: How often each is measured.
        appends: The appends of a round.
        bursts: The bursts of a round.
    """
    async with _served("treering", str(space / "served")) as ours, _served("constant", "") as constant:
        await _ask(ours, b"POST", "/v1/sessions", b'{"id":"a"}')
        await _ask(ours, b"POST", "/v1/sessions", b'{"id":"b"}')
        append = await _alternate(rounds, ours, constant, lambda port: _append(port, appends))
        fan_out = await _alternate(rounds, ours, constant, lambda port: _fan_out(port, bursts, port == ours))
    return [
        Comparison(f"appends of 1 KB over {_CONNECTIONS} connections", "requests/s", *append),
        Comparison(f"bursts of {ENTRIES} entries to {_FOLLOWERS} followers", "entries/s", *fan_out),
    ]


async def _alternate(
    rounds: int, ours: int, constant: int, run: Callable[[int], Awaitable[float]]
) -> tuple[float, float]:
    """Return the medians of both sides, whose rounds alternate; the first of each only warms up."""
    figures: dict[int, list[float]] = {ours: [], constant: []}
    for _ in range(rounds + 1):
        for port in (ours, constant):
            figures[port].append(await run(port))
    return statistics.median(figures[ours][1:]), statistics.median(figures[constant][1:])


@asynccontextmanager
async def _served(kind: str, root: str) -> AsyncIterator[int]:
    """Run a server as a process, and yield its port."""
    command = [sys.executable, "-m", "bench.served", kind, root]
    async with await anyio.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield int(await process.stdout.receive())
        finally:
            process.terminate()


async def _append(port: int, count: int) -> float:
    """Return the appends per second."""

    async def one_after_another() -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for _ in range(count // _CONNECTIONS):
                await stream.send(_request(b"POST", "/v1/sessions/a/entries", _BODY))
                await _reply(stream)

    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(_CONNECTIONS):
            tasks.start_soon(one_after_another)
    return count / (time.perf_counter() - begun)


async def _fan_out(port: int, bursts: int, is_ours: bool) -> float:
    """Return the entries per second that all followers together receive."""
    received = 0
    wanted = bursts * ENTRIES
    joined = anyio.Event()
    waiting = _FOLLOWERS

    async def follow() -> None:
        nonlocal received, waiting
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(_request(b"GET", "/v1/sessions/b/events?since=end", b""))
            await stream.receive()
            waiting -= 1
            if not waiting:
                joined.set()
            mine, rest = 0, b""
            while mine < wanted:
                data = rest + await stream.receive(1 << 20)
                mine += data.count(b"\nevent: entry")
                rest = data[-12:] if not data.endswith(b"\n\n") else b""
            received += mine

    async with anyio.create_task_group() as tasks:
        for _ in range(_FOLLOWERS):
            tasks.start_soon(follow)
        await joined.wait()
        begun = time.perf_counter()
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for _ in range(bursts):
                path = "/v1/sessions/b/entries" if is_ours else "/burst"
                await stream.send(_request(b"POST", path, _BURST))
                await _reply(stream)
    return received / (time.perf_counter() - begun)


def _request(verb: bytes, path: str, body: bytes) -> bytes:
    return b"%b %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        verb,
        path.encode(),
        len(body),
        body,
    )


async def _reply(stream: SocketStream) -> bytes:
    """Receive one reply, whose length its head tells."""
    data = await stream.receive()
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += await stream.receive()
    if not head.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"the server answered {head.splitlines()[0]!r}: {body[:200]!r}")
    return body


async def _ask(port: int, verb: bytes, path: str, body: bytes) -> bytes:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(_request(verb, path, body))
        return await _reply(stream)


@click.command("serve")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Measurements per side.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def serve_command(rounds: int, as_json: bool) -> None:
    """Measure what HTTP costs, beside a program on the same server that keeps nothing."""
    with Workspace() as space:
        figures = anyio.run(measure, space.folder, rounds, backend_options={"use_uvloop": True})
    if as_json:
        click.echo(msgspec.json.encode(figures))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what")
    for column in ("treering", "keeps nothing", "ratio"):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(each.what, f"{each.treering:,.0f} {each.unit}", f"{each.constant:,.0f}", f"{each.ratio:.2f}")
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(table)

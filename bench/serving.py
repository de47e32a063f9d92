"""What HTTP costs: appends, followers and pages of `treering serve`, beside a program that keeps nothing.

Rounds of both sides alternate, each side is its median, and the figures are ratios of one run. The client shares the
machine's cores with the servers.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from .http import Served, ask, entry, reply_of, request, served
from .process import processor_seconds
from .served import ENTRIES
from .serving_peers import measure_peers, why_no_peers
from .serving_streams import (
    APPENDS_PER_S,
    FOLLOWERS,
    PAGE,
    SESSIONS,
    idle_stream_bytes,
    page_seconds,
    receipt_p99_s,
)
from .workspace import Workspace

_CONNECTIONS = 8
_FOLLOWERS = 100
_BODY = entry(900)
_BURST = msgspec.json.encode(
    {"entries": [{"type": "message", "message": {"role": "user", "content": "x" * 100}}] * ENTRIES}
)


class Comparison(Struct):
    """A figure of the server, and that of something else if there is one.

    Attributes:
        what: What was measured.
        unit: In which unit.
        treering: The figure of the server.
        other: The figure of the program that keeps nothing; for a page, of the library without a server.
        aim: What the ratio, or else the figure, should be.
        cpu_us: The processor time of both servers for each request, in microseconds; for a burst, that of the burst.
    """

    what: str
    unit: str
    treering: float
    other: float | None
    aim: str
    cpu_us: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """The server's figure as a share of the other one."""
        return None if self.other is None else self.treering / self.other

    @property
    def cpu_ratio(self) -> float | None:
        """The same ratio for processor time, which other programs on the machine affect less."""
        return None if self.cpu_us is None else self.cpu_us[1] / self.cpu_us[0]


async def measure(space: Path, rounds: int = 5, appends: int = 2000, bursts: int = 50) -> list[Comparison]:
    """Return the figures.

    Args:
        space: A folder for the sessions.
        rounds: How often each is measured.
        appends: The appends of a round.
        bursts: The bursts of a round.
    """
    async with served("treering", str(space / "served")) as mine, served("constant", "") as other:
        await ask(mine.port, b"POST", "/v1/sessions", b'{"id":"a"}')
        await ask(mine.port, b"POST", "/v1/sessions", b'{"id":"b"}')
        append, append_cpu_us = await _alternate(rounds, appends, mine, other, lambda port: _append(port, appends))
        fan_out, fan_out_cpu_us = await _alternate(
            rounds, bursts, mine, other, lambda port: _fan_out(port, bursts, port == mine.port)
        )
    stream_b, constant_stream_b = [await idle_stream_bytes(kind, space) for kind in ("treering", "constant")]
    over_http, library = await page_seconds(space)
    return [
        Comparison(f"appends of 1 KB over {_CONNECTIONS} connections", "requests/s", *append, "≥ 0.6", append_cpu_us),
        Comparison(
            f"bursts of {ENTRIES} entries to {_FOLLOWERS} followers", "entries/s", *fan_out, "≥ 0.7", fan_out_cpu_us
        ),
        Comparison(
            f"append to receipt, {FOLLOWERS} followers, {APPENDS_PER_S}/s, p99",
            "ms",
            1000 * await receipt_p99_s(space),
            None,
            "≤ 50",
        ),
        Comparison("a stream that waits", "KB", stream_b / 1000, constant_stream_b / 1000, "≤ 2"),
        Comparison(f"a page of {PAGE} of {SESSIONS:,} sessions", "ms", 1000 * over_http, 1000 * library, "≤ 1.3"),
    ]


async def _alternate(
    rounds: int, count: int, mine: Served, other: Served, run: Callable[[int], Awaitable[float]]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the medians of both sides, whose rounds alternate; the first of each only warms up.

    Returns:
        Their figures, and the processor time of each of `count` requests in microseconds.
    """
    figures: dict[Served, list[float]] = {mine: [], other: []}
    cpu_us: dict[Served, list[float]] = {mine: [], other: []}
    for _ in range(rounds + 1):
        for side in (mine, other):
            before = processor_seconds(side.pid)
            figures[side].append(await run(side.port))
            cpu_us[side].append(1e6 * (processor_seconds(side.pid) - before) / count)
    rates, costs = (
        (statistics.median(each[mine][1:]), statistics.median(each[other][1:])) for each in (figures, cpu_us)
    )
    return rates, costs


async def _append(port: int, count: int) -> float:
    """Return the appends per second."""

    async def one_after_another() -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for _ in range(count // _CONNECTIONS):
                await stream.send(request(b"POST", "/v1/sessions/a/entries", _BODY))
                await reply_of(stream)

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
            await stream.send(request(b"GET", "/v1/sessions/b/events?since=end", b""))
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
                await stream.send(request(b"POST", path, _BURST))
                await reply_of(stream)
    return received / (time.perf_counter() - begun)


@click.command("serve")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Measurements per side.")
@click.option("--peers", is_flag=True, help="Compare with the servers of others instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def serve_command(rounds: int, peers: bool, as_json: bool) -> None:
    """Measure what HTTP costs, beside a program on the same server that keeps nothing."""
    if peers:
        _compare_peers(rounds, as_json)
        return
    with Workspace() as space:
        figures = anyio.run(measure, space.folder, rounds, backend_options={"use_uvloop": True})
    if as_json:
        click.echo(msgspec.json.encode(figures))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what")
    for column in ("treering", "beside it", "ratio", "CPU ratio", "aim"):
        table.add_column(column, justify="right")
    for each in figures:
        other = "" if each.other is None else f"{each.other:,.{_digits(each.other)}f}"
        ratio, cpu_ratio = ("" if found is None else f"{found:.2f}" for found in (each.ratio, each.cpu_ratio))
        shown = f"{each.treering:,.{_digits(each.treering)}f} {each.unit}"
        table.add_row(each.what, shown, other, ratio, cpu_ratio, each.aim)
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(table)


def _compare_peers(rounds: int, as_json: bool) -> None:
    absent = why_no_peers()
    if absent is not None:
        click.echo(f"google-adk api_server: {absent}", err=True)
    with Workspace() as space:
        figures = anyio.run(measure_peers, space.folder, rounds, backend_options={"use_uvloop": True})
    if as_json:
        click.echo(msgspec.json.encode(figures))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("server")
    for column in ("appends/s", "CPU µs", "reads/s", "CPU µs"):
        table.add_column(column, justify="right")
    for each in figures:
        numbers = (each.appends_per_s, each.append_cpu_us, each.reads_per_s, each.read_cpu_us)
        table.add_row(each.side, *(f"{number:,.0f}" for number in numbers))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(table)


def _digits(figure: float) -> int:
    return 0 if figure >= 100 else 1

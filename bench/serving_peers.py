"""What another server of sessions costs for the same requests: ADK's `api_server`, in the environment of its peer.

It is asked as its own clients ask it. Without a model, the request of it that appends an event is `PATCH` of a session:
it carries a change of the state, and its reply is the whole session. So an append goes to one of many sessions in turn,
none of which becomes long. A read is that of a whole session; from treering, that of all its entries.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import anyio
from msgspec import Struct

from .environments import folder_of, why_absent
from .http import Served, ask, entry, reply_of, request, served
from .peers.google_adk import SqliteService
from .process import processor_seconds

_CONNECTIONS = 8
_EVENTS = 10
"""The events of a session: as many appends does each get in a round."""

_TEXT = "x" * 900
_STARTS_FOR_S = 120.0
_STORES = {"in SQLite": "sqlite:///{folder}/sessions.db", "in memory": "memory://"}


class PeerFigures(Struct):
    """What one server does.

    Attributes:
        side: Which server, and where its sessions are.
        appends_per_s: Appends of 1 KB.
        append_cpu_us: The processor time of one in the server, in microseconds.
        reads_per_s: Reads of a session with ten of them.
        read_cpu_us: The processor time of one.
    """

    side: str
    appends_per_s: float
    append_cpu_us: float
    reads_per_s: float
    read_cpu_us: float


class _Way(Struct):
    """How a server is asked: to create, append to and read the session of a number."""

    create: Callable[[int], bytes]
    append: Callable[[int], bytes]
    read: Callable[[int], bytes]


def _in_treering() -> _Way:
    body = entry(len(_TEXT))
    return _Way(
        lambda number: request(b"POST", "/v1/sessions", b'{"id":"s%d"}' % number),
        lambda number: request(b"POST", f"/v1/sessions/s{number}/entries", body),
        lambda number: request(b"GET", f"/v1/sessions/s{number}/entries?limit=1000", b""),
    )


def _in_adk() -> _Way:
    path, change = "/apps/bench/users/user/sessions", json.dumps({"stateDelta": {"text": _TEXT}}).encode()
    return _Way(
        lambda number: request(b"POST", f"{path}/s{number}", b"{}"),
        lambda number: request(b"PATCH", f"{path}/s{number}", change),
        lambda number: request(b"GET", f"{path}/s{number}", b""),
    )


async def measure_peers(space: Path, rounds: int = 3, sessions: int = 100) -> list[PeerFigures]:
    """Return the figures of treering's server and of the peers that are installed, whose rounds alternate.

    Args:
        space: A folder for the sessions.
        rounds: How often each is measured, on sessions of its own each time.
        sessions: The sessions of a round.
    """
    figures: dict[str, list[PeerFigures]] = {}
    stores = _STORES if why_no_peers() is None else {}
    for turn in range(rounds):
        async with served("treering", str(space / f"served-{turn}")) as mine:
            figures.setdefault("treering", []).append(await _figures("treering", mine, _in_treering(), sessions))
        for name, uri in stores.items():
            side = f"google-adk api_server, {name}"
            async with _adk(space / f"adk-{turn}", uri) as theirs:
                figures.setdefault(side, []).append(await _figures(side, theirs, _in_adk(), sessions))
    return [
        PeerFigures(side, *(median(getattr(each, name) for each in all_) for name in PeerFigures.__struct_fields__[1:]))
        for side, all_ in figures.items()
    ]


def why_no_peers() -> str | None:
    """Return why the peers cannot run here, or None if they can."""
    return why_absent(SqliteService())


async def _figures(side: str, server: Served, way: _Way, sessions: int) -> PeerFigures:
    numbers = range(sessions)
    await _asked(server, [way.create(number) for number in numbers])
    appends = await _asked(server, [way.append(number) for _ in range(_EVENTS) for number in numbers])
    reads = await _asked(server, [way.read(number) for number in numbers] * _EVENTS)
    return PeerFigures(side, *appends, *reads)


async def _asked(server: Served, requests: Sequence[bytes]) -> tuple[float, float]:
    """Send requests over several connections; return how many were answered per second, and the CPU time of each."""
    left = iter(requests)

    async def one_after_another() -> None:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            for each in left:
                await stream.send(each)
                await reply_of(stream)

    before, begun = processor_seconds(server.pid), time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(_CONNECTIONS):
            tasks.start_soon(one_after_another)
    seconds = time.perf_counter() - begun
    return len(requests) / seconds, 1e6 * (processor_seconds(server.pid) - before) / len(requests)


@asynccontextmanager
async def _adk(folder: Path, uri: str) -> AsyncIterator[Served]:
    """Run ADK's server for an application without an agent."""
    (folder / "agents" / "bench").mkdir(parents=True, exist_ok=True)
    port = await _free_port()
    program = str(folder_of(SqliteService()) / "bin" / "adk")
    options = ["--port", str(port), "--log_level", "error", "--session_service_uri", uri.format(folder=folder)]
    command = [program, "api_server", *options, str(folder / "agents")]
    async with await anyio.open_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with anyio.fail_after(_STARTS_FOR_S):
                await _until_healthy(port)
            yield Served(port, process.pid)
        finally:
            process.terminate()


async def _free_port() -> int:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port: int = listener.extra(anyio.abc.SocketAttribute.local_port)
        return port


async def _until_healthy(port: int) -> None:
    while True:
        try:
            await ask(port, b"GET", "/health", b"")
        except OSError:
            await anyio.sleep(0.1)
        else:
            return

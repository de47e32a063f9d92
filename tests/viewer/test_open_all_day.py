"""The dashboard open all day: a thousand agents work, a page and 49 streams watch, and memory stays where it was."""

import statistics
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import anyio
import httpx2
import pytest
from playwright.async_api import CDPSession, Page, expect
from tests.server.processes import Server

HOUR_S = 3600
AGENTS = 1000
STREAMS = 49
WRITERS = 8
WRITES_PER_S = 100
TURNS = 10
"""Turns after which an agent's session is deleted and another one begins, so that nothing may grow."""

LOOKS = 20
SERVER_GROWTH_MAX = 16 * 1024 * 1024
PAGE_GROWTH_MAX = 8 * 1024 * 1024
"""What may come and go; 18,000 sessions that left 1 KB each in an hour would be more."""

ROWS_MAX = 200
NODES_GROWTH_MAX = 2000
LISTENERS_GROWTH_MAX = 200
"""What rows that come and go hold; one node or listener left by each session that is replaced would be more."""

PROGRAM = """
import sys

import anyio

from treering import Limits, SessionHost
from treering.server import ServerLimits, app
from treering.server.serving import listen, serve


async def main(root: str, port: int) -> None:
    listening = listen("127.0.0.1", port, None)
    # a cache that is full before anything is measured
    async with SessionHost(root, limits=Limits(cache_bytes_max=1024 * 1024)) as host:
        # streams that end while we look, as those of a whole day do
        limits = ServerLimits(stream_for_s=600.0)
        await serve(app(host, limits=limits), listening, started=lambda: print(f"http://127.0.0.1:{port}", flush=True))


anyio.run(main, sys.argv[1], int(sys.argv[2]))
"""


class SmallServer(Server):
    """A server with a small cache, as a process."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._command = [sys.executable, "-c", PROGRAM, str(root), str(self.port)]


class Agents:
    """Agents that work by HTTP, all of them again and again.

    Attributes:
        written: How many entries they have written.
        replaced: How many sessions were deleted and replaced.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._numbers = count()
        self.written = self.replaced = 0

    async def begin(self) -> None:
        """Let each of them be at another turn, as if all had worked for long."""
        for agent in range(AGENTS):
            await self._turns(agent, range(_phase(agent) + 1))

    async def work(self, writer: int) -> None:
        """Let a share of them go on until cancelled."""
        begun, wanted_s = time.monotonic(), WRITERS / WRITES_PER_S
        for done in count(1):
            for agent in range(writer, AGENTS, WRITERS):
                turn = _phase(agent) + done
                if not turn % TURNS:
                    await self._ask("DELETE", f"/v1/sessions/{_name(agent, turn - 1)}")
                    self.replaced += 1
                await self._turns(agent, range(turn, turn + 1))
                begun += 2 * wanted_s
                await anyio.sleep(max(0.0, begun - time.monotonic()))

    async def _turns(self, agent: int, turns: range) -> None:
        """Write what an agent does in some turns: it calls a tool, and the tool answers."""
        if not turns[0] % TURNS:
            await self._ask("POST", "/v1/sessions", {"id": _name(agent, turns[0])})
        entries: list[object] = []
        for turn in turns:
            call = {"id": f"c{turn}", "name": "bash", "input": {"command": f"make step-{next(self._numbers)}"}}
            said = {"role": "assistant", "model": "m", "content": [{"type": "tool_use", "tool_use": call}]}
            ran = {"tool_call_id": f"c{turn}", "tool_name": "bash", "success": True}
            entries += [{"type": "message", "message": said}, {"type": "tool_execution", "tool_execution": ran}]
        await self._ask("POST", f"/v1/sessions/{_name(agent, turns[0])}/entries", {"entries": entries})
        self.written += len(entries)

    async def _ask(self, verb: str, path: str, body: object = None) -> None:
        reply = await self._http.request(verb, path, json=body)
        assert reply.is_success, reply.text


def _phase(agent: int) -> int:
    """Return the turn at which an agent begins."""
    return agent * 7 % TURNS


def _name(agent: int, turn: int) -> str:
    return f"agent-{agent:04}-{turn // TURNS}"


async def _watch(http: httpx2.AsyncClient, received: list[int], place: int) -> None:
    """Follow the listing as the dashboard does, the next stream when one has ended, and count what comes."""
    while True:
        async with http.stream("GET", "/v1/events?kinds=session,state", timeout=None) as reply:
            assert reply.status_code == 200, await reply.aread()
            async for piece in reply.aiter_bytes():
                received[place] += len(piece)


async def _page_holds(cdp: CDPSession) -> tuple[int, int, int]:
    """Return how many bytes the objects of a page take that are in use, and its nodes and listeners."""
    await cdp.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: int(each["value"]) for each in (await cdp.send("Performance.getMetrics"))["metrics"]}
    return metrics["JSHeapUsedSize"], metrics["Nodes"], metrics["JSEventListeners"]


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-41")
async def test_an_hour_of_the_dashboard_leaves_memory_where_it_was(tmp_path: Path, page: Page, scale: float) -> None:
    server = SmallServer(tmp_path / "root")
    server.start()
    try:
        url = server.address
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
            agents, received = Agents(http), [0] * STREAMS
            await agents.begin()
            async with anyio.create_task_group() as tasks:
                for place in range(STREAMS):
                    tasks.start_soon(_watch, http, received, place)
                await page.goto(f"{url}/")
                await expect(page.locator(".chip.is-working, .chip.is-idle").first).to_be_visible()
                cdp = await page.context.new_cdp_session(page)
                await cdp.send("Performance.enable")
                for writer in range(WRITERS):
                    tasks.start_soon(agents.work, writer)
                server_bytes, page_holds = await _looked(server, cdp, page, HOUR_S * scale, received)
                await page.close()
                tasks.cancel_scope.cancel()
    finally:
        assert server.stop() == 0
    assert agents.replaced
    page_bytes, nodes, listeners = zip(*page_holds, strict=True)
    _check_flat("bytes of the server", server_bytes, SERVER_GROWTH_MAX)
    _check_flat("bytes of the page", page_bytes, PAGE_GROWTH_MAX)
    _check_flat("nodes of the page", nodes, NODES_GROWTH_MAX)
    _check_flat("listeners of the page", listeners, LISTENERS_GROWTH_MAX)


async def _looked(
    server: Server, cdp: CDPSession, page: Page, for_s: float, received: list[int]
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return the memory of the server and what the page holds, again and again, while all streams go on."""
    server_bytes: list[int] = []
    page_holds: list[tuple[int, int, int]] = []
    for _ in range(LOOKS):
        before = list(received)
        await anyio.sleep(for_s / LOOKS)
        while any(now == then for now, then in zip(received, before, strict=True)):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        server_bytes.append(server.rss())
        page_holds.append(await _page_holds(cdp))
        assert await page.locator(".list-row").count() < ROWS_MAX
    return server_bytes, page_holds


def _check_flat(what: str, figures: Sequence[int], growth_max: int) -> None:
    """Fail if the last quarter of figures is above the second one; the first one only warms up."""
    quarter = len(figures) // 4
    early, late = statistics.median(figures[quarter : 2 * quarter]), statistics.median(figures[-quarter:])
    assert late - early <= growth_max, f"{what} grew from {early:,.0f} to {late:,.0f}: {figures}"
    print(f"{what}: {early:,.0f}, then {late:,.0f}; {figures}")  # noqa: T201  # the figures of the proof

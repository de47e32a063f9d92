"""A program whose agents append while its sessions are served: prints its port, and at each line of stdin its figures.

    python tests/server/agents_child.py ROOT AGENTS

A line of figures is JSON: the latencies of the appends since the last one, in seconds, and the memory in use.
"""

import json
import os
import random
import resource
import sys
import time
from pathlib import Path

import anyio

from treering import SessionHost
from treering.server import app
from treering.server.serving import listen, serve

TURN_S = 0.1


async def main(root: str, agents: int) -> None:
    """Serve, and append, until stdin ends."""
    chance = random.Random(3)
    latencies: list[float] = []
    stopping = anyio.Event()

    async def work(host: SessionHost, number: int) -> None:
        session = await host.create(f"agent-{number}")
        while True:
            await anyio.sleep(chance.uniform(0, 2 * TURN_S))
            begun = time.perf_counter()
            await session.append_message("assistant", "x" * 500)
            latencies.append(time.perf_counter() - begun)

    async def report() -> None:
        async with anyio.wrap_file(sys.stdin) as lines:
            async for _ in lines:
                figures = {"latencies": list(latencies), "rss": rss()}
                latencies.clear()
                tell(json.dumps(figures))
        stopping.set()

    listening = listen("127.0.0.1", 0, None)
    async with SessionHost(Path(root, str(os.getpid()))) as host, anyio.create_task_group() as tasks:
        for number in range(agents):
            tasks.start_soon(work, host, number)
        tasks.start_soon(report)
        port = listening.getsockname()[1]
        await serve(app(host), listening, until=stopping.wait, started=lambda: tell(str(port)))
        tasks.cancel_scope.cancel()


def tell(line: str) -> None:
    """Write a line on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def rss() -> int:
    """Return the bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))

"""What a remote host costs: an append by `RemoteHost` beside the same request by httpx2 alone, one after another.

Both send to one server. Rounds alternate, each side is its median, and the figure is a ratio of one run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
import click
import httpx2
import msgspec
from msgspec import Struct

from treering.remote import RemoteHost

from .workspace import Workspace

_TEXT = "x" * 900
_BODY = msgspec.json.encode(
    {
        "entries": [
            {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": {"content": _TEXT}}]}}
        ]
    }
)


class RemoteAppend(Struct):
    """Milliseconds of an append of 1 KB."""

    remote_ms: float
    plain_ms: float

    @property
    def ratio(self) -> float:
        """How many times the plain request the append takes."""
        return self.remote_ms / self.plain_ms


async def measure(space: Path, rounds: int = 5, appends: int = 500) -> RemoteAppend:
    """Return the figure.

    Args:
        space: A folder for the sessions.
        rounds: How often each side is measured, after a first round that warms up.
        appends: The appends of a round.
    """
    command = [sys.executable, "-m", "bench.served", "treering", str(space / "served")]
    async with await anyio.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(await process.stdout.receive())}"
            async with RemoteHost(url) as host, httpx2.AsyncClient(base_url=url) as plain:
                session = await host.create("remote")
                await host.create("plain")
                ours: list[float] = []
                theirs: list[float] = []
                for _ in range(rounds + 1):
                    begun = time.perf_counter()
                    for _ in range(appends):
                        await session.append_message("user", _TEXT)
                    ours.append(time.perf_counter() - begun)
                    begun = time.perf_counter()
                    for number in range(appends):
                        reply = await plain.post(
                            "/v1/sessions/plain/entries",
                            content=_BODY,
                            headers={"content-type": "application/json", "idempotency-key": f"{len(theirs)}-{number}"},
                        )
                        msgspec.json.decode(reply.raise_for_status().content)
                    theirs.append(time.perf_counter() - begun)
        finally:
            process.terminate()
    scale = 1000 / appends
    return RemoteAppend(statistics.median(ours[1:]) * scale, statistics.median(theirs[1:]) * scale)


@click.command("remote")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Measurements per side.")
def remote_command(rounds: int) -> None:
    """Measure what an append by a remote host costs, beside the same request alone."""
    with Workspace() as space:
        figure = anyio.run(measure, space.folder, rounds)
    click.echo(
        f"an append of 1 KB: RemoteHost {figure.remote_ms:.2f} ms, httpx2 alone {figure.plain_ms:.2f} ms, "
        f"ratio {figure.ratio:.2f}"
    )

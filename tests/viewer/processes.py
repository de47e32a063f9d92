"""`treering serve` as a process of its own."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

_LINE_MAX = 1000


@asynccontextmanager
async def served(
    root: Path, *, signs_in: bool = True, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[tuple[str, str]]:
    """Serve a root as long as the block runs; return the address, and the link by which a browser signs in."""
    command = [sys.executable, "-m", "treering.cli", "serve", str(root), "--port", "0"]
    async with await anyio.open_process(command, env=env, cwd=cwd, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        address = (await lines.receive_until(b"\n", _LINE_MAX)).decode()
        link = (await lines.receive_until(b"\n", _LINE_MAX)).decode() if signs_in else ""
        try:
            yield f"{address}/", link
        finally:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0

"""Plain HTTP/1.1 over a socket, so that a client costs little beside the server that is measured; and such servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import msgspec
from anyio.abc import SocketStream


class Served(NamedTuple):
    """A server that runs as a process."""

    port: int
    pid: int


@asynccontextmanager
async def served(kind: str, root: str) -> AsyncIterator[Served]:
    """Run a server as a process; see `bench.served` for the kinds."""
    command = [sys.executable, "-m", "bench.served", kind, root]
    async with await anyio.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield Served(int(await process.stdout.receive()), process.pid)
        finally:
            process.terminate()


def entry(characters: int) -> bytes:
    """Return the body of an append."""
    content = [{"type": "text", "text": {"content": "x" * characters}}]
    return msgspec.json.encode({"type": "message", "message": {"role": "user", "content": content}})


def request(verb: bytes, path: str, body: bytes) -> bytes:
    """Return the bytes of a request."""
    return b"%b %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        verb,
        path.encode(),
        len(body),
        body,
    )


async def reply_of(stream: SocketStream) -> bytes:
    """Receive one reply, whose length its head tells.

    Raises:
        RuntimeError: It is not one of success.
    """
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


async def ask(port: int, verb: bytes, path: str, body: bytes) -> bytes:
    """Send one request over a connection of its own, and return the body of its reply."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request(verb, path, body))
        return await reply_of(stream)

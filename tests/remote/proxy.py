"""A proxy that cuts connections: before a request is passed on, before its reply, within it, and after it."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream

FATES = ("unsent", "unanswered", "torn", "answered")
"""What becomes of a request: it does not reach the server; its reply is lost, or cut; or it arrives, and then a cut."""


class CuttingProxy:
    """Passes requests on to a server, one for each connection, each with a fate by chance.

    Args:
        address: The server.

    Attributes:
        url: The address of the proxy.
        fates: How many requests had each fate.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._chance = random.Random(7)
        self.url = ""
        self.fates: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Take connections as long as the block runs."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        self.url = f"http://127.0.0.1:{port}"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield self
            tasks.cancel_scope.cancel()

    def _fate(self, request: bytes) -> str:
        return self._chance.choice([*FATES, *FATES[-1:] * 4])

    async def _serve(self, client: SocketStream) -> None:
        async with client:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                request = await message_of(client)
                fate = self._fate(request)
                self.fates[fate] += 1
                if fate != "unsent":
                    await self._pass_on(client, request, fate)

    async def _pass_on(self, client: SocketStream, request: bytes, fate: str) -> None:
        async with await anyio.connect_tcp(*self._address) as server:
            await server.send(request)
            if b"/events" in request.split(b"\r\n", 1)[0]:
                for _ in range(FATES.index(fate)):  # a stream is cut after some of its chunks
                    await client.send(await server.receive())
                return
            reply = await message_of(server)
        if fate == "torn":
            await client.send(reply[: len(reply) // 2])
        elif fate == "answered":
            await client.send(reply)


class HoldingProxy(CuttingProxy):
    """Hands replies on only when they are whole, those that are streams included.

    Attributes:
        preferred: The header `Prefer` of each stream that was asked for.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.preferred: list[str | None] = []

    def _fate(self, request: bytes) -> str:
        return "answered"

    async def _pass_on(self, client: SocketStream, request: bytes, fate: str) -> None:
        line, *fields = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        if "/events" in line:
            headers = dict(each.lower().split(": ", 1) for each in fields)
            self.preferred.append(headers.get("prefer"))
        async with await anyio.connect_tcp(*self._address) as server:
            await server.send(request)
            await client.send(await message_of(server))


async def message_of(stream: SocketStream) -> bytes:
    """Receive one request or reply; of a stream of events, the head."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    chunked = b"transfer-encoding: chunked" in head.lower()
    while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
        body += await stream.receive()
    return head + b"\r\n\r\n" + body

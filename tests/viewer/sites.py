"""Another site: a page that is not the viewer's, at a port of its own, under whatever name it is asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"


@asynccontextmanager
async def another_site(page: str = "<!doctype html><title>another site</title>") -> AsyncIterator[int]:
    """Answer all requests with one page as long as the block runs; return the port."""
    body = page.encode()

    async def answer(client: SocketStream) -> None:
        async with client:
            try:
                await BufferedByteReceiveStream(client).receive_until(b"\r\n\r\n", 65_536)
            except anyio.IncompleteRead:  # a connection that a browser opened in advance
                return
            await client.send(_HEAD % len(body) + body)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()

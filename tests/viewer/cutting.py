"""A proxy that cuts connections at random, as networks and servers do."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

_FAILURES = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class Proxy:
    """A proxy before a port of this machine.

    Attributes:
        url: Its address.
        cuts: After how many bytes of a reply a connection is cut, from and to; None for never.
        cut: How many connections were cut.
    """

    def __init__(self, port: int, target: int, seed: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.cuts: tuple[int, int] | None = None
        self.cut = 0
        self._target = target
        self._random = random.Random(seed)

    async def handle(self, client: SocketStream) -> None:
        """Pass on one connection until an end closes it, or it is cut."""
        try:
            server = await anyio.connect_tcp("127.0.0.1", self._target)
        except OSError:
            await client.aclose()
            return
        async with client, server, anyio.create_task_group() as tasks:

            async def pump(source: ByteStream, sink: ByteStream, *, may_cut: bool) -> None:
                passed = 0
                limit: int | None = None
                try:
                    while True:
                        piece = await source.receive()
                        passed += len(piece)
                        if self.cuts is None:
                            limit = None
                        elif may_cut and limit is None:
                            limit = passed + self._random.randint(*self.cuts)
                        if limit is not None and passed > limit:
                            await sink.send(piece[: len(piece) - (passed - limit)])
                            self.cut += 1
                            break
                        await sink.send(piece)
                except _FAILURES:
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(lambda: pump(client, server, may_cut=False))
            await pump(server, client, may_cut=True)


@asynccontextmanager
async def cutting(target: int, seed: int = 7) -> AsyncIterator[Proxy]:
    """Run a proxy before a port as long as the block runs."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        proxy = Proxy(listener.extra(SocketAttribute.local_port), target, seed)
        tasks.start_soon(lambda: listener.serve(proxy.handle))
        yield proxy
        tasks.cancel_scope.cancel()

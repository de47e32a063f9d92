"""A process that serves, for `python -m bench serve`: treering, or a program that answers and keeps nothing.

    python -m bench.served treering ROOT
    python -m bench.served constant

Both run on the same uvicorn with the same settings. The constant program parses the JSON of a request and answers what
it always answers, under the same headers; its stream repeats to each follower the same chunk, as long as one of
treering, once for each `POST /burst`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from treering import SessionHost
from treering.server import ServerLimits, app
from treering.server.serving import listen, serve

ENTRIES = 20
"""The entries of a burst."""

_TEXT = 374
"""The characters with which an event of the constant program is as long as one of treering."""


def constant_program() -> Starlette:
    """Return the program that keeps nothing."""
    reply = {"ids": ["0" * 36], "seqs": [1], "leaf": "0" * 36, "cursor": "1-0"}
    headers = {
        "x-request-id": "00000000-1",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "vary": "Authorization, Cookie, Accept-Encoding, Origin",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, no-cache",
    }
    entry = b"id: 1-0\nevent: entry\ndata: %b\n\n" % json.dumps({"message": "x" * _TEXT, "id": "0" * 36}).encode()
    chunk = entry * ENTRIES
    wake: list[anyio.Event] = [anyio.Event()]
    bursts = 0

    async def append(request: Request) -> Response:
        json.loads(await request.body())
        return JSONResponse(reply, status_code=201, headers=headers)

    async def burst(request: Request) -> Response:
        nonlocal bursts
        json.loads(await request.body())
        bursts += 1
        wake[0].set()
        wake[0] = anyio.Event()
        return JSONResponse(reply, status_code=201, headers=headers)

    async def chunks() -> AsyncIterator[bytes]:
        sent = bursts
        yield b": ok\n\n"
        while True:
            while sent == bursts:
                await wake[0].wait()
            sent += 1
            yield chunk

    async def follow(request: Request) -> Response:
        return StreamingResponse(chunks(), media_type="text/event-stream", headers=headers)

    return Starlette(
        routes=[
            Route("/v1/sessions/{session_id}/entries", append, methods=["POST"]),
            Route("/v1/sessions/{session_id}/events", follow),
            Route("/burst", burst, methods=["POST"]),
        ]
    )


async def main(kind: str, root: str) -> None:
    """Serve until a signal, and print the port."""
    listening = listen("127.0.0.1", 0, None)
    port = listening.getsockname()[1]
    if kind == "constant":
        config = uvicorn.Config(
            constant_program(),
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
        )
        print(port, flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])
        return
    async with SessionHost(root) as host:
        limits = ServerLimits(streams_max=2000, requests_max=1000)
        await serve(app(host, limits=limits), listening, started=lambda: print(port, flush=True))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "", backend_options={"use_uvloop": True})

"""A server on a real socket, over a host that the test holds too, and a client that knows server-sent events."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx2
import msgspec
import pytest
from tests.serving import running

from treering import SessionHost
from treering.server import Application

Json: TypeAlias = Any
"""Any JSON value."""

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody; a client that has none reads all authorities of the system, which takes longer than a test."""


class Event(NamedTuple):
    """One event of a stream."""

    event: str
    id: str | None
    data: Any


class Client:
    """Asks one server."""

    def __init__(self, http: httpx2.AsyncClient, application: Application, address: tuple[str, int]) -> None:
        self.http = http
        self.application = application
        self.address = address

    async def ask(
        self,
        verb: str,
        path: str,
        body: object = None,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Return the JSON of a reply, whose status must be the given one, or one of success."""
        reply = await self.reply(verb, path, body, headers=headers)
        if status is None:
            assert reply.is_success, reply.text
        else:
            assert reply.status_code == status, reply.text
        return reply.json() if reply.content else None

    async def reply(
        self, verb: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Return a reply."""
        content = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
        every = {"content-type": "application/json", **(headers or {})}
        return await self.http.request(verb, path, content=content, headers=every)

    @asynccontextmanager
    async def follow(
        self, path: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Open a stream of events."""
        verb = "GET" if body is None else "POST"
        content = None if body is None else msgspec.json.encode(body)
        every = {"content-type": "application/json", **(headers or {})}
        async with self.http.stream(verb, path, content=content, headers=every) as reply:
            assert reply.status_code == 200, await reply.aread()
            assert reply.headers["content-type"] == "text/event-stream"
            yield events_of(reply)

    async def events(self, path: str, *, headers: Mapping[str, str] | None = None) -> list[Event]:
        """Return all events of a stream that ends."""
        async with self.follow(path, headers=headers) as events:
            return [event async for event in events]


async def events_of(reply: httpx2.Response) -> AsyncIterator[Event]:
    """Yield the events of a stream, each with one line of data; comments are left out."""
    fields: dict[str, str] = {}
    async for line in reply.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            assert name != "data" or "data" not in fields, "an event has one line of data"
            fields[name] = value.removeprefix(" ")
        elif fields:
            if "data" in fields:
                yield Event(fields.get("event", "message"), fields.get("id"), msgspec.json.decode(fields["data"]))
            fields = {}


Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def served(
    host: SessionHost, *, serving: Mapping[str, Json] | None = None, **options: Json
) -> AsyncIterator[Client]:
    """Serve a host on a free port as long as the block runs, with options of `serve` and of the application."""
    async with (
        running(host, serving=serving, **options) as (application, port),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, verify=NO_CERTIFICATES) as http,
    ):
        yield Client(http, application, ("127.0.0.1", port))


@pytest.fixture(name="served")
def served_fixture() -> Serve:
    return served


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "root") as host:
        yield host


@pytest.fixture
async def client(host: SessionHost) -> AsyncIterator[Client]:
    async with served(host) as client:
        yield client

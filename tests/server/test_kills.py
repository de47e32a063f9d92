"""The server is killed, again and again, while clients append and follow: nothing is lost, doubled or out of order."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import msgspec
import pytest

from treering import SessionHost, plain_text
from treering.entries import MessageEntry

from .conftest import NO_CERTIFICATES, Event, events_of
from .processes import Server, running

SESSIONS = 5
LAST = "the-last-word"


class Crowd:
    """Clients of a server that may be gone at any moment.

    While it is gone, one that appends and one that follows go on knocking. The others wait, and come all at once: if
    all knocked, they would take the processors from the server that starts.

    Attributes:
        done: The commands that were acknowledged, by session.
        got: The seqs that each follower was sent, in the order in which they came.
        retries: How many requests had no answer.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.done: dict[str, list[str]] = {f"s{number}": [] for number in range(SESSIONS)}
        self.got: list[list[int]] = []
        self.retries = 0
        self.finished = False
        self._progress = anyio.Event()
        self._there = anyio.Event()
        self._there.set()

    async def revive(self) -> None:
        """Kill the server, and start it again."""
        self._there = anyio.Event()
        await anyio.to_thread.run_sync(self._server.kill)
        await anyio.to_thread.run_sync(self._server.start)
        self._there.set()

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.done.values()))

    async def until(self, acknowledged: int) -> None:
        """Wait until so many commands were acknowledged."""
        while self.acknowledged < acknowledged:
            await self._progress.wait()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Return a client, with connections of its own."""
        url = f"http://127.0.0.1:{self._server.port}"
        async with httpx2.AsyncClient(base_url=url, timeout=60, verify=NO_CERTIFICATES) as http:
            yield http

    async def _retry(self, number: int) -> None:
        self.retries += 1
        await anyio.sleep(0.01)
        if number:
            await self._there.wait()

    async def append(self, number: int) -> None:
        """Append one command after the other, each until it is acknowledged."""
        turn = 0
        async with self.client() as http:
            while not self.finished:
                await self.say(http, number, f"c{number}-{turn}")
                turn += 1

    async def say(self, http: httpx2.AsyncClient, number: int, text: str) -> None:
        """Append a message, whose text is the command's id, until that is acknowledged."""
        session_id = f"s{number % SESSIONS}"
        body = {"type": "message", "message": {"role": "user", "content": text}}
        key = {"Idempotency-Key": text}
        while True:
            try:
                reply = await http.post(f"/v1/sessions/{session_id}/entries", json=body, headers=key)
            except httpx2.HTTPError:
                reply = None
            if reply is None or reply.status_code == 429:  # nobody is there, or too many are
                await self._retry(number)
                continue
            assert reply.status_code == 201, reply.text
            self.done[session_id].append(text)
            self._progress.set()
            self._progress = anyio.Event()
            return

    async def end(self) -> None:
        """Say the last word in each session, for its followers."""
        async with self.client() as http:
            for number in range(SESSIONS):
                await self.say(http, number, LAST)

    async def follow(self, number: int) -> None:
        """Follow a session until its last word has come."""
        session_id = f"s{number % SESSIONS}"
        mine: list[int] = []
        self.got.append(mine)
        last: dict[str, str] = {}
        async with self.client() as http:
            while True:
                try:
                    async with http.stream("GET", f"/v1/sessions/{session_id}/events", headers=last) as reply:
                        assert reply.status_code in (200, 429), await reply.aread()
                        async for event in events_of(reply) if reply.status_code == 200 else no_events():
                            assert event.event == "entry"
                            assert event.id is not None
                            mine.append(event.data["seq"])
                            last = {"Last-Event-ID": event.id}
                            if LAST in str(event.data):
                                return
                except (httpx2.HTTPError, msgspec.DecodeError):  # it was cut off, perhaps within an event
                    pass
                await self._retry(number)


async def no_events() -> AsyncIterator[Event]:
    """Yield nothing."""
    for event in list[Event]():
        yield event


async def prove(folder: Path, *, kills: int, clients: int, each: int, seed: int) -> Crowd:
    """Kill a server so often under so many appending and as many following clients, and check what came of it."""
    chance, root = random.Random(seed), folder / "root"
    async with SessionHost(root) as host:
        for number in range(SESSIONS):
            session = await host.create(f"s{number}")
            await session.set_title("under attack")
    with running(root) as server:
        crowd = Crowd(server)
        async with anyio.create_task_group() as following:
            for number in range(clients):
                following.start_soon(crowd.follow, number)
            async with anyio.create_task_group() as appending:
                for number in range(clients):
                    appending.start_soon(crowd.append, number)
                for _ in range(kills):
                    await crowd.until(crowd.acknowledged + chance.randint(1, each))
                    await crowd.revive()
                await crowd.until(crowd.acknowledged + clients)
                crowd.finished = True
            await crowd.end()
        assert await anyio.to_thread.run_sync(server.stop) == 0
    async with SessionHost(root) as host:
        for session_id, keys in crowd.done.items():
            entries = await (await host.load(session_id)).entries()
            written = [plain_text(entry.message.content) for entry in entries if isinstance(entry, MessageEntry)]
            assert sorted(written) == sorted(keys), "each command is there once"
            assert len(entries) == len(keys) + 1, "and the title"
    for number, seqs in enumerate(crowd.got):
        assert seqs == [*range(1, len(crowd.done[f"s{number % SESSIONS}"]) + 2)], "each entry once, in order"
    return crowd


async def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert (await prove(tmp_path, kills=2, clients=10, each=60, seed=1)).retries


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-33")
async def test_two_hundred_kills_lose_and_double_nothing(tmp_path: Path, scale: float) -> None:
    assert (await prove(tmp_path, kills=max(2, round(200 * scale)), clients=50, each=400, seed=2)).retries > 50

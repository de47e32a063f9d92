"""Readers that have all there is of a session share one subscription; who leaves or falls behind loses nothing."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treering import Message, SessionHost, text
from treering.errors import LogReplaced
from treering.server.routes.audience import SEATS_MAX, Audience, Progress

from .conftest import Client, Event, Serve

KINDS = ("entry", "entry,leaf", "entry,leaf,ready", "entry,transient")


async def shared(host: SessionHost, subscriptions: int) -> None:
    """Wait until all readers share so many subscriptions."""
    while host.statistics().subscribers != subscriptions:
        await anyio.lowlevel.checkpoint()


def seqs(events: list[Event]) -> list[int]:
    return [event.data["seq"] for event in events if event.event == "entry"]


class Reader:
    """A reader over a connection of its own, which accepts little while it does not read.

    Attributes:
        received: The bytes of the reply.
    """

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self.received = bytearray()
        self._looked = 0

    @classmethod
    @asynccontextmanager
    async def of(cls, client: Client, path: str) -> AsyncGenerator[Reader]:
        """Open a stream that has begun when the block does."""
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await anyio.to_thread.run_sync(raw.connect, client.address)
        raw.setblocking(False)
        async with await anyio.abc.SocketStream.from_socket(raw) as stream:
            await stream.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            reader = cls(stream)
            await reader.until(b": ok")
            yield reader

    async def until(self, wanted: bytes) -> None:
        """Read until something has come."""
        while (found := self.received.find(wanted, self._looked)) < 0:
            self._looked = max(self._looked, len(self.received) - len(wanted))
            self.received += await self._stream.receive()
        self._looked = found

    @property
    def texts(self) -> list[str]:
        """The texts of the entries that came."""
        parts: list[bytearray] = []
        at = self.received.index(b"\r\n\r\n") + 4
        while at < len(self.received):
            end = self.received.index(b"\r\n", at)
            size = int(self.received[at:end], 16)
            parts.append(self.received[end + 2 : end + 2 + size])
            at = end + size + 4
        lines = [line[6:] for line in b"".join(parts).split(b"\n") if line.startswith(b"data: ")]
        return [
            msgspec.json.decode(line)["message"]["content"][0]["text"]["content"].partition(" ")[0] for line in lines
        ]


async def test_sixty_readers_share_one_subscription_and_get_each_entry_once(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "0")
    async with AsyncExitStack() as stack:
        path = "/v1/sessions/a/events"
        streams = [await stack.enter_async_context(client.follow(path)) for _ in range(60)]
        received = [[await anext(stream)] for stream in streams]
        await shared(host, 1)
        made = client.application.service.encoded.made
        for _ in range(19):
            await session.append_many([Message("user", (text(each),)) for each in ("one", "two")])
            for events, stream in zip(received, streams, strict=True):
                events += [await anext(stream), await anext(stream)]
        assert client.application.service.encoded.made == made + 19
        assert all(seqs(events) == [*range(1, 40)] for events in received)
        assert len({events[-1].id for events in received}) == 1
        assert host.statistics().subscribers == 1
    await shared(host, 0)


async def test_if_the_reader_whose_stream_writes_to_all_leaves_another_does(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "first")
    received: list[Event] = []
    async with AsyncExitStack() as stack:
        path = "/v1/sessions/a/events?since=end&kinds=entry,ready"
        leaders = [AsyncExitStack() for _ in range(5)]
        for leader in leaders:
            await anext(await leader.enter_async_context(client.follow(path)))
        last = await stack.enter_async_context(client.follow(path))
        assert (await anext(last)).event == "ready"
        for leader in leaders:
            await shared(host, 1)
            await session.append_message("user", "before")
            await leader.aclose()
            await session.append_message("user", "after")
            received += [await anext(last), await anext(last)]
        await shared(host, 1)
    assert seqs(received) == [*range(2, 12)]


@pytest.mark.parametrize("slow", [0, 1], ids=["whose stream writes to all", "another one"])
async def test_a_reader_that_takes_nothing_holds_nobody_up_and_gets_all_of_it_later(
    client: Client, host: SessionHost, slow: int
) -> None:
    session, count, words = await host.create("a"), 300, "x" * 40_000
    await session.append_message("user", "0")
    async with AsyncExitStack() as stack:
        opened = [Reader.of(client, "/v1/sessions/a/events") for _ in range(3)]
        readers = [await stack.enter_async_context(each) for each in opened]
        await shared(host, 1)
        for number in range(1, count):  # more than a connection takes whose other end reads nothing
            await session.append_message("user", f"{number} {words}")
            for reader in readers[:slow] + readers[slow + 1 :]:
                await reader.until(b'"%d ' % number)
        await readers[slow].until(b'"%d ' % (count - 1))
        await shared(host, 1)
        await session.append_message("user", "end")
        for reader in readers:
            await reader.until(b'"end"}}]}}\n\n\r\n')
            assert reader.texts == [*map(str, range(count)), "end"]


async def test_those_that_find_no_seat_follow_by_themselves(
    client: Client, host: SessionHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SEATS_MAX >= 100
    monkeypatch.setattr("treering.server.routes.audience.SEATS_MAX", 2)
    session = await host.create("a")
    await session.append_message("user", "first")
    async with AsyncExitStack() as stack:
        path = "/v1/sessions/a/events?since=end&kinds=entry,ready"
        streams = [await stack.enter_async_context(client.follow(path)) for _ in range(5)]
        for stream in streams:
            assert (await anext(stream)).event == "ready"
        await shared(host, 3)
        await session.append_message("user", "Hello")
        assert [(await anext(stream)).data["seq"] for stream in streams] == [2] * 5


async def test_a_replaced_log_resets_each_reader_once(host: SessionHost, client: Client) -> None:
    session, other = await host.create("a"), await host.create("b")
    await session.append_message("user", "old")
    for words in ("new", "newer", "newest"):
        await other.append_message("user", words)
    await other.close()
    replacement = await anyio.Path(other.file_path or "").read_bytes()
    async with AsyncExitStack() as stack:
        path = "/v1/sessions/a/events?kinds=entry,leaf,ready"
        streams = [await stack.enter_async_context(client.follow(path)) for _ in range(4)]
        for stream in streams:
            assert [(await anext(stream)).event for _ in range(3)] == ["entry", "leaf", "ready"]
        await shared(host, 1)
        file = anyio.Path(session.file_path or "")
        await file.with_suffix(".new").write_bytes(replacement.replace(b'"b"', b'"a"'))
        await file.with_suffix(".new").rename(file)
        with pytest.raises(LogReplaced):  # which the host learns by writing
            await session.append_message("user", "lost")
        told = [[await anext(stream) for _ in range(6)] for stream in streams]
        assert [event.event for event in told[0]] == ["reset", "entry", "entry", "entry", "leaf", "ready"]
        assert all(events == told[0] for events in told)
        await shared(host, 1)
        await session.append_message("user", "after")
        again = [await anext(stream) for stream in streams]
        assert {(event.event, event.data["seq"]) for event in again} == {("entry", 4)}


async def test_nobody_takes_a_seat_who_has_more_or_less_than_the_stream_that_writes_to_it(host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "1")
    audience, progress, handed = Audience(), Progress(session.cursor, session.cursor), list[bytes]()

    def takes(events: bytes) -> bool:
        handed.append(events)
        return True

    end = session.cursor
    async with session.subscribe(after=end) as leads, session.subscribe(after=end) as ahead, session.subscribe() as new:
        assert audience.enter(leads, progress, takes) is None
        assert audience.is_led_by(leads)
        assert not new.has_all
        assert audience.enter(new, progress, takes) is None
        await session.append_message("user", "2")
        assert len(await ahead.receive_many()) == 1
        assert audience.enter(ahead, progress, takes) is None
        assert len(await leads.receive_many()) == 1
        seats = [audience.enter(each, progress, lambda _: False) for each in (ahead, leads)]
        assert [seat is None for seat in seats] == [False, True]
        audience.tell(b"3")
        audience.tell(b"4")
        assert audience.settle() == b""
        assert (handed, seats[0] and seats[0].pending) == ([b"3", b"4"], b"34")


async def test_readers_that_come_and_go_get_what_they_would_get_alone(tmp_path: Path, served: Serve) -> None:
    """Of writers and readers that take turns at random, each reader has each entry since it came once, in order."""
    chance = random.Random(5)
    async with SessionHost(tmp_path) as host, served(host) as client:
        session = await host.create("a")
        ids = [await session.append_message("user", "root")]
        counts = Counter[str]()

        async def read(seed: int) -> None:
            own = random.Random(seed)
            for kinds in own.sample(KINDS, k=len(KINDS)):
                seen, wanted = list[Event](), own.randint(5, 40)
                with suppress(StopAsyncIteration):
                    async with client.follow(f"/v1/sessions/a/events?since=end&kinds={kinds}") as events:
                        while len(seqs(seen)) < wanted:
                            seen.append(await anext(events))
                found = seqs(seen)
                assert found == [*range(found[0], found[0] + len(found))]
                for event in seen:
                    counts[event.event] += 1
                    if event.event == "entry":
                        assert event.data["id"] == ids[event.data["seq"] - 1]
                moves = [event.data["leaf"] for event in seen if event.event == "leaf"]
                assert ("leaf" in kinds) == bool(moves)

        async def write() -> None:
            while True:
                step = chance.random()
                if step < 0.7:
                    ids.append(await session.append_message("user", "x" * chance.choice([10, 1000])))
                elif step < 0.85:
                    session.emit("typing", chance.random())
                else:
                    await session.branch(chance.choice(ids))
                for _ in range(chance.randint(0, 5)):
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as writing:
            writing.start_soon(write)
            async with anyio.create_task_group() as reading:
                for seed in range(12):
                    reading.start_soon(read, seed)
            writing.cancel_scope.cancel()
        assert all(counts[event] for event in ("entry", "leaf", "transient", "ready"))

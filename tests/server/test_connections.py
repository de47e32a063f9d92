"""What a connection writes of a reply, in how many pieces, and how requests of many connections take turns."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Message, Receive, Scope, Send

from treering import SessionHost
from treering.server import Application
from treering.server.http.connections import BoundedProtocol
from treering.server.serving import listen, serve

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
Answer: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Answering(Application):
    """An application that answers as a test says."""

    def __init__(self, host: SessionHost, answer: Answer) -> None:
        super().__init__(host)
        self._answer_with = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._answer_with(scope, receive, send)


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[int]:
    """Serve an application that answers as a test says, and yield its port."""
    listening = listen("127.0.0.1", 0, None)
    started, stopping = anyio.Event(), anyio.Event()
    async with SessionHost() as host, anyio.create_task_group() as tasks:
        application = Answering(host, answer)

        async def run() -> None:
            await serve(application, listening, until=stopping.wait, started=started.set)

        tasks.start_soon(run)
        await started.wait()
        yield listening.getsockname()[1]
        stopping.set()


async def said_to(port: int, request: bytes) -> bytes:
    """Return what the server says until it closes the connection."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request)
        received = b""
        with anyio.fail_after(30), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                received += await stream.receive()
    return received


def reply(
    *pieces: bytes, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Return an answer of these pieces."""

    async def answer(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for number, piece in enumerate(pieces, 1):
            await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})

    return answer


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What connections write, each a call of the system as long as the client takes it."""
    written: list[bytes] = []
    made = BoundedProtocol.connection_made

    def connection_made(self: BoundedProtocol, transport: asyncio.Transport) -> None:
        write = transport.write

        def noted(data: bytes) -> None:
            written.append(bytes(data))
            write(data)

        monkeypatch.setattr(transport, "write", noted, raising=False)
        made(self, transport)

    monkeypatch.setattr(BoundedProtocol, "connection_made", connection_made)
    return written


CLOSING = GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
DATED = (b"x-a", b"1")
FIXED = (DATED, (b"content-length", b"5"))


@pytest.mark.parametrize(
    ("method", "answer", "expected"),
    [
        ("GET", reply(b"Hello", headers=FIXED), [b"x-a: 1\r\ncontent-length: 5\r\nCLOSE\r\n\r\nHello"]),
        ("GET", reply(b"He", b"llo", headers=FIXED), [b"x-a: 1\r\ncontent-length: 5\r\nCLOSE\r\n\r\nHe", b"llo"]),
        ("GET", reply(b"Hello"), [b"CHUNKED\r\nCLOSE\r\n\r\n5\r\nHello\r\n0\r\n\r\n"]),
        ("GET", reply(b"He", b"llo", b""), [b"CHUNKED\r\nCLOSE\r\n\r\n2\r\nHe\r\n", b"3\r\nllo\r\n", b"0\r\n\r\n"]),
        ("GET", reply(b"", b"Hello", b""), [b"CHUNKED\r\nCLOSE\r\n\r\n", b"5\r\nHello\r\n", b"0\r\n\r\n"]),
        ("GET", reply(b"a" * 300, b""), [b"CHUNKED\r\nCLOSE\r\n\r\n12c\r\n" + b"a" * 300 + b"\r\n", b"0\r\n\r\n"]),
        ("GET", reply(b"", status=304, headers=(DATED,)), [b"x-a: 1\r\nCLOSE\r\n\r\n"]),
        ("GET", reply(b"", status=204), [b"CLOSE\r\n\r\n"]),
        ("HEAD", reply(b"Hello", headers=FIXED), [b"x-a: 1\r\ncontent-length: 5\r\nCLOSE\r\n\r\n"]),
        ("HEAD", reply(b"He", b"llo"), [b"CLOSE\r\n\r\n"]),
    ],
)
async def test_the_head_of_a_reply_and_what_comes_first_of_its_body_are_one_write(
    writes: list[bytes], method: str, answer: Answer, expected: list[bytes]
) -> None:
    async with answering(answer) as port:
        said = await said_to(port, CLOSING.replace(b"GET", method.encode()))
    assert said == b"".join(writes)
    status_line, _, rest = writes[0].partition(b"\r\n")
    assert status_line.startswith(b"HTTP/1.1 ")
    writes[0] = rest
    marks = {b"CHUNKED": b"transfer-encoding: chunked", b"CLOSE": b"connection: close"}
    for mark, line in marks.items():
        writes[0] = writes[0].replace(line, mark)
    assert writes == expected


async def test_replies_follow_each_other_over_one_connection() -> None:
    numbers = iter((b"one", b"two"))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(next(numbers), b"")(scope, receive, send)

    async with answering(answer) as port:
        said = await said_to(port, GET + CLOSING)
    first, second = said.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert first == b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"
    assert second == b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(b"Hell", headers=FIXED), b""),
        (reply(b"He", b"l", headers=FIXED), b"He"),
        (reply(b"Hello!", headers=FIXED), b""),
        (reply(b"Hello!", b"", headers=FIXED), b""),
        (reply(b"He", b"llo!", headers=FIXED), b"He"),
        (reply(b"Hello", headers=[(b"location", b"/a\r\nset-cookie: b=1")]), b""),
        (reply(b"Hello", headers=[(b"location\nx", b"/a")]), b""),
        (reply(b"Hello", headers=[(b"x-a", b"b\0")]), b""),
        (reply(headers=FIXED), b""),
    ],
)
async def test_a_reply_that_is_not_what_its_head_says_or_that_splits_it_breaks_off(answer: Answer, said: bytes) -> None:
    async with answering(answer) as port:
        received = await said_to(port, GET)
    assert received.partition(b"\r\n\r\n")[2] == said
    assert b"set-cookie" not in received
    assert received.startswith(b"HTTP/1.1 200 ") == bool(said)


async def test_messages_that_are_not_due_are_refused() -> None:
    refused: list[str] = []
    begin: Message = {"type": "http.response.start", "status": 204, "headers": []}
    end: Message = {"type": "http.response.body", "body": b""}

    async def answer(_: Scope, __: Receive, send: Send) -> None:
        for message in (end, begin, begin, end, end, begin):
            try:
                await send(message)
            except RuntimeError as error:
                refused.append(str(error))

    async with answering(answer) as port:
        assert (await said_to(port, CLOSING)).count(b"HTTP/1.1 204 ") == 1
    body, start = "'http.response.body' may not be sent now", "'http.response.start' may not be sent now"
    assert refused == [body, start, body, start]


async def test_who_has_left_is_sent_nothing_and_the_application_is_told() -> None:
    told: list[str] = []
    over = anyio.Event()

    async def answer(_: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"Hello", "more_body": True})
        while told[-1:] != ["http.disconnect"]:
            told.append((await receive())["type"])
        for _number in range(100):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        over.set()

    async with answering(answer) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(GET)
            assert b"Hello" in await stream.receive()
        await over.wait()
    assert told == ["http.request", "http.disconnect"]


CLIENTS = 40
BEGUN_AT_ONCE = 8


async def test_of_a_burst_of_requests_a_few_begin_before_everything_else_has_its_turn() -> None:
    turn = 0
    begun: list[int] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(turn)
        await reply(b"", status=204)(scope, receive, send)

    async def take_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await anyio.lowlevel.checkpoint()

    async def answered(client: socket.socket) -> bytes:
        await anyio.wait_readable(client)
        return client.recv(1000)

    async with answering(answer) as port, anyio.create_task_group() as tasks:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
        for client in clients:  # each is known to the server
            client.send(GET)
            await answered(client)
        begun.clear()
        tasks.start_soon(take_turns)
        await anyio.lowlevel.checkpoint()
        for client in clients:  # at once: the loop does nothing meanwhile
            client.send(GET)
        for client in clients[: CLIENTS // 4]:  # those who leave before it is their turn keep nobody
            client.close()
        for client in clients[CLIENTS // 4 :]:
            assert b" 204 " in await answered(client)
            client.close()
        tasks.cancel_scope.cancel()
    assert CLIENTS * 3 // 4 <= len(begun) <= CLIENTS
    assert max(Counter(begun).values()) <= BEGUN_AT_ONCE
    assert len({*begun}) <= 2 * CLIENTS // BEGUN_AT_ONCE, "and they begin as soon as everything else has had a turn"

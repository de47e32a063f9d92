"""What the client for JavaScript does when a server, or what stands before it, misbehaves: with scripted replies."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from playwright.async_api import Page

from .conftest import Json

pytestmark = pytest.mark.browser

CLIENT = Path(__file__).parents[2] / "src/treering/server/viewer/client.js"

FOLLOW = """async ([id, options]) => {
  const { connect } = await import("./client.js");
  const renewed = [];
  const token = (renew) => (renewed.push(renew), renew ? "second" : renewed.includes(true) ? "second" : "first");
  const timing = { first: 1, most: 5, silence: 2000, opening: 20000 };
  const server = connect(document.baseURI, { token, timing });
  const seen = [];
  const events = server.session(id).follow(options);
  for await (const { event, id: at, data } of events) seen.push([event, at, data.seq ?? null]);
  return seen;
}"""

APPEND = """async (tries) => {
  const { connect } = await import("./client.js");
  const server = connect(document.baseURI);
  const told = ({ name, status, error, detail, current, requestId, retryAfterMs }) =>
    ({ name, status, error, detail, current, requestId, retryAfterMs });
  return server.session("a b/c").append({ type: "x" }, { ifMatch: '"leaf:e1"', tries }).then((body) => body, told);
}"""


def stream(*blocks: str, rest: str = "", type_: str = "text/event-stream") -> bytes:
    text = ": ok\n\n" + "".join(f"{block}\n\n" for block in blocks) + rest
    return f"HTTP/1.1 200 OK\r\ncontent-type: {type_}\r\nconnection: close\r\n\r\n{text}".encode()


def entry(seq: int, generation: str = "g") -> str:
    return f'id: {seq}-{generation}\nevent: entry\ndata: {{"seq": {seq}}}'


def reply(status: int, body: Json, **headers: str) -> bytes:
    data = json.dumps(body).encode()
    kind = "application/json" if status < 400 else "application/problem+json"
    given = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    given += f"content-type: {kind}\r\nconnection: close\r\ncontent-length: {len(data)}\r\n"
    return f"HTTP/1.1 {status} X\r\n{given}\r\n".encode() + data


class Scripted:
    """A server that gives out the client, and answers all else from a list: an empty reply is a cut."""

    def __init__(self, port: int, replies: Sequence[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.left = list(replies)
        self.asked: list[tuple[str, dict[str, str], str]] = []

    async def answer(self, client: SocketStream) -> None:
        async with client:
            received = BufferedByteReceiveStream(client)
            try:
                head = (await received.receive_until(b"\r\n\r\n", 65_536)).decode()
            except anyio.IncompleteRead:
                return
            line, *rest = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
            body = (await received.receive_exactly(int(headers.get("content-length", 0)))).decode()
            if line.startswith("GET /client.js"):
                source = CLIENT.read_bytes()
                kind = b"HTTP/1.1 200 OK\r\ncontent-type: text/javascript\r\nconnection: close\r\n\r\n"
                await client.send(kind + source)
            elif "favicon" not in line:
                self.asked.append((line, headers, body))
                text = self.left.pop(0)
                await client.send(text)
                if text.endswith(b"silence\n\n"):
                    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                        await received.receive()  # until the client gives it up


@asynccontextmanager
async def scripted(*replies: bytes) -> AsyncIterator[Scripted]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        server = Scripted(listener.extra(SocketAttribute.local_port), replies)
        tasks.start_soon(listener.serve, server.answer)
        yield server
        tasks.cancel_scope.cancel()


async def test_a_stream_goes_on_after_whatever_came_instead_of_it(page: Page, allowed: list[str]) -> None:
    allowed += ["net::ERR", "503", "401"]
    bye = 'event: bye\ndata: {"reason": "rotate", "reconnect": true, "retry_ms": 1}'
    last = 'event: bye\ndata: {"reason": "deleted", "reconnect": false, "retry_ms": 0}'
    reset = 'id: 0-h\nevent: reset\ndata: {"cursor": "0-h", "reason": "replaced", "had": "3-g"}'
    async with scripted(
        stream("a portal", type_="text/html"),
        reply(503, {"type": "t", "retry": True}, retry_after="0"),
        reply(401, {"type": "t"}),
        stream(entry(1), rest='id: 2-g\nevent: entry\ndata: {"seq": 2}'),  # cut before its empty line
        stream(entry(1), entry(2), ": silence"),
        stream(entry(3), "event: new-kind\ndata: {}", bye),
        stream(reset, entry(1, "h")),
        stream(entry(2, "h"), last),
    ) as server:
        await page.goto(f"{server.url}client.js")
        seen = await page.evaluate(FOLLOW, ["a", {}])
    assert seen == [
        ["entry", "1-g", 1],
        ["entry", "2-g", 2],
        ["entry", "3-g", 3],
        ["new-kind", None, None],
        ["reset", "0-h", None],
        ["entry", "1-h", 1],
        ["entry", "2-h", 2],
        ["bye", None, None],
    ]
    assert not server.left
    assert [headers.get("last-event-id") for _, headers, _ in server.asked] == [
        *[None] * 4, "1-g", "2-g", "3-g", "1-h",
    ]  # fmt: skip
    tokens = [headers["authorization"].removeprefix("Bearer ") for _, headers, _ in server.asked]
    assert tokens == [*["first"] * 3, *["second"] * 5]


async def test_what_is_followed_to_its_end_goes_on_after_a_cut(page: Page, allowed: list[str]) -> None:
    allowed.append("net::ERR")
    ready = 'id: 2-g\nevent: ready\ndata: {"cursor": "2-g"}'
    async with scripted(stream(entry(1)), stream(entry(2)), stream(ready)) as server:
        await page.goto(f"{server.url}client.js")
        seen = await page.evaluate(FOLLOW, ["a", {"live": False}])
    assert seen == [["entry", "1-g", 1], ["entry", "2-g", 2]]
    assert [headers.get("last-event-id") for _, headers, _ in server.asked] == [None, "1-g", "2-g"]


async def test_a_request_is_repeated_by_its_key_and_refused_as_the_server_says(page: Page, allowed: list[str]) -> None:
    allowed += ["net::ERR", "502", "503", "429", "412"]
    moved = {"type": "urn:treering:problem:leaf-moved", "detail": "it moved", "error": "LeafMoved"}
    current = {"leaf": "e2", "cursor": "2-g"}
    async with scripted(
        b"",  # the connection is cut before a reply
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{",  # and within one
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>",
        reply(503, {"type": "t", "retry": True}, retry_after="0"),
        reply(201, {"ids": ["e9"]}),
        reply(412, {**moved, "current": current}, x_request_id="r1"),
        reply(429, {"type": "t", "error": "TooMany", "retry": True}, retry_after="7"),
    ) as server:
        await page.goto(f"{server.url}client.js")
        assert await page.evaluate(APPEND, 5) == {"ids": ["e9"]}
        refused = await page.evaluate(APPEND, 5)
        assert (refused["name"], refused["status"], refused["error"]) == ("Problem", 412, "LeafMoved")
        assert (refused["detail"], refused["current"], refused["requestId"]) == ("it moved", current, "r1")
        refused = await page.evaluate(APPEND, 1)
        assert (refused["status"], refused["retryAfterMs"]) == (429, 7000)
    assert {line for line, _, _ in server.asked} == {"POST /v1/sessions/a%20b%2Fc/entries HTTP/1.1"}
    assert {body for _, _, body in server.asked} == {'{"type":"x"}'}
    assert {headers["if-match"] for _, headers, _ in server.asked} == {'"leaf:e1"'}
    keys = [headers["idempotency-key"] for _, headers, _ in server.asked]
    assert len(set(keys[:5])) == 1
    assert len(set(keys)) == 3


async def test_what_a_try_deleted_whose_reply_was_lost_is_deleted(page: Page, allowed: list[str]) -> None:
    allowed += ["net::ERR", "404"]
    gone = reply(404, {"type": "t", "error": "SessionNotFound"})
    async with scripted(b"", gone, gone) as server:
        await page.goto(f"{server.url}client.js")
        statuses = await page.evaluate("""async () => {
          const { connect } = await import("./client.js");
          const told = ({ status }) => status;
          const once = () => connect(document.baseURI).delete("sessions/a").then(() => "deleted", told);
          return [await once(), await once()];
        }""")
    assert statuses == ["deleted", 404]

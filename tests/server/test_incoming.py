"""What a request says is read within its bounds: at a bound it is taken, one byte more is refused, in any pieces."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from structlog.testing import capture_logs

from treering import SessionHost
from treering.server import ServerLimits

from .conftest import Client, Json, Serve

BOUNDS = ServerLimits(body_bytes_max=2000, import_bytes_max=3000, url_bytes_max=300, header_bytes_max=1000)
CHUNKED, JSON = b"transfer-encoding: chunked", b"content-type: application/json"
POST = b"POST /v1/sessions HTTP/1.1"


async def one_reply(stream: SocketStream) -> tuple[int, Json]:
    """Return the status and the JSON of the next reply."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive()
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += await stream.receive()
    return int(head.split()[1]), json.loads(body or b"null")


async def asked(client: Client, pieces: Sequence[bytes]) -> tuple[int, Json]:
    """Send a request in pieces, each of which the server reads by itself, and return the reply's status and JSON."""
    async with await anyio.connect_tcp(*client.address) as stream:
        for piece in pieces:
            await stream.send(piece)
            if len(pieces) > 1:
                await client.reply("GET", "/healthz")  # the server has read what came before
        return await one_reply(stream)


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([lines[0], b"host: localhost", *lines[1:], b"", b""])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_a_head_may_be_as_large_as_its_bounds(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=BOUNDS) as client:
        path = b"/v1/sessions?project=/"
        path += b"x" * (300 - len(path) + 1)  # the question mark is of neither the path nor the query
        for more, status in ((b"", 200), (b"x", 414)):
            got, said = await asked(client, [head(b"GET %b%b HTTP/1.1" % (path, more))])
            assert got == status
            assert status == 200 or "`url_bytes_max` (300)" in said["detail"]
        left = 1000 - len(b"hostlocalhost") - len(b"x-a") - 2 * 4
        for size, status in ((left, 200), (left + 1, 431)):
            got, said = await asked(client, [head(b"GET /v1/sessions HTTP/1.1", b"x-a: " + b"x" * size)])
            assert got == status
            assert status == 200 or "1001 bytes, more than `header_bytes_max` (1000)" in said["detail"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("text=%ff", "percent-encoded as UTF-8"),
        ("text=%ED%A0%80", "percent-encoded as UTF-8"),  # half a character
        ("text", "cannot be read"),
        ("&".join(f"x{number}=1" for number in range(101)), "cannot be read"),
        ("text=a&text=b", "2 times"),
        ("text=", "length >= 1"),
    ],
)
async def test_a_query_is_read_as_it_is_or_refused(client: Client, query: str, said: str) -> None:
    assert said in (await client.ask("GET", f"/v1/sessions?{query}", status=400))["detail"]
    assert "takes no query" in (await client.ask("GET", f"/v1?{query}", status=400))["detail"]


async def test_a_query_has_spaces_signs_and_letters_of_any_script(client: Client, host: SessionHost) -> None:
    for title in ("a+b & c=d", "Übung 100 %", "日本"):
        session = await host.create()
        await session.append_session_info(title)
    for text, found in (("a%2Bb+%26+c%3Dd", 1), ("%C3%9Cbung+100+%25", 1), ("%E6%97%A5", 1), ("a+b", 0)):
        assert len((await client.ask("GET", f"/v1/sessions?text={text}"))["items"]) == found, text


async def test_a_body_says_the_same_whole_and_in_any_pieces_up_to_its_bound(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=BOUNDS) as client:
        for more, status in ((0, 201), (1, 413)):
            body = b'{"cwd":"/%b"}' % (b"w" * (2000 + more - 11))
            plain = head(POST, JSON, b"content-length: %d" % len(body))
            framed = head(POST, JSON, CHUNKED)
            for pieces in (
                [plain + body],
                [plain, body],
                [plain, body[:5], body[5:]],
                [framed + chunk(body) + b"0\r\n\r\n"],
                [framed, chunk(body[:1000]), chunk(body[1000:]), b"0\r\n\r\n"],
            ):
                got, said = await asked(client, pieces)
                assert got == status, (said, len(pieces))
                if status == 201:
                    assert said["cwd"] == "/" + "w" * 1989
        assert len(await host.list_sessions(status="any")) == 5


@pytest.mark.parametrize("body", [b"", b"{}", b" {}\n"])
async def test_no_body_and_an_empty_object_are_the_same(client: Client, host: SessionHost, body: bytes) -> None:
    session = await host.create("a")
    await session.append_message("user", "Hello")
    await client.ask("POST", "/v1/sessions/a/archive", body)
    assert [row.status for row in await host.list_sessions(status="any")] == ["archived"]
    assert (await client.reply("POST", "/v1/sessions", body)).status_code == 201


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 201),
        ({"content-type": "Application/JSON ; charset=UTF-8"}, 201),
        ({"content-type": "application/json", "content-encoding": "identity"}, 201),
        ({"content-type": "application/jsonp"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "x" * 5000}, 415),
    ],
)
async def test_a_body_is_json_as_it_is(client: Client, host: SessionHost, headers: Json, status: int) -> None:
    reply = await client.reply("POST", "/v1/sessions", {}, headers=headers)
    assert reply.status_code == status
    assert len(reply.content) < 1000
    assert len(await host.list_sessions(status="any")) == (status == 201)


async def test_a_file_is_taken_piece_by_piece_within_its_bound(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=BOUNDS) as client:
        session = await host.create("a")
        await session.append_message("user", "x" * 2000)  # more than other bodies may have
        file = await session.export("native")
        await host.delete(session)
        put = b"PUT /v1/sessions/a HTTP/1.1"
        for pieces, status in (
            ([head(put, b"content-length: 3001")], 413),
            ([head(put, CHUNKED), chunk(b" " * 1500), chunk(b" " * 1500), chunk(b" ")], 413),
            ([head(put, CHUNKED), chunk(file[:1000]), chunk(file[1000:]) + b"0\r\n\r\n"], 201),
        ):
            assert await host.list_sessions(status="any") == []
            got, said = await asked(client, pieces)
            assert got == status, said
        assert await (await host.load("a")).export("native") == file


async def test_a_file_of_which_nothing_more_comes_leaves_nothing(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(body_for_s=0.2)) as client:
        got, said = await asked(client, [head(b"PUT /v1/sessions/a HTTP/1.1", CHUNKED) + chunk(b'{"type":"session",')])
        assert (got, said["detail"]) == (408, "no byte of the body came for 0.2 s")
        assert await host.list_sessions(status="any") == []


async def test_who_leaves_within_a_body_writes_nothing_and_is_no_failure(tmp_path: Path, served: Serve) -> None:
    limits = ServerLimits()
    async with SessionHost(tmp_path) as host, served(host, limits=limits) as client:
        with capture_logs() as logs:
            async with await anyio.connect_tcp(*client.address) as stream:
                await stream.send(head(POST, JSON, b"content-length: 20") + b'{"id":"a"}')
                await client.reply("GET", "/healthz")
            while not any(each.get("route") == "/v1/sessions" for each in logs):
                await client.reply("GET", "/healthz")
        (told,) = [each for each in logs if each.get("route") == "/v1/sessions"]
        assert (told["event"], told["log_level"], told["status"]) == ("request", "info", 499)
        assert await host.list_sessions(status="any") == []

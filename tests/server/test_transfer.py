"""Whole sessions over HTTP: exported and imported as they are, with flat memory; half of one leaves nothing."""

import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
import zstandard

from treering import SessionHost
from treering.errors import LogReplaced

from .conftest import Client
from .processes import Server, measured, running

MB = 1024 * 1024
PIECE = 256 * 1024


async def test_a_session_goes_out_and_comes_in_whole(client: Client, host: SessionHost, tmp_path: Path) -> None:
    session = await host.create("a")
    for number in range(200):
        await session.append_message("user", f"{number} " + "x" * 2000)
    exported = await client.reply("GET", "/v1/sessions/a/export?format=native")
    assert exported.content == await session.export("native")
    assert exported.headers["content-disposition"] == 'attachment; filename="a.jsonl"'
    for name, whole, media_type in (
        ("html", await session.export("html"), "text/html; charset=utf-8"),
        ("markdown", await session.export("markdown"), "text/markdown; charset=utf-8"),
        ("json", await session.export("json"), "application/json"),
    ):
        reply = await client.reply("GET", f"/v1/sessions/a/export?format={name}")
        assert (reply.status_code, reply.headers["content-type"]) == (200, media_type)
        assert reply.content == whole
    await client.ask("GET", "/v1/sessions/a/export?format=word", status=400)
    await client.ask("GET", "/v1/sessions/a/export?format=nanocoder", status=422)  # a folder
    await client.ask("GET", "/v1/sessions/a/export?redact=true", status=422)  # lines with gaps cannot be continued
    secret = "ghp_" + "b7" * 18
    await (await host.create("b")).append_message("user", f"my token is {secret}")
    for query, kept in (("format=markdown", True), ("format=markdown&redact=true", False)):
        reply = await client.reply("GET", f"/v1/sessions/b/export?{query}")
        assert ((secret.encode() in reply.content), (b"[redacted:github_token]" in reply.content)) == (kept, not kept)
    await host.delete("a")
    report = await client.ask("POST", "/v1/import", exported.content, status=201)
    assert [(each["id"], each["added"]) for each in report["sessions"]] == [("a", 200)]
    assert await (await host.load("a")).export("native") == exported.content
    assert (await client.ask("POST", "/v1/import", exported.content, status=201))["sessions"][0]["added"] == 0


async def test_a_session_that_cannot_be_put_is_refused_at_once_though_it_was_read_before(
    client: Client, host: SessionHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is tried once more with a fresh handle of its session, but not if its body has gone by then."""
    session = await host.create("a")
    await session.append_message("user", "Hello")
    whole = await session.export("native")

    async def replaced(*_: object, **__: object) -> None:
        raise LogReplaced("another process has replaced the log")

    for body in (b"", whole):
        await client.ask("GET", "/v1/sessions/a/entries")
        with anyio.fail_after(20):
            problem = await client.ask("PUT", "/v1/sessions/a?replace=true&leaf=", body, status=409)
        assert problem["error"] == ("LogReplaced" if body else "NotASession")
        monkeypatch.setattr(host, "write_copy", replaced)


async def test_a_key_is_for_one_file(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "one")
    one, key = await session.export("native"), {"Idempotency-Key": "k"}
    await session.append_message("user", "two")
    both = await session.export("native")
    await host.delete("a")
    for status, query, file in ((201, "", one), (200, "", one), (409, "?replace=true", one), (409, "", both)):
        reply = await client.reply("PUT", f"/v1/sessions/a{query}", file, headers=key)
        assert reply.status_code == status
    assert "?replace=true" in (await client.ask("PUT", "/v1/sessions/a", both, status=409))["detail"]
    assert (await host.load("a")).message_count == 1


async def test_an_export_is_packed_as_the_client_accepts_it(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    for number in range(50):
        await session.append_message("user", f"{number} " + "x" * 20_000)
    whole = await session.export("native")
    url = f"http://127.0.0.1:{client.address[1]}/v1/sessions/a/"
    for accept, coding in (
        ("gzip", "gzip"),
        ("zstd, gzip", "zstd"),
        ("zstd;q=0.5, gzip", "gzip"),
        ("*", "zstd"),
        ("gzip;q=0", None),
        ("identity", None),
        ("", None),
    ):
        for path in ("export", "entries?limit=50"):
            plain = whole if path == "export" else (await client.reply("GET", f"/v1/sessions/a/{path}")).content
            async with client.http.stream("GET", url + path, headers={"accept-encoding": accept}) as reply:
                assert reply.headers.get("content-encoding") == coding, accept
                assert "Accept-Encoding" in reply.headers["vary"]
                sent = b"".join([piece async for piece in reply.aiter_raw()])
            assert unpacked(sent, coding) == plain
            assert len(sent) < len(plain) / 10 or coding is None


def unpacked(data: bytes, coding: str | None) -> bytes:
    if coding == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return gzip.decompress(data) if coding == "gzip" else data


async def prove(folder: Path, megabytes: int, flat: int) -> None:
    """Send a session of a size out and in again through a process whose memory grows by no more than `flat` bytes."""
    root, temporary = folder / "root", folder / "temporary"
    temporary.mkdir()
    size, text = megabytes * MB, "x" * 20_000
    async with SessionHost(root) as host:
        session = await host.create("big")
        while (root / "big.jsonl").stat().st_size < size if session.message_count else True:
            await session.append_message("user", f"{session.message_count} {text}")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with running(root, environment=environment) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=600) as http:
            await http.get("/v1/sessions/big")
            with measured(server) as memory:
                await download(http, folder / "one")
            assert max(memory) - memory[0] < flat, "out"
            assert (await http.delete("/v1/sessions/big")).status_code == 204
            with measured(server) as memory:
                reply = await http.post("/v1/import", content=pieces(folder / "one"))
            assert reply.status_code == 201, reply.text
            assert max(memory) - memory[0] < flat, "in"
            await download(http, folder / "two")
            assert (folder / "one").read_bytes() == (folder / "two").read_bytes()
            assert (folder / "one").stat().st_size >= size
            assert (await http.delete("/v1/sessions/big")).status_code == 204
            for cut_at in (PIECE, size // 2, (folder / "one").stat().st_size - 1):
                await break_off(server, folder / "one", cut_at)
                while list(temporary.iterdir()):  # until the server has noticed
                    assert (await http.get("/healthz")).status_code == 200
                assert (await http.get("/v1/sessions?status=any")).json()["items"] == []
        assert "request_failed" not in server.log(), "clients that leave are no failures of the server"
        names = {path.name for path in root.iterdir() if not path.name.startswith(".")}
        assert not any("big" in name and name.endswith(".jsonl") for name in names), names


async def download(http: httpx2.AsyncClient, path: Path) -> None:
    async with http.stream("GET", "/v1/sessions/big/export", headers={"accept-encoding": "identity"}) as reply:
        assert reply.status_code == 200
        async with await anyio.open_file(path, "wb") as file:
            async for piece in reply.aiter_raw(PIECE):
                await file.write(piece)


async def pieces(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(PIECE):
            yield piece


async def break_off(server: Server, path: Path, cut_at: int) -> None:
    """Begin to send a file, and leave after so many bytes."""
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        size = (await anyio.Path(path).stat()).st_size
        await stream.send(b"POST /v1/import HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size)
        sent = 0
        async for piece in pieces(path):
            await stream.send(piece[: cut_at - sent])
            sent += len(piece)
            if sent >= cut_at:
                break


async def test_a_session_passes_through_and_half_of_one_leaves_nothing(tmp_path: Path) -> None:
    await prove(tmp_path, 16, 12 * MB)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-25")
async def test_two_hundred_megabytes_pass_through_flat_memory(tmp_path: Path) -> None:
    await prove(tmp_path, 200, 64 * MB)


async def test_a_broken_upload_leaves_nothing(client: Client, host: SessionHost, tmp_path: Path) -> None:
    await client.ask("POST", "/v1/import", b"no session", status=422)
    async with await anyio.connect_tcp(*client.address) as stream:
        await stream.send(
            b'POST /v1/import HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{"type":"session"'
        )
    await client.ask("GET", "/healthz")
    assert await host.list_sessions(status="any") == []

"""What a server refuses: unknown input, too much of it, other hosts, other sites; each with a problem that says why."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import SessionHost, SessionSummary
from treering.actors.catalog.listing import SessionListing
from treering.events import errors
from treering.events.errors import AppendFailed, LeafMoved, TreeringError, Where
from treering.server import ServerLimits
from treering.server.http.problems import problem_of

from .conftest import Client, Json, Serve

HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}


@pytest.mark.feature("S-10")
@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "no body"),
        (b"{", 400, "not JSON"),
        (b'{"type":"message","message":{"role":"user"}} x', 400, "not JSON"),
        (b'{"type":"message","type":"label"}', 400, "'type' stands twice"),
        (b'{"type":"message","message":{"role":"user","metadata":{"a":1,"a":2}}}', 400, "'a' stands twice"),
        (b'{"type": "message", "message": {"role": "user", "metadata": {"a": 1, "a": 2}}}', 400, "'a' stands twice"),
        (b'{"type":"message","message":{"role":"user","metadata":{"a":NaN}}}', 400, "NaN"),
        (b'{"type":"message","message":{"role":"user","metadata":{"a":1e999}}}', 400, "too large"),
        (b'{"type":"message","message":{"role":"user","content":"\\ud800"}}', 400, "surrogate"),
        (b'{"type":"message","message":{"role":"user","content":"\xff"}}', 400, "UTF-8"),
        (b'{"type":"message","message":{"role":"user","metadata":' + b'{"a":' * 200 + b"1" + b"}" * 202, 400, "nested"),
        (b'{"a":"\\"' + b"[" * 200, 400, "not JSON"),
        (b"[1]", 400, "object"),
        (b'{"entries":[],"x":1}', 400, "unknown field `x`"),
        (b'{"entries":[]}', 400, "1 to 1000"),
        (b'{"type":"nonsense","nonsense":{}}', 422, "'nonsense'"),
        (b'{"type":"message","message":{"role":"user"},"id":"mine"}', 422, "unknown field `id`"),
        (b'{"type":"message","message":{"role":"user","colour":"red"}}', 422, "unknown field `colour`"),
        (b'{"type":"message","message":{"role":7}}', 422, "`str`, got `int`"),
        (b'{"type":"message","message":{"role":"assistant","usage":{"input_tokens":-1}}}', 422, "from 0 on"),
        (b'{"type":"message","message":{"role":"user","content":[{"type":"text","text":{"b":1}}]}}', 422, "text"),
    ],
)  # fmt: skip
async def test_unknown_input_is_refused_by_name_and_nothing_is_written(
    client: Client, host: SessionHost, body: bytes, status: int, said: str
) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    problem = await client.ask("POST", "/v1/sessions/a/entries", body, status=status)
    assert said in problem["detail"]
    assert problem["status"] == status
    assert (await host.load("a")).cursor.seq == 0


async def test_a_form_is_told_in_words(client: Client) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    for verb, path, body, told in (
        ("POST", "/v1/sessions", {"id": "a/b"}, "Expected an id of up to 180 characters, no control characters"),
        ("POST", "/v1/sessions", {"key": "a\nb"}, "Expected a key of up to 1,024 characters, no control characters"),
        ("POST", "/v1/sessions", {"cwd": "~"}, "Expected an absolute path, which begins with a slash - at `$.cwd`"),
        ("PUT", "/v1/keys/a", {"cwd": "C:\\work"}, "Expected an absolute path"),
        ("PATCH", "/v1/sessions/a", {"project": "."}, "Expected an absolute path"),
        ("GET", "/v1/sessions/a/entries?ids=", None, "Expected `array` of length >= 1 - at `$.ids`"),
        ("GET", "/v1/sessions/a/entries?after=x", None, "Expected a seq or a cursor - at `$.after`"),
        ("GET", "/v1/sessions/a/entries?at_least=x", None, "Expected a cursor, as a reply gives it - at `$.at_least`"),
        ("GET", "/v1/sessions/a/events?since=x", None, "Expected `start`, `end` or a cursor - at `$.since`"),
    ):
        assert (await client.ask(verb, path, body, status=400))["detail"].startswith(told)


@pytest.mark.feature("S-10")
async def test_unknown_names_paths_and_media_types_are_refused(client: Client) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    assert "`colour`" in (await client.ask("GET", "/v1/sessions?colour=red", status=400))["detail"]
    assert "2 times" in (await client.ask("GET", "/v1/sessions?limit=1&limit=2", status=400))["detail"]
    for query in (
        "since=0.5",
        "since=2026-01-01",
        "since=null",
        "limit=null",
        "limit=0",
        "limit=1001",
        "limit=many",
        "order=size",
        "count=perhaps",
        "status=all",
    ):
        await client.ask("GET", f"/v1/sessions?{query}", status=400)
    await client.ask("GET", "/v1/sessions/a/entries?after=nowhere", status=400)
    await client.ask("GET", "/v1/sessions/a/entries?after=1-elsewhere", status=409)
    await client.ask("POST", "/v1/sessions/a/archive", {"x": 1}, status=400)
    plain = await client.reply("POST", "/v1/sessions", b"{}", headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.headers["content-type"]) == (415, "application/problem+json")
    for key in ("", "a b", "x" * 256):
        assert (await client.reply("POST", "/v1/sessions", {}, headers={"Idempotency-Key": key})).status_code == 400
    wrong = await client.reply("PUT", "/v1/sessions", {})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST, OPTIONS")
    assert (await client.reply("OPTIONS", "/v1/sessions")).headers["allow"] == "GET, HEAD, POST, OPTIONS"
    doubled = "http://{}:{}//v1/sessions".format(*client.address)  # alone, it would name the host "v1"
    for path in ("/v1/nothing", "/v1/sessions/", "/v1/sessions/a/", doubled, "/v1/sessions/a%2Ftree"):
        assert (await client.reply("GET", path)).status_code == 404, path
    assert "/openapi.json lists" in (await client.ask("GET", "/v1/nothing", status=404))["detail"]
    for path in ("/v1/sessions/%ff", "/v1/sessions/a%00", "/v1/sessions/%2e%2e"):
        assert (await client.reply("GET", path)).status_code in (400, 404), path
    head = await client.reply("HEAD", "/v1/sessions/a")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 10


@pytest.mark.feature("S-11")
async def test_each_bound_is_kept_and_named(tmp_path: Path, served: Serve) -> None:
    limits = ServerLimits(
        body_bytes_max=4000, batch_max=3, header_bytes_max=3000, url_bytes_max=500, requests_max=2, streams_max=2
    )
    async with SessionHost(tmp_path) as host, served(host, limits=limits) as client:
        await client.ask("POST", "/v1/sessions", {"id": "a"})
        url = "/v1/sessions/a/entries"
        await client.ask("POST", url, {"entries": [HELLO] * 4}, status=400)
        await client.ask("POST", url, b" " * 4001, status=413)

        async def chunks() -> Json:
            for _ in range(6):
                yield b" " * 1000

        reply = await client.http.post(url, content=chunks(), headers={"content-type": "application/json"})
        assert reply.status_code == 413
        assert (await client.reply("GET", f"/v1/sessions?project={'x' * 500}")).status_code == 414
        assert (await client.reply("GET", url, headers={"x-long": "x" * 3000})).status_code == 431
        async with client.follow("/v1/sessions/a/events"), client.follow("/v1/events"):
            full = await client.reply("GET", "/v1/sessions/a/events")
            assert full.status_code == 429
            assert int(full.headers["retry-after"]) >= 1
            assert full.json()["error"] == "TooMany"
            assert full.json()["retry"]
            await (await host.load("a")).append_message("user", "The agents go on")
        status = 429
        while status == 429:  # until the server has noticed that the streams were left
            status = (await client.reply("GET", "/v1/sessions/a/events?live=false")).status_code
        assert status == 200


async def test_other_hosts_and_writes_from_other_sites_are_refused(client: Client, host: SessionHost) -> None:
    name = f"127.0.0.1:{client.address[1]}"
    for named in ("evil.example", "127.0.0.1.evil.example", f"evil.example:{client.address[1]}", "localhost.", ""):
        for verb, path in (("GET", "/healthz"), ("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("OPTIONS", "/v1")):
            reply = await client.reply(verb, path, headers={"host": named})
            assert reply.status_code == 421, (named, verb)
    assert (await raw(client, b"GET /healthz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 400")
    for origin in ("http://evil.example", f"http://{name}.evil.example", "null", "http://["):
        reply = await client.reply("POST", "/v1/sessions", {}, headers={"origin": origin})
        assert reply.status_code == 403
        assert "access-control-allow-origin" not in reply.headers
    assert await host.list_sessions() == []
    assert (await client.reply("POST", "/v1/sessions", {}, headers={"origin": f"http://{name}"})).status_code == 201
    for reply in (await client.reply("GET", "/v1/sessions"), await client.reply("GET", "/nothing")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "unsafe-inline" not in reply.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]


async def test_pages_of_allowed_origins_may_ask(tmp_path: Path, served: Serve) -> None:
    page = "https://app.example"
    async with SessionHost(tmp_path) as host, served(host, allow_origins=[page]) as client:
        before = await client.reply("OPTIONS", "/v1/sessions", headers={"origin": page})
        assert before.headers["access-control-allow-origin"] == page
        assert "Idempotency-Key" in before.headers["access-control-allow-headers"]
        made = await client.reply("POST", "/v1/sessions", {}, headers={"origin": page})
        assert made.status_code == 201
        assert "Location" in made.headers["access-control-expose-headers"]


@pytest.mark.feature("S-11")
async def test_a_principal_may_have_so_many_requests_waiting(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(requests_max=2)) as client:
        head = b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{"
        async with await anyio.connect_tcp(*client.address) as one, await anyio.connect_tcp(*client.address) as two:
            await one.send(head)
            await two.send(head)
            status = 200
            while status == 200:  # until both have begun
                status = (await client.reply("GET", "/v1/sessions")).status_code
            assert status == 429
            for probe in ("/healthz", "/readyz"):
                assert await client.ask("GET", probe) == {"status": "ok"}, "the process lives"
            await (await host.create("a")).append_message("user", "The agents go on")
            for waiting in (one, two):
                await waiting.send(b"}")
                assert b" 201 " in (await waiting.receive())[:20]
        assert (await client.reply("GET", "/v1/sessions")).status_code == 200


async def test_streams_that_begin_at_once_are_no_more_than_a_principal_may_have(
    tmp_path: Path, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(streams_max=1)) as client:
        await (await host.create("a")).append_message("user", "Hello")
        resolve, begun, statuses = host.resolve, 0, list[int]()
        both, refused = anyio.Event(), anyio.Event()

        async def resolved(session: str) -> SessionSummary:
            nonlocal begun
            begun += 1
            if begun == 2:
                both.set()
            await both.wait()
            return await resolve(session)

        async def follow() -> None:
            async with client.http.stream("GET", "/v1/sessions/a/events") as reply:
                statuses.append(reply.status_code)
                if reply.status_code == 429:
                    refused.set()
                await refused.wait()

        monkeypatch.setattr(host, "resolve", resolved)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                tasks.start_soon(follow)
        assert sorted(statuses) == [200, 429]


async def raw(client: Client, request: bytes) -> bytes:
    """Return what the server answers to bytes."""
    async with await anyio.connect_tcp(*client.address) as stream:
        await stream.send(request)
        received = b""
        with anyio.move_on_after(30):
            while True:
                try:
                    received += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    break
        return received


async def test_heads_that_trickle_or_grow_without_end_are_cut_off(tmp_path: Path, served: Serve) -> None:
    limits = ServerLimits(header_for_s=1, header_bytes_max=2000, url_bytes_max=500, body_for_s=0.2)
    async with SessionHost(tmp_path) as host, served(host, limits=limits) as client:
        async with await anyio.connect_tcp(*client.address) as slow:
            await slow.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await slow.receive()
        assert b" 431 " in await raw(client, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 100_000)
        post = b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"
        assert b" 408 " in (await raw(client, post))[:40]
        await client.ask("GET", "/healthz")


def all_errors() -> list[type[TreeringError]]:
    return [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, TreeringError)]


def made(kind: type[TreeringError]) -> TreeringError:
    message = "the file /home/someone/secret/sessions/a.jsonl is in the way of /var/lib/x"
    return kind("an-entry") if kind is errors.EntryNotFound else kind(message)


@pytest.mark.feature("S-9")
@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_each_error_has_a_problem_without_folders(kind: type[TreeringError]) -> None:
    error = made(kind)
    error.where = Where("/home/someone/secret/sessions/a.jsonl", 3, 70)
    problem = problem_of(error, instance="r1")
    assert problem.error == kind.__name__
    assert problem.type == f"urn:treering:problem:{slug(kind.__name__)}"
    assert 400 <= problem.status < 600
    assert problem.title
    assert problem.detail
    text = repr(problem)
    assert "secret" not in text
    assert "/var" not in text
    assert "a.jsonl" in text
    if kind not in (TreeringError, errors.ProjectionFailed, errors.RequestError, errors.WrongThread):
        assert problem.status != 500, "each error has a status of its own"


def slug(name: str) -> str:
    return "".join(f"-{each.lower()}" if each.isupper() else each for each in name).lstrip("-")


@pytest.mark.feature("S-9")
@given(
    folders=st.lists(
        st.text("abcXYZ019.-_é ", min_size=1, max_size=8).map(str.strip).filter(bool), min_size=1, max_size=5
    ),
    around=st.sampled_from(
        ["cannot read {}", "'{}': no", "({}) is in the way", "{}:3:70: no JSON", "at {}, or {}", '"{}"']
    ),
)
def test_no_folder_shows_in_a_problem(folders: list[str], around: str) -> None:
    hidden = [f"zq{name}" for name in folders]
    path = "/" + "/".join(hidden) + "/a.jsonl"
    error = TreeringError(around.format(path, path), where=Where(path, 1, 2))
    problem = problem_of(error, root="/" + "/".join(hidden))
    text = f"{problem.detail} {problem.where}"
    assert "a.jsonl" in text
    assert not any(f"{name}/" in text for name in hidden)


@pytest.mark.feature("S-9")
async def test_a_defect_is_told_without_its_text(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> object:
        raise RuntimeError("the password is 1234, see /etc/passwd")

    monkeypatch.setattr(SessionListing, "now", fails)
    reply = await client.reply("GET", "/v1/sessions")
    assert reply.status_code == 500
    assert reply.json()["type"] == "urn:treering:problem:internal-error"
    assert "1234" not in reply.text
    assert "passwd" not in reply.text
    assert "Traceback" not in reply.text


def test_a_full_disk_is_told_from_a_broken_one() -> None:
    for number, status in ((28, 507), (5, 503)):
        error = AppendFailed("nothing was written")
        error.__cause__ = OSError(number, "no")
        assert problem_of(error).status == status
    assert problem_of(LeafMoved("x")).status == 412
    assert json.loads(json.dumps(problem_of(ValueError("/etc/passwd")).detail)).count("passwd") == 0

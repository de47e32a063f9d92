"""Who may ask: tokens, their roles and the keys within which these hold; and that nothing of others shows."""

import hmac
import logging
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from treering import InvalidInput, SessionHost
from treering.events.disk.disk import OsDisk
from treering.server import ServerLimits, Tokens

from .conftest import Client, Serve

HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> Tokens:
    return Tokens(tmp_path / "tokens.json", OsDisk(), clock=clock)


@pytest.fixture
async def guarded(host: SessionHost, tokens: Tokens, served: Serve) -> AsyncIterator[Client]:
    async with served(host, tokens=tokens, open_without_tokens=False) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.feature("S-28")
async def test_only_valid_tokens_are_known_and_none_is_logged(
    guarded: Client, tokens: Tokens, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = tokens.create("admin", expires=NOW + timedelta(days=1))
    cookie = f"treering_token_{guarded.address[1]}"
    wrong = [
        {},
        bearer("secret"),
        bearer(token[:-1]),
        bearer(token[:-1] + ("A" if token[-1] != "A" else "B")),
        bearer(token + "x"),
        bearer(tokens.create("admin", once=True)),
        {"authorization": f"Basic {token}"},
        {"authorization": token},
        {"cookie": f"{cookie}=nonsense"},
        {"cookie": f"treering_token_1={token}"},  # of a server at another port
    ]
    for headers in wrong:
        reply = await guarded.reply("GET", "/v1/sessions", headers=headers)
        assert reply.status_code == 401, headers
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.json()["error"] == "NotAuthorized"
        is_sent = "Bearer " in headers.get("authorization", "") or cookie in headers.get("cookie", "")
        assert reply.json()["detail"].startswith("the token is not" if is_sent else "this needs a token"), headers
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert (await guarded.reply("GET", path)).status_code == 200
    assert (await guarded.reply("GET", "/metrics")).status_code == 401
    for headers in (bearer(token), {"authorization": f"bearer {token}"}, {"cookie": f"{cookie}={token}"}):
        assert (await guarded.reply("GET", "/v1/sessions", headers=headers)).status_code == 200
    clock.now += timedelta(days=1)
    assert (await guarded.reply("GET", "/v1/sessions", headers=bearer(token))).status_code == 401
    secret = token.split("_", 2)[2]
    assert "GET" in caplog.text
    assert secret not in caplog.text


@pytest.mark.feature("S-28")
async def test_tokens_are_kept_as_hashes_and_count_at_once(
    guarded: Client, tokens: Tokens, tmp_path: Path, clock: Clock
) -> None:
    elsewhere = Tokens(tmp_path / "tokens.json", OsDisk(), clock=clock)  # another process
    token = elsewhere.create("read", prefix="a:")
    assert (await guarded.reply("GET", "/v1", headers=bearer(token))).json()["prefix"] == "a:"
    kept = await anyio.Path(tmp_path / "tokens.json").read_text()
    assert token.split("_", 2)[2] not in kept
    assert (await anyio.Path(tmp_path / "tokens.json").stat()).st_mode & 0o077 == 0
    assert elsewhere.revoke(tokens.all()[0].id)
    assert not elsewhere.revoke("nobody")
    assert (await guarded.reply("GET", "/v1", headers=bearer(token))).status_code == 401
    with pytest.raises(InvalidInput, match="'a:'"):
        tokens.create("read", prefix="a")
    with pytest.raises(InvalidInput, match="to come"):
        tokens.create("read", expires=NOW)


@pytest.mark.feature("S-28")
async def test_every_token_costs_one_comparison_of_the_same_length(
    guarded: Client, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def comparing(given: str, kept: str) -> bool:
        compared.append((len(given), len(kept)))
        return compare(given, kept)

    monkeypatch.setattr(hmac, "compare_digest", comparing)  # which takes as long wherever two texts differ
    token = tokens.create("read")
    start, token_id, secret = token.split("_", 2)
    almost = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for given, status in (
        (token, 200),
        (f"{start}_{token_id}_{almost}", 401),
        (f"{start}_{token_id}_{almost[::-1]}", 401),
        (f"{start}_{token_id[::-1]}_{secret}", 401),  # nobody has this id, and that takes no less
    ):
        compared.clear()
        assert (await guarded.reply("GET", "/v1/sessions", headers=bearer(given))).status_code == status
        assert compared == [(64, 64)]


async def test_a_link_gives_a_cookie_once(guarded: Client, tokens: Tokens, clock: Clock) -> None:
    late, link = tokens.create("read", once=True), tokens.create("write", once=True)
    own = {"origin": "http://{}:{}".format(*guarded.address)}
    reply = await guarded.reply("POST", "/login", {"token": link})
    cookie = reply.headers["set-cookie"]
    assert reply.status_code == 204
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=86400"):
        assert part in cookie
    guarded.http.cookies.clear()
    sent = {"cookie": cookie.split(";")[0]}
    assert (await guarded.reply("GET", "/v1", headers=sent)).json()["role"] == "write"
    assert (await guarded.reply("POST", "/v1/sessions", {}, headers={**sent, **own})).status_code == 201
    assert (await guarded.reply("POST", "/login", {"token": link})).status_code == 401
    port = guarded.address[1]
    for origin in (
        {},
        {"origin": "http://evil.example"},
        {"origin": f"http://127.0.0.1:{port + 1}"},
        {"origin": "null"},
    ):
        assert (await guarded.reply("POST", "/v1/sessions", {}, headers={**sent, **origin})).status_code == 403
    clock.now += timedelta(minutes=11)
    assert (await guarded.reply("POST", "/login", {"token": late})).status_code == 401
    out = await guarded.reply("POST", "/logout", headers={**sent, **own})
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert (await guarded.reply("GET", "/v1", headers=sent)).status_code == 401  # the cookie itself ended
    lasting = tokens.create("read")
    cookie = (await guarded.reply("POST", "/login", {"token": lasting})).headers["set-cookie"].split(";")[0]
    guarded.http.cookies.clear()
    assert (await guarded.reply("GET", "/v1", headers={"cookie": cookie})).json()["role"] == "read"
    assert tokens.revoke(lasting.split("_")[1])
    assert (await guarded.reply("GET", "/v1", headers={"cookie": cookie})).status_code == 401


class WaitingDisk(OsDisk):
    """Flushes files when it may."""

    def __init__(self) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self.may.set()

    def datasync(self, fd: int) -> None:
        self.begun.set()
        assert self.may.wait(10), "nobody else was served meanwhile"


async def test_who_signs_in_keeps_nobody_waiting(host: SessionHost, tmp_path: Path, served: Serve) -> None:
    tokens = Tokens(tmp_path / "tokens.json", disk := WaitingDisk())
    link = tokens.create("read", once=True)
    async with served(host, tokens=tokens) as client, anyio.create_task_group() as tasks:
        disk.begun.clear()
        disk.may.clear()
        tasks.start_soon(client.ask, "POST", "/login", {"token": link})
        await anyio.to_thread.run_sync(disk.begun.wait)
        await client.ask("GET", "/healthz")
        disk.may.set()


async def test_a_server_stays_closed_when_its_only_token_expires(
    tmp_path: Path, served: Serve, tokens: Tokens, clock: Clock
) -> None:
    async with SessionHost(tmp_path / "root") as host, served(host, tokens=tokens) as client:
        tokens.create("admin", expires=NOW + timedelta(hours=1))
        last, link = tokens.create("read", expires=NOW + timedelta(hours=2)), tokens.create("read", once=True)
        cookie = (await client.reply("POST", "/login", {"token": link})).headers["set-cookie"].split(";")[0]
        client.http.cookies.clear()
        clock.now += timedelta(hours=3)
        signed_in = {"cookie": cookie, "origin": "http://{}:{}".format(*client.address)}
        assert (await client.reply("POST", "/logout", headers=signed_in)).status_code == 204
        assert [each.id for each in tokens.all()] == [last.split("_")[1]], "of those that have expired, one is kept"
        assert (await client.reply("GET", "/v1")).status_code == 401
        assert tokens.revoke(last.split("_")[1])
        assert (await client.reply("GET", "/v1")).status_code == 200


@pytest.mark.feature("S-29")
async def test_a_role_covers_what_it_says(guarded: Client, host: SessionHost, tokens: Tokens) -> None:
    reads, writes, admin = (bearer(tokens.create(role)) for role in ("read", "write", "admin"))
    await guarded.ask("POST", "/v1/sessions", {"id": "a"}, headers=writes)
    await guarded.ask("POST", "/v1/sessions/a/entries", HELLO, headers=writes)
    for verb, path, body in (
        ("POST", "/v1/sessions", {}),
        ("PUT", "/v1/keys/k", {}),
        ("PATCH", "/v1/sessions/a", {"title": "x"}),
        ("POST", "/v1/sessions/a/entries", HELLO),
        ("PUT", "/v1/sessions/a/leaf", {"entry_id": None}),
        ("POST", "/v1/sessions/a/branch", {"entry_id": None}),
        ("POST", "/v1/sessions/a/truncate", {"keep_last": 1}),
        ("POST", "/v1/sessions/a/archive", None),
        ("POST", "/v1/sessions/a/fork", {}),
        ("DELETE", "/v1/sessions/a", None),
        ("POST", "/v1/import", b""),
    ):
        assert (await guarded.reply(verb, path, body, headers=reads)).status_code == 403, (verb, path)
    for verb, path in (("DELETE", "/v1/sessions/a"), ("POST", "/v1/import")):
        assert (await guarded.reply(verb, path, headers=writes)).status_code == 403
    for path in ("/v1/sessions", "/v1/sessions/a/tree", "/v1/search?q=hello", "/metrics"):
        assert (await guarded.reply("GET", path, headers=reads)).status_code == 200
    assert (await host.load("a")).cursor.seq == 1
    await guarded.ask("DELETE", "/v1/sessions/a", headers=admin)


@pytest.mark.feature("S-29")
async def test_nothing_of_other_keys_shows(guarded: Client, host: SessionHost, tokens: Tokens) -> None:
    mine, theirs = await host.get_or_create("a:1"), await host.get_or_create("b:1")
    plain = await host.create("plain")
    for session in (mine, theirs, plain):
        await session.append_message("user", "A secret word: hedgehog")
    head = bearer(tokens.create("admin", prefix="a:"))
    listed = await guarded.ask("GET", "/v1/sessions?status=any&count=true", headers=head)
    assert [row["id"] for row in listed["items"]] == [mine.id]
    await guarded.ask("GET", "/metrics", headers=head, status=403)
    assert listed["total"] == 1
    found = await guarded.ask("GET", "/v1/search?q=hedgehog", headers=head)
    assert [hit["session_id"] for hit in found["items"]] == [mine.id]
    assert found["next"] is None
    for verb, path, body in (
        ("GET", "/v1/sessions/{}", None),
        ("GET", "/v1/sessions/{}/entries", None),
        ("GET", "/v1/sessions/{}/events", None),
        ("GET", "/v1/sessions/{}/context", None),
        ("GET", "/v1/sessions/{}/search?q=hedgehog", None),
        ("GET", "/v1/sessions/{}/export", None),
        ("POST", "/v1/sessions/{}/entries", HELLO),
        ("PATCH", "/v1/sessions/{}", {"title": "x"}),
        ("DELETE", "/v1/sessions/{}", None),
        ("POST", "/v1/sessions/{}/archive", None),
    ):
        for _ in range(2):  # a handle that was kept for others opens nothing either
            hidden = await guarded.reply(verb, path.format(theirs.id), body, headers=head)
            missing = await guarded.reply(verb, path.format("b-nobody"), body, headers=head)
            assert (hidden.status_code, missing.status_code) == (404, 404), (verb, path)
            told = [
                reply.json()["detail"].replace(name, "ID")
                for reply, name in ((hidden, theirs.id), (missing, "b-nobody"))
            ]
            assert told[0] == told[1]
        everything = bearer(tokens.create("read"))
        if verb == "GET" and "events" not in path:
            assert (await guarded.reply("GET", path.format(theirs.id), headers=everything)).status_code == 200
    refused: list[tuple[str, str, object]] = [
        ("GET", "/v1/keys/b:1", None),
        ("POST", "/v1/sessions", {"key": "b:2"}),
        ("POST", "/v1/sessions", {"id": "free"}),
        ("PUT", "/v1/keys/b:2", {}),
        ("POST", f"/v1/sessions/{mine.id}/fork", {}),
        ("POST", "/v1/import", b"x"),
    ]
    for verb, path, sent in refused:
        assert (await guarded.reply(verb, path, sent, headers=head)).status_code in (403, 404), (verb, path)
    assert (await guarded.reply("PUT", "/v1/keys/a:2", {}, headers=head)).status_code == 201
    async with guarded.follow("/v1/events", headers=head) as events:
        shown = [await anext(events) for _ in range(4)]
        assert {event.data["id"] for event in shown if event.event == "session"} >= {mine.id}
        await theirs.append_message("user", "more")
        await mine.append_message("user", "more")
        told_of = await anext(events)
        assert told_of.data["id"] == mine.id
    many: dict[str, object] = {"sessions": {mine.id: {}, theirs.id: {}}}
    async with guarded.follow("/v1/events", body=many, headers=head) as events:
        first = await anext(events)
        assert (first.data["added"], list(first.data["refused"])) == ([mine.id], [theirs.id])
        stream = first.data["stream"]
        other = bearer(tokens.create("admin"))
        change = {"revision": 0, "add": {}}
        assert (await guarded.reply("PATCH", f"/v1/events/{stream}", change, headers=other)).status_code == 404


async def test_an_open_stream_ends_when_its_token_is_revoked_or_expires(
    tmp_path: Path, served: Serve, tokens: Tokens, clock: Clock
) -> None:
    limits = ServerLimits(known_every_s=0.01)
    async with SessionHost(tmp_path / "root") as host, served(host, tokens=tokens, limits=limits) as client:
        await client.ask("GET", "/v1", status=200)
        async with client.follow("/v1/events") as events:  # of somebody who needed no token then
            assert (await anext(events)).event == "reset"
            lasting, short = tokens.create("read"), tokens.create("read", expires=NOW + timedelta(hours=1))
            assert [event async for event in events][-1].data["reason"] == "revoked"
        await (await host.create("a")).append_message("user", "Hello")
        for token, address, reason in ((lasting, "/v1/sessions/a/events", "revoked"), (short, "/v1/events", "expired")):
            async with client.follow(address, headers=bearer(token)) as events:
                assert (await anext(events)).event in ("entry", "reset")
                if reason == "revoked":
                    Tokens(tmp_path / "tokens.json", OsDisk(), clock=clock).revoke(token.split("_")[1])  # as others do
                else:
                    clock.now += timedelta(hours=1)
                last = [event async for event in events][-1]
                assert (last.event, last.data["reason"], last.data["reconnect"]) == ("bye", reason, False)

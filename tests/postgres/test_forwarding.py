"""Servers of the same sessions: a request that reaches one goes to the one that owns the session, once."""

import base64
import os
import ssl
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx2
import msgspec
import pytest
from tests.remote.proxy import CuttingProxy
from tests.server.conftest import Client, Json, served
from tests.server.processes import Server, free_port
from tests.serving import certificate_of

from treering import Session, SessionHost, plain_text
from treering.errors import InvalidInput, SessionLocked
from treering.events.disk.disk import OsDisk
from treering.remote import RemoteHost
from treering.server import ServerLimits
from treering.server.cluster import forwarding
from treering.server.cluster.peers import HOP, Cluster
from treering.server.principals import Principal
from treering.server.tokens import Tokens
from treering.stores.postgres import PostgresStore

from .load import texts

pytestmark = pytest.mark.feature("C-9")

SECRET = b"a secret of sixteen bytes or more"
PEERS = ("127.0.0.0/8",)
LEASE = "&lease_s=2"
TWO_SESSIONS = Path(__file__).resolve().parents[1] / "data" / "openai_agents" / "sessions.db"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "AGAIN_S", 0.05)


def message(text: str) -> dict[str, object]:
    """Return the body of a request that appends a message."""
    return {"type": "message", "message": {"role": "user", "content": text}}


class Node(NamedTuple):
    """A host with its server."""

    host: SessionHost
    client: Client
    cluster: Cluster


@asynccontextmanager
async def node(
    url: str | None = None,
    *,
    store: PostgresStore | None = None,
    secret: bytes = SECRET,
    peers: tuple[str, ...] = PEERS,
    address: str | None = None,
    **options: Json,
) -> AsyncGenerator[Node]:
    """Serve the sessions of a database, together with other hosts."""
    port = free_port()
    cluster = Cluster(address or f"http://127.0.0.1:{port}", secret, peers)
    async with (
        SessionHost(url, store=store, placement="forward", address=cluster.address) as host,
        served(host, port=port, cluster=cluster, **options) as client,
    ):
        yield Node(host, client, cluster)


async def say(client: Client, session_id: str, text: str, **options: Json) -> Json:
    """Append a message."""
    return await client.ask("POST", f"/v1/sessions/{session_id}/entries", message(text), **options)


# -- three processes behind one list of addresses


@contextmanager
def three_servers(url: str, folder: Path) -> Generator[list[Server]]:
    """Run three servers in processes of their own."""
    secret = folder / "secret"
    secret.write_bytes(SECRET)
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    with ExitStack() as running:
        servers: list[Server] = []
        for number in range(3):
            port = free_port()
            options = ["--advertise", f"http://127.0.0.1:{port}", "--peer", PEERS[0]]
            options += ["--cluster-secret-file", str(secret)]
            server = Server(url, *options, environment=environment, port=port, log=folder / f"{number}.log")
            server.start()
            running.callback(_kill, server)
            servers.append(server)
        yield servers


def _kill(server: Server) -> None:
    if server.process is not None:
        server.kill()


async def test_a_command_sent_to_any_of_three_servers_reaches_the_owner_once_also_after_its_death(
    url: str, tmp_path: Path
) -> None:
    with three_servers(url + LEASE, tmp_path) as servers:
        async with httpx2.AsyncClient(timeout=30, headers={"content-type": "application/json"}) as http:

            async def ask(number: int, verb: str, path: str, body: object = None, key: str = "") -> Json:
                headers = {"idempotency-key": key} if key else {}
                content = None if body is None else msgspec.json.encode(body)
                reply = await http.request(verb, servers[number].address + path, content=content, headers=headers)
                assert reply.is_success, (reply.text, *(each.log()[-3000:] for each in servers if each.process))
                return reply.json()

            await ask(0, "POST", "/v1/sessions", {"id": "shared"})
            place = "/v1/sessions/shared/entries"
            for count in range(9):
                replies = [
                    await ask(number, "POST", place, message(f"{count}"), f"say {count}".replace(" ", "-"))
                    for number in (count % 3, (count + 1) % 3)
                ]
                assert replies[0]["ids"] == replies[1]["ids"]
                found = await ask((count + 2) % 3, "GET", f"{place}?at_least={replies[0]['cursor']}")
                assert len(found["items"]) == count + 1
            servers[0].kill()
            reply = await ask(1, "POST", place, message("9"), "say-9")
            assert (await ask(2, "POST", place, message("9"), "say-9"))["ids"] == reply["ids"]
        assert all("forward_refused" not in each.log() for each in servers)
    assert await texts(url, "shared") == [f"{count}" for count in range(10)]


# -- connections that break


class LosesReplies(CuttingProxy):
    """Loses the reply to the first request."""

    def _fate(self, request: bytes) -> str:
        return "answered" if self.fates else "unanswered"


@asynccontextmanager
async def owned_behind(
    url: str, proxy_class: type[CuttingProxy]
) -> AsyncGenerator[tuple[CuttingProxy, Session, Client]]:
    """Yield a proxy, the session "shared" of a host that is reached through it alone, and a client of another one."""
    port = free_port()
    async with proxy_class(("127.0.0.1", port)).running() as proxy:
        own = Cluster(proxy.url, SECRET, PEERS)
        async with (
            SessionHost(url, placement="forward", address=proxy.url) as owner,
            served(owner, port=port, cluster=own, allowed_hosts=["*"]),
            node(url) as other,
        ):
            session = await owner.create("shared")
            await session.append_message("user", "first")
            yield proxy, session, other.client


async def test_a_request_whose_reply_is_lost_on_the_way_is_carried_out_once(url: str) -> None:
    async with owned_behind(url, LosesReplies) as (proxy, session, client):
        reply = await say(client, "shared", "second")
        assert proxy.fates == {"unanswered": 1, "answered": 1}
        assert (session.leaf_id, session.message_count) == (reply["ids"][0], 2)


async def test_a_request_that_must_not_be_repeated_is_in_doubt_when_its_connection_breaks(url: str) -> None:
    async with owned_behind(url, LosesReplies) as (proxy, _, client):
        events = {"events": [{"name": "typing", "data": True}]}
        problem = await client.ask("POST", "/v1/sessions/shared/transients", events, status=503)
        assert problem["error"] == "AppendInDoubt"
        assert proxy.fates == {"unanswered": 1}


async def test_random_cuts_between_hosts_double_and_lose_nothing(url: str) -> None:
    async with (
        owned_behind(url, CuttingProxy) as (proxy, session, client),
        RemoteHost(f"http://127.0.0.1:{client.address[1]}") as remote,
    ):
        sent = await remote.load("shared")
        ids = [await sent.append_message("user", f"say {number}") for number in range(40)]
        assert proxy.fates["unanswered"] > 0 < proxy.fates["torn"]
        assert [each.id for each in await session.entries()][1:] == ids


class Deaf(CuttingProxy):
    """A host that answers nothing any more."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.asked = anyio.Event()

    def _fate(self, request: bytes) -> str:
        self.asked.set()
        return "unsent"


async def test_a_server_that_has_stopped_asks_no_other_host(url: str) -> None:
    async with owned_behind(url, Deaf) as (proxy, _, client), anyio.create_task_group() as tasks:
        assert isinstance(proxy, Deaf)
        client.application.service.limits = ServerLimits(drain_for_s=0)

        async def stop() -> None:
            await proxy.asked.wait()
            await client.application.stop()

        tasks.start_soon(stop)
        assert (await say(client, "shared", "second", status=503))["error"] == "Unavailable"


# -- who is believed, and followed


async def test_a_wrong_secret_is_refused_by_the_owner_and_told_by_name(url: str) -> None:
    async with node(url) as owner, node(url, secret=b"another secret of 16 bytes") as other:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        problem = await say(other.client, "shared", "second", status=503)
        assert "secret" in problem["detail"]
        assert session.message_count == 1


async def test_an_owner_outside_the_networks_of_peers_is_not_asked(url: str) -> None:
    async with node(url) as owner, node(url, peers=("10.0.0.0/8", "fd00::/8")) as other:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        problem = await say(other.client, "shared", "second", status=423)
        assert "--peer" in problem["detail"]
        assert session.message_count == 1


class Certificates:
    """Notes which files of certificates are read, and decides which one the machine trusts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[Path] = []
        self._monkeypatch = monkeypatch
        load = ssl.SSLContext.load_verify_locations

        def noted(context: ssl.SSLContext, cafile: str | None = None, *others: Json) -> None:
            self.read.append(Path(cafile or ""))
            load(context, cafile, *others)

        monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)

    def trust(self, certificate: Path) -> None:
        """Let it be the only one that the machine trusts."""
        paths = ssl.get_default_verify_paths()._replace(openssl_cafile=str(certificate), openssl_capath="")
        self._monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)


@pytest.fixture
def certificates(monkeypatch: pytest.MonkeyPatch) -> Certificates:
    return Certificates(monkeypatch)


async def test_where_no_host_has_tls_no_certificates_are_read(url: str, certificates: Certificates) -> None:
    async with node(url) as owner, node(url) as other:
        async with RemoteHost(f"http://127.0.0.1:{other.client.address[1]}") as remote:
            session = await owner.host.create("shared")
            await session.append_message("user", "first")
            await (await remote.load("shared")).append_message("user", "second")
        assert await texts(url, "shared") == ["first", "second"]
    assert certificates.read == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, the system itself decides whom it trusts")
async def test_an_owner_with_tls_is_asked_if_the_machine_trusts_its_certificate(
    url: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "BEYOND_S", -1000)  # one try
    its_own, another = tmp_path / "own", tmp_path / "another"
    for folder in (its_own, another):
        folder.mkdir()
    certificate, _ = its = certificate_of("owner.example", its_own)
    port = free_port()
    own = Cluster(f"https://127.0.0.1:{port}", SECRET, PEERS)
    async with (
        SessionHost(url, placement="forward", address=own.address) as owner,
        served(owner, port=port, cluster=own, serving={"certificate": its}),
    ):
        session = await owner.create("shared")
        await session.append_message("user", "first")
        certificates.read.clear()
        for trusted, status in ((certificate_of("another.example", another)[0], 423), (certificate, 201)):
            certificates.trust(trusted)
            async with node(url) as other:
                await say(other.client, "shared", "second", status=status)
                await say(other.client, "shared", "third", status=status)
            assert certificates.read == [trusted]
            certificates.read.clear()
        assert [plain_text(each.content) for each in await session.messages()] == ["first", "second", "third"]


async def test_a_request_hops_once_alone(url: str) -> None:
    async with node(url) as owner, node(url) as other, node(url) as third:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        target, body = b"/v1/sessions/shared/entries", msgspec.json.encode(message("second"))
        principal = Principal(name="local", role="admin")
        proof = third.cluster.prove(other.cluster.address, "POST", target, b"", body, principal)
        reply = await other.client.reply("POST", target.decode(), body, headers={HOP.decode(): proof.decode()})
        assert (reply.status_code, reply.headers["treering-moved"]) == (423, "1")
        assert session.message_count == 1


async def test_a_proof_is_of_use_for_one_request_to_one_host_at_one_time_alone(url: str) -> None:
    async with node(url) as owner, node(url) as other:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        target, body, nobody = b"/v1/sessions/shared/entries", msgspec.json.encode(message("second")), b""
        principal = Principal(name="local", role="admin")
        late = Cluster(other.cluster.address, SECRET, PEERS, clock_s=lambda: 1e9)
        good = other.cluster.prove(owner.cluster.address, "POST", target, b"", body, principal)
        claim = msgspec.json.decode(base64.urlsafe_b64decode(good))
        wrong = {
            "another host": other.cluster.prove(other.cluster.address, "POST", target, b"", body, principal),
            "another verb": other.cluster.prove(owner.cluster.address, "PUT", target, b"", body, principal),
            "another path": other.cluster.prove(owner.cluster.address, "POST", b"/v1", b"", body, principal),
            "another key": other.cluster.prove(owner.cluster.address, "POST", target, b"key", body, principal),
            "another body": other.cluster.prove(owner.cluster.address, "POST", target, b"", nobody, principal),
            "another time": late.prove(owner.cluster.address, "POST", target, b"", body, principal),
            "no proof": b"bm90aGluZw==",
            "another principal": _encoded({**claim, "principal": {"name": "me", "role": "admin"}}),
        }
        for what, proof in wrong.items():
            reply = await owner.client.reply("POST", target.decode(), body, headers={HOP.decode(): proof.decode()})
            assert reply.status_code in (401, 403), what
            assert reply.headers["treering-refused"] == "1", what
        assert session.message_count == 1
        reply = await owner.client.reply("POST", target.decode(), body, headers={HOP.decode(): good.decode()})
        assert reply.is_success
        assert session.message_count == 2


def _encoded(claim: object) -> bytes:
    return bytes(base64.urlsafe_b64encode(msgspec.json.encode(claim)))


@pytest.mark.feature("S-29")
async def test_the_owner_holds_a_principal_to_its_role_and_prefix(url: str, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    reads, writes = tokens.create("read", prefix="a:"), tokens.create("write", prefix="a:")
    async with node(url, tokens=Tokens(tmp_path / "none.json", OsDisk())) as owner, node(url, tokens=tokens) as other:
        seen, hidden = await owner.host.get_or_create("a:1"), await owner.host.get_or_create("b:1")
        for session in (seen, hidden):
            await session.append_message("user", "first")
        for token, session, status in (
            (writes, seen, 201),
            (reads, seen, 403),
            (writes, hidden, 404),
            (reads, hidden, 403),
        ):
            headers = {"authorization": f"Bearer {token}"}
            reply = await other.client.reply(
                "POST", f"/v1/sessions/{session.id}/entries", message("second"), headers=headers
            )
            assert reply.status_code == status, reply.text
        assert (seen.message_count, hidden.message_count) == (2, 1)
        # A host that is asked for less than the first host checks holds the principal to it by itself.
        target, body = f"/v1/sessions/{hidden.id}/entries".encode(), msgspec.json.encode(message("second"))
        for principal, status in (
            (Principal(name="x", role="write", prefix="a:"), 404),
            (Principal(name="x", role="read"), 403),
        ):
            proof = other.cluster.prove(owner.cluster.address, "POST", target, b"", body, principal)
            reply = await owner.client.reply("POST", target.decode(), body, headers={HOP.decode(): proof.decode()})
            assert reply.status_code == status
        assert hidden.message_count == 1


def test_options_that_make_no_cluster_are_refused() -> None:
    for address, secret, peers in (
        ("10.0.0.5:8765", SECRET, PEERS),
        ("ftp://10.0.0.5", SECRET, PEERS),
        ("http://10.0.0.5", b"short", PEERS),
        ("http://10.0.0.5", SECRET, ()),
        ("http://10.0.0.5", SECRET, ("everywhere",)),
    ):
        with pytest.raises(InvalidInput):
            Cluster(address, secret, peers)


# -- what is forwarded, and what is not


async def test_every_kind_of_write_reaches_the_owner(url: str) -> None:
    async with node(url) as owner, node(url) as other:
        session = await owner.host.create("shared")
        first = await session.append_message("user", "first")
        ask, place = other.client.ask, "/v1/sessions/shared"
        second = (await say(other.client, "shared", "second"))["ids"][0]
        await ask("PUT", f"{place}/labels/{first}", {"label": "start"})
        assert session.labels() == [(first, "start")]
        await ask("PUT", f"{place}/leaf", {"entry_id": second})
        assert session.leaf_id == second
        await ask("PATCH", place, {"title": "Shared"})
        assert session.metadata.info.name == "Shared"
        problem = await say(other.client, "shared", "third", status=412, headers={"if-match": f'"leaf:{first}"'})
        assert (problem["error"], problem["current"]["leaf"]) == ("LeafMoved", session.leaf_id)
        problem = await ask("PUT", f"{place}/labels/missing", {"label": "x"}, status=404)
        assert problem["error"] == "EntryNotFound"
        await ask("POST", f"{place}/archive")
        assert session.metadata.info.archived
        await ask("DELETE", place)
        await owner.client.ask("GET", place, status=404)


async def test_a_file_goes_to_the_owner_of_its_session_whole_and_brings_it_once(url: str) -> None:
    async with owned_behind(url, LosesReplies) as (proxy, session, client):
        lines = (await client.reply("GET", "/v1/sessions/shared/export")).content
        header, first = lines.splitlines(keepends=True)
        entry = msgspec.json.decode(first)
        entry |= {"id": "brought", "parentId": entry["id"]}
        file = header + first + msgspec.json.encode(entry) + b"\n"
        report = await client.ask("POST", "/v1/import", file, status=201)
        assert proxy.fates["unanswered"] == 1  # the owner has done it, and is asked again if it still owns the session
        assert [(each["existed"], each["added"]) for each in report["sessions"]] == [(True, 0)]
        assert [each.id for each in await session.entries()] == [entry["parentId"], "brought"]
        await client.ask("PUT", "/v1/sessions/shared?replace=true", header + first)
        assert [each.id for each in await session.entries()] == [entry["parentId"]]


async def test_sessions_of_a_file_that_other_hosts_own_are_told_beside_those_that_were_brought(url: str) -> None:
    async with (
        node(url) as first,
        node(url) as second,
        node(url) as asked,
        RemoteHost(f"http://127.0.0.1:{asked.client.address[1]}") as remote,
    ):
        brought = await remote.import_sessions(TWO_SESSIONS)
        assert ([each.id for each in brought], brought.failed) == (["support-42", "support-43"], ())
        for owner, owned, free in ((first, "support-42", "support-43"), (second, "support-43", "support-42")):
            await (await owner.host.load(owned)).append_message("user", "It is mine.")
            # The second time the file goes to the first owner, since the host that is asked could bring nothing of it.
            brought = await remote.import_sessions(TWO_SESSIONS)
            assert [(each.id, each.existed, each.added) for each in brought] == [(free, True, 0)]
            (failed,) = brought.failed
            assert (failed.path, failed.code, failed.severity) == (str(TWO_SESSIONS), "unreadable", "error")
            assert f"{owned}.jsonl is owned by the host" in failed.message
    assert await texts(url, "support-43") == ["Hello", "Hello!", "It is mine."]


async def test_a_file_that_is_not_the_one_that_was_proven_is_refused(url: str) -> None:
    async with node(url) as owner, node(url) as other:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        file = (await owner.client.reply("GET", "/v1/sessions/shared/export")).content
        principal = Principal(name="local", role="admin")
        for body, status in ((file + b"{}\n", 401), (file, 201)):
            proof = other.cluster.prove(owner.cluster.address, "POST", b"/v1/import", b"", file, principal)
            reply = await owner.client.reply("POST", "/v1/import", body, headers={HOP.decode(): proof.decode()})
            assert reply.status_code == status, reply.text


async def test_a_stream_on_any_host_follows_what_the_owner_writes(url: str) -> None:
    async with node(url) as owner, node(url) as other:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        async with other.client.follow("/v1/sessions/shared/events") as events:
            ids = [await _next_entry(events)]
            reply = await say(other.client, "shared", "second")
            ids.append(await _next_entry(events))
            ids.append(await _next_entry(events, await session.append_message("user", "third")))
        assert ids[1] == reply["ids"][0]
        assert [each.id for each in await session.entries()] == ids


async def _next_entry(events: Json, _: str = "") -> Json:
    async for event in events:
        if event.event == "entry":
            return event.data["id"]
    raise AssertionError("the stream has ended")


async def test_a_host_that_forwards_refuses_at_once_in_its_program_and_names_the_address(url: str) -> None:
    async with node(url) as owner, SessionHost(url, placement="forward") as host:
        session = await owner.host.create("shared")
        await session.append_message("user", "first")
        with pytest.raises(SessionLocked) as locked, anyio.fail_after(12):  # others wait for 16 s
            await host.load("shared")
        assert locked.value.address == owner.cluster.address
        problem = await _problem(host, "shared")
        assert owner.cluster.address not in problem


async def _problem(host: SessionHost, session_id: str) -> str:
    async with served(host) as client:
        return str(await say(client, session_id, "second", status=423))

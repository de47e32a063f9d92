"""Behind nginx, set up as documented, and with TLS of its own: streams come at once, prefixes and hosts fit."""

import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from tests.serving import certificate_of

from treering import SessionHost
from treering.events.disk.disk import OsDisk
from treering.server import ServerLimits, Tokens

from .conftest import Serve, events_of
from .processes import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "proxies.md"
HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}
NAME = "chat.example"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for the name of the test, signed by itself, and its key."""
    return certificate_of(NAME, tmp_path)


@contextmanager
def nginx(folder: Path, upstream: int, certificate: tuple[Path, Path]) -> Iterator[int]:
    """Run nginx with the file of the documentation, and yield its port."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("nginx is not installed here")
    port = free_port()
    site = PAGE.read_text(encoding="utf-8").split("## nginx\n\n```text\n")[1].split("```")[0]
    for shown, here in (
        ("127.0.0.1:8765", f"127.0.0.1:{upstream}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/ssl/chat.example.pem", str(certificate[0])),
        ("/etc/ssl/chat.example.key", str(certificate[1])),
    ):
        assert shown in site
        site = site.replace(shown, here)
    places = "".join(
        f"{name}_temp_path {folder / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; pid {folder / 'nginx.pid'}; error_log stderr; events {{}}\n"
        f"http {{ access_log off;\n{places}{site}}}\n"
    )
    process = subprocess.Popen([program, "-e", "stderr", "-c", str(file), "-p", str(folder)], stderr=subprocess.PIPE)
    try:
        yield port
    finally:
        process.terminate()
        _, said = process.communicate(timeout=20)
        assert b"emerg" not in said, said


@asynccontextmanager
async def speaking(port: int, certificate: tuple[Path, Path], **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client that trusts the certificate."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    base = f"https://127.0.0.1:{port}"
    async with httpx2.AsyncClient(base_url=base, verify=trusting, headers=headers, timeout=30) as http:
        while True:
            try:
                await http.get("/", headers={"host": NAME})
                break
            except httpx2.TransportError:  # it is about to listen, or the machine too busy to greet in time
                await anyio.sleep(0.01)
        yield http


async def test_behind_nginx_streams_come_at_once_and_the_prefix_and_the_host_fit(
    tmp_path: Path, served: Serve, certificate: tuple[Path, Path]
) -> None:
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    token, link = tokens.create("write"), tokens.create("read", once=True)
    serving = {"root_path": "/chat", "trusted_proxies": ["127.0.0.1"]}
    options = {"tokens": tokens, "allowed_hosts": [NAME], "serving": serving}
    async with SessionHost(tmp_path / "root") as host, served(host, **options) as client:
        with nginx(tmp_path, client.address[1], certificate) as port:
            every = {"host": NAME, "authorization": f"Bearer {token}"}
            async with speaking(port, certificate, **every) as http:
                made = await http.put("/chat/v1/keys/team%2Fa", json={})
                assert made.status_code == 201
                url = made.headers["location"]
                assert url == f"/chat/v1/sessions/{made.json()['id']}"
                session = await host.get_or_create("team/a")
                assert session.id == made.json()["id"]
                async with http.stream("GET", f"{url}/events") as reply:
                    events = events_of(reply)
                    for number in range(3):  # each comes before the next one is written
                        await session.append_message("user", f"{number}")
                        assert (await anext(events)).data["seq"] == number + 1
                assert (await http.post(f"{url}/entries", json=HELLO)).status_code == 201
                assert (await http.get(f"{url}/export")).content == await session.export("native")
                assert (await http.get("/chat/v1", headers={"host": "evil.example"})).status_code == 421
                cookie = (await http.post("/chat/login", json={"token": link})).headers["set-cookie"]
                assert "; Secure" in cookie
                assert "Path=/chat" in cookie
        direct = {"host": NAME, "authorization": f"Bearer {token}"}
        for prefix in ("", "/chat"):  # a proxy may cut the prefix off
            assert (await client.reply("GET", f"{prefix}/v1/sessions", headers=direct)).status_code == 200


async def test_forwarded_headers_of_others_are_ignored(tmp_path: Path, served: Serve) -> None:
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "10.0.0.1"}
    for trusted, is_secure in (["127.0.0.1"], True), (["10.0.0.9"], False), ([], False):
        link = {"token": tokens.create("read", once=True)}
        async with (
            SessionHost(tmp_path / "root") as host,
            served(host, tokens=tokens, serving={"trusted_proxies": trusted}) as client,
        ):
            reply = await client.reply("POST", "/login", link, headers=forwarded)
            assert ("; Secure" in reply.headers["set-cookie"]) == is_secure, trusted


async def test_the_server_speaks_tls_itself(tmp_path: Path, served: Serve, certificate: tuple[Path, Path]) -> None:
    options = {"allowed_hosts": [NAME], "serving": {"certificate": certificate}}
    async with SessionHost(tmp_path / "root") as host, served(host, **options) as client:
        async with speaking(client.address[1], certificate, host=NAME) as http:
            made = (await http.post("/v1/sessions", json={})).json()["id"]
            async with http.stream("GET", f"/v1/sessions/{made}/events") as reply:
                events = events_of(reply)
                assert (await http.post(f"/v1/sessions/{made}/entries", json=HELLO)).status_code == 201
                assert (await anext(events)).data["seq"] == 1
        with pytest.raises(httpx2.HTTPError):
            await client.reply("GET", "/healthz")


async def test_who_does_not_begin_tls_is_cut_off(tmp_path: Path, served: Serve, certificate: tuple[Path, Path]) -> None:
    options = {"allowed_hosts": [NAME], "serving": {"certificate": certificate}}
    limits = ServerLimits(header_for_s=1)
    async with SessionHost(tmp_path / "root") as host, served(host, limits=limits, **options) as client:
        for begun in (b"", b"\x16\x03\x01\x02\x00"):  # nothing, and half of a greeting
            async with await anyio.connect_tcp(*client.address) as silent:
                if begun:
                    await silent.send(begun)
                with anyio.fail_after(20), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await silent.receive()
        async with speaking(client.address[1], certificate, host=NAME) as http:
            assert (await http.get("/healthz")).status_code == 200

"""The server itself: health, figures, its description, exports and imports, mounting, and the process."""

import errno
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.to_thread
import httpx2
import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from treering import SessionHost
from treering.cli import main
from treering.errors import InvalidInput
from treering.events.disk.disk import OsDisk
from treering.server.openapi import document
from treering.server.serving import listen
from treering.sessions import AppendOptions
from treering.testing.disks import FaultyDisk

from .conftest import Client, Serve

KEPT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}


@pytest.mark.feature("S-26")
async def test_the_figures_are_those_of_the_host(tmp_path: Path, served: Serve) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host, served(host) as client:
        for name in "ab":
            await client.ask("POST", "/v1/sessions", {"id": name})
            for _ in range(3):
                await client.ask("POST", f"/v1/sessions/{name}/entries", HELLO)
        disk.fail("write", errno.EIO, path="*/a.jsonl")
        await client.ask("POST", "/v1/sessions/a/entries", HELLO, status=503)
        await host.passivate_idle()
        async with client.follow("/v1/sessions/b/events") as events:
            await client.ask("POST", "/v1/sessions/b/entries", HELLO)
            await anext(events)
            text = (await client.reply("GET", "/metrics")).text
            figures = host.statistics()
    shown = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    expected = {
        "treering_appends_total": figures.appends,
        "treering_batches_total": figures.batches,
        "treering_written_bytes_total": figures.bytes,
        "treering_failures_total": figures.failures,
        "treering_activations_total": figures.activated,
        "treering_passivations_total": figures.passivated,
        "treering_sessions_live": figures.live,
        "treering_subscribers": figures.subscribers,
        "treering_commit_p50_seconds": figures.commit.p50_s,
        "treering_commit_p99_seconds": figures.commit.p99_s,
        "treering_lag_max": max(each.lag_max for each in figures.sessions),
        "treering_mailbox_depth": sum(each.mailbox_depth for each in figures.sessions),
        "treering_mailbox_depth_max": max(each.mailbox_depth for each in figures.sessions),
        "treering_http_streams": 1,
        "treering_disk_ready": 1,
    }
    assert {name: shown[name] for name in expected} == expected
    assert (figures.appends, figures.failures, figures.subscribers, figures.live) == (7, 1, 1, 1)
    assert figures.passivated >= 1
    assert 'treering_http_requests_total{route="/v1/sessions/{session_id}/entries",status="201"} 7.0' in text
    assert 'treering_errors_total{error="AppendFailed"} 1.0' in text
    assert "treering_http_request_seconds_bucket" in text
    assert not any(f'"{name}"' in text for name in "ab"), "no figure has a session's id"


@pytest.mark.feature("S-26")
async def test_it_is_ready_as_long_as_its_disk_is(tmp_path: Path, served: Serve) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path / "new", disk=disk) as host, served(host) as client:
        assert (await client.ask("GET", "/readyz"))["status"] == "ok"  # before its folder exists
        await client.ask("POST", "/v1/sessions", {"id": "a"})
        await client.ask("POST", "/v1/sessions/a/entries", HELLO)
        for call, number in (
            ("list_directory", errno.EIO),
            ("open", errno.EIO),
            ("write", errno.ENOSPC),
            ("datasync", errno.EIO),
        ):
            assert (await client.ask("GET", "/readyz"))["status"] == "ok"
            fault = disk.fail(call, number, times=None)
            problem = await client.ask("GET", "/readyz", status=503)
            assert str(tmp_path) not in problem["detail"]
            await client.ask("GET", "/healthz", status=200)
            assert "treering_disk_ready 0.0" in (await client.reply("GET", "/metrics")).text
            fault.lift()
        await client.ask("GET", "/readyz", status=200)
        assert "treering_disk_ready 1.0" in (await client.reply("GET", "/metrics")).text
        assert [path.name async for path in anyio.Path(tmp_path, "new").iterdir() if "written" in path.name] == []


async def test_the_interface_is_shown_to_people_without_anything_from_outside(client: Client) -> None:
    page = await client.reply("GET", "/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, verbs in json.loads(document())["paths"].items():
        for verb, operation in verbs.items():
            assert f"<code>{verb.upper()} {path}</code>" in page.text
            assert f"id='{operation['operationId']}'" in page.text
    assert "<script" not in page.text
    assert "//" not in page.text
    for address in re.findall(r'href="([^"]+)"', page.text):
        assert (await client.reply("GET", f"/{address.lstrip('/')}")).status_code == 200, address


async def test_the_interface_is_described_by_what_is_checked_in(client: Client) -> None:
    described = await client.reply("GET", "/openapi.json")
    assert described.content == document()
    assert await anyio.Path(KEPT).read_bytes() == document(), (
        "run `python -m treering.server.openapi docs/openapi.json`"
    )
    assert described.json()["openapi"].startswith("3.1")
    body = described.json()["paths"]["/v1/sessions/{session_id}/entries"]["post"]["requestBody"]["content"]
    several = body["application/json"]["schema"]["anyOf"][1]["properties"]
    assert several.keys() == {"entries", *AppendOptions.__annotations__}


@pytest.mark.feature("S-1", "S-28")
async def test_the_process_says_where_it_is_and_ends_in_order(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process = await anyio.to_thread.run_sync(started, tmp_path / "root", "--port", "0")
        async with httpx2.AsyncClient(base_url=process.address, timeout=30) as http:
            assert (await http.get("/healthz")).status_code == 200
            made = (await http.post("/v1/sessions", json={})).json()["id"]
            await http.post(f"/v1/sessions/{made}/entries", json=HELLO)
            async with http.stream("GET", f"/v1/sessions/{made}/events") as reply:
                lines = reply.aiter_lines()
                while not (await anext(lines)).startswith("data:"):
                    pass
                async with await anyio.connect_tcp("127.0.0.1", http.base_url.port) as late:  # type: ignore[arg-type]
                    body = json.dumps(HELLO).encode()
                    head = (
                        f"POST /v1/sessions/{made}/entries HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
                    )
                    await late.send(f"{head}\r\n\r\n".encode() + body[:10])
                    while "treering_http_connections 3.0" not in (await http.get("/metrics")).text:
                        pass  # until the request has begun
                    process.popen.send_signal(number)
                    rest = [line async for line in lines]
                    assert "event: bye" in rest
                    await late.send(body[10:])
                    assert b" 201 " in (await late.receive())[:20]
        assert await anyio.to_thread.run_sync(process.popen.wait, 20) == 0
        _, stderr = process.popen.communicate()
        log = [json.loads(line) for line in stderr.splitlines()]
        assert {entry["status"] for entry in log if entry["event"] == "request"} == {200, 201}
        async with SessionHost(tmp_path / "root") as host:  # its locks are free
            session = await host.load(made)
            assert session.message_count == 2
            await session.append_message("user", "mine")


def started(root: Path, *options: str) -> SimpleNamespace:
    """Start a server as a process, and wait for its address."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "treering.cli", "serve", str(root), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert popen.stdout is not None
    return SimpleNamespace(popen=popen, address=popen.stdout.readline().strip())


def test_a_unix_socket_takes_the_place_of_one_that_nobody_listens_at_alone(tmp_path: Path) -> None:
    notes, place = tmp_path / "notes", tmp_path / "socket"
    notes.write_text("mine")
    with pytest.raises(InvalidInput, match="in use"):
        listen("", 0, notes)
    assert notes.read_text() == "mine"
    with pytest.raises(InvalidInput, match="too long"):
        listen("", 0, tmp_path / ("x" * 200))
    with listen("", 0, place), pytest.raises(InvalidInput, match="in use"):
        listen("", 0, place)
    with listen("", 0, place), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))


@pytest.mark.feature("S-28")
def test_a_server_for_others_needs_a_token(tmp_path: Path) -> None:
    root = tmp_path / "root"
    refused = treering("serve", str(root), "--host", "0.0.0.0", "--port", "0")
    assert refused.exit_code == 1
    assert "treering token create" in refused.stderr
    assert not root.exists()
    made = treering("token", "create", "--role", "read", "--prefix", "a:", "--expires", "30d", "--root", str(root))
    assert made.stdout.startswith("tr_")
    listed = json.loads(treering("token", "list", "--json", "--root", str(root)).stdout)
    assert [(each["role"], each["prefix"]) for each in listed] == [("read", "a:")]
    assert treering("token", "revoke", listed[0]["id"], "--root", str(root)).exit_code == 0
    assert treering("token", "list", "--root", str(root)).stdout == ""
    for never in ("soon", "99999999999d", f"{'9' * 5000}d"):
        refused = treering("token", "create", "--role", "read", "--expires", never, "--root", str(root))
        assert (refused.exit_code, "is not a time" in refused.stderr) == (2, True)


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"\x7fELF\xff\xd0"])
def test_a_file_without_a_token_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    for command in (["serve", str(tmp_path / "root"), "--port", "0"], ["sessions", "--server", "http://127.0.0.1:1"]):
        refused = treering(*command, "--token-file", str(file))
        assert (refused.exit_code, refused.stderr) == (
            1,
            f"treering: {file} holds no token: write one into it, without spaces\n",
        )


def test_a_certificate_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("no key")
    for certificate in (tmp_path / "missing", key):
        tls = ("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
        refused = treering("serve", str(tmp_path / "root"), "--port", "0", *tls)
        assert refused.exit_code == 1
        assert f"the certificate {certificate} cannot be used with the key {key}" in refused.stderr


def test_an_option_may_stand_before_the_subcommand_that_has_it(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    assert treering("token", "--root", root, "create", "--role", "admin").exit_code == 0
    (listed,) = json.loads(treering("token", f"--root={root}", "--json", "list").stdout)
    assert treering("token", "--root", root, "revoke", listed["id"]).exit_code == 0
    assert "No such option '--nosuch'" in treering("token", "--nosuch", "list").stderr
    assert "Did you mean 'list'?" in treering("token", "lits").stderr


def test_what_other_libraries_log_is_json_on_one_line_too(tmp_path: Path) -> None:
    code = f"""
import logging, os, signal, webbrowser
from treering.cli import main

def opened(url):
    try:
        raise ValueError("two\\nlines")
    except ValueError:
        logging.getLogger("other").exception('a "word"')
    os.kill(os.getpid(), signal.SIGTERM)
    return True

webbrowser.open = opened
main(["serve", {str(tmp_path / "root")!r}, "--port", "0", "--open"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    (logged,) = (json.loads(line) for line in done.stderr.splitlines())
    assert (done.returncode, logged["event"], logged["level"]) == (0, 'a "word"', "error")
    assert logged["exception"].endswith("ValueError: two\nlines")


def treering(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="treering")

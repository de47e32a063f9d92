"""The command line with `--server` shows what it shows with the root of that server, byte for byte."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner, Result
from tests.remote.over_server import served_url

from treering import SessionHost
from treering.cli import main
from treering.events.disk import OsDisk
from treering.server import Tokens
from treering.sync import SyncHost

COMMANDS = (
    ["sessions", "--all"],
    ["sessions", "--all", "--archived"],
    ["sessions", "--all", "--limit", "1"],
    ["tree", "main"],
    ["tree", "talk", "--json"],
    ["context", "main"],
    ["context", "main", "--json"],
    ["context", "main", "--leaf", "{first}"],
    ["entries", "main"],
    ["entries", "main", "--json"],
    ["labels", "main"],
    ["search", "timeout"],
    ["search", "nothing at all"],
    ["export", "main"],
    ["export", "main", "-f", "native"],
    ["export", "main", "-f", "html"],
    ["export", "main", "-f", "json"],
    ["export", "main", "--redact"],
    ["tree", "nobody"],
    ["export", "main", "--leaf", "nowhere"],
)
WRITES = (
    *(["chat", *which, "-p", "How long now?", "--model", "echo"] for which in (["-r", "main"], ["-c"], ["-n"])),
    ["rename", "talk", "Words"],
    *([change, "old", "talk"] for change in ("unarchive", "archive")),
    ["delete", "old", "--yes"],
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    with SyncHost(root) as host:
        talk = host.create("talk", cwd=tmp_path / "project")
        talk.append_message("user", "What does the server say?")
        talk.append_session_info("A talk")
        session = host.create("main", cwd=tmp_path)
        first = session.append_message("user", "The timeout of the server\nis too short")
        session.append_message("assistant", "It is **30 s**. My key is sk-ant-api03-" + "x" * 95)
        session.branch(first)
        session.append_message("assistant", "Another answer")
        session.set_label(first, "begin")
        host.create("old").append_message("user", "long ago")
        host.archive("old")
    return root


@pytest.fixture
def url(root: Path, tmp_path: Path) -> Iterator[str]:
    with start_blocking_portal() as portal:
        serving: AbstractContextManager[str] = portal.wrap_async_context_manager(_served(root, tmp_path / "token"))
        with serving as url:
            yield url


def _served(root: Path, token_file: Path) -> AbstractAsyncContextManager[str]:
    tokens = Tokens(token_file.with_name("tokens.json"), OsDisk())
    token_file.write_text(tokens.create("admin"))
    return served_url(SessionHost(root), tokens=tokens)


def run(*args: str, **env: str) -> Result:
    return CliRunner().invoke(main, [*args], env=env)


@pytest.mark.feature("S-23")
def test_a_command_shows_of_a_server_what_it_shows_of_its_root(
    root: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    token = str(tmp_path / "token")
    with SyncHost(root) as host:
        first = host.load("main", read_only=True).path()[0]
    for command in COMMANDS:
        args = [each.format(first=first) for each in command]
        there = run(*args, "--root", str(root))
        here = run(*args, "--server", url, "--token-file", token)
        assert (here.stdout_bytes, here.exit_code) == (there.stdout_bytes, there.exit_code), (args, here.output)
        assert here.stderr.replace(url, str(root)) == there.stderr, args
        assert (there.stdout_bytes == b"") == (there.exit_code != 0 or "nothing at all" in args), args
    _follow_shows_the_same(root, url, token)
    # What needs no server has a copy of the root to write to.
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    for command in WRITES:
        there = run(*command, "--root", str(copy))
        here = run(*command, TREERING_SERVER=url, TREERING_TOKEN=Path(token).read_text())
        assert there.exit_code == 0, there.output
        assert (here.stdout_bytes, here.stderr) == (there.stdout_bytes, there.stderr), command
    with SyncHost(copy) as host, SyncHost(root) as served:
        assert [row.title for row in host.list_sessions()] == [row.title for row in served.list_sessions()]
        said = [[m.content for m in each.load("main", read_only=True).messages()] for each in (host, served)]
        assert said[0] == said[1]


def _follow_shows_the_same(root: Path, url: str, token: str) -> None:
    """Follow one session from both places, while it grows through the server."""
    command = [sys.executable, "-m", "treering.cli", "follow", "main", "--from-start"]
    places = (["--root", str(root)], ["--server", url, "--token-file", token])
    running = [subprocess.Popen([*command, *place], stdout=subprocess.PIPE) for place in places]
    shown: list[list[bytes]] = [[], []]
    try:
        for lines, process in zip(shown, running, strict=True):
            assert process.stdout is not None
            lines += [process.stdout.readline() for _ in range(4)]
        answered = run("label", "main", "begin", "again", "--server", url, "--token-file", token)
        assert answered.exit_code != 0  # there is no such entry
        said = run("chat", "-r", "main", "-p", "And?", "--model", "echo", "--server", url, "--token-file", token)
        assert said.exit_code == 0, said.output
        for lines, process in zip(shown, running, strict=True):
            assert process.stdout is not None
            lines += [process.stdout.readline() for _ in range(2)]
        assert shown[0] == shown[1]
        assert b"And?" in b"".join(shown[0][4:])
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            process.communicate(timeout=30)

"""Fixtures for tests of the command line: session files, sessions under a root, and ways to run the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from click.testing import CliRunner, Result

from treering import SessionHost
from treering.cli import main

from .terminal import Terminal

Lines: TypeAlias = list[dict[str, Any]]
Treering: TypeAlias = Callable[..., Result]
Spawn: TypeAlias = Callable[..., "subprocess.Popen[bytes]"]
MessageLine: TypeAlias = Callable[..., dict[str, Any]]
Write: TypeAlias = Callable[..., Path]
CreateSession: TypeAlias = Callable[..., str]
AtTerminal: TypeAlias = Callable[..., Terminal]

HEADER = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}


def entry(kind: str, entry_id: str, parent_id: str | None, payload: object, seq: int) -> dict[str, Any]:
    """The line of an entry, as a dictionary."""
    time = datetime(2026, 1, 1, 10, tzinfo=UTC) + timedelta(seconds=seq)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "id": entry_id, "parent_id": parent_id, "timestamp": stamp, "seq": seq, kind: payload}


def line_of_message(entry_id: str, parent_id: str | None, text: str, seq: int, role: str = "user") -> dict[str, Any]:
    """The line of a message, as a dictionary."""
    content = [{"type": "text", "text": {"content": text}}]
    return entry("message", entry_id, parent_id, {"role": role, "content": content}, seq)


@pytest.fixture
def message_line() -> MessageLine:
    """Build the line of a message, as a dictionary."""
    return line_of_message


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a session file: a header, and lines given as dictionaries or bytes."""

    def to_file(*lines: dict[str, Any] | bytes, name: str = "s-1.jsonl", header: dict[str, Any] = HEADER) -> Path:
        path = tmp_path / name
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in (header, *lines)]
        path.write_bytes(b"".join(encoded))
        return path

    return to_file


@pytest.fixture
def branched(write: Write) -> Path:
    """A session with two branches, a label, a model change and a tool call.

    The path is q, a, m, l; the entry x is another child of q.
    """
    call = {"type": "tool_use", "tool_use": {"id": "c1", "name": "read", "input": {"path": "a.py"}}}
    return write(
        line_of_message("q", None, "Which way?", 1),
        entry("message", "x", "q", {"role": "assistant", "content": [call]}, 2),
        line_of_message("a", "q", "This way.", 3, "assistant"),
        entry("model_change", "m", "a", {"provider": "acme", "model_id": "m-1"}, 4),
        entry("label", "l", "m", {"target_id": "q", "label": "crossroads"}, 5),
    )


@pytest.fixture
def treering(monkeypatch: pytest.MonkeyPatch) -> Treering:
    """Run the command in this process, without colors."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def invoke(
        *args: str | Path, env: Mapping[str, str | None] | None = None, color: bool = False, typed: str | None = None
    ) -> Result:
        words = [str(arg) for arg in args]
        result = CliRunner().invoke(main, words, env=env, color=color, input=typed, prog_name="treering")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def spawn() -> Spawn:
    """Start the command as another process."""

    def start(*args: str | Path, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "treering.cli", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )

    return start


# -- sessions under a root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root that commands use by default; it does not exist yet."""
    folder = tmp_path / "root"
    monkeypatch.setenv("TREERING_ROOT", str(folder))
    for name in ("TREERING_MODEL", "TREERING_BASE_URL", "TREERING_API_KEY", "TREERING_WINDOW"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of commands."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def create_session(root: Path, project: Path) -> CreateSession:
    """Write a session with these questions, each with an answer, and return its id.

    Its project is the current directory unless `cwd` is given, and its time an hour ago unless `at` is given.
    """

    async def write(
        session_id: str | None, questions: tuple[str, ...], cwd: Path, at: datetime, name: str | None
    ) -> str:
        async with SessionHost(root, clock=lambda: at) as host:
            session = await host.create(session_id, cwd=cwd)
            for each in questions:
                await session.append_message("user", each)
                await session.append_message("assistant", f"About {each!r}: yes.")
            if name is not None:
                await session.append_session_info(name)
            return session.id

    def to_root(
        *questions: str,
        session_id: str | None = None,
        cwd: Path | None = None,
        at: datetime | None = None,
        name: str | None = None,
    ) -> str:
        moment = at or datetime.now(UTC) - timedelta(hours=1)
        return anyio.run(write, session_id, questions, cwd or project, moment, name)

    return to_root


@pytest.fixture
def at_terminal(project: Path) -> Iterator[AtTerminal]:
    """Start the command at a terminal, in the folder of the project."""
    terminals: list[Terminal] = []

    def start(*args: str | Path, columns: int = 90, dumb: bool = False) -> Terminal:
        terminal = Terminal(*args, cwd=project, columns=columns, dumb=dumb)
        terminals.append(terminal)
        return terminal

    yield start
    for terminal in terminals:
        terminal.close()

"""The command line in tests: session files, sessions under a root, and ways to run the command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import treering
from treering import SyncHost
from treering.cli import main
from treering.testing.clocks import ManualClock
from treering.testing.model_server import ModelServer

from .terminal import Terminal

HEADER = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
DATA = Path(__file__).resolve().parents[1] / "data"
DOCS = Path(__file__).resolve().parents[2] / "docs"
PACKAGES = str(Path(treering.__file__).resolve().parents[1])


def entry(kind: str, entry_id: str, parent_id: str | None, payload: object, seq: int) -> dict[str, Any]:
    """The line of an entry, as a dictionary."""
    time = datetime(2026, 1, 1, 10, tzinfo=UTC) + timedelta(seconds=seq)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "id": entry_id, "parent_id": parent_id, "timestamp": stamp, "seq": seq, kind: payload}


def line_of_message(entry_id: str, parent_id: str | None, text: str, seq: int, role: str = "user") -> dict[str, Any]:
    """The line of a message, as a dictionary."""
    content = [{"type": "text", "text": {"content": text}}]
    return entry("message", entry_id, parent_id, {"role": role, "content": content}, seq)


class Spawned(subprocess.Popen[bytes]):
    """The command as another process: `with` waits until it has ended, and ends it if the block fails."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


class Cli:
    """The command, without colors: `root` is its default, `project` the current directory; `write` fills `folder`."""

    def __init__(self, home: Path) -> None:
        self.root, self.project, self.folder = home / "root", home / "shop", home / "files"
        self.project.mkdir()
        self.folder.mkdir()
        self._clock = ManualClock(datetime.now(UTC) - timedelta(hours=1), timedelta(seconds=1))
        self.terminals: list[Terminal] = []

    def __call__(
        self, *args: str | Path, env: Mapping[str, str | None] | None = None, color: bool = False, typed: str = ""
    ) -> Result:
        """Run a command."""
        words = [str(arg) for arg in args]
        result = CliRunner().invoke(main, words, env=env, color=color, input=typed, prog_name="treering")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def chat(self, *args: str | Path, lines: tuple[str, ...] = ()) -> Result:
        """Run a chat with these lines as its input."""
        return self("chat", *args, typed="".join(f"{line}\n" for line in lines))

    def lines(self, *args: str | Path) -> list[str]:
        """Run a command that succeeds, and return the lines that it prints."""
        result = self(*args)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    def json(self, *args: str | Path) -> Any:  # noqa: ANN401  # whatever the command prints
        """Run a command that succeeds with `--json`, and return what it prints."""
        return json.loads("\n".join(self.lines(*args, "--json")))

    def json_lines(self, *args: str | Path) -> list[dict[str, Any]]:
        """The same for a command that prints a line of JSON for each thing."""
        return [json.loads(line) for line in self.lines(*args, "--json")]

    def error(
        self, *args: str | Path, status: int = 1, typed: str = "", env: Mapping[str, str | None] | None = None
    ) -> str:
        """Run a command that fails and prints nothing on stdout; return what it says, with status 1 in one line."""
        result = self(*args, typed=typed, env=env)
        assert (result.exit_code, result.stdout) == (status, ""), (args, result.output)
        if status == 1:
            assert result.stderr.startswith("treering: "), args
            assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr

    def ids(self, *args: str | Path) -> list[str]:
        """The ids of the listed sessions."""
        return [row["id"] for row in self.json("sessions", "-q", *args)]

    def create(
        self,
        *questions: str,
        session_id: str | None = None,
        cwd: Path | None = None,
        at: datetime | None = None,
        name: str | None = None,
    ) -> str:
        """Write a session of this project, an hour old, with these questions and an answer to each; return its id."""
        with SyncHost(self.root, clock=(lambda: at) if at else self._clock) as host:
            session = host.create(session_id, cwd=cwd or self.project)
            for each in questions:
                session.append_message("user", each)
                session.append_message("assistant", f"About {each!r}: yes.")
            if name is not None:
                session.append_session_info(name)
            return session.id

    def write(self, *lines: dict[str, Any] | bytes, name: str = "s-1.jsonl", header: dict[str, Any] = HEADER) -> Path:
        """Write a session file: a header, and lines given as dictionaries or bytes."""
        path = self.folder / name
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in (header, *lines)]
        path.write_bytes(b"".join(encoded))
        return path

    def files(self) -> dict[str, bytes]:
        """The files of the sessions under the root."""
        return {path.name: path.read_bytes() for path in self.root.glob("*.jsonl*")}

    def message_lines(self, name: str) -> list[str]:
        """The messages of a session, as its context shows them."""
        with SyncHost(self.root) as host:
            messages = host.load(name, read_only=True).messages()
        return [f"{each.role}: {treering.plain_text(each.content)}" for each in messages]

    def entries(self, name: str = "last") -> list[Any]:
        """The entries of a session."""
        with SyncHost(self.root) as host:
            return host.load(name, read_only=True).entries()

    def spawn(self, *args: str | Path, **environment: str) -> Spawned:
        """Start the command as another process."""
        return Spawned(
            [sys.executable, "-m", "treering.cli", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PACKAGES, **environment},
        )

    def terminal(self, *args: str | Path, columns: int = 90, lines: int = 24, dumb: bool = False) -> Terminal:
        """Start the command at a terminal, in the folder of the project."""
        self.terminals.append(Terminal(*args, cwd=self.project, columns=columns, lines=lines, dumb=dumb))
        return self.terminals[-1]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    monkeypatch.setenv("TREERING_ROOT", str(cli.root))
    for name in ("FORCE_COLOR", "TREERING_MODEL", "TREERING_BASE_URL", "TREERING_API_KEY", "TREERING_WINDOW"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(cli.project)
    yield cli
    for terminal in cli.terminals:
        terminal.close()


@pytest.fixture
def branched(cli: Cli) -> Path:
    """A session with a label, a model change and a tool call: its path is q, a, m, l, and x is a branch below q."""
    call = {"type": "tool_use", "tool_use": {"id": "c1", "name": "read", "input": {"path": "a.py"}}}
    return cli.write(
        line_of_message("q", None, "Which way?", 1),
        entry("message", "x", "q", {"role": "assistant", "content": [call]}, 2),
        line_of_message("a", "q", "This way.", 3, "assistant"),
        entry("model_change", "m", "a", {"provider": "acme", "model_id": "m-1"}, 4),
        entry("label", "l", "m", {"target_id": "q", "label": "crossroads"}, 5),
    )


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server

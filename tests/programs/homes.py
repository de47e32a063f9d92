"""A person's home folder with the sessions of several programs: the project's own samples, where programs keep them."""

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from treering import SessionHost
from treering.actors.programs.mirror import ProgramMirror
from treering.actors.programs.sessions import ProgramSessions

DATA = Path(__file__).resolve().parents[1] / "data"

GROVE = "11111111-2222-4333-8444-555555555555"
"""The session of Claude Code that tests let grow."""


OVEN = "01999999-0000-7000-8000-000000000001"
"""The session of Codex."""


def claude_line(number: int, said: str, role: str = "user", *, session: str = GROVE, **fields: Any) -> bytes:  # noqa: ANN401
    """A line of Claude Code, below the one before it."""
    message: dict[str, Any] = {"role": role, "content": said}
    if role == "assistant":
        message |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": said}]}
    value = {
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "isSidechain": False,
        "cwd": "/home/mara/grove",
        "sessionId": session,
        "version": "2.1.12",
        "type": role,
        "message": message,
        "uuid": f"u{number}",
        "timestamp": f"2026-04-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
    }
    return json.dumps(value | fields).encode() + b"\n"


class Machine:
    """A machine on which programs keep sessions, each where its variable says, or at its usual place.

    Attributes:
        environ: The environment.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.claude = home / "claude config" / "projects" / "-home-mara-grove"
        self.codex = home / ".codex" / "sessions" / "2026" / "03" / "01"
        self.gemini = home / "gemini" / ".gemini" / "tmp" / "bakery" / "chats"
        self.opencode = home / "data" / "opencode"
        self.pi = home / ".pi" / "agent" / "sessions" / "--work-rings--"
        self.omp = home / ".omp" / "agent" / "sessions" / "--work-rings--"
        self.qwen = home / "qwen" / "projects" / "-work-bakery"
        self.environ = {
            "QWEN_RUNTIME_DIR": str(home / "qwen"),
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / "claude config"),
            "GEMINI_CLI_HOME": str(home / "gemini"),
            "XDG_DATA_HOME": str(home / "data"),
        }
        self.copilot = home / "copilot" / "session-state"
        self.environ["COPILOT_HOME"] = str(home / "copilot")
        for folder in (self.claude, self.codex, self.gemini, self.opencode, self.pi, self.qwen / "chats"):
            folder.mkdir(parents=True)

    @property
    def growing(self) -> Path:
        """The transcript of Claude Code that tests let grow."""
        return self.claude / f"{GROVE}.jsonl"

    @property
    def rollout(self) -> Path:
        """The rollout of Codex."""
        return self.codex / "rollout-2026-03-01T09-00-00-01999999-0000-7000-8000-000000000001.jsonl"

    def fill(self) -> None:
        """Put the samples where each program keeps its own."""
        self.growing.write_bytes(claude_line(1, "Plant the pears.") + claude_line(2, "Planted.", "assistant"))
        shutil.copy(DATA / "codex" / "codex.jsonl", self.rollout)
        shutil.copy(DATA / "gemini" / "gemini.jsonl", self.gemini / "session-1.jsonl")
        (self.gemini.parent / "logs.json").write_bytes(b'[{"sessionId":"x"}]')
        shutil.copytree(DATA / "opencode" / "storage", self.opencode / "storage")
        shutil.copy(DATA / "pi_v3.jsonl", self.pi / "rings.jsonl")
        delegating = DATA / "claude_code" / "delegating"
        shutil.copytree(delegating, self.claude / delegating.name)
        shutil.copy(delegating.with_suffix(".jsonl"), self.claude)

    def fill_qwen(self) -> None:
        """Put the sample of Qwen Code where it keeps its own, beside files of another kind."""
        shutil.copy(DATA / "qwen" / "qwen.jsonl", self.qwen / "chats")
        (self.qwen / "meta.json").write_bytes(b'{"version":1}')

    def state(self) -> dict[str, tuple[bytes, int]]:
        """All files, what is in them, and when they were modified."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def append(path: Path, *lines: bytes) -> None:
    """Append to a file, as its program does."""
    with path.open("ab") as file:
        for line in lines:
            file.write(line)


class Database:
    """The database of opencode, in the mode in which opencode writes it: with a log beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(
            """
            PRAGMA journal_mode=WAL;
            CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
                                  revert TEXT, time_created INTEGER, time_updated INTEGER);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            """
        )

    def say(self, session: str, number: int, role: str, said: str) -> None:
        """Add a message to a session, which is created with its first one."""
        time = 1_775_000_000_000 + number * 1000
        with self._connection as connection:
            connection.execute("BEGIN")
            row = (session, "p", None, "/work/bakery", f"About {session}", None, time, time)
            connection.execute("INSERT OR IGNORE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("UPDATE session SET time_updated = ? WHERE id = ?", (time, session))
            info: dict[str, Any] = {"role": role, "time": {"created": time, "completed": time}, "finish": "stop"}
            message = f"msg_{session}_{number:06}"
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (message, session, time, json.dumps(info)))
            part = json.dumps({"type": "text", "text": said})
            connection.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?)", (f"prt_{message}", message, session, time, part)
            )

    def delete(self, session: str) -> None:
        """Delete a session, as opencode does: its messages and their parts go with it."""
        with self._connection as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM part WHERE session_id = ?", (session,))
            connection.execute("DELETE FROM message WHERE session_id = ?", (session,))
            connection.execute("DELETE FROM session WHERE id = ?", (session,))

    def close(self) -> None:
        """Close it."""
        self._connection.close()


@asynccontextmanager
async def mirrored(machine: Machine, root: Path, **options: int) -> AsyncIterator[ProgramMirror]:
    """Show the sessions of a machine in a host as long as the block runs."""
    async with SessionHost(root) as host, anyio.create_task_group() as tasks:
        mirror = ProgramMirror(host, ProgramSessions(machine.environ), **options)
        tasks.start_soon(mirror.run)
        yield mirror
        tasks.cancel_scope.cancel()


async def until(mirror: ProgramMirror, holds: Callable[[dict[str, str]], bool]) -> None:
    """Wait until something holds of the last line of each session, by its id."""
    async with mirror.host.subscribe_sessions() as changes:
        async for _ in changes:
            rows = await mirror.host.list_sessions()
            if holds({row.id: "" if row.state is None else row.state.line for row in rows}):
                return

"""Recording short conversations with the real programs, as `tests/data/recorded` holds them.

    python -m tests.handing_over.recording [PROGRAM ...]

Two turns each, of which the second one's call fails. Folders of this machine are replaced by those of a person who does
not exist, and what a program repeats of its own instructions is left out.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from treering.formats.handing_over.targets import target_names

from .programs import Program, installed
from .scripted_model import scripted_model

RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded"
"""Where the conversations are, each in a file named after its program."""

PROMPTS = ("Count the pears. [[echo pears-7]]", "Count the plums. [[cat plums-missing]]")
"""What was asked; the model's answers are `answer-1` to `answer-4`."""

_HOME = "/home/mara"
_PLACES = {
    "claude-code": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*.jsonl",
    "pi": ".pi/agent/sessions/*/*.jsonl",
    "qwen": ".qwen/projects/*/chats/*.jsonl",
}
_INSTRUCTIONS = frozenset({"base_instructions", "user_instructions", "developer_instructions"})


def record(program: str) -> None:
    """Have a program hold the conversation, and keep it."""
    with tempfile.TemporaryDirectory() as folder, scripted_model() as model:
        home = Path(folder).resolve() / "mara"
        project = home / "orchard"
        project.mkdir(parents=True)
        real = Program(program, home, project, model.url)
        session: str | None = None
        for prompt in PROMPTS:
            real.run(prompt, session)
            session = session or _session(program, home)
        data = _data(program, home, project, session or "")
    data = data.replace(str(home)[1:], _HOME[1:])  # opencode says where a folder is below the root, too
    assert Path(folder).name not in data
    suffix = "json" if program == "opencode" else "jsonl"
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{program}.{suffix}").write_text(data, encoding="utf-8")


def _session(program: str, home: Path) -> str:
    """Return what the program's option to resume takes."""
    if program == "opencode":
        with sqlite3.connect(home / ".local/share/opencode/opencode.db") as database:
            return str(database.execute("SELECT id FROM session").fetchone()[0])
    (path,) = home.glob(_PLACES[program])
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    named = first.get("payload", first)
    return str(named.get("sessionId") or named["id"])


def _data(program: str, home: Path, project: Path, session: str) -> str:
    if program != "opencode":
        (path,) = home.glob(_PLACES[program])
        lines = path.read_text(encoding="utf-8").splitlines()
        return "".join(msgspec.json.encode(_short(json.loads(line))).decode() + "\n" for line in lines)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    command = [str(installed() / "opencode"), "export", session]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def _short(line: dict[str, object]) -> dict[str, object]:
    payload = line.get("payload")
    if isinstance(payload, dict):
        line["payload"] = {name: value for name, value in payload.items() if name not in _INSTRUCTIONS}
    return line


if __name__ == "__main__":
    for name in sys.argv[1:] or target_names():
        record(name)

"""What tests of handing over set up: a home of programs, and a project."""

import os
import sys
from pathlib import Path

import pytest

PROGRAM_VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "PI_CODING_AGENT_DIR", "QWEN_HOME", "QWEN_RUNTIME_DIR"),
)


TAKES_IN = """#!{python} -I
import json, os, shutil, sys
command, file = sys.argv[1:]
session = json.load(open(file))["info"]["id"]
assert command == "import"
if os.path.exists(os.path.join(os.getcwd(), "refuse")):
    sys.exit("the database is locked")
shutil.copy(file, os.path.join(os.environ["HOME"], "taken", session + ".json"))
print("Imported session:", session)
"""
"""A program that takes sessions in by a command, and keeps the files in `taken`."""


@pytest.fixture
def takes_in(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which an `opencode` that is first on the path keeps what it takes in."""
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(TAKES_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    folder = home / "taken"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder, with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in PROGRAM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder in which a session goes on."""
    folder = tmp_path.resolve() / "Wörk.dir_x y"
    folder.mkdir()
    return folder

"""What tests of handing over set up: a home of programs, and a project."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "PI_CODING_AGENT_DIR")


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

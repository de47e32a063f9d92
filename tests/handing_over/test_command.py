"""`treering hand-over`: what it prints, and what it leaves alone."""

import json
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from treering import SessionHost
from treering.cli import main

from .given import make_given


def test_the_command_prints_how_the_session_is_resumed_and_what_is_left_out(
    tmp_path: Path, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make() -> str:
        async with SessionHost(tmp_path / "root") as host:
            session = await make_given(host)
            return session.path()[4]

    monkeypatch.chdir(project)
    root = str(tmp_path / "root")
    failed = anyio.run(make)

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["hand-over", "given", *words, "--root", root], prog_name="treering")

    assert run("--to", "codex", "--dry-run").stdout.split(maxsplit=1)[1] == "thinking  W-thought\n"
    assert list(home.iterdir()) == []
    printed = json.loads(run("--to", "codex", "--leaf", failed[:8], "--json").stdout)
    assert [*printed] == ["program", "id", "path", "cwd", "command", "left_out"]
    assert (printed["program"], printed["cwd"]) == ("codex", str(project))
    assert printed["command"] == f"codex resume {printed['id']}"
    written = Path(printed["path"]).read_text(encoding="utf-8")
    assert "W-broken" in written
    assert "W-both" not in written
    shown = run("--to", "pi")
    assert shown.stdout.splitlines()[0] == f"cd '{project}'"
    assert shown.stdout.splitlines()[1].startswith("pi --session ")
    refused = run("--to", "emacs")
    assert refused.exit_code == 2
    assert "'claude-code'" in refused.stderr

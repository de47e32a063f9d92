"""`treering search`, `treering info` and completion: what is known of sessions, and where something was said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from treering.cli import main

from .conftest import entry, said

Treering = Callable[..., Result]
Talked = Callable[..., str]
Write = Callable[..., Path]
Say = Callable[..., dict[str, Any]]

NOW = datetime.now(UTC)


@pytest.fixture
def two(talked: Talked, tmp_path: Path) -> None:
    talked("The connection was lost", "It timed out", session_id="net", at=NOW - timedelta(days=9))
    talked("A lost key", session_id="key", name="Keys", cwd=tmp_path / "bank")


def hits(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


# -- search


def test_hits_are_grouped_by_session(treering: Treering, two: None) -> None:
    result = treering("search", "LOST")
    assert result.exit_code == 0
    first, second = result.stdout.split("\n\n")
    assert first.splitlines()[0] == "Keys  key"
    assert second.splitlines()[0] == "The connection was lost  net"
    assert [line.split(": ", 1)[1] for line in second.splitlines()[1:]] == [
        "The connection was lost",
        "About 'The connection was lost': yes.",
    ]
    assert result.stderr == "4 hits\n"
    assert treering("search", "lost", "-q").stderr == ""


def test_a_session_in_which_the_model_alone_spoke_is_not_called_empty(
    treering: Treering, root: Path, write: Write, say: Say
) -> None:
    root.mkdir()
    write(say("a", None, "The connection was lost", 1, "assistant")).rename(root / "s-1.jsonl")
    assert treering("search", "lost").stdout.splitlines()[0] == "(no user message yet)  s-1"


def test_what_was_found_is_colored(treering: Treering, two: None) -> None:
    assert "\x1b[31m\x1b[1mlost\x1b[0m key" in treering("search", "lost", "--role", "user", color=True).stdout


def test_hits_for_programs(treering: Treering, two: None) -> None:
    (hit,) = hits(treering("search", '"connection was"', "--role", "user", "--json"))
    assert (hit["session_id"], hit["role"], hit["snippet"]) == ("net", "user", "The connection was lost")
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["connection was"]
    assert hit["entry_id"] in treering("entries", "net", "--json").stdout


@pytest.mark.parametrize(
    ("options", "sessions"),
    [
        ([], ["key", "net"]),
        (["--project", "."], ["net"]),
        (["--project", "../bank"], ["key"]),
        (["--after", "7d"], ["key"]),
        (["--before", "7d"], ["net"]),
        (["--limit", "1"], ["key"]),
        (["--tool", "grep"], []),
        (["--no-index"], ["key", "net"]),
        (["--index"], ["key", "net"]),
    ],
)
def test_what_a_search_is_narrowed_to(treering: Treering, two: None, options: list[str], sessions: list[str]) -> None:
    found = hits(treering("search", "lost", "--role", "user", "--json", *options))
    assert [hit["session_id"] for hit in found] == sessions


def test_a_role_of_a_program_s_own_is_searched_for(treering: Treering, root: Path, write: Write, say: Say) -> None:
    root.mkdir()
    write(say("a", None, "The connection was lost", 1, "critic")).rename(root / "s-1.jsonl")
    (hit,) = hits(treering("search", "lost", "--role", "critic", "--json"))
    assert (hit["role"], hit["entry_id"]) == ("critic", "a")
    result = treering("search", "lost", "--role", "asistant")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("nothing found; 'asistant' is none of the usual roles: those are assistant, ")


def test_nothing_found_is_no_error(treering: Treering, two: None) -> None:
    result = treering("search", "nonsense")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing found\n")
    assert treering("search", " ").exit_code == 1


def test_there_may_be_more(treering: Treering, two: None) -> None:
    assert treering("search", "lost", "--limit", "2").stderr == "2 hits; --limit shows more\n"


def test_what_cannot_be_searched_is_told(treering: Treering, two: None, root: Path) -> None:
    (root / "noise.jsonl").write_text("noise\n")
    result = treering("search", "lost", "--role", "user", "--json")
    assert len(hits(result)) == 2
    assert str(root / "noise.jsonl") in result.stderr


# -- info


@pytest.mark.feature("N-114")
def test_what_is_known_of_a_session(treering: Treering, two: None, project: Path, root: Path) -> None:
    lines = dict(line.split(None, 1) for line in treering("info", "net").stdout.splitlines())
    assert lines["about"] == "The connection was lost"
    assert "name" not in lines  # nobody gave one
    assert lines["id"] == "net"
    assert lines["project"] == str(project)
    assert lines["messages"] == "4: 2 by the user, 2 by the assistant, 0 by tools"
    assert lines["entries"] == "4 on 1 branch"
    assert lines["file"] == f"{root / 'net.jsonl'} (native)"
    assert lines["tokens"].startswith("about ")


def test_a_name_that_was_given_and_what_tools_answered(treering: Treering, write: Write, say: Say) -> None:
    renamed = {"type": "session_info", "id": "n", "parent_id": "c", "timestamp": "2026-01-01T10:00:09Z", "seq": 4}
    path = write(
        say("a", None, "Read it", 1),
        say("b", "a", "the file", 2, "tool"),
        say("c", "b", "the other", 3, "tool"),
        {**renamed, "session_info": {"name": "Reading"}},
    )
    lines = dict(
        line.split(None, 1) for line in treering("info", path).stdout.replace("tool runs", "runs").splitlines()
    )
    assert (lines["name"], lines["runs"]) == ("Reading", "2")
    assert lines["messages"] == "3: 1 by the user, 0 by the assistant, 2 by tools"
    assert json.loads(treering("info", path, "--json").stdout)["tool_results"] == 2


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--after", "soon")])
def test_a_search_that_can_find_nothing_is_refused(treering: Treering, two: None, option: str, value: str) -> None:
    result = treering("search", "lost", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr


def test_what_is_known_for_programs(treering: Treering, branched: Path, project: Path) -> None:
    found = json.loads(treering("info", branched, "--json").stdout)
    assert found["session"]["id"] == "s-1"
    assert found["model"] == {"provider": "acme", "model_id": "m-1"}
    assert (found["leaf_id"], found["branches"], found["entries"]) == ("l", 2, 5)
    assert found["labels"] == [["q", "crossroads"]]
    people = treering("info", branched).stdout
    assert "crossroads (q)" in people
    assert "acme/m-1, thinking off" in people
    assert "5 on 2 branches" in people


def test_what_was_paid_is_known(treering: Treering, write: Write) -> None:
    usage = {"input_tokens": 12_000, "output_tokens": 340, "cost": 0.3}
    answer = {"role": "assistant", "content": "Yes.", "provider": "acme", "model": "m-1", "usage": usage}
    path = write(said("q", None, "Which way?", 1), entry("message", "a", "q", answer, 2))
    assert "12,000 tokens in, 340 out, cost 0.3000" in treering("info", path).stdout
    assert json.loads(treering("info", path, "--json").stdout)["usage"]["input_tokens"] == 12_000


def test_the_session_that_is_meant_where_none_is_named(treering: Treering, two: None, talked: Talked) -> None:
    def meant() -> object:
        return json.loads(treering("info", "--json").stdout)["session"]["id"]

    assert meant() == "net"
    talked("Later", session_id="later")
    assert meant() == "later"
    assert treering("current", "net").exit_code == 0
    assert meant() == "net"


def test_there_may_be_none(treering: Treering, project: Path) -> None:
    result = treering("info")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"there is no session in the project {project}" in result.stderr


# -- completion


def completed(words: str) -> list[str]:
    env = {"_TREERING_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = CliRunner().invoke(main, [], prog_name="treering", env=env)
    assert result.exit_code == 0
    return [line.removeprefix("plain,") for line in result.stdout.splitlines()]


def test_commands_and_sessions_are_completed(two: None, root: Path, project: Path) -> None:
    assert completed("treering se") == ["sessions", "search"]
    assert completed("treering info n") == ["net"]
    assert completed("treering archive key ") == ["key", "net"]
    assert completed("treering export --format nan") == ["nanocoder"]
    assert completed("treering tree k") == ["key"]
    assert completed("treering tree x") == ["file,x"]
    assert completed(f"treering info --root {project} ") == ["file,"]
    (root / "config.toml").write_text("nonsense")
    assert completed("treering info n") == ["file,n"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_take_the_script(treering: Treering, shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash here, which is asked for its version")
    result = treering("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_TREERING_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell) is not None:
        checked = subprocess.run([shell, "-n"], input=result.stdout, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_reference_is_what_the_commands_say() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
    made = subprocess.run([sys.executable, "-m", "treering.cli.reference"], capture_output=True, text=True, check=True)
    assert page.read_text(encoding="utf-8") == made.stdout, "run: python -m treering.cli.reference > docs/cli.md"

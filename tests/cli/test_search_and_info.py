"""`treering search`, `treering info`, shell completion, and the reference of the commands."""

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

from .conftest import entry, line_of_message

Treering = Callable[..., Result]
CreateSession = Callable[..., str]
Write = Callable[..., Path]
MessageLine = Callable[..., dict[str, Any]]

NOW = datetime.now(UTC)


@pytest.fixture
def two_sessions(create_session: CreateSession, tmp_path: Path) -> None:
    create_session("The connection was lost", "It timed out", session_id="net", at=NOW - timedelta(days=9))
    create_session("A lost key", session_id="key", name="Keys", cwd=tmp_path / "bank")


def hits(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


# -- search


def test_hits_are_grouped_by_session(treering: Treering, two_sessions: None) -> None:
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


def test_a_project_without_sessions_is_named_if_nothing_is_found(
    treering: Treering, two_sessions: None, tmp_path: Path
) -> None:
    wrong, right = tmp_path / "bnak", tmp_path / "bank"
    assert treering("search", "lost", "--project", wrong).stderr == (
        f"nothing found; no session belongs to the project {wrong}\n"
    )
    assert treering("search", "gained", "--project", right).stderr == "nothing found\n"


def test_a_session_without_a_user_message_is_shown_as_such(
    treering: Treering, root: Path, write: Write, message_line: MessageLine
) -> None:
    root.mkdir()
    write(message_line("a", None, "The connection was lost", 1, "assistant")).rename(root / "s-1.jsonl")
    assert treering("search", "lost").stdout.splitlines()[0] == "(no text by the user yet)  s-1"


def test_the_found_words_are_colored(treering: Treering, two_sessions: None) -> None:
    assert "\x1b[31m\x1b[1mlost\x1b[0m key" in treering("search", "lost", "--role", "user", color=True).stdout


def test_hits_can_be_printed_as_json(treering: Treering, two_sessions: None) -> None:
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
def test_options_narrow_a_search(
    treering: Treering, two_sessions: None, options: list[str], sessions: list[str]
) -> None:
    found = hits(treering("search", "lost", "--role", "user", "--json", *options))
    assert [hit["session_id"] for hit in found] == sessions


def test_any_role_can_be_searched_for_and_an_unusual_one_without_hits_gets_a_hint(
    treering: Treering, root: Path, write: Write, message_line: MessageLine
) -> None:
    root.mkdir()
    write(message_line("a", None, "The connection was lost", 1, "critic")).rename(root / "s-1.jsonl")
    (hit,) = hits(treering("search", "lost", "--role", "critic", "--json"))
    assert (hit["role"], hit["entry_id"]) == ("critic", "a")
    result = treering("search", "lost", "--role", "asistant")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("nothing found; 'asistant' is not one of the usual roles: assistant, ")


def test_a_search_without_hits_succeeds(treering: Treering, two_sessions: None) -> None:
    result = treering("search", "nonsense")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing found\n")
    assert treering("search", " ").exit_code == 1


def test_a_search_that_reaches_its_limit_says_so(treering: Treering, two_sessions: None) -> None:
    result = treering("search", "lost", "--limit", "2", "--json")
    assert len(hits(result)) == 2
    assert result.stderr == "2 hits; --limit shows more\n"
    assert treering("search", "lost", "--limit", "4").stderr == "4 hits\n"


@pytest.mark.parametrize("limit", ["0", "-1", "abc", "1.5", ""])
def test_a_limit_that_is_not_a_number_of_hits_is_refused_in_plain_words(
    treering: Treering, two_sessions: None, limit: str
) -> None:
    result = treering("search", "lost", "--limit", limit)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"'--limit': {limit!r} is not a whole number of 1 or more\n")
    assert treering("search", "lost", "--limit", "9" * 30).stderr == "4 hits\n"


def test_a_file_that_cannot_be_searched_is_named(treering: Treering, two_sessions: None, root: Path) -> None:
    (root / "noise.jsonl").write_text("noise\n")
    result = treering("search", "lost", "--role", "user", "--json")
    assert len(hits(result)) == 2
    assert str(root / "noise.jsonl") in result.stderr


# -- info


@pytest.mark.feature("N-114")
def test_info_shows_title_project_counts_and_file(
    treering: Treering, two_sessions: None, project: Path, root: Path
) -> None:
    lines = dict(line.split(None, 1) for line in treering("info", "net").stdout.splitlines())
    assert lines["about"] == "The connection was lost"
    assert "name" not in lines  # none was set
    assert lines["id"] == "net"
    assert lines["project"] == str(project)
    assert lines["messages"] == "4: 2 by the user, 2 by the assistant, 0 by tools"
    assert lines["entries"] == "4 on 1 branch"
    assert lines["file"] == f"{root / 'net.jsonl'} (native)"
    assert lines["tokens"].startswith("about ")


def test_info_shows_the_name_and_the_number_of_tool_results(
    treering: Treering, write: Write, message_line: MessageLine
) -> None:
    renamed = {"type": "session_info", "id": "n", "parent_id": "c", "timestamp": "2026-01-01T10:00:09Z", "seq": 4}
    path = write(
        message_line("a", None, "Read it", 1),
        message_line("b", "a", "the file", 2, "tool"),
        message_line("c", "b", "the other", 3, "tool"),
        {**renamed, "session_info": {"name": "Reading"}},
    )
    lines = dict(
        line.split(None, 1) for line in treering("info", path).stdout.replace("tool runs", "runs").splitlines()
    )
    assert (lines["name"], lines["runs"]) == ("Reading", "2")
    assert lines["messages"] == "3: 1 by the user, 0 by the assistant, 2 by tools"
    assert json.loads(treering("info", path, "--json").stdout)["tool_results"] == 2


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--after", "soon")])
def test_wrong_search_options_are_refused(treering: Treering, two_sessions: None, option: str, value: str) -> None:
    result = treering("search", "lost", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr


def test_info_can_be_printed_as_json(treering: Treering, branched: Path, project: Path) -> None:
    found = json.loads(treering("info", branched, "--json").stdout)
    assert found["session"]["id"] == "s-1"
    assert found["model"] == {"provider": "acme", "model_id": "m-1"}
    assert (found["leaf_id"], found["branches"], found["entries"]) == ("l", 2, 5)
    assert found["labels"] == [["q", "crossroads"]]
    shown = treering("info", branched).stdout
    assert "crossroads (q)" in shown
    assert "acme/m-1, thinking off" in shown
    assert "5 on 2 branches" in shown


def test_info_shows_a_session_whose_path_runs_into_a_cycle(
    treering: Treering, write: Write, message_line: MessageLine
) -> None:
    path = write(message_line("a", "a", "One", 1), message_line("b", "a", "Two", 2), message_line("c", "a", "Three", 3))
    found = json.loads(treering("info", path, "--json").stdout)
    assert (found["leaf_id"], found["branches"], found["thinking_level"]) == ("c", 2, "off")


def test_info_shows_the_model_at_the_leaf_however_far_back_it_was_set(treering: Treering, write: Write) -> None:
    def set_at(seq: int, kind: str, payload: object) -> dict[str, Any]:
        return entry(kind, f"e{seq}", f"e{seq - 1}", payload, seq)

    path = write(
        line_of_message("e1", None, "Which way?", 1),
        set_at(2, "model_change", {"provider": "acme", "model_id": "m-1"}),
        set_at(3, "thinking_level", {"thinking_level": "high"}),
        set_at(4, "message", {"role": "assistant", "content": "This.", "provider": "acme", "model": "m-2"}),
        *(line_of_message(f"e{seq}", f"e{seq - 1}", "And now?", seq) for seq in range(5, 1_500)),
    )
    lines = dict(line.split(None, 1) for line in treering("info", path).stdout.splitlines())
    assert lines["model"] == "acme/m-2, thinking high"
    assert lines["messages"] == "1,497: 1,496 by the user, 1 by the assistant, 0 by tools"
    assert lines["entries"] == "1,499 on 1 branch"


def test_info_shows_usage_and_cost(treering: Treering, write: Write) -> None:
    usage = {"input_tokens": 12_000, "output_tokens": 340, "cost": 0.3}
    answer = {"role": "assistant", "content": "Yes.", "provider": "acme", "model": "m-1", "usage": usage}
    path = write(line_of_message("q", None, "Which way?", 1), entry("message", "a", "q", answer, 2))
    assert "12,000 tokens in, 340 out, cost 0.3000" in treering("info", path).stdout
    assert json.loads(treering("info", path, "--json").stdout)["usage"]["input_tokens"] == 12_000


def test_without_a_name_info_shows_the_current_or_the_latest_session(
    treering: Treering, two_sessions: None, create_session: CreateSession
) -> None:
    def shown_id() -> object:
        return json.loads(treering("info", "--json").stdout)["session"]["id"]

    assert shown_id() == "net"
    create_session("Later", session_id="later")
    assert shown_id() == "later"
    assert treering("current", "net").exit_code == 0
    assert shown_id() == "net"


def test_info_without_any_session_is_an_error(treering: Treering, root: Path) -> None:
    result = treering("info")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"treering: there are no sessions in {root} yet: start one with treering chat\n"
    assert not root.exists()


def test_info_in_a_project_without_sessions_says_how_to_find_others(
    treering: Treering, create_session: CreateSession, tmp_path: Path, project: Path
) -> None:
    create_session("Hello", session_id="other", cwd=tmp_path / "bank")
    result = treering("info")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"there is no session in the project {project}: name one" in result.stderr
    assert "`treering sessions --all`" in result.stderr


# -- completion


def completions(words: str) -> list[str]:
    env = {"_TREERING_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = CliRunner().invoke(main, [], prog_name="treering", env=env)
    assert result.exit_code == 0
    return [line.removeprefix("plain,") for line in result.stdout.splitlines()]


def test_commands_and_sessions_are_completed(two_sessions: None, root: Path, project: Path) -> None:
    assert completions("treering se") == ["sessions", "search"]
    assert completions("treering info n") == ["net"]
    assert completions("treering archive key ") == ["key", "net"]
    assert completions("treering export --format nan") == ["nanocoder"]
    assert completions("treering tree k") == ["key"]
    assert completions("treering tree x") == ["file,x"]
    assert completions(f"treering info --root {project} ") == ["file,"]
    (root / "config.toml").write_text("nonsense")
    assert completions("treering info n") == ["file,n"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_valid_in_each_shell(treering: Treering, shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("bash is missing, and its script depends on the version")
    result = treering("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_TREERING_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell) is not None:
        checked = subprocess.run([shell, "-n"], input=result.stdout, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
    generated = subprocess.run(
        [sys.executable, "-m", "treering.cli.reference"], capture_output=True, text=True, check=True
    )
    assert page.read_text(encoding="utf-8") == generated.stdout, "run: python -m treering.cli.reference > docs/cli.md"

"""`treering search`, `treering info`, shell completion, and the reference of the commands."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from treering.cli import main

from .conftest import DOCS, Cli, entry, line_of_message

NOW = datetime.now(UTC)


@pytest.fixture
def two_sessions(cli: Cli, tmp_path: Path) -> None:
    cli.create("The connection was lost", "It timed out", session_id="net", at=NOW - timedelta(days=9))
    cli.create("A lost key", session_id="key", name="Keys", cwd=tmp_path / "bank")


def test_hits_are_grouped_by_session(cli: Cli, two_sessions: None) -> None:
    result = cli("search", "LOST")
    assert result.exit_code == 0
    first, second = result.stdout.split("\n\n")
    assert first.splitlines()[0] == "Keys  key"
    assert second.splitlines()[0] == "The connection was lost  net"
    assert [line.split(": ", 1)[1] for line in second.splitlines()[1:]] == [
        "The connection was lost",
        "About 'The connection was lost': yes.",
    ]
    assert result.stderr == "4 hits\n"
    assert cli("search", "lost", "-q").stderr == ""


def test_a_project_without_sessions_is_named_if_nothing_is_found(cli: Cli, two_sessions: None, tmp_path: Path) -> None:
    result = cli("search", "nonsense")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing found\n")
    cli.error("search", " ")
    wrong, right = tmp_path / "bnak", tmp_path / "bank"
    assert cli("search", "lost", "--project", wrong).stderr == (
        f"nothing found; no session belongs to the project {wrong}\n"
    )
    assert cli("search", "gained", "--project", right).stderr == "nothing found\n"


def test_a_session_without_a_user_message_is_shown_as_such(cli: Cli) -> None:
    cli.root.mkdir()
    cli.write(line_of_message("a", None, "The connection was lost", 1, "assistant")).rename(cli.root / "s-1.jsonl")
    assert cli.lines("search", "lost")[0] == "(no text by the user yet)  s-1"


def test_the_found_words_are_colored_and_hits_can_be_printed_as_json(cli: Cli, two_sessions: None) -> None:
    assert "\x1b[31m\x1b[1mlost\x1b[0m key" in cli("search", "lost", "--role", "user", color=True).stdout
    (hit,) = cli.json_lines("search", '"connection was"', "--role", "user")
    assert (hit["session_id"], hit["role"], hit["snippet"]) == ("net", "user", "The connection was lost")
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["connection was"]
    assert hit["entry_id"] in cli("entries", "net", "--json").stdout


def test_options_narrow_a_search(cli: Cli, two_sessions: None) -> None:
    for options, sessions in {
        (): ["key", "net"],
        ("--project", "."): ["net"],
        ("--project", "../bank"): ["key"],
        ("--after", "7d"): ["key"],
        ("--before", "7d"): ["net"],
        ("--limit", "1"): ["key"],
        ("--tool", "grep"): [],
        ("--no-index",): ["key", "net"],
        ("--index",): ["key", "net"],
    }.items():
        found = cli.json_lines("search", "lost", "--role", "user", *options)
        assert [hit["session_id"] for hit in found] == sessions, options


def test_any_role_can_be_searched_for_and_an_unusual_one_without_hits_gets_a_hint(cli: Cli) -> None:
    cli.root.mkdir()
    cli.write(line_of_message("a", None, "The connection was lost", 1, "critic")).rename(cli.root / "s-1.jsonl")
    (hit,) = cli.json_lines("search", "lost", "--role", "critic")
    assert (hit["role"], hit["entry_id"]) == ("critic", "a")
    result = cli("search", "lost", "--role", "asistant")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("nothing found; 'asistant' is not one of the usual roles: assistant, ")


def test_a_search_that_reaches_its_limit_says_so(cli: Cli, two_sessions: None) -> None:
    result = cli("search", "lost", "--limit", "2", "--json")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 2)
    assert result.stderr == "2 hits; --limit shows more\n"
    assert cli("search", "lost", "--limit", "4").stderr == "4 hits\n"


def test_wrong_search_options_are_refused_in_plain_words(cli: Cli, two_sessions: None) -> None:
    for limit in ("0", "-1", "abc", "1.5", ""):
        error = cli.error("search", "lost", "--limit", limit, status=2)
        assert error.endswith(f"'--limit': {limit!r} is not a whole number of 1 or more\n")
    assert cli("search", "lost", "--limit", "9" * 30).stderr == "4 hits\n"
    assert "--after" in cli.error("search", "lost", "--after", "soon", status=2)


def test_a_file_that_cannot_be_searched_is_named(cli: Cli, two_sessions: None) -> None:
    (cli.root / "noise.jsonl").write_text("noise\n")
    result = cli("search", "lost", "--role", "user", "--json")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 2)
    assert str(cli.root / "noise.jsonl") in result.stderr


@pytest.mark.feature("N-114")
def test_info_shows_title_project_counts_and_file(cli: Cli, two_sessions: None) -> None:
    lines = dict(line.split(None, 1) for line in cli.lines("info", "net"))
    assert lines["about"] == "The connection was lost"
    assert "name" not in lines  # none was set
    assert lines["id"] == "net"
    assert lines["project"] == str(cli.project)
    assert lines["messages"] == "4: 2 by the user, 2 by the assistant, 0 by tools"
    assert lines["entries"] == "4 on 1 branch"
    assert lines["file"] == f"{cli.root / 'net.jsonl'} (native)"
    assert lines["tokens"].startswith("about ")


def test_info_shows_the_name_and_the_number_of_tool_results(cli: Cli) -> None:
    renamed = {"type": "session_info", "id": "n", "parent_id": "c", "timestamp": "2026-01-01T10:00:09Z", "seq": 4}
    path = cli.write(
        line_of_message("a", None, "Read it", 1),
        line_of_message("b", "a", "the file", 2, "tool"),
        line_of_message("c", "b", "the other", 3, "tool"),
        {**renamed, "session_info": {"name": "Reading"}},
    )
    lines = dict(line.split(None, 1) for line in cli("info", path).stdout.replace("tool runs", "runs").splitlines())
    assert (lines["name"], lines["runs"]) == ("Reading", "2")
    assert lines["messages"] == "3: 1 by the user, 0 by the assistant, 2 by tools"
    assert cli.json("info", path)["tool_results"] == 2


def test_info_can_be_printed_as_json(cli: Cli, branched: Path) -> None:
    found = cli.json("info", branched)
    assert found["session"]["id"] == "s-1"
    assert found["model"] == {"provider": "acme", "model_id": "m-1"}
    assert (found["leaf_id"], found["branches"], found["entries"]) == ("l", 2, 5)
    assert found["labels"] == [["q", "crossroads"]]
    shown = cli("info", branched).stdout
    assert "crossroads (q)" in shown
    assert "acme/m-1, thinking off" in shown
    assert "5 on 2 branches" in shown


def test_info_shows_a_session_whose_path_runs_into_a_cycle(cli: Cli) -> None:
    path = cli.write(
        line_of_message("a", "a", "One", 1), line_of_message("b", "a", "Two", 2), line_of_message("c", "a", "Three", 3)
    )
    found = cli.json("info", path)
    assert (found["leaf_id"], found["branches"], found["thinking_level"]) == ("c", 2, "off")


def test_info_shows_the_model_at_the_leaf_however_far_back_it_was_set(cli: Cli) -> None:
    def set_at(seq: int, kind: str, payload: object) -> dict[str, Any]:
        return entry(kind, f"e{seq}", f"e{seq - 1}", payload, seq)

    path = cli.write(
        line_of_message("e1", None, "Which way?", 1),
        set_at(2, "model_change", {"provider": "acme", "model_id": "m-1"}),
        set_at(3, "thinking_level", {"thinking_level": "high"}),
        set_at(4, "message", {"role": "assistant", "content": "This.", "provider": "acme", "model": "m-2"}),
        *(line_of_message(f"e{seq}", f"e{seq - 1}", "And now?", seq) for seq in range(5, 1_500)),
    )
    lines = dict(line.split(None, 1) for line in cli.lines("info", path))
    assert lines["model"] == "acme/m-2, thinking high"
    assert lines["messages"] == "1,497: 1,496 by the user, 1 by the assistant, 0 by tools"
    assert lines["entries"] == "1,499 on 1 branch"


def test_info_shows_usage_and_cost(cli: Cli) -> None:
    usage = {"input_tokens": 12_000, "output_tokens": 340, "cost": 0.3}
    answer = {"role": "assistant", "content": "Yes.", "provider": "acme", "model": "m-1", "usage": usage}
    path = cli.write(line_of_message("q", None, "Which way?", 1), entry("message", "a", "q", answer, 2))
    assert "12,000 tokens in, 340 out, cost 0.3000" in cli("info", path).stdout
    assert cli.json("info", path)["usage"]["input_tokens"] == 12_000


def test_without_a_name_info_shows_the_current_or_the_latest_session(cli: Cli, two_sessions: None) -> None:
    def shown_id() -> object:
        return cli.json("info")["session"]["id"]

    assert shown_id() == "net"
    cli.create("Later", session_id="later")
    assert shown_id() == "later"
    assert cli("current", "net").exit_code == 0
    assert shown_id() == "net"


def test_info_without_any_session_is_an_error(cli: Cli) -> None:
    assert cli.error("info") == f"treering: there are no sessions in {cli.root} yet: start one with treering chat\n"
    assert not cli.root.exists()


def test_info_in_a_project_without_sessions_says_how_to_find_others(cli: Cli, tmp_path: Path) -> None:
    cli.create("Hello", session_id="other", cwd=tmp_path / "bank")
    error = cli.error("info")
    assert f"there is no session in the project {cli.project}: name one" in error
    assert "`treering sessions --all`" in error


def completions(words: str) -> list[str]:
    env = {"_TREERING_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = CliRunner().invoke(main, [], prog_name="treering", env=env)
    assert result.exit_code == 0
    return [line.removeprefix("plain,") for line in result.stdout.splitlines()]


def test_commands_and_sessions_are_completed(cli: Cli, two_sessions: None) -> None:
    assert completions("treering se") == ["sessions", "search", "serve"]
    assert completions("treering info n") == ["net"]
    assert completions("treering archive key ") == ["key", "net"]
    assert completions("treering export --format nan") == ["nanocoder"]
    assert completions("treering tree k") == ["key"]
    assert completions("treering tree x") == ["file,x"]
    assert completions(f"treering info --root {cli.project} ") == ["file,"]
    (cli.root / "config.toml").write_text("nonsense")
    assert completions("treering info n") == ["file,n"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_valid_in_each_shell(cli: Cli, shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("bash is missing, and its script depends on the version")
    result = cli("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_TREERING_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell) is not None:
        checked = subprocess.run([shell, "-n"], input=result.stdout, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_reference_page_is_up_to_date() -> None:
    command = [sys.executable, str(DOCS / "cli_page.py")]
    generated = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generated, "run: python docs/cli_page.py > docs/cli.md"

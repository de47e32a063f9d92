"""What is kept and what goes: archive, unarchive, delete, gc, rename, label."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from .terminal import Terminal

Treering = Callable[..., Result]
Talked = Callable[..., str]
AtTerminal = Callable[..., Terminal]

NOW = datetime.now(UTC)


def ids(treering: Treering, *args: str) -> list[str]:
    return [row["id"] for row in json.loads(treering("sessions", "--json", "-q", *args).stdout)]


def test_archiving_and_bringing_back(treering: Treering, talked: Talked, root: Path) -> None:
    talked("One", session_id="one", at=NOW - timedelta(hours=2))
    talked("Two", session_id="two")
    before = (root / "one.jsonl").read_bytes()
    result = treering("archive", "one")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session archived\n")
    assert (ids(treering), ids(treering, "--archived")) == (["two"], ["one"])
    assert not (root / "one.jsonl").exists()
    for command in ("tree", "context", "labels", "entries", "info", "export"):
        assert treering(command, "one").exit_code == 0, command
    assert "One" in treering("tree", root / "one.jsonl").stdout
    assert (ids(treering), ids(treering, "--archived")) == (["two"], ["one"])  # looking brings nothing back

    assert treering("unarchive", "one", "-q").output == ""
    assert sorted(ids(treering)) == ["one", "two"]
    assert (root / "one.jsonl").read_bytes().startswith(before)


def test_several_at_once_or_none(treering: Treering, talked: Talked) -> None:
    talked("One", session_id="one")
    talked("Two", session_id="two")
    for command in (["archive"], ["delete", "--yes"]):
        assert treering(*command, "one", "gone").exit_code == 1
        assert sorted(ids(treering)) == ["one", "two"]
    assert treering("archive", "one", "two").stderr == "2 sessions archived\n"
    assert ids(treering) == []


def test_deleting_asks_first(treering: Treering, at_terminal: AtTerminal, talked: Talked, root: Path) -> None:
    talked("One", session_id="one", name="The first")
    talked("Two", session_id="two")
    result = treering("delete", "one")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--yes" in result.stderr

    terminal = at_terminal("delete", "one")
    assert "The first" in terminal.until("Delete 1 session for good? [y/N]")[0]
    terminal.press("n\r")
    assert terminal.ended() == 1
    assert sorted(ids(treering)) == ["one", "two"]

    terminal = at_terminal("delete", "one")
    terminal.until("[y/N]")
    terminal.press("y\r")
    assert terminal.ended() == 0
    assert ids(treering) == ["two"]

    result = treering("delete", "two", "two", "--yes")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session deleted\n")
    assert not list(root.glob("*.jsonl*"))
    assert treering("delete", "two", "--yes").exit_code == 1


@pytest.mark.feature("N-138")
def test_gc_says_what_it_would_archive(treering: Treering, talked: Talked, root: Path) -> None:
    talked("Old", session_id="old", name="From long ago", at=NOW - timedelta(days=40))
    talked("New", session_id="new")
    files = {path.name: path.read_bytes() for path in root.glob("*.jsonl")}
    for args in (["gc"], ["gc", "--dry-run"]):
        result = treering(*args)
        assert result.exit_code == 0
        (line,) = result.stdout.splitlines()
        assert line.startswith("would archive old  From long ago  ")
        assert line.endswith("nothing was appended for long")
        assert result.stderr == "1 session would be archived: --apply does it\n"
    report = json.loads(treering("gc", "--json").stdout)
    assert report["dry_run"]
    assert [(each["session_id"], each["reason"]) for each in report["archived"]] == [("old", "inactive")]
    assert {path.name: path.read_bytes() for path in root.glob("*.jsonl")} == files
    assert sorted(ids(treering)) == ["new", "old"]

    assert treering("gc", "--apply").stderr == "1 session archived\n"
    assert (ids(treering), ids(treering, "--archived")) == (["new"], ["old"])
    assert treering("gc", "-q").output == ""


def test_gc_goes_by_the_settings_of_the_root(treering: Treering, talked: Talked, root: Path) -> None:
    for number in range(4):
        talked("Hello", session_id=f"s{number}", at=NOW - timedelta(hours=number))
    (root / "config.toml").write_text("max_sessions_per_project = 2\n")
    report = json.loads(treering("gc", "--json").stdout)
    assert [each["session_id"] for each in report["archived"]] == ["s3", "s2"]
    assert {each["reason"] for each in report["archived"]} == {"too_many"}


def test_renaming(treering: Treering, talked: Talked) -> None:
    talked("Hello", session_id="one")
    assert treering("rename", "one", "Fix the cart").output == ""
    assert "Fix the cart" in treering("sessions").stdout
    assert treering("rename", "Fix the cart", "").exit_code == 0
    assert "Hello" in treering("sessions").stdout


def test_labelling(treering: Treering, talked: Talked) -> None:
    talked("Hello", session_id="one")
    question, answer = (json.loads(line)["id"] for line in treering("entries", "one", "--json").stdout.splitlines())
    assert treering("label", "one", question[:8], "before the rewrite").output == ""
    shown: list[Any] = json.loads(treering("labels", "one", "--json").stdout)
    assert shown == [{"entry_id": question, "label": "before the rewrite"}]
    assert treering("label", "one", answer, "done").exit_code == 0
    assert treering("label", "one", question).output == ""
    assert json.loads(treering("labels", "one", "--json").stdout) == [{"entry_id": answer, "label": "done"}]
    result = treering("label", "one", "nobody", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "entry 'nobody' not found" in result.stderr


@pytest.mark.parametrize("command", [["rename", "one", "x"], ["archive", "one"], ["delete", "one", "--yes"]])
def test_a_session_in_use_is_left_alone(
    treering: Treering, at_terminal: AtTerminal, talked: Talked, command: list[str]
) -> None:
    talked("Hello", session_id="one")
    terminal = at_terminal("chat", "-r", "one")
    terminal.until_prompt()
    terminal.press("Still here?\r")
    terminal.until("(echo, 3 messages) Still here?")
    terminal.until_prompt()
    result = treering(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert "one" in result.stderr
    for looking in ("info", "tree", "export", "search"):
        assert treering(looking, "one").exit_code == 0
    terminal.press("\x04")
    assert terminal.ended() == 0

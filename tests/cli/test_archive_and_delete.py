"""The commands archive, unarchive, delete, gc, rename and label."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from treering import SessionInfo, SyncHost
from treering.cli import main
from treering.events.disk import OsDisk
from treering.events.stores.files.locks import locks_of_this_system

from .terminal import Terminal

Treering = Callable[..., Result]
CreateSession = Callable[..., str]
AtTerminal = Callable[..., Terminal]

NOW = datetime.now(UTC)


def ids(treering: Treering, *args: str) -> list[str]:
    return [row["id"] for row in json.loads(treering("sessions", "--json", "-q", *args).stdout)]


def test_an_archived_session_can_be_read_and_unarchived(
    treering: Treering, create_session: CreateSession, root: Path
) -> None:
    create_session("One", session_id="one", at=NOW - timedelta(hours=2))
    create_session("Two", session_id="two")
    with SyncHost(root) as host:
        host.load("one").append(SessionInfo(status="waiting"))
    before = (root / "one.jsonl").read_bytes()
    result = treering("archive", "one")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session archived\n")
    assert (ids(treering), ids(treering, "--archived")) == (["two"], ["one"])
    assert not (root / "one.jsonl").exists()
    for command in ("tree", "context", "labels", "entries", "info", "export"):
        assert treering(command, "one").exit_code == 0, command
    assert "One" in treering("tree", root / "one.jsonl").stdout
    assert treering("sessions", "--archived").stdout.endswith("  one  waiting, archived\n")
    assert "Session: archived" in treering("export", "one", "-f", "html").stdout
    assert (ids(treering), ids(treering, "--archived")) == (["two"], ["one"])  # reading unarchives nothing

    assert treering("unarchive", "one", "-q").output == ""
    assert sorted(ids(treering)) == ["one", "two"]
    assert (root / "one.jsonl").read_bytes().startswith(before)


def test_a_command_that_changes_nothing_leaves_the_session_archived(
    treering: Treering, create_session: CreateSession
) -> None:
    create_session("One", session_id="one")
    treering("archive", "one")
    assert treering("sessions").stderr == "no sessions yet; 1 archived: --archived lists them\n"
    assert "entry 'nobody' not found" in treering("label", "one", "nobody", "x").stderr
    assert "nothing to compact" in treering("compact", "one", "--apply", "--model", "echo").stdout
    assert ids(treering, "--archived") == ["one"]


def test_a_command_on_several_sessions_changes_nothing_if_one_does_not_exist(
    treering: Treering, create_session: CreateSession
) -> None:
    create_session("One", session_id="one")
    create_session("Two", session_id="two")
    for command in (["archive"], ["delete", "--yes"]):
        assert treering(*command, "one", "gone").exit_code == 1
        assert sorted(ids(treering)) == ["one", "two"]
    assert treering("archive", "one", "two").stderr == "2 sessions archived\n"
    assert ids(treering) == []


def test_a_session_in_use_does_not_keep_the_command_from_the_others(
    treering: Treering, create_session: CreateSession, root: Path
) -> None:
    for each in ("one", "two", "three"):
        create_session("Hello", session_id=each)
    with SyncHost(root) as host:
        host.load("two").append_message("user", "Still here?")
        for command, key, done in (
            (["archive"], "archived", "archived"),
            (["unarchive"], "brought_back", "restored"),
            (["delete", "--yes"], "deleted", "deleted"),
        ):
            result = treering(*command, "one", "two", "three", "--json")
            assert result.exit_code == 1
            expected = ["one", "three"]
            assert [each["id"] for each in json.loads(result.stdout)[key]] == expected
            failed, count = result.stderr.splitlines()
            assert failed.startswith(f"treering: {root / 'two.jsonl'} is owned by process ")
            assert count.startswith(f"2 sessions {done}")
    assert ids(treering) == ["two"]


def test_a_session_that_cannot_be_compressed_is_archived_with_a_warning(
    treering: Treering, create_session: CreateSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_session("One", session_id="one", name="First")
    create_session("Two", session_id="two")
    open_file = OsDisk.open

    def refuse(disk: OsDisk, path: str, flags: int) -> int:
        if "one.jsonl." in path and flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open_file(disk, path, flags)

    monkeypatch.setattr(OsDisk, "open", refuse)
    result = treering("archive", "one", "two", "--json")
    assert result.exit_code == 0
    assert [each["id"] for each in json.loads(result.stdout)["archived"]] == ["one", "two"]
    failed, count = result.stderr.splitlines()
    assert failed.startswith("First: archived, but not compressed: ")
    assert failed.endswith("Permission denied: fix that, then archive the session again")
    assert count == "2 sessions archived"
    assert sorted(ids(treering, "--archived")) == ["one", "two"]
    assert (root / "one.jsonl").is_file()
    assert not (root / "two.jsonl").exists()


@pytest.mark.parametrize("content", [None, b"", b"notes\n"], ids=["missing", "empty", "notes"])
@pytest.mark.parametrize("command", ["archive", "unarchive", "delete"])
def test_a_path_that_is_not_that_of_a_session_is_left_as_it_is(
    treering: Treering, tmp_path: Path, content: bytes | None, command: str
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "notes.jsonl"
    if content is not None:
        path.write_bytes(content)
    result = treering(command, path, *(["--yes"] if command == "delete" else []))
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(path) in result.stderr
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == (
        [] if content is None else [("notes.jsonl", content)]
    )


def test_deleting_an_empty_text_is_refused(treering: Treering, create_session: CreateSession) -> None:
    create_session("One", session_id="one")
    result = treering("delete", "", "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert ids(treering) == ["one"]


def test_only_changed_sessions_are_counted(treering: Treering, create_session: CreateSession) -> None:
    create_session("One", session_id="one")
    create_session("Two", session_id="two")
    assert treering("unarchive", "one").stderr == "1 session was not archived\n"
    assert treering("archive", "one", "one").stderr == "1 session archived\n"
    assert treering("archive", "one").stderr == "1 session was already archived\n"
    assert treering("archive", "one", "two").stderr == "1 session archived, 1 session was already archived\n"
    assert treering("archive", "one", "two").stderr == "2 sessions were already archived\n"
    assert treering("unarchive", "one", "two").stderr == "2 sessions restored\n"


def test_changes_can_be_printed_as_json(
    treering: Treering, create_session: CreateSession, root: Path, tmp_path: Path
) -> None:
    create_session("One", session_id="one")
    create_session("Two", session_id="two")
    one, two = ({"id": each, "path": str(root / f"{each}.jsonl")} for each in ("one", "two"))

    def reported(*args: str) -> object:
        result = treering(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert reported("archive", "one") == {"archived": [one], "archived_before": []}
    assert reported("unarchive", "one", "two") == {"brought_back": [one], "active_before": [two]}
    assert reported("rename", "one", "First") == {**one, "name": "First"}
    assert reported("rename", "one", "") == {**one, "name": None}
    entry = json.loads(treering("entries", str(root / "one.jsonl"), "--json").stdout.splitlines()[0])["id"]
    assert reported("label", "one", entry, "start") == {"session_id": "one", "entry_id": entry, "label": "start"}
    assert reported("label", "one", entry) == {"session_id": "one", "entry_id": entry, "label": None}
    target = tmp_path / "one.md"
    assert reported("export", "one", "-o", str(target)) == {"path": str(target), "format": "markdown", "redacted": None}
    assert reported("export", "one", "-o", str(target), "--force", "--redact") == {
        "path": str(target),
        "format": "markdown",
        "redacted": {},
    }
    assert treering("export", "one", "--json").exit_code == 2
    assert reported("delete", "one", "two", "--yes") == {"deleted": [one, two]}


def test_errors_name_options_of_the_command_line(
    treering: Treering, create_session: CreateSession, tmp_path: Path, root: Path
) -> None:
    create_session("One", session_id="one")
    target = tmp_path / "one.json"
    assert treering("export", "one", "-f", "json", "--redact", "-o", target).exit_code == 0
    result = treering("export", "one", "-o", target)
    assert (result.exit_code, "--force" in result.stderr, "overwrite" in result.stderr) == (1, True, False)
    result = treering("import", target)
    assert (result.exit_code, "without --redact" in result.stderr) == (1, True)
    locks = locks_of_this_system(OsDisk(), str(root))
    locks.take(os.path.realpath(root / "one.jsonl"))
    for command in (["rename", "one", "x"], ["chat", "-r", "one", "-p", "x"]):
        result = treering(*command)
        assert (result.exit_code, "close it there" in result.stderr) == (1, True), command
        assert "read-only" not in result.stderr
    locks.close()


def test_an_id_of_two_files_is_ambiguous_and_a_path_is_not(
    treering: Treering, create_session: CreateSession, root: Path
) -> None:
    create_session("One", session_id="one")
    native = (root / "one.jsonl").rename(root / "moved.jsonl")
    pi = root / "--work--" / "2026-01-01_one.jsonl"
    pi.parent.mkdir()
    pi.write_text('{"type":"session","version":3,"id":"one","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work"}\n')
    result = treering("info", "one")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{native} (native)" in result.stderr
    assert f"{pi} (pi)" in result.stderr
    assert "give one path" in result.stderr
    assert treering("info", pi).exit_code == 0


def test_ctrl_c_at_the_question_deletes_nothing(
    treering: Treering,
    create_session: CreateSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create_session("One", session_id="one")

    def interrupt(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as exited:
        main(["delete", "one"], prog_name="treering")
    assert exited.value.code == 130
    error = capsys.readouterr().err
    assert error.endswith("\nnothing was deleted\n")
    assert "Aborted" not in error
    assert ids(treering) == ["one"]


def test_deleting_requires_confirmation(
    treering: Treering, at_terminal: AtTerminal, create_session: CreateSession, root: Path
) -> None:
    create_session("One", session_id="one", name="The first")
    create_session("Two", session_id="two")
    result = treering("delete", "one")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--yes" in result.stderr

    terminal = at_terminal("delete", "one")
    assert "The first" in terminal.until("Delete 1 session for good? [y/N]")[0]
    terminal.press("n\r")
    assert terminal.wait() == 1
    assert terminal.lines[-1] == "nothing was deleted"
    assert sorted(ids(treering)) == ["one", "two"]

    terminal = at_terminal("delete", "one")
    terminal.until("[y/N]")
    terminal.press("y\r")
    assert terminal.wait() == 0
    assert ids(treering) == ["two"]

    result = treering("delete", "two", "two", "--yes")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session deleted\n")
    assert not list(root.glob("*.jsonl*"))
    assert treering("delete", "two", "--yes").exit_code == 1


@pytest.mark.feature("N-138")
def test_gc_reports_first_and_archives_with_apply(
    treering: Treering, create_session: CreateSession, root: Path
) -> None:
    create_session("Old", session_id="old", name="From long ago", at=NOW - timedelta(days=40))
    create_session("New", session_id="new")
    files = {path.name: path.read_bytes() for path in root.glob("*.jsonl")}
    for args in (["gc"], ["gc", "--dry-run"]):
        result = treering(*args)
        assert result.exit_code == 0
        (line,) = result.stdout.splitlines()
        assert line.startswith("would archive old  From long ago  ")
        assert line.endswith("nothing was appended for a long time")
        assert result.stderr == "1 session would be archived: pass --apply to archive\n"
    report = json.loads(treering("gc", "--json").stdout)
    assert report["dry_run"]
    assert [(each["session_id"], each["reason"]) for each in report["archived"]] == [("old", "inactive")]
    assert {path.name: path.read_bytes() for path in root.glob("*.jsonl")} == files
    assert sorted(ids(treering)) == ["new", "old"]

    assert treering("gc", "--apply").stderr == "1 session archived\n"
    assert (ids(treering), ids(treering, "--archived")) == (["new"], ["old"])
    assert treering("gc", "-q").output == ""


def test_gc_uses_the_settings_of_the_root(treering: Treering, create_session: CreateSession, root: Path) -> None:
    for number in range(4):
        create_session("Hello", session_id=f"s{number}", at=NOW - timedelta(hours=number))
    (root / "config.toml").write_text("max_sessions_per_project = 2\n")
    report = json.loads(treering("gc", "--json").stdout)
    assert [each["session_id"] for each in report["archived"]] == ["s3", "s2"]
    assert {each["reason"] for each in report["archived"]} == {"too_many"}


def test_rename_sets_and_removes_a_name(treering: Treering, create_session: CreateSession) -> None:
    create_session("Hello", session_id="one")
    assert treering("rename", "one", "Fix the cart").output == ""
    assert "Fix the cart" in treering("sessions").stdout
    assert treering("rename", "Fix the cart", "").exit_code == 0
    assert "Hello" in treering("sessions").stdout


def test_label_sets_and_removes_a_label(treering: Treering, create_session: CreateSession) -> None:
    create_session("Hello", session_id="one")
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
def test_a_session_in_use_can_be_read_but_not_changed(
    treering: Treering, at_terminal: AtTerminal, create_session: CreateSession, command: list[str]
) -> None:
    create_session("Hello", session_id="one")
    terminal = at_terminal("chat", "-r", "one")
    terminal.until_prompt()
    terminal.press("Still here?\r")
    terminal.until("(echo, 3 messages) Still here?")
    terminal.until_prompt()
    result = treering(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert "one" in result.stderr
    for reading in ("info", "tree", "export", "search"):
        assert treering(reading, "one").exit_code == 0
    terminal.press("\x04")
    assert terminal.wait() == 0

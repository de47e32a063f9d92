"""The commands archive, unarchive, delete, gc, rename and label."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from treering import SessionInfo, SyncHost
from treering.cli import main
from treering.events.disk import OsDisk
from treering.events.stores.files.locks import locks_of_this_system

from .conftest import Cli

NOW = datetime.now(UTC)


def test_an_archived_session_can_be_read_and_unarchived(cli: Cli) -> None:
    cli.create("One", session_id="one", at=NOW - timedelta(hours=2))
    cli.create("Two", session_id="two")
    with SyncHost(cli.root) as host:
        host.load("one").append(SessionInfo(status="waiting"))
    before = (cli.root / "one.jsonl").read_bytes()
    result = cli("archive", "one")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session archived\n")
    assert (cli.ids(), cli.ids("--archived")) == (["two"], ["one"])
    assert not (cli.root / "one.jsonl").exists()
    for command in ("tree", "context", "labels", "entries", "info", "export"):
        assert cli(command, "one").exit_code == 0, command
    assert "One" in cli("tree", cli.root / "one.jsonl").stdout
    assert cli("sessions", "--archived").stdout.endswith("  one  waiting, archived\n")
    assert "Session: archived" in cli("export", "one", "-f", "html").stdout
    assert (cli.ids(), cli.ids("--archived")) == (["two"], ["one"])  # reading unarchives nothing

    assert cli("unarchive", "one", "-q").output == ""
    assert sorted(cli.ids()) == ["one", "two"]
    assert (cli.root / "one.jsonl").read_bytes().startswith(before)


def test_a_command_that_changes_nothing_leaves_the_session_archived(cli: Cli) -> None:
    cli.create("One", session_id="one")
    cli("archive", "one")
    assert cli("sessions").stderr == "no sessions yet; 1 archived: --archived lists them\n"
    assert "entry 'nobody' not found" in cli("label", "one", "nobody", "x").stderr
    assert "nothing to compact" in cli("compact", "one", "--apply", "--model", "echo").stdout
    assert cli.ids("--archived") == ["one"]


def test_a_command_on_several_sessions_changes_nothing_if_one_does_not_exist(cli: Cli) -> None:
    cli.create("One", session_id="one")
    cli.create("Two", session_id="two")
    for command in (["archive"], ["delete", "--yes"]):
        assert cli(*command, "one", "gone").exit_code == 1
        assert sorted(cli.ids()) == ["one", "two"]
    assert cli("archive", "one", "two").stderr == "2 sessions archived\n"
    assert cli.ids() == []


def test_a_session_in_use_does_not_keep_the_command_from_the_others(cli: Cli) -> None:
    for each in ("one", "two", "three"):
        cli.create("Hello", session_id=each)
    with SyncHost(cli.root) as host:
        host.load("two").append_message("user", "Still here?")
        for command, key, done in (
            (["archive"], "archived", "archived"),
            (["unarchive"], "brought_back", "restored"),
            (["delete", "--yes"], "deleted", "deleted"),
        ):
            result = cli(*command, "one", "two", "three", "--json")
            assert result.exit_code == 1
            expected = ["one", "three"]
            assert [each["id"] for each in json.loads(result.stdout)[key]] == expected
            failed, count = result.stderr.splitlines()
            assert failed.startswith(f"treering: {cli.root / 'two.jsonl'} is owned by process ")
            assert count.startswith(f"2 sessions {done}")
    assert cli.ids() == ["two"]


def test_a_session_that_cannot_be_compressed_is_archived_with_a_warning(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.create("One", session_id="one", name="First")
    cli.create("Two", session_id="two")
    open_file = OsDisk.open

    def refuse(disk: OsDisk, path: str, flags: int) -> int:
        if "one.jsonl." in path and flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open_file(disk, path, flags)

    monkeypatch.setattr(OsDisk, "open", refuse)
    result = cli("archive", "one", "two", "--json")
    assert result.exit_code == 0
    assert [each["id"] for each in json.loads(result.stdout)["archived"]] == ["one", "two"]
    failed, count = result.stderr.splitlines()
    assert failed.startswith("First: archived, but not compressed: ")
    assert failed.endswith("Permission denied: fix that, then archive the session again")
    assert count == "2 sessions archived"
    assert sorted(cli.ids("--archived")) == ["one", "two"]
    assert (cli.root / "one.jsonl").is_file()
    assert not (cli.root / "two.jsonl").exists()


@pytest.mark.parametrize("content", [None, b"", b"notes\n"], ids=["missing", "empty", "notes"])
@pytest.mark.parametrize("command", ["archive", "unarchive", "delete"])
def test_a_path_that_is_not_that_of_a_session_is_left_as_it_is(
    cli: Cli, tmp_path: Path, content: bytes | None, command: str
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "notes.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert str(path) in cli.error(command, path, *(["--yes"] if command == "delete" else []))
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == (
        [] if content is None else [("notes.jsonl", content)]
    )


def test_deleting_an_empty_text_is_refused(cli: Cli) -> None:
    cli.create("One", session_id="one")
    cli.error("delete", "", "--yes")
    assert cli.ids() == ["one"]


def test_only_changed_sessions_are_counted(cli: Cli) -> None:
    cli.create("One", session_id="one")
    cli.create("Two", session_id="two")
    assert cli("unarchive", "one").stderr == "1 session was not archived\n"
    assert cli("archive", "one", "one").stderr == "1 session archived\n"
    assert cli("archive", "one").stderr == "1 session was already archived\n"
    assert cli("archive", "one", "two").stderr == "1 session archived, 1 session was already archived\n"
    assert cli("archive", "one", "two").stderr == "2 sessions were already archived\n"
    assert cli("unarchive", "one", "two").stderr == "2 sessions restored\n"


def test_changes_can_be_printed_as_json(cli: Cli, tmp_path: Path) -> None:
    cli.create("One", session_id="one")
    cli.create("Two", session_id="two")
    one, two = ({"id": each, "path": str(cli.root / f"{each}.jsonl")} for each in ("one", "two"))

    def reported(*args: str) -> object:
        result = cli(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert reported("archive", "one") == {"archived": [one], "archived_before": []}
    assert reported("unarchive", "one", "two") == {"brought_back": [one], "active_before": [two]}
    assert reported("rename", "one", "First") == {**one, "name": "First"}
    assert reported("rename", "one", "") == {**one, "name": None}
    entry = json.loads(cli.lines("entries", str(cli.root / "one.jsonl"), "--json")[0])["id"]
    assert reported("label", "one", entry, "start") == {"session_id": "one", "entry_id": entry, "label": "start"}
    assert reported("label", "one", entry) == {"session_id": "one", "entry_id": entry, "label": None}
    target = tmp_path / "one.md"
    assert reported("export", "one", "-o", str(target)) == {"path": str(target), "format": "markdown", "redacted": None}
    assert reported("export", "one", "-o", str(target), "--force", "--redact") == {
        "path": str(target),
        "format": "markdown",
        "redacted": {},
    }
    assert cli("export", "one", "--json").exit_code == 2
    assert reported("delete", "one", "two", "--yes") == {"deleted": [one, two]}


def test_errors_name_options_of_the_command_line(cli: Cli, tmp_path: Path) -> None:
    cli.create("One", session_id="one")
    target = tmp_path / "one.json"
    assert cli("export", "one", "-f", "json", "--redact", "-o", target).exit_code == 0
    result = cli("export", "one", "-o", target)
    assert (result.exit_code, "--force" in result.stderr, "overwrite" in result.stderr) == (1, True, False)
    result = cli("import", target)
    assert (result.exit_code, "without --redact" in result.stderr) == (1, True)
    locks = locks_of_this_system(OsDisk(), str(cli.root))
    locks.take(os.path.realpath(cli.root / "one.jsonl"))
    for command in (["rename", "one", "x"], ["chat", "-r", "one", "-p", "x"]):
        result = cli(*command)
        assert (result.exit_code, "close it there" in result.stderr) == (1, True), command
        assert "read-only" not in result.stderr
    locks.close()


def test_an_id_of_two_files_is_ambiguous_and_a_path_is_not(cli: Cli) -> None:
    cli.create("One", session_id="one")
    native = (cli.root / "one.jsonl").rename(cli.root / "moved.jsonl")
    pi = cli.root / "--work--" / "2026-01-01_one.jsonl"
    pi.parent.mkdir()
    pi.write_text('{"type":"session","version":3,"id":"one","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work"}\n')
    error = cli.error("info", "one")
    assert f"{native} (native)" in error
    assert f"{pi} (pi)" in error
    assert "give one path" in error
    assert cli("info", pi).exit_code == 0


def test_ctrl_c_at_the_question_deletes_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.create("One", session_id="one")

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
    assert cli.ids() == ["one"]


def test_deleting_requires_confirmation(cli: Cli) -> None:
    cli.create("One", session_id="one", name="The first")
    cli.create("Two", session_id="two")
    assert "--yes" in cli.error("delete", "one", status=2)

    terminal = cli.terminal("delete", "one")
    assert "The first" in terminal.until("Delete 1 session for good? [y/N]")[0]
    terminal.press("n\r")
    assert terminal.wait() == 1
    assert terminal.lines[-1] == "nothing was deleted"
    assert sorted(cli.ids()) == ["one", "two"]

    terminal = cli.terminal("delete", "one")
    terminal.until("[y/N]")
    terminal.press("y\r")
    assert terminal.wait() == 0
    assert cli.ids() == ["two"]

    result = cli("delete", "two", "two", "--yes")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session deleted\n")
    assert not list(cli.root.glob("*.jsonl*"))
    assert cli("delete", "two", "--yes").exit_code == 1


@pytest.mark.feature("N-138")
def test_gc_reports_first_and_archives_with_apply(cli: Cli) -> None:
    cli.create("Old", session_id="old", name="From long ago", at=NOW - timedelta(days=40))
    cli.create("New", session_id="new")
    files = {path.name: path.read_bytes() for path in cli.root.glob("*.jsonl")}
    for args in (["gc"], ["gc", "--dry-run"]):
        result = cli(*args)
        assert result.exit_code == 0
        (line,) = result.stdout.splitlines()
        assert line.startswith("would archive old  From long ago  ")
        assert line.endswith("nothing was appended for a long time")
        assert result.stderr == "1 session would be archived: pass --apply to archive\n"
    report = cli.json("gc")
    assert report["dry_run"]
    assert [(each["session_id"], each["reason"]) for each in report["archived"]] == [("old", "inactive")]
    assert {path.name: path.read_bytes() for path in cli.root.glob("*.jsonl")} == files
    assert sorted(cli.ids()) == ["new", "old"]

    assert cli("gc", "--apply").stderr == "1 session archived\n"
    assert (cli.ids(), cli.ids("--archived")) == (["new"], ["old"])
    assert cli("gc", "-q").output == ""


def test_gc_uses_the_settings_of_the_root(cli: Cli) -> None:
    for number in range(4):
        cli.create("Hello", session_id=f"s{number}", at=NOW - timedelta(hours=number))
    (cli.root / "config.toml").write_text("max_sessions_per_project = 2\n")
    report = cli.json("gc")
    assert [each["session_id"] for each in report["archived"]] == ["s3", "s2"]
    assert {each["reason"] for each in report["archived"]} == {"too_many"}


def test_rename_sets_and_removes_a_name(cli: Cli) -> None:
    cli.create("Hello", session_id="one")
    assert cli("rename", "one", "Fix the cart").output == ""
    assert "Fix the cart" in cli("sessions").stdout
    assert cli("rename", "Fix the cart", "").exit_code == 0
    assert "Hello" in cli("sessions").stdout


def test_label_sets_and_removes_a_label(cli: Cli) -> None:
    cli.create("Hello", session_id="one")
    question, answer = (json.loads(line)["id"] for line in cli.lines("entries", "one", "--json"))
    assert cli("label", "one", question[:8], "before the rewrite").output == ""
    shown: list[Any] = cli.json("labels", "one")
    assert shown == [{"entry_id": question, "label": "before the rewrite"}]
    assert cli("label", "one", answer, "done").exit_code == 0
    assert cli("label", "one", question).output == ""
    assert cli.json("labels", "one") == [{"entry_id": answer, "label": "done"}]
    assert "entry 'nobody' not found" in cli.error("label", "one", "nobody", "x")


@pytest.mark.parametrize("command", [["rename", "one", "x"], ["archive", "one"], ["delete", "one", "--yes"]])
def test_a_session_in_use_can_be_read_but_not_changed(cli: Cli, command: list[str]) -> None:
    cli.create("Hello", session_id="one")
    terminal = cli.terminal("chat", "-r", "one")
    terminal.until_prompt()
    terminal.press("Still here?\r")
    terminal.until("(echo, 3 messages) Still here?")
    terminal.until_prompt()
    assert "one" in cli.error(*command)
    for reading in ("info", "tree", "export", "search"):
        assert cli(reading, "one").exit_code == 0
    terminal.press("\x04")
    assert terminal.wait() == 0

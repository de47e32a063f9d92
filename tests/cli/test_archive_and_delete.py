"""The commands archive, unarchive, delete, gc, rename and label."""

import errno
import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from treering import SyncHost
from treering.cli import main
from treering.entries import SessionInfo
from treering.events.disk import OsDisk
from treering.events.stores.files.locks import locks_of

from .conftest import Cli

NOW = datetime.now(UTC)


def create(cli: Cli, *ids: str) -> None:
    for each in ids:
        cli.create(each.title(), session_id=each)


def test_an_archived_session_can_be_read_and_unarchived(cli: Cli) -> None:
    cli.create("One", session_id="one", at=NOW - timedelta(hours=2))
    create(cli, "two")
    with SyncHost(cli.root) as host:
        host.load("one").append(SessionInfo(status="waiting"))
    before = cli.files()["one.jsonl"]
    result = cli("archive", "one")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session archived\n")
    assert (cli.ids(), cli.ids("--archived")) == (["two"], ["one"])
    assert not (cli.root / "one.jsonl").exists()
    for command in ("tree", "context", "labels", "entries", "info", "export"):
        assert cli(command, "one").exit_code == 0, command
    assert "One" in cli("tree", cli.root / "one.jsonl").stdout
    assert cli("sessions", "--archived").stdout.endswith("  one  waiting, archived\n")
    assert "Session: archived" in cli("export", "one", "-f", "html").stdout
    # Nor does a command unarchive it that changes nothing.
    assert "entry 'nobody' not found" in cli.error("label", "one", "nobody", "x")
    assert "nothing to compact" in cli("compact", "one", "--apply", "--model", "echo").stdout
    assert (cli.ids(), cli.ids("--archived")) == (["two"], ["one"])
    cli("archive", "two")
    assert cli("sessions").stderr == "no sessions yet; 2 archived: --archived lists them\n"
    assert cli("unarchive", "one", "two", "-q").output == ""
    assert sorted(cli.ids()) == ["one", "two"]
    assert cli.files()["one.jsonl"].startswith(before)


def test_only_changed_sessions_are_counted_and_none_is_changed_if_one_does_not_exist(cli: Cli) -> None:
    create(cli, "one", "two")
    for command in (["archive", "one", "gone"], ["delete", "--yes", "one", "gone"], ["delete", "", "--yes"]):
        cli.error(*command)
        assert sorted(cli.ids()) == ["one", "two"]
    for changing, said in {
        ("unarchive", "one"): "1 session was not archived",
        ("archive", "one", "one"): "1 session archived",
        ("archive", "one"): "1 session was already archived",
        ("archive", "one", "two"): "1 session archived, 1 session was already archived",
        ("archive", "two", "one"): "2 sessions were already archived",
        ("unarchive", "one", "two"): "2 sessions restored",
        ("archive", "two", "one", "two"): "2 sessions archived",
    }.items():
        assert cli(*changing).stderr == f"{said}\n"
    assert cli.ids() == []


def test_a_session_in_use_does_not_keep_the_command_from_the_others(cli: Cli) -> None:
    create(cli, "one", "two", "three")
    with SyncHost(cli.root) as host:
        host.load("two").append_message("user", "Still here?")
        for command, key, done in (
            (["archive"], "archived", "archived"),
            (["unarchive"], "brought_back", "restored"),
            (["delete", "--yes"], "deleted", "deleted"),
        ):
            result = cli(*command, "one", "two", "three", "--json")
            assert result.exit_code == 1
            assert [each["id"] for each in json.loads(result.stdout)[key]] == ["one", "three"]
            failed, count = result.stderr.splitlines()
            assert failed.startswith(f"treering: {cli.root / 'two.jsonl'} is owned by process ")
            assert count.startswith(f"2 sessions {done}")
    assert cli.ids() == ["two"]


def test_a_session_that_cannot_be_packed_is_archived_with_a_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("One", session_id="one", name="First")
    create(cli, "two")
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
    assert ("one.jsonl" in cli.files(), "two.jsonl" in cli.files()) == (True, False)


@pytest.mark.parametrize("content", [None, b"", b"notes\n"], ids=["missing", "empty", "notes"])
@pytest.mark.parametrize("command", ["archive", "unarchive", "delete"])
def test_a_path_that_is_not_that_of_a_session_is_left_as_it_is(cli: Cli, content: bytes | None, command: str) -> None:
    path = cli.folder / "notes.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert str(path) in cli.error(command, path, *(["--yes"] if command == "delete" else []))
    assert [each.read_bytes() for each in cli.folder.iterdir()] == ([] if content is None else [content])


def test_changes_can_be_printed_as_json(cli: Cli) -> None:
    create(cli, "one", "two")
    one, two = ({"id": each, "path": str(cli.root / f"{each}.jsonl")} for each in ("one", "two"))
    assert cli.json("archive", "one") == {"archived": [one], "archived_before": []}
    assert cli.json("unarchive", "one", "two") == {"brought_back": [one], "active_before": [two]}
    assert cli.json("rename", "one", "First") == {**one, "name": "First"}
    assert cli.json("rename", "one", "") == {**one, "name": None}
    entry = cli.json_lines("entries", cli.root / "one.jsonl")[0]["id"]
    labelled = {"session_id": "one", "entry_id": entry}
    assert cli.json("label", "one", entry, "start") == {**labelled, "label": "start"}
    assert cli.json("label", "one", entry) == {**labelled, "label": None}
    export = ["export", "one", "-o", str(cli.folder / "one.md")]
    written = {"path": export[-1], "format": "markdown"}
    assert cli.json(*export) == {**written, "redacted": None}
    assert cli.json(*export, "--force", "--redact") == {**written, "redacted": {}}
    cli.error("export", "one", "--json", status=2)
    assert cli.json("delete", "one", "two", "--yes") == {"deleted": [one, two]}


def test_errors_name_options_of_the_command_line(cli: Cli) -> None:
    create(cli, "one")
    target = cli.folder / "one.json"
    cli.lines("export", "one", "-f", "json", "--redact", "-o", target)
    error = cli.error("export", "one", "-o", target)
    assert ("--force" in error, "overwrite" in error) == (True, False)
    assert "without --redact" in cli.error("import", target)
    locks = locks_of(OsDisk(), str(cli.root))
    locks.take(os.path.realpath(cli.root / "one.jsonl"))
    for command in (["rename", "one", "x"], ["chat", "-r", "one", "-p", "x"]):
        error = cli.error(*command)
        assert ("close it there" in error, "read-only" in error) == (True, False), command
    locks.close()


def test_an_id_of_two_files_is_ambiguous_and_a_path_is_not(cli: Cli) -> None:
    create(cli, "one")
    native = (cli.root / "one.jsonl").rename(cli.root / "moved.jsonl")
    pi = cli.root / "--work--" / "2026-01-01_one.jsonl"
    pi.parent.mkdir()
    pi.write_text('{"type":"session","version":3,"id":"one","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work"}\n')
    error = cli.error("info", "one")
    assert [part in error for part in (f"{native} (native)", f"{pi} (pi)", "give one path")] == [True] * 3
    assert cli("info", pi).exit_code == 0


def test_ctrl_c_deletes_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    create(cli, "one")

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
    create(cli, "two")
    assert "--yes" in cli.error("delete", "one", status=2)
    for answer, status, left in (("n\r", 1, ["one", "two"]), ("y\r", 0, ["two"])):
        terminal = cli.terminal("delete", "one")
        assert "The first" in terminal.until("Delete 1 session for good? [y/N]")[0]
        terminal.press(answer)
        assert terminal.wait() == status
        assert (terminal.lines[-1] == "nothing was deleted") == (status == 1)
        assert sorted(cli.ids()) == left
    result = cli("delete", "two", "two", "--yes")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session deleted\n")
    assert cli.files() == {}
    cli.error("delete", "two", "--yes")


@pytest.mark.feature("N-138")
def test_gc_reports_first_and_archives_with_apply(cli: Cli) -> None:
    cli.create("Old", session_id="old", name="From long ago", at=NOW - timedelta(days=40))
    create(cli, "new")
    files = cli.files()
    for args in (["gc"], ["gc", "--dry-run"]):
        result = cli(*args)
        assert (result.exit_code, result.stdout.count("\n")) == (0, 1)
        assert result.stdout.startswith("would archive old  From long ago  ")
        assert result.stdout.endswith("nothing was appended for a long time\n")
        assert result.stderr == "1 session would be archived: pass --apply to archive\n"
    report = cli.json("gc")
    assert report["dry_run"]
    assert [(each["session_id"], each["reason"]) for each in report["archived"]] == [("old", "inactive")]
    assert cli.files() == files
    assert sorted(cli.ids()) == ["new", "old"]
    assert cli("gc", "--apply").stderr == "1 session archived\n"
    assert (cli.ids(), cli.ids("--archived")) == (["new"], ["old"])
    assert cli("gc", "-q").output == ""


def test_gc_uses_the_settings_of_the_root(cli: Cli) -> None:
    for number in range(4):
        cli.create("Hello", session_id=f"s{number}", at=NOW - timedelta(hours=number))
    (cli.root / "config.toml").write_text("max_sessions_per_project = 2\n")
    archived = [(each["session_id"], each["reason"]) for each in cli.json("gc")["archived"]]
    assert archived == [("s3", "too_many"), ("s2", "too_many")]


def test_rename_and_label_set_and_remove_a_name_and_a_label(cli: Cli) -> None:
    create(cli, "one")
    assert cli("rename", "one", "Fix the cart").output == ""
    assert "Fix the cart" in cli("sessions").stdout
    cli.lines("rename", "Fix the cart", "")
    assert "One" in cli("sessions").stdout
    question, answer = (each["id"] for each in cli.json_lines("entries", "one")[:2])
    assert cli("label", "one", question[:8], "before the rewrite").output == ""
    assert cli.json("labels", "one") == [{"entry_id": question, "label": "before the rewrite"}]
    cli.lines("label", "one", answer, "done")
    assert cli("label", "one", question).output == ""
    assert cli.json("labels", "one") == [{"entry_id": answer, "label": "done"}]
    assert "entry 'nobody' not found" in cli.error("label", "one", "nobody", "x")


def test_a_session_in_use_can_be_read_but_not_changed(cli: Cli) -> None:
    create(cli, "one")
    terminal = cli.terminal("chat", "-r", "one")
    terminal.ask("Still here?", "(echo, 3 messages) Still here?")
    for command in (["rename", "one", "x"], ["archive", "one"], ["delete", "one", "--yes"]):
        assert "one" in cli.error(*command)
    for reading in ("info", "tree", "export", "search"):
        assert cli(reading, "one").exit_code == 0
    assert terminal.leave() == 0

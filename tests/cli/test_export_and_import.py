"""`treering export` and `treering import`: formats, targets, redaction, damage, folders."""

import errno
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from treering.actors.transfer.exporting import export_names, foreign_format
from treering.events.disk import OsDisk
from treering.formats.base import WritesFolder

from .conftest import DATA, HEADER, Cli, line_of_message

SECRET = "sk-ant-api03-" + "a1B2" * 24


@pytest.mark.parametrize("format_", export_names())
def test_each_format_is_written_to_stdout_and_to_a_private_file(cli: Cli, tmp_path: Path, format_: str) -> None:
    cli.create("What is a tree ring?", session_id="one")
    target = tmp_path / "out"
    if isinstance(foreign_format(format_), WritesFolder):
        cli.error("export", "one", "--format", format_)
    else:
        result = cli("export", "one", "--format", format_)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "What is a tree ring?" in result.stdout
    written = cli("export", "one", "-f", format_, "-o", target)
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr.startswith("written to ")
    assert target.exists()
    if target.is_file():
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_the_ending_of_the_path_determines_the_format_unless_one_is_given(cli: Cli) -> None:
    cli.create("Hello", session_id="one", name="A title")
    for name, format_ in {
        "talk.html": "html",
        "TALK.HTM": "html",
        "talk.json": "json",
        "talk.jsonl": "native",
        "talk": "markdown",
    }.items():
        export = ("export", "one", "-o", cli.folder / name)
        assert cli.json(*export)["format"] == format_
        assert (cli.folder / name).read_text() == cli("export", "one", "-f", format_).stdout
        assert cli.json(*export, "-f", "markdown", "--force")["format"] == "markdown"
    result = cli("export", "one", "-o", "-")  # a dash means stdout
    assert (result.stdout, result.stderr) == (cli("export", "one").stdout, "")
    assert result.stdout.startswith("# A title\n")
    assert list(cli.project.iterdir()) == []


def test_an_existing_file_is_replaced_only_with_force_and_a_pipe_is_not(cli: Cli) -> None:
    cli.create("Hello", session_id="one")
    target = cli.folder / "overwrite=True.md"  # what reads like advice is left as it is
    target.write_text("mine")
    error = cli.error("export", "one", "-o", target)
    assert error == f"treering: {target} already exists: give another path, or --force\n"
    assert target.read_text() == "mine"
    assert cli("export", "one", "-o", target, "--force", "-q").output == ""
    assert "Hello" in target.read_text()
    os.mkfifo(cli.folder / "pipe")
    error = cli.error("export", "one", "-o", cli.folder / "pipe", "--force")
    assert error.endswith("leave out -o, and redirect stdout there\n")


def test_a_root_that_refuses_writes_is_reported_with_what_to_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("Hello", session_id="one")

    def refuse_to_write(disk: OsDisk, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return os.open(path, flags)

    def refuse(disk: OsDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patched:
        patched.setattr(OsDisk, "open", refuse_to_write)
        error = cli.error("rename", "one", "Talk")
    assert error.endswith("cannot be opened for writing (Read-only file system): check its permissions\n")
    monkeypatch.setattr(OsDisk, "make_directory", refuse)
    place = f"(Permission denied: {cli.root}/.treering/locks)"
    assert cli.error("rename", "one", "Talk").endswith(f"{place}: see to the permissions there; viewing works\n")


def test_the_path_to_another_leaf_can_be_exported(cli: Cli, branched: Path) -> None:
    shown = cli("export", branched, "--leaf", "x").stdout
    assert ("read" in shown, "This way." in shown) == (True, False)
    cli.error("export", branched, "--leaf", "nobody")


@pytest.mark.feature("U-21")
def test_an_export_can_be_imported_unless_it_is_redacted(cli: Cli, tmp_path: Path) -> None:
    cli.create(f"The key is {SECRET}", session_id="one")
    elsewhere = ["--root", str(tmp_path / "elsewhere")]
    for format_ in ("native", "json"):
        target = tmp_path / f"whole.{format_}"
        assert cli("export", "one", "-f", format_, "-o", target).exit_code == 0
        result = cli("import", target, "--root", tmp_path / f"elsewhere-{format_}")
        assert result.exit_code == 0
        assert result.stdout.split("  ")[0] == "one"
        assert result.stderr == "1 session, 1 new, 2 lines added\n"
        assert SECRET in cli("context", "one", "--root", tmp_path / f"elsewhere-{format_}").stdout
    redacted = tmp_path / "redacted.json"
    result = cli("export", "one", "-f", "json", "-o", redacted, "--redact")
    assert result.exit_code == 0
    assert "secrets removed" in result.stderr or "secret removed" in result.stderr
    assert SECRET not in redacted.read_text()
    assert "secrets were taken out of this export" in cli.error("import", redacted, *elsewhere)
    assert cli("sessions", "--all", "-q", *elsewhere).stdout == ""
    assert cli("export", "one", "-f", "native", "--redact").exit_code == 1


def test_importing_again_adds_what_is_missing(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "One", 1))
    (first,) = cli.json("import", path)["sessions"]
    assert (first["id"], first["format"], first["added"], first["existed"]) == ("s-1", "native", 1, False)
    cli.write(line_of_message("a", None, "One", 1), line_of_message("b", "a", "Two", 2))
    (again,) = cli.json("import", path)["sessions"]
    assert (again["entries"], again["added"], again["existed"]) == (2, 1, True)
    result = cli("import", path)
    assert "nothing to add" in result.stdout
    assert result.stderr == "1 session, 0 new, 0 lines added\n"
    assert cli("import", path, "-q").stderr == ""
    cli.lines("import", path, "--format", "native")
    cli.error("import", path, "--format", "picoclaw")
    cli.error("import", path, "--format", "nonsense", status=2)


def test_sessions_are_imported_from_a_programs_home(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder, sample in (
        (".claude/projects/-work", "claude_code/work.jsonl"),
        (".codex/sessions", "codex/codex.jsonl"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(DATA / sample, tmp_path / folder)
    shutil.copy(DATA / "codex" / "codex.jsonl", tmp_path / ".claude" / "projects")  # of another program
    result = cli.json("import", "--from", "claude-code", "--from", "codex")
    assert [each["format"] for each in result["sessions"]] == ["claude-code", "codex"]
    assert result["unknown"] == 1
    assert ".omp" in cli.error("import", "--from", "omp")
    cli.error("import", "--from", "dive", status=2)
    assert "--from" in cli.error("import", status=2)


def test_damaged_lines_are_reported_and_the_rest_is_imported(cli: Cli, tmp_path: Path) -> None:
    def line(uuid: str, parent: str | None, text: str) -> str:
        known = {
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "cc-1",
            "cwd": "/work",
            "version": "2",
        }
        return json.dumps({**known, "timestamp": "2026-01-01T10:00:00Z", "message": {"role": "user", "content": text}})

    first = line("u1", None, "One") + "\n"
    path = tmp_path / "cc-1.jsonl"
    path.write_text(first + "garbage\n" + line("u2", "u1", "Two") + "\n")
    noise = tmp_path / "noise.txt"
    noise.write_text("noise\n")
    copied = cli.write(line_of_message("a", None, "One", 1), b"garbage\n")
    result = cli("import", noise, path, tmp_path / "gone.jsonl", copied)
    assert result.exit_code == 1
    assert [line.split("  ")[:2] for line in result.stdout.splitlines()] == [["cc-1", "claude-code"], ["s-1", "native"]]
    errors = result.stderr.splitlines()
    assert errors[0].startswith(f"treering: {noise}: ")
    assert errors[1].startswith(f"{path}:2:{len(first)}: ")
    assert "gone.jsonl" in errors[2]
    assert errors[3].startswith(f"{copied}: warning: 1 damaged line copied as found")
    assert errors[4] == "2 sessions, 2 new, 3 lines added, 2 findings"
    assert "Two" in cli("context", "cc-1").stdout


def test_the_progress_of_an_import_is_gone_from_the_terminal_at_the_end(cli: Cli, tmp_path: Path) -> None:
    paths = [
        cli.write(line_of_message("a", None, f"Talk {n}", 1), name=f"f{n}.jsonl", header={**HEADER, "id": f"s{n}"})
        for n in range(3)
    ]
    terminal = cli.terminal("import", *paths, tmp_path / "gone", columns=400)
    assert terminal.wait() == 1
    lines = terminal.lines
    assert not any("importing" in line for line in lines)
    assert [line.split("  ")[0] for line in lines if line.startswith("s")] == ["s0", "s1", "s2"]
    assert sum(line.startswith("treering: ") and "/gone" in line for line in lines) == 1
    assert lines[-1] == "3 sessions, 3 new, 3 lines added"


@pytest.fixture
def projects(cli: Cli, tmp_path: Path) -> Path:
    """A folder like the one that the README imports."""
    folder = tmp_path / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "claude_code" / "work.jsonl", folder / "c0ffee00.jsonl")
    return folder.parent


def test_the_import_command_of_the_readme_works(cli: Cli, projects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(projects.parents[1]))
    result = cli("import", projects.expanduser())
    assert result.exit_code == 0
    assert result.stdout.split("  ")[1] == "claude-code"
    assert result.stdout.rstrip().endswith("c0ffee00.jsonl")


def test_files_that_are_not_sessions_are_counted_and_named(cli: Cli, projects: Path, tmp_path: Path) -> None:
    for number in range(9):
        (projects / f"{number}.md").write_text("# Notes\n")
    shutil.copy(DATA / "pi_v3.jsonl", projects / "pi.jsonl")
    result = cli("import", projects, tmp_path / ".claude")
    assert result.exit_code == 0
    assert [line.split("  ")[1] for line in result.stdout.splitlines()] == ["pi", "claude-code"] * 2
    named = ", ".join(str(projects / f"{number}.md") for number in range(5))
    assert f"18 files are not sessions of a known format: {named} and 13 more" in result.stderr.splitlines()
    assert "not sessions" not in cli("import", projects, "-q").stderr
    report = cli.json("import", projects)
    assert [each["format"] for each in report["sessions"]] == ["pi", "claude-code"]
    assert (report["unknown"], len(report["unknown_paths"]), report["failed"], report["refused"]) == (9, 5, [], 0)
    result = cli("import", projects, "--format", "pi")
    assert f"10 files are not sessions of the format pi: {named} and 5 more" in result.stderr.splitlines()


def test_an_import_fails_only_if_a_named_path_cannot_be_imported(cli: Cli, projects: Path, tmp_path: Path) -> None:
    newer = projects / "newer.jsonl"
    newer.write_text('{"type":"session","version":99,"id":"n","timestamp":"2026-01-01T10:00:00Z"}\n')
    result = cli("import", projects)
    assert result.exit_code == 0
    assert any(line.startswith(f"{newer}:") and ": error: " in line for line in result.stderr.splitlines())
    assert cli("import", projects, newer).exit_code == 1
    result = cli("import", projects, newer, "--json")
    assert result.exit_code == 1
    assert [each["path"] for each in json.loads(result.stdout)["failed"]] == [str(newer), str(newer)]
    (tmp_path / "empty").mkdir()
    assert "holds no session in any known format" in cli.error("import", tmp_path / "empty")


def test_a_missing_or_empty_path_is_a_one_line_error(cli: Cli, projects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = cli.folder / "gone"
    for given in (f"{gone}", f"{gone}/", f"{gone} --format pi", f"{gone} --format claude-code", f"{gone} -f picoclaw"):
        assert cli.error("import", *given.split()) == f"treering: {gone}: there is no such file or folder\n"
    monkeypatch.chdir(projects)  # which an empty path does not mean
    assert cli.error("import", "") == "treering: '' is not a path: give '.' for the current directory\n"
    cli.lines("import", ".")

"""The doctor: every sort of damage, named by file, line and byte; and the command that shows it."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from treering.events.disk import OsDisk
from treering.events.doctor import examine, examine_file, places
from treering.events.findings import Finding
from treering.events.stores.files.locks import locks_of_this_system
from treering.testing.disks import MemoryDisk

Treering = Callable[..., Result]
Write = Callable[..., Path]
Say = Callable[..., dict[str, Any]]

SIZE = 84
"""How many bytes the header of a written file takes."""

HEADER = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
PI_HEADER = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w"}


def brief(findings: list[Finding]) -> list[tuple[int | None, str, str, str | None]]:
    return [(each.line, each.code, each.severity, each.entry_id) for each in findings]


def check_bytes(path: Path, findings: list[Finding]) -> None:
    """Every line that is named begins at the byte that is named."""
    data = path.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 0x0A)]
    for each in findings:
        if each.line is not None:
            assert each.byte == starts[each.line - 1]


def pi(entry_id: str | None, parent_id: str | None, **fields: object) -> dict[str, Any]:
    line = {"type": "custom", "customType": "x", "id": entry_id, "parentId": parent_id}
    return {**line, "timestamp": "2026-01-01T10:00:01.000Z", **fields}


# -- one sort of damage after the other


def test_a_sound_file(branched: Path) -> None:
    assert examine(branched) == []


def test_lines_that_are_no_json(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b"garbage\n", b"[1]\n", b"\xff\xfe\n", say("b", "a", "x", 5))
    found = examine(path)
    assert brief(found) == [(line, "not_json", "error", None) for line in (3, 4, 5)]
    check_bytes(path, found)


def test_a_torn_tail(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b'{"type":"message","id":"b')
    (found,) = examine(path)
    assert (found.line, found.code, found.severity) == (3, "torn_tail", "error")
    assert "25 bytes" in found.message
    assert str(found.where) == f"{path}:3:{path.stat().st_size - 25}"


def test_a_torn_tail_of_a_file_that_others_write_to(write: Write) -> None:
    (found,) = examine(write(pi("a", None), b'{"type":"cu', header=PI_HEADER))
    assert (found.code, "closed by a newline" in found.message) == ("torn_tail", True)


@pytest.mark.parametrize("tail", [b"5", b"null", b'"x"', b"\0\0\0"])
def test_what_is_json_and_no_object_is_torn_as_well(write: Write, say: Say, tail: bytes) -> None:
    assert brief(examine(write(say("a", None, "x", 1), tail))) == [(3, "torn_tail", "error", None)]


def test_a_whole_last_line_without_a_newline(branched: Path) -> None:
    branched.write_bytes(branched.read_bytes()[:-1])
    assert brief(examine(branched)) == [(6, "no_newline", "note", None)]


def test_a_header_without_a_newline(write: Write) -> None:
    path = write()
    path.write_bytes(path.read_bytes()[:-1])
    assert brief(examine(path)) == [(1, "no_newline", "note", None)]


def test_duplicate_ids(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), say("b", "a", "x", 2), say("a", "b", "x", 3), say("c", "a", "x", 4))
    (found,) = examine(path)
    assert (found.line, found.code, found.severity, found.entry_id) == (4, "duplicate_id", "error", "a")
    assert "line 2" in found.message


def test_parents_that_are_missing_or_come_too_late(write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1), say("b", "c", "x", 2), say("c", None, "x", 3))
    found = examine(path)
    assert brief(found) == [(2, "parent_missing", "error", "a"), (3, "parent_later", "error", "b")]
    check_bytes(path, found)


def test_cycles(write: Write, say: Say) -> None:
    path = write(say("a", "c", "x", 1), say("b", "a", "x", 2), say("c", "b", "x", 3), say("d", "d", "x", 4))
    assert brief(examine(path)) == [(2, "cycle", "error", "a"), (5, "self_parent", "error", "d")]


def test_known_types_with_wrong_fields(write: Write, say: Say) -> None:
    wrong = {**say("b", "a", "x", 2), "message": {"role": 7}}
    payload = {**say("c", "b", "x", 3), "type": "label", "label": {"label": "no target"}}
    del payload["message"]
    found = examine(write(say("a", None, "x", 1), wrong, payload, say("d", "c", "x", 4)))
    assert brief(found) == [(3, "wrong_fields", "error", "b"), (4, "wrong_fields", "error", "c")]
    assert "a message entry" in found[0].message
    assert "target_id" in found[1].message


def test_types_of_newer_programs_are_no_damage(write: Write, say: Say) -> None:
    assert examine(write(say("a", None, "x", 1), {**say("b", "a", "x", 2), "type": "hologram"})) == []


def test_a_line_without_an_id(write: Write) -> None:
    line = pi("a", None)
    del line["id"]
    assert brief(examine(write(line, header=PI_HEADER))) == [(2, "no_id", "warning", None)]


def batch(line: dict[str, Any], i: int, n: int, *, of: str = "s-1") -> dict[str, Any]:
    return {**line, "batch": {"session": of, "id": "k", "i": i, "n": n}}


def test_incomplete_batches(write: Write, say: Say) -> None:
    whole = [batch(say("a", None, "x", 1), 0, 2), batch(say("b", "a", "x", 2), 1, 2)]
    torn = [batch(say("c", "b", "x", 3), 0, 3), batch(say("d", "c", "x", 4), 1, 3)]
    after = say("e", "b", "x", 5)
    tail = batch(say("f", "e", "x", 6), 0, 2)
    assert examine(write(*whole)) == []
    assert brief(examine(write(*whole, *torn))) == [(4, "batch_incomplete", "warning", "c")]
    found = examine(write(*whole, *torn, after, tail))
    assert brief(found) == [(4, "batch_incomplete", "warning", "c"), (7, "batch_incomplete", "warning", "f")]
    assert "2 lines" in found[0].message
    assert examine(write(batch(say("a", None, "x", 1), 0, 2, of="another"), say("b", "a", "x", 2))) == []


def test_a_second_header(write: Write, say: Say) -> None:
    again = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
    found = examine(write(say("a", None, "x", 1), again, say("b", "a", "x", 3)))
    assert brief(found) == [(3, "second_header", "warning", None)]


def test_oddities_are_notes(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b"\n", b"  \n", say("b", "a", "x", 2))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"}\n", b"}\r\n"))
    found = examine(path)
    assert {(each.line, each.code, each.severity) for each in found} == {
        (1, "bom", "note"),
        (1, "crlf", "note"),
        (3, "blank_lines", "note"),
    }
    assert {each.message.split()[0] for each in found if each.code != "bom"} == {"3", "2"}
    check_bytes(path, found)


def test_blank_lines_before_the_header(write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1))
    path.write_bytes(b"\n\n" + path.read_bytes())
    found = examine(path)
    assert [(each.line, each.code) for each in found] == [(1, "blank_lines"), (4, "parent_missing")]
    check_bytes(path, found)


def test_stored_ordinals_that_do_not_match(write: Write, say: Say) -> None:
    lines = [say("a", None, "x", 1), say("b", "a", "x", 3), say("c", "b", "x", 4), say("d", "c", "x", 4)]
    found = examine(write(*lines))
    assert brief(found) == [(3, "seq_mismatch", "warning", "b")]  # what follows is shifted alike; d is right again
    header = {"type": "session", "id": "s-2", "version": 1, "timestamp": "2026-01-01T10:00:00Z", "parent_session": "s"}
    assert brief(examine(write(*lines, header=header))) == [(3, "seq_mismatch", "note", "b")]


def test_files_that_are_no_sessions(write: Write) -> None:
    assert brief(examine(write(header={"hello": 1}))) == [(1, "no_header", "error", None)]
    newer = {"type": "session", "id": "x", "version": 99, "timestamp": "2026-01-01T10:00:00Z"}
    assert brief(examine(write(header=newer))) == [(1, "unsupported_version", "error", None)]


def test_an_empty_file_is_a_new_session(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").touch()
    assert brief(examine(tmp_path)) == [(None, "empty", "note", None)]


def test_time_that_runs_backwards(write: Write, say: Say) -> None:
    earlier = {**say("b", "a", "x", 2), "timestamp": "2025-12-31T10:00:00Z"}
    found = examine(
        write(say("a", None, "x", 1), earlier, {**say("c", "b", "x", 3), "timestamp": "2025-12-31T10:00:00Z"})
    )
    assert brief(found) == [(3, "time_backwards", "note", "b")]


def test_everything_at_once_comes_in_order_of_line(write: Write, say: Say) -> None:
    path = write(
        say("a", "gone", "x", 1), b"garbage\n", say("a", "a", "x", 3), batch(say("t", "a", "x", 4), 0, 2), b'{"torn'
    )
    found = examine(path)
    assert [each.code for each in found] == [
        "parent_missing",
        "not_json",
        "duplicate_id",
        "batch_incomplete",
        "torn_tail",
    ]
    check_bytes(path, found)


def test_real_files_of_other_programs_are_sound(shared_fixtures: Path) -> None:
    assert examine(shared_fixtures / "pi") == []


# -- files, directories, sizes


def test_directories_are_searched_at_any_depth(write: Write, say: Say, tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "b" / "nowhere.jsonl").symlink_to(tmp_path / "gone")
    torn = [
        write(say("a", None, "x", 1), b"{", name=name, header={**HEADER, "id": name})
        for name in ("a.jsonl", "b/c/d.jsonl", "b/e.jsonl")
    ]
    (tmp_path / "b" / "notes.txt").write_text("{")
    found = examine(tmp_path)
    assert [(each.path, each.code) for each in found] == [
        (str(torn[0]), "torn_tail"),
        (str(torn[1]), "torn_tail"),
        (str(torn[2]), "torn_tail"),
        (str(tmp_path / "b" / "nowhere.jsonl"), "unreadable"),
    ]


def test_files_that_have_the_same_session_id_are_a_warning_that_names_both(
    branched: Path, write: Write, say: Say
) -> None:
    root = branched.parent
    assert examine(root) == []
    copy = Path(shutil.copy(branched, root / "t.jsonl"))
    (root / "deep").mkdir()
    (root / "deep" / "archived.jsonl.gz").write_bytes(gzip.compress(branched.read_bytes()))
    archived = root / "deep" / "archived.jsonl.gz"
    write(say("a", None, "x", 1), name="other.jsonl", header={**HEADER, "id": "another"})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    found = examine(root)
    assert [(each.path, each.line, each.code, each.severity) for each in found] == [
        (str(branched), None, "same_session_id", "warning"),
        (str(copy), None, "same_session_id", "warning"),
    ]
    for each in found:
        assert f"'s-1' is also that of {archived}" in each.message
        assert "remove one of the two files" in each.message
        assert "`SessionHost.fork_from`" in each.message
    assert [(each.path, str(branched) in each.message) for each in examine(branched, copy)] == [(str(copy), True)]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before

    assert examine(copy) == []  # alone, nothing is the matter with it
    copy.unlink()
    archived.unlink()
    assert examine(root) == []


def test_one_file_that_is_given_twice_or_linked_and_files_of_other_roots_are_no_copies(branched: Path) -> None:
    root, other = branched.parent / "root", branched.parent / "other"
    for each in (root, other):
        (each / ".treering").mkdir(parents=True)
        shutil.copy(branched, each / "s.jsonl")
    branched.unlink()
    (root / "link.jsonl").symlink_to(root / "s.jsonl")
    assert examine(root, root / "s.jsonl", root / "link.jsonl", root.parent) == []


def test_a_repair_leaves_files_that_have_the_same_session_id_and_they_stay_reported(
    treering: Treering, branched: Path
) -> None:
    copy = Path(shutil.copy(branched, branched.with_name("t.jsonl")))
    before = (branched.read_bytes(), copy.read_bytes())
    for options in ((), ("--repair",), ()):
        result = treering("doctor", str(branched.parent), *options)
        assert (result.exit_code, result.stdout.count("is also that of")) == (1, 1)
        assert result.stdout.startswith(f"{copy}: warning: its session id 's-1' is also that of {branched}")
    assert (branched.read_bytes(), copy.read_bytes()) == before


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        examine(tmp_path / "gone")


def test_it_reads_through_the_disk_that_it_is_given(write: Write, say: Say) -> None:
    disk = MemoryDisk()
    fd = disk.open("/s.jsonl", os.O_CREAT | os.O_WRONLY)
    disk.write(fd, write(say("a", "gone", "x", 1)).read_bytes())
    disk.close(fd)
    assert [str(each.where) for each in examine("/s.jsonl", disk=disk)] == [f"/s.jsonl:2:{SIZE}"]


def test_long_lines_across_reads(write: Write, say: Say) -> None:
    path = write(say("a", None, "x" * 3_000_000, 1), b"garbage\n", say("b", "a", "y" * 2_000_000, 3), b"[" * 1_500_000)
    found = examine(path)
    assert [(each.line, each.code) for each in found] == [(3, "not_json"), (5, "torn_tail")]
    check_bytes(path, found)


def test_what_nests_too_deep_is_no_error(write: Write) -> None:
    assert [each.code for each in examine(write(b'{"type":' + b"[" * 100_000 + b"\n"))] == ["not_json"]


def test_memory_does_not_follow_the_size_of_the_file(write: Write, say: Say) -> None:
    path = write(*(say(f"e{n}", f"e{n - 1}" if n else None, "x" * 20_000, n + 1) for n in range(3000)))
    code = (
        "import resource, sys\n"
        "from treering.events.doctor import examine_file\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert examine_file(sys.argv[1]) == []\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "sys.exit(0 if grown * (1 if sys.platform == 'darwin' else 1024) < 20_000_000 else 1)\n"
    )
    assert path.stat().st_size > 60_000_000
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_nothing_is_written(branched: Path) -> None:
    branched.write_bytes(branched.read_bytes() + b"{")
    before = branched.stat()
    examine(branched.parent)
    assert branched.stat().st_mtime_ns == before.st_mtime_ns
    assert os.listdir(branched.parent) == [branched.name]


def test_places_of_lines(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b"\n", say("b", "a", "x", 2), b'{"torn')
    lines = path.read_bytes().splitlines(keepends=True)
    found = places(str(path), {2, 0})
    assert str(found[2]) == f"{path}:4:{sum(map(len, lines[:3]))}"
    assert str(found[0]) == f"{path}:5:{sum(map(len, lines[:4]))}"


# -- the command


def test_the_command_reports(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1), b'{"torn')
    size = path.stat().st_size
    fate = "the file ends in 6 bytes of an unfinished line, which is moved to a file of its own at the "
    result = treering("doctor", path.parent)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{path}:2:{SIZE}: error: the parent 'gone' is missing: the path begins here",
        f"{path}:3:{size - 6}: error: {fate}next write to the session",
    ]
    assert result.stderr == "1 session, 2 findings\n"


def test_the_command_reports_as_json(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1))
    result = treering("doctor", path, "--json")
    assert (result.exit_code, result.stderr) == (1, "1 session, 1 finding\n")
    assert json.loads(result.stdout) == [
        {
            "path": str(path),
            "line": 2,
            "byte": SIZE,
            "code": "parent_missing",
            "severity": "error",
            "message": "the parent 'gone' is missing: the path begins here",
            "entry_id": "a",
        }
    ]


def test_notes_are_no_failure(treering: Treering, branched: Path) -> None:
    branched.write_bytes(branched.read_bytes() + b"\n")
    result = treering("doctor", branched)
    assert (result.exit_code, result.stderr) == (0, "1 session, 1 finding\n")
    assert ": note: 1 blank line from here on" in result.stdout


def test_a_healthy_directory_prints_nothing(treering: Treering, branched: Path) -> None:
    result = treering("doctor", branched.parent)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session, 0 findings\n")
    assert json.loads(treering("doctor", branched.parent, "--json").stdout) == []


def test_a_path_that_is_not_there(treering: Treering, tmp_path: Path) -> None:
    result = treering("doctor", tmp_path / "gone")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"treering: {tmp_path / 'gone'}: No such file or directory\n"


def test_a_file_under_any_name(write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b"{", name="a.jsonl.bak")
    assert [each.code for each in examine_file(str(path))] == ["torn_tail"]
    assert examine(path.parent) == []


# -- the command repairs


def test_the_command_repairs(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1), b'{"torn')
    size = path.stat().st_size - 6
    result = treering("doctor", path.parent, "--repair")
    (fragment,) = path.parent.glob("*.torn-*")
    assert result.stdout.splitlines() == [
        f"{path}:3:{size}: fragment_moved: an unfinished line of 6 bytes was moved to a file of its own -> {fragment}",
        f"{path}:2:{SIZE}: noted: seen and kept: the parent 'gone' is missing: the path begins here",
    ]
    assert (result.exit_code, result.stderr) == (0, "1 session, 1 repair, 1 finding noted and kept, 0 findings left\n")
    again = treering("doctor", path.parent, "--repair")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "1 session, 0 repairs, 0 findings left\n")


@pytest.mark.parametrize("file", ["claude_code/work.jsonl", "foreign/codex.jsonl"])
def test_what_another_program_wrote_is_named_and_no_session(
    treering: Treering, write: Write, say: Say, tmp_path: Path, file: str
) -> None:
    write(say("a", None, "x", 1))
    foreign = tmp_path / "it's foreign.jsonl"
    foreign.write_bytes((Path(__file__).parents[1] / "data" / file).read_bytes())
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "noise.jsonl").write_text("noise\n")
    program = "Claude Code" if "claude" in file else "Codex"
    result = treering("doctor", tmp_path)
    assert result.stderr == "1 session, 3 other files, 3 findings\n"
    (line,) = [line for line in result.stdout.splitlines() if "treering import" in line]
    advice = line.partition("it is a session of ")[2]
    assert advice.startswith(f"{program}: ")
    assert shlex.split(advice.split("`")[1]) == ["treering", "import", str(foreign)]
    for command in ("info", "tree"):
        told = treering(command, foreign)
        assert (told.exit_code, advice in told.stderr) == (1, True)
    treering("doctor", tmp_path, "--repair")
    assert treering("doctor", tmp_path).stderr == "1 session, 3 other files, 0 findings\n"


def test_what_was_kept_is_said_with_all(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1), b'{"torn')
    treering("doctor", path, "--repair")
    assert treering("doctor", path).stdout == ""
    result = treering("doctor", path, "--all")
    assert (result.exit_code, result.stderr) == (0, "1 session, 2 findings\n")
    assert ": error: the parent 'gone' is missing" in result.stdout
    assert ": note: a fragment of 6 bytes" in result.stdout


def test_repairs_as_json(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b'{"torn')
    result = json.loads(treering("doctor", path, "--repair", "--json").stdout)
    assert result["findings"] == []
    (one,) = result["repairs"]
    assert (one["path"], one["action"], one["byte"]) == (str(path), "fragment_moved", path.stat().st_size)
    assert Path(one["target"]).read_bytes() == b'{"torn'


def test_what_cannot_be_repaired_is_left_and_fails(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", None, "x", 1), b'{"torn')
    locks = locks_of_this_system(OsDisk(), str(path.parent))
    locks.take(os.path.realpath(path))
    before = path.read_bytes()
    result = treering("doctor", path, "--repair")
    locks.close()
    assert (result.exit_code, result.stderr) == (1, "1 session, 0 repairs, 2 findings left\n")
    assert f"{path}: locked: " in result.stdout
    assert f"is owned by process {os.getpid()} on " in result.stdout
    assert path.read_bytes() == before


def test_the_help_says_what_a_repair_leaves_alone(treering: Treering) -> None:
    told = " ".join(treering("doctor", "--help").stdout.split())
    assert "Whole lines are never moved or changed" in told
    assert ".treering/known-damage.json" in told


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_bar_on_a_terminal_does_not_get_into_what_is_said(write: Write, say: Say) -> None:
    path = write(say("a", "gone", "x", 1))
    write(say("a", None, "x", 1), name="b.jsonl", header={**HEADER, "id": "b"})
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "treering.cli", "doctor", str(path.parent)]
    environment = {**os.environ, "TERM": "xterm"}
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=secondary, env=environment, check=False)
    os.close(secondary)
    shown = b""
    with suppress(OSError):  # how Linux says that nobody writes to it any more
        while more := os.read(primary, 65536):
            shown += more
    os.close(primary)
    assert result.stdout.decode() == f"{path}:2:{SIZE}: error: the parent 'gone' is missing: the path begins here\n"
    assert b"examining" in shown
    assert b"2 sessions, 1 finding" in shown

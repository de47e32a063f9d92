"""The doctor: each kind of damage, with its file, line and byte, and the command that reports and repairs it."""

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from treering.events.disk import OsDisk
from treering.events.findings import Finding
from treering.events.health.doctor import examine
from treering.events.health.lines import examine_lines, places
from treering.events.stores.files.locks import locks_of
from treering.testing.disks import MemoryDisk

Line = dict[str, Any] | bytes

from .conftest import HEADER, Cli, line_of_message

SIZE = 84
"""The size in bytes of the header of a file from `write`."""

PI_HEADER = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w"}


def in_brief(findings: list[Finding]) -> list[tuple[int | None, str, str, str | None]]:
    return [(each.line, each.code, each.severity, each.entry_id) for each in findings]


def assert_bytes_are_line_starts(path: Path, findings: list[Finding]) -> None:
    """Assert that the byte of each finding is the beginning of its line."""
    data = path.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 0x0A)]
    for each in findings:
        if each.line is not None:
            assert each.byte == starts[each.line - 1]


def pi(entry_id: str | None, parent_id: str | None, **fields: object) -> dict[str, Any]:
    line = {"type": "custom", "customType": "x", "id": entry_id, "parentId": parent_id}
    return {**line, "timestamp": "2026-01-01T10:00:01.000Z", **fields}


# -- kinds of damage


def chain(lines: str, first: int = 1) -> list[dict[str, Any]]:
    """Messages, as "id<parent" or as the id of a root."""
    pairs = [each.partition("<") for each in lines.split()]
    return [line_of_message(own, parent or None, "x", seq) for seq, (own, _, parent) in enumerate(pairs, first)]


def batch(lines: str, first: int, count: int, *, of: str = "s-1") -> list[dict[str, Any]]:
    """The first messages of a batch of so many."""
    mark = {"session": of, "id": "k", "n": count}
    return [{**line, "batch": {**mark, "i": i}} for i, line in enumerate(chain(lines, first))]


def changed(line: str, seq: int, **fields: object) -> dict[str, Any]:
    return {**chain(line, seq)[0], **fields}


def without(line: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != key}


WHOLE = batch("a b<a", 1, 2)
TORN = batch("c<b d<c", 3, 3)
LABEL = without(changed("c<b", 3, type="label", label={"label": "no target"}), "message")
EARLY = "2025-12-31T10:00:00Z"
OTHER_HEADERS: list[Line] = [PI_HEADER, {"hello": 1}, {**HEADER, "version": 99}, json.dumps(HEADER).encode()]
IN_ORDER = "2 parent_missing error a; 3 not_json error; 4 duplicate_id error a; 5 batch_incomplete warning t"
IN_ORDER += "; 6 torn_tail error"
DAMAGE: list[tuple[Sequence[Line], str, list[str]]] = [
    # lines; line, code, severity and entry id of each finding; words of the findings
    (chain("a"), "", []),
    (
        [*chain("a"), b"garbage\n", b"[1]\n", b"\xff\xfe\n", *chain("b<a", 5)],
        "3 not_json error; 4 not_json error; 5 not_json error",
        [],
    ),
    ([b'{"type":' + b"[" * 100_000 + b"\n"], "2 not_json error", []),
    ([*chain("a"), b'{"type":"message","id":"b'], "3 torn_tail error", ["25 bytes"]),
    ([PI_HEADER, pi("a", None), b'{"type":"cu'], "3 torn_tail error", ["closed by a newline"]),
    *(([*chain("a"), tail], "3 torn_tail error", []) for tail in (b"5", b"null", b'"x"', b"\0\0\0")),
    ([*chain("a"), json.dumps(chain("b<a", 2)[0]).encode()], "3 no_newline note", []),
    ([json.dumps(HEADER).encode()], "1 no_newline note", []),
    (chain("a b<a a<b c<a"), "4 duplicate_id error a", ["line 2"]),
    (chain("a<gone b<c c"), "2 parent_missing error a; 3 parent_later error b", []),
    (chain("a<c b<a c<b d<d"), "2 cycle error a; 5 self_parent error d", []),
    (
        [*chain("a"), changed("b<a", 2, message={"role": 7}), LABEL, *chain("d<c", 4)],
        "3 wrong_fields error b; 4 wrong_fields error c",
        ["a message entry", "target_id"],
    ),
    ([*chain("a"), changed("b<a", 2, type="hologram")], "", []),
    ([PI_HEADER, without(pi("a", None), "id")], "2 no_id warning", []),
    (WHOLE, "", []),
    ([*WHOLE, *TORN], "4 batch_incomplete warning c", ["2 lines"]),
    (
        [*WHOLE, *TORN, *chain("e<b", 5), *batch("f<e", 6, 2)],
        "4 batch_incomplete warning c; 7 batch_incomplete warning f",
        ["2 lines", ""],
    ),
    ([*batch("a", 1, 2, of="another"), *chain("b<a", 2)], "", []),
    ([*chain("a"), HEADER, *chain("b<a", 3)], "3 second_header warning", []),
    ([*chain("a"), changed("b<a", 3), changed("c<b", 4), changed("d<c", 4)], "3 seq_mismatch warning b", []),
    ([{"hello": 1}], "1 no_header error", []),
    ([{**HEADER, "version": 99}], "1 unsupported_version error", []),
    (
        [*chain("a"), changed("b<a", 2, timestamp=EARLY), changed("c<b", 3, timestamp=EARLY)],
        "3 time_backwards note b",
        [],
    ),
    ([*chain("a<gone"), b"garbage\n", *chain("a<a", 3), *batch("t<a", 4, 2), b'{"torn'], IN_ORDER, []),
    (
        [
            *chain("a"),
            line_of_message("b", "a", "x" * 3_000_000, 2),
            b"garbage\n",
            line_of_message("c", "b", "y" * 2_000_000, 4),
            b"[" * 1_500_000,
        ],
        "4 not_json error; 6 torn_tail error",
        [],
    ),
]


@pytest.mark.parametrize(("lines", "expected", "words"), DAMAGE)
def test_damage_is_found_in_its_line(tmp_path: Path, lines: Sequence[Line], expected: str, words: list[str]) -> None:
    path = tmp_path / "s.jsonl"
    with_header = lines if lines[0] in OTHER_HEADERS else [HEADER, *lines]
    path.write_bytes(
        b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in with_header)
    )
    found = examine(path)
    brief = "; ".join(" ".join(str(part) for part in each if part is not None) for each in in_brief(found))
    assert brief == expected
    assert all(word in each.message for word, each in zip(words, found, strict=False))
    assert_bytes_are_line_starts(path, found)
    if found and found[0].code == "torn_tail":
        assert str(found[0].where) == f"{path}:3:{path.stat().st_size - len(path.read_bytes().splitlines()[-1])}"


def test_a_byte_order_mark_carriage_returns_and_blank_lines_are_notes(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "x", 1), b"\n", b"  \n", line_of_message("b", "a", "x", 2))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"}\n", b"}\r\n"))
    found = examine(path)
    assert {(each.line, each.code, each.severity) for each in found} == {
        (1, "bom", "note"),
        (1, "crlf", "note"),
        (3, "blank_lines", "note"),
    }
    assert {each.message.split()[0] for each in found if each.code != "bom"} == {"3", "2"}
    assert_bytes_are_line_starts(path, found)
    path.write_bytes(b"\n\n" + cli.write(line_of_message("a", "gone", "x", 1)).read_bytes())
    found = examine(path)
    assert [(each.line, each.code) for each in found] == [(1, "blank_lines"), (4, "parent_missing")]
    assert_bytes_are_line_starts(path, found)


def test_lines_that_were_copied_are_a_note_and_an_empty_file_is_one(cli: Cli, tmp_path: Path) -> None:
    lines = [*chain("a"), changed("b<a", 3), changed("c<b", 4), changed("d<c", 4)]
    path = cli.write(*lines, header={**HEADER, "id": "s-2", "parent_session": "s"})
    assert in_brief(examine(path, known=True)) == [(3, "copied_line", "note", "b")]
    (tmp_path / "new.jsonl").touch()
    assert in_brief(examine(tmp_path / "new.jsonl")) == [(None, "empty", "note", None)]


def test_real_pi_files_have_no_findings(shared_fixtures: Path) -> None:
    assert examine(shared_fixtures / "pi") == []


# -- files, directories, sizes


def test_directories_are_searched_at_any_depth(cli: Cli) -> None:
    (cli.folder / "b" / "c").mkdir(parents=True)
    (cli.folder / "b" / "up").symlink_to(cli.folder)
    (cli.folder / "b" / "nowhere.jsonl").symlink_to(cli.folder / "gone")
    torn = [
        cli.write(line_of_message("a", None, "x", 1), b"{", name=name, header={**HEADER, "id": name})
        for name in ("a.jsonl", "b/c/d.jsonl", "b/e.jsonl")
    ]
    (cli.folder / "b" / "notes.txt").write_text("{")
    found = examine(cli.folder)
    assert [(each.path, each.code) for each in found] == [
        (str(torn[0]), "torn_tail"),
        (str(torn[1]), "torn_tail"),
        (str(torn[2]), "torn_tail"),
        (str(cli.folder / "b" / "nowhere.jsonl"), "unreadable"),
    ]


def test_files_that_have_the_same_session_id_are_a_warning_that_names_both(cli: Cli, branched: Path) -> None:
    root = branched.parent
    assert examine(root) == []
    copy = Path(shutil.copy(branched, root / "t.jsonl"))
    (root / "deep").mkdir()
    (root / "deep" / "archived.jsonl.gz").write_bytes(gzip.compress(branched.read_bytes()))
    archived = root / "deep" / "archived.jsonl.gz"
    cli.write(line_of_message("a", None, "x", 1), name="other.jsonl", header={**HEADER, "id": "another"})
    before = {path: path.read_bytes() for path in root.rglob("*.jsonl*") if path.is_file()}
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
    result = cli("doctor", str(root), "--repair")  # it leaves them, and they stay reported
    assert (result.exit_code, result.stdout.count("is also that of")) == (1, 2)
    assert result.stdout.startswith(f"{branched}: warning: its session id 's-1' is also that of {archived}")
    assert cli("doctor", str(root)).stdout.count("is also that of") == 2
    assert {path: path.read_bytes() for path in root.rglob("*.jsonl*") if path.is_file()} == before
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


def test_the_doctor_reads_through_the_given_disk(cli: Cli) -> None:
    disk = MemoryDisk()
    fd = disk.open("/s.jsonl", os.O_CREAT | os.O_WRONLY)
    disk.write(fd, cli.write(line_of_message("a", "gone", "x", 1)).read_bytes())
    disk.close(fd)
    assert [str(each.where) for each in examine("/s.jsonl", disk=disk)] == [f"/s.jsonl:2:{SIZE}"]


def test_examining_a_large_file_takes_little_memory(cli: Cli) -> None:
    path = cli.write(*(line_of_message(f"e{n}", f"e{n - 1}" if n else None, "x" * 20_000, n + 1) for n in range(3000)))
    code = (
        "import resource, sys\n"
        "from treering.events.disk import OsDisk\n"
        "from treering.events.health.lines import examine_lines\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert examine_lines(sys.argv[1], OsDisk())[0] == []\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "sys.exit(0 if grown * (1 if sys.platform == 'darwin' else 1024) < 20_000_000 else 1)\n"
    )
    assert path.stat().st_size > 60_000_000
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_examining_writes_nothing(branched: Path) -> None:
    branched.write_bytes(branched.read_bytes() + b"{")
    before = branched.stat()
    examine(branched.parent)
    assert branched.stat().st_mtime_ns == before.st_mtime_ns
    assert os.listdir(branched.parent) == [branched.name]


def test_places_gives_line_and_byte_of_a_seq(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "x", 1), b"\n", line_of_message("b", "a", "x", 2), b'{"torn')
    lines = path.read_bytes().splitlines(keepends=True)
    found = places(str(path), {2, 0})
    assert str(found[2]) == f"{path}:4:{sum(map(len, lines[:3]))}"
    assert str(found[0]) == f"{path}:5:{sum(map(len, lines[:4]))}"


# -- the command reports


MISSING = "the parent 'gone' is missing: the path begins here"


def test_the_command_prints_findings_and_fails_and_repairs_them(cli: Cli) -> None:
    path = cli.write(line_of_message("a", "gone", "x", 1))
    result = cli("doctor", path, "--json")
    assert (result.exit_code, result.stderr) == (1, "1 session, 1 finding\n")
    found = {"path": str(path), "line": 2, "byte": SIZE, "code": "parent_missing", "severity": "error"}
    assert json.loads(result.stdout) == [{**found, "message": MISSING, "entry_id": "a"}]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"torn')
    fate = "the file ends in 6 bytes of an unfinished line, which is moved to a file of its own at the next "
    fate += "write to the session"
    result = cli("doctor", cli.folder)
    assert result.stdout.splitlines() == [f"{path}:2:{SIZE}: error: {MISSING}", f"{path}:3:{size}: error: {fate}"]
    assert (result.exit_code, result.stderr) == (1, "1 session, 2 findings\n")
    result = cli("doctor", cli.folder, "--repair")
    (fragment,) = cli.folder.glob("*.torn-*")
    assert result.stdout.splitlines() == [
        f"{path}:3:{size}: fragment_moved: an unfinished line of 6 bytes was moved to a file of its own -> {fragment}",
        f"{path}:2:{SIZE}: noted: seen and kept: {MISSING}",
    ]
    assert (result.exit_code, result.stderr) == (0, "1 session, 1 repair, 1 finding noted and kept, 0 findings left\n")
    again = cli("doctor", cli.folder, "--repair")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "1 session, 0 repairs, 0 findings left\n")
    assert cli("doctor", path).stdout == ""
    result = cli("doctor", path, "--all")
    assert (result.exit_code, result.stderr) == (0, "1 session, 2 findings\n")
    assert f": error: {MISSING}" in result.stdout
    assert ": note: a fragment of 6 bytes" in result.stdout


def test_the_command_succeeds_without_findings_and_with_notes(cli: Cli, branched: Path) -> None:
    result = cli("doctor", cli.folder)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 session, 0 findings\n")
    assert cli.json("doctor", cli.folder) == []
    branched.write_bytes(branched.read_bytes() + b"\n")
    result = cli("doctor", branched)
    assert (result.exit_code, result.stderr) == (0, "1 session, 1 finding\n")
    assert ": note: 1 blank line from here on" in result.stdout


def test_a_path_that_is_not_there_is_an_error(cli: Cli) -> None:
    gone = cli.folder / "gone"
    assert cli.error("doctor", gone) == f"treering: {gone}: No such file or directory\n"
    with pytest.raises(FileNotFoundError):
        examine(gone)


def test_a_file_with_any_name_can_be_examined_but_is_not_found_in_a_directory(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "x", 1), b"{", name="a.jsonl.bak")
    assert [each.code for each in examine_lines(str(path), OsDisk())[0]] == ["torn_tail"]
    assert examine(cli.folder) == []
    path.rename(cli.folder / "a\nb.jsonl")
    shown = cli("doctor", cli.folder).stdout.splitlines()
    assert [each.startswith(f"{cli.folder / 'a b.jsonl'}:3:") for each in shown] == [True]


# -- the command repairs


@pytest.mark.parametrize("file", ["claude_code/work.jsonl", "codex/codex.jsonl"])
def test_a_file_of_another_program_is_named_with_the_import_command(cli: Cli, tmp_path: Path, file: str) -> None:
    cli.write(line_of_message("a", None, "x", 1))
    foreign = tmp_path / "it's foreign.jsonl"
    foreign.write_bytes((Path(__file__).parents[1] / "data" / file).read_bytes())
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "noise.jsonl").write_text("noise\n")
    program = "Claude Code" if "claude" in file else "Codex"
    result = cli("doctor", tmp_path)
    assert result.stderr == "1 session, 3 other files, 3 findings\n"
    (line,) = [line for line in result.stdout.splitlines() if "treering import" in line]
    advice = line.partition("it is a session of ")[2]
    assert advice.startswith(f"{program}: ")
    assert shlex.split(advice.split("`")[1]) == ["treering", "import", str(foreign)]
    for command in ("info", "tree"):
        result = cli(command, foreign)
        assert (result.exit_code, advice in result.stderr) == (1, True)
    cli("doctor", tmp_path, "--repair")
    assert cli("doctor", tmp_path).stderr == "1 session, 3 other files, 0 findings\n"


def test_the_command_prints_repairs_as_json(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "x", 1), b'{"torn')
    result = cli.json("doctor", path, "--repair")
    assert result["findings"] == []
    (one,) = result["repairs"]
    assert (one["path"], one["action"], one["byte"]) == (str(path), "fragment_moved", path.stat().st_size)
    assert Path(one["target"]).read_bytes() == b'{"torn'


def test_a_locked_session_is_not_repaired_and_the_command_fails(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "x", 1), b'{"torn')
    locks = locks_of(OsDisk(), str(path.parent))
    locks.take(os.path.realpath(path))
    before = path.read_bytes()
    result = cli("doctor", path, "--repair")
    locks.close()
    assert (result.exit_code, result.stderr) == (1, "1 session, 0 repairs, 2 findings left\n")
    assert f"{path}: locked: " in result.stdout
    assert f"is owned by process {os.getpid()} on " in result.stdout
    assert path.read_bytes() == before


def test_the_help_says_what_a_repair_does_not_change(cli: Cli) -> None:
    text = " ".join(cli("doctor", "--help").stdout.split())
    assert "Whole lines are never moved or changed" in text
    assert ".treering/known-damage.json" in text


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_the_progress_bar_goes_to_the_terminal_and_not_to_stdout(cli: Cli) -> None:
    path = cli.write(line_of_message("a", "gone", "x", 1))
    cli.write(line_of_message("a", None, "x", 1), name="b.jsonl", header={**HEADER, "id": "b"})
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "treering.cli", "doctor", str(path.parent)]
    environment = {**os.environ, "TERM": "xterm"}
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=secondary, env=environment, check=False)
    os.close(secondary)
    shown = b""
    with suppress(OSError):  # Linux raises this at the end of the output
        while more := os.read(primary, 65536):
            shown += more
    os.close(primary)
    assert result.stdout.decode() == f"{path}:2:{SIZE}: error: the parent 'gone' is missing: the path begins here\n"
    assert b"examining" in shown
    assert b"2 sessions, 1 finding" in shown

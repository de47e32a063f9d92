"""Repair: every kind of damage is found, then repaired or noted, and no line is lost."""

import gzip
import json
import os
import sys
from array import array
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pytest

from treering import Limits, SessionHost
from treering.events import columns
from treering.events.disk import OsDisk
from treering.events.findings import Finding, Repair
from treering.events.health.doctor import examine
from treering.events.health.repair import repair
from treering.events.index import LogIndex
from treering.events.stores.files.durability.journal import JOURNALS, Record, Segment
from treering.events.stores.files.locks import locks_of
from treering.events.stores.files.log.log import Log
from treering.events.stores.files.log.records import save_blob
from treering.testing.disks import FaultyDisk, MemoryDisk

from ..stores.logs import put_file

Line: TypeAlias = "dict[str, Any] | bytes"

NATIVE = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
PI = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w"}
OMP_SLOT = (b'{"type":"title","v":1,"title":"Work","updatedAt":"2026-01-01T10:00:00.000Z","pad":"').ljust(253) + b'"}\n'


def native(entry_id: str, parent_id: str | None, seq: int, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": {"content": "x"}}]
    line = {"type": "message", "id": entry_id, "parent_id": parent_id, "timestamp": f"2026-01-01T10:00:{seq:02}Z"}
    return {**line, "seq": seq, "message": {"role": "user", "content": content}, **more}


def pi(entry_id: object, parent_id: object, **more: object) -> dict[str, Any]:
    line = {"type": "custom", "customType": "x", "id": entry_id, "parentId": parent_id}
    return {**line, "timestamp": "2026-01-01T10:00:01.000Z", **more}


def batch(line: dict[str, Any], i: int, n: int) -> dict[str, Any]:
    return {**line, "batch": {"session": "s-1", "id": "k", "i": i, "n": n}}


def write_lines(path: Path, *lines: Line, end: str = "\n", before: bytes = b"") -> Path:
    """Write lines; those given as bytes are written without another newline. Each file is a session of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = f"-{crc32(os.fsencode(path)):08x}"
    lines = tuple({**line, "id": line["id"] + own} if line is NATIVE or line is PI else line for line in lines)
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() + end.encode() for line in lines]
    path.write_bytes(before + b"".join(encoded))
    return path


def examined_log(path: Path) -> Log:
    """Examine a log as its owner does, without a lock."""
    log = Log(OsDisk(), path.name, os.path.realpath(path))
    log.examine()
    return log


def index_of(log: Log) -> bytes:
    assert log.header is not None
    assert log.dialect is not None
    index = LogIndex(log.header, model_changes_win=log.dialect.model_changes_win)
    with log.opened(os.O_RDONLY) as fd:
        for seq, line in enumerate(log.lines(fd, log.table, [(1, log.table.count)]), 1):
            index.fold(log.dialect.decode(line, seq))
    return index.dump()


def write_companions(path: Path, *, leaf: str = "a") -> Log:
    """Write a valid snapshot, leaf record and checkpoint beside a log."""
    log = examined_log(path)
    log.save_snapshot(log.table.count, index_of(log))
    save_blob(log, "leaf", log.head, json.dumps({"leaf": leaf}).encode(), sync=False)
    save_blob(log, "view-words", log.head, b"words", sync=False)
    return log


def companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def write_journal(root: Path, name: str, offset: int, block: bytes, *lines: bytes, number: int = 1) -> Path:
    """Write a journal that a host left behind."""
    folder = root / JOURNALS
    folder.mkdir(parents=True, exist_ok=True)
    segment = Segment.begin(OsDisk(), str(folder / f"9-{number}.journal"), str(number), [])
    segment.write([Record(name.encode(), offset, block, lines, 1, 1, "g")])
    segment.close()
    return Path(segment.path)


A, B = native("a", None, 1), native("b", "a", 2)
Found: TypeAlias = "set[tuple[int | None, str]]"
# What files hold with each kind of damage, and what is found in them.
NATIVE_DAMAGE: dict[str, tuple[list[Line], Found]] = {
    "tree": (
        [NATIVE, native("a", "gone", 1), native("b", "c", 2), native("c", None, 3), native("d", "d", 4)],
        {(2, "parent_missing"), (3, "parent_later"), (5, "self_parent")},
    ),
    "cycle": ([NATIVE, native("a", "c", 1), B, native("c", "b", 3)], {(2, "cycle")}),
    "twice": ([NATIVE, A, native("a", None, 2)], {(3, "duplicate_id")}),
    "fields": ([NATIVE, A, native("b", "a", 2, message={"role": 7}), native("c", "b", 3)], {(3, "wrong_fields")}),
    "json": (
        [NATIVE, A, b"garbage\n", b"[1]\n", b"\xff\xfe\n", native("b", "a", 5)],
        {(3, "not_json"), (4, "not_json"), (5, "not_json")},
    ),
    "torn": ([NATIVE, A, b'{"type":"message","id":"b'], {(3, "torn_tail")}),
    "open": ([NATIVE, A, json.dumps(B).encode()], {(3, "no_newline")}),
    "header_open": ([json.dumps({**NATIVE, "id": "s-open"}).encode()], {(1, "no_newline")}),
    "batch": (
        [{**NATIVE}, A, batch(B, 0, 2), native("c", "a", 3), batch(native("d", "c", 4), 0, 2)],
        {(3, "batch_incomplete"), (5, "batch_incomplete")},
    ),
    "empty": ([], {(None, "empty")}),
    "second": ([NATIVE, A, NATIVE, native("b", "a", 3)], {(3, "second_header")}),
    "none": ([A, b"tail"], {(1, "no_header")}),
    "newer": ([{**NATIVE, "version": 99}, b"tail"], {(1, "unsupported_version")}),
    "order": (
        [NATIVE, A, native("b", "a", 9, timestamp="2025-01-01T10:00:00Z")],
        {(3, "time_backwards"), (3, "seq_mismatch")},
    ),
    "every": (
        [NATIVE, native("a", "gone", 1), b"garbage\n", native("a", "a", 3), b'{"torn'],
        {(2, "parent_missing"), (3, "not_json"), (4, "duplicate_id"), (5, "torn_tail")},
    ),
}
# Lines are counted from the header here.
PI_DAMAGE: dict[str, tuple[list[Line], set[tuple[int, str]]]] = {
    "tree": (
        [PI, pi("a", "gone"), pi("b", "c"), pi("c", None), pi("d", "d")],
        {(1, "parent_missing"), (2, "parent_later"), (4, "self_parent")},
    ),
    "cycle": ([PI, pi("a", "b"), pi("b", "a")], {(1, "cycle")}),
    "twice": ([PI, pi("a", None), pi("a", None)], {(2, "duplicate_id")}),
    "lines": (
        [PI, pi("a", None), b"null\n", b"5\n", b"[]\n", b"{glued" + json.dumps(PI).encode() + b"\n"],
        {(line, "not_json") for line in (2, 3, 4, 5)},
    ),
    "nameless": ([PI, pi(None, None), {"type": "custom"}], {(1, "no_id"), (2, "no_id")}),
    "second": ([PI, pi("a", None), PI, pi("b", "a")], {(2, "second_header")}),
    "torn": ([PI, pi("a", None), b'{"type":"cu'], {(2, "torn_tail")}),
    "open": ([PI, pi("a", None), json.dumps(pi("b", "a")).encode()], {(2, "no_newline")}),
    "odd": ([PI, pi("a", None), b" \n", pi("b", "a")], {(0, "crlf"), (2, "blank_lines")}),
    "newer": ([{**PI, "version": 4}, pi("a", None), b'{"half'], {(0, "unsupported_version")}),
}


def log_damage(root: Path) -> None:
    """Write logs with every kind of damage; those of oh-my-pi have a title slot before the header."""
    for name, (lines, _) in NATIVE_DAMAGE.items():
        write_lines(root / f"native/{name}.jsonl", *lines)
    write_lines(root / "native/odd.jsonl", NATIVE, A, b"\n", B, end="\r\n", before=b"\xef\xbb\xbf")
    for name, (lines, _) in PI_DAMAGE.items():
        for folder, slot in (("pi", b""), ("omp", OMP_SLOT)):
            write_lines(root / folder / f"{name}.jsonl", *lines, end="\r\n" if name == "odd" else "\n", before=slot)


def beside_damage(root: Path) -> None:
    """Write damaged companions of logs: snapshots, leaf records, checkpoints, leftovers."""
    folder = root / "companion"
    kinds = {"leaf": ".leaf", "view": ".view-words"}
    for name in (
        "torn",
        "foreign",
        "stale",
        "wrong",
        *(f"{kind}_{how}" for kind in kinds for how in ("torn", "foreign")),
    ):
        path = write_lines(folder / f"{name}.jsonl", NATIVE, A, B)
        if name != "wrong":
            write_companions(path)
    os.truncate(folder / "torn.jsonl.index", 100)
    (folder / "copy").write_bytes((folder / "foreign.jsonl").read_bytes())
    os.replace(folder / "copy", folder / "foreign.jsonl")
    os.utime(folder / "stale.jsonl", ns=(1, 1))
    log = examined_log(folder / "wrong.jsonl")
    log.table.ends = array("Q", [log.table.ends[0], log.table.ends[1] - 3, log.table.ends[2]])
    log.save_snapshot(2, None)
    write_companions(write_lines(folder / "leaf_unknown.jsonl", NATIVE, A, B), leaf="nobody")
    other = write_lines(folder / "other.jsonl", NATIVE, native("z", None, 1), native("y", "z", 2))
    write_companions(other, leaf="z")
    for kind, suffix in kinds.items():
        (folder / f"{kind}_torn.jsonl{suffix}").write_bytes(b'{"seq":3' if kind == "leaf" else b"x")
        (folder / f"{kind}_foreign.jsonl{suffix}").write_bytes(companion(other, suffix).read_bytes())
    left = write_lines(folder / "temporary.jsonl", NATIVE, A)
    companion(left, ".index.tmp-4194305-1").write_bytes(b"half")
    companion(left, ".torn-9-00000000").write_bytes(b"changed")
    companion(left, ".bak").write_bytes(b"as it was\n")
    for suffix in (".index", ".leaf", ".view-words"):
        (folder / f"gone.jsonl{suffix}").write_bytes(b"of nobody\n")


def treering_damage(root: Path) -> None:
    """Write damaged journals and other damaged files in `.treering`."""
    block, first, second = (json.dumps(line).encode() + b"\n" for line in ({**NATIVE, "id": "s-late"}, A, B))
    write_lines(root / "late.jsonl", block, first)
    torn = write_journal(root, "late.jsonl", len(block + first), block, second)
    torn.write_bytes(torn.read_bytes() + b"7c1e6f0a 12 half a record")
    (root / JOURNALS / "9-2.journal").write_bytes(b"")
    (root / JOURNALS / "9-3.journal").write_bytes(b"no journal at all\n")
    (root / JOURNALS / "9-4.void").write_bytes(b"of no journal\n")
    (root / ".treering/known-damage.json.tmp-4194305-1").write_bytes(b"half")
    (root / ".treering/known-damage.json").write_bytes(b'{"version":1,"dam')


def lines_of(root: Path) -> set[bytes]:
    """All lines of all files below a folder, with unfinished ones, except those of lock files."""
    files = [path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts]
    return {line for path in files for line in path.read_bytes().split(b"\n")}


def by_file_and_line(root: Path, found: list[Finding]) -> dict[str, set[tuple[int | None, str]]]:
    """The line and code of each finding, by file."""
    by_file: dict[str, set[tuple[int | None, str]]] = {}
    for each in found:
        by_file.setdefault(os.path.relpath(each.path, root), set()).add((each.line, each.code))
    return by_file


def actions(repairs: list[Repair]) -> list[tuple[str, str]]:
    return [(os.path.basename(each.path), each.action) for each in repairs]


@pytest.fixture
def damaged_root(tmp_path: Path) -> Path:
    """A root with every kind of damage."""
    root = tmp_path / "damaged_root"
    log_damage(root)
    beside_damage(root)
    treering_damage(root)
    return root


FOUND: dict[str, Found] = {
    **{f"native/{name}.jsonl": found for name, (_, found) in NATIVE_DAMAGE.items()},
    "native/odd.jsonl": {(1, "bom"), (1, "crlf"), (3, "blank_lines")},
    **{f"pi/{name}.jsonl": {(line + 1, code) for line, code in found} for name, (_, found) in PI_DAMAGE.items()},
    **{f"omp/{name}.jsonl": {(line + 2, code) for line, code in found} for name, (_, found) in PI_DAMAGE.items()},
    **{
        f"companion/{path}": {(None, code)}
        for path, code in {
            "torn.jsonl.index": "index_torn",
            "foreign.jsonl.index": "index_foreign",
            "foreign.jsonl.view-words": "view_foreign",
            "stale.jsonl.index": "index_stale",
            "wrong.jsonl.index": "index_wrong",
            "leaf_torn.jsonl.leaf": "leaf_torn",
            "leaf_foreign.jsonl.leaf": "leaf_foreign",
            "leaf_unknown.jsonl.leaf": "leaf_unknown",
            "view_torn.jsonl.view-words": "view_torn",
            "view_foreign.jsonl.view-words": "view_foreign",
            "temporary.jsonl.index.tmp-4194305-1": "temporary",
            "temporary.jsonl.torn-9-00000000": "fragment_changed",
            "gone.jsonl.index": "orphan",
            "gone.jsonl.leaf": "orphan",
            "gone.jsonl.view-words": "orphan",
        }.items()
    },
    ".treering/known-damage.json": {(None, "known_torn")},
    ".treering/known-damage.json.tmp-4194305-1": {(None, "temporary")},
    ".treering/journal/9-1.journal": {(None, "journal_waiting"), (5, "journal_torn")},
    ".treering/journal/9-2.journal": {(None, "journal_unused")},
    ".treering/journal/9-3.journal": {(1, "journal_foreign")},
    ".treering/journal/9-4.void": {(None, "orphan")},
}


@pytest.mark.feature("X-30")
def test_every_kind_of_damage_is_found_and_repaired_and_no_line_is_lost(damaged_root: Path) -> None:
    found = examine(damaged_root)
    assert by_file_and_line(damaged_root, found) == FOUND
    for each in found:
        if each.line is not None:
            data = Path(each.path).read_bytes()
            assert each.byte is not None
            assert (data[: each.byte].count(b"\n") + 1, data[: each.byte][-1:] in (b"", b"\n")) == (each.line, True)
    before = lines_of(damaged_root)
    assert [each for each in repair(damaged_root) if not each.done] == []
    assert before - lines_of(damaged_root) == set()
    assert examine(damaged_root) == []
    assert repair(damaged_root) == []
    after = lines_of(damaged_root)
    assert json.dumps(B).encode() in (damaged_root / "late.jsonl").read_bytes().splitlines()
    assert {each.code for each in examine(damaged_root, known=True)} > {
        "not_json",
        "duplicate_id",
        "cycle",
        "fragment",
        "backup",
    }
    assert after == lines_of(damaged_root)


def test_a_repair_does_not_change_whole_lines(damaged_root: Path) -> None:
    before = {path: path.read_bytes() for path in damaged_root.rglob("*.jsonl")}
    repair(damaged_root)
    for path, data in before.items():
        now = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        assert now.startswith(whole), path
        assert now == whole or len(now) > len(data) or path.name in ("none.jsonl", "newer.jsonl", "empty.jsonl")
    for name in ("none.jsonl", "newer.jsonl", "empty.jsonl"):
        assert (damaged_root / "native" / name).read_bytes() == before[damaged_root / "native" / name]


def test_a_torn_tail_is_moved_to_a_file_or_in_a_pi_file_gets_a_newline_and_is_noted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A, b'{"torn')
    whole = path.read_bytes()[:-6]
    (one,) = repair(path)
    assert (one.path, one.action, one.byte) == (str(path), "fragment_moved", len(whole))
    assert one.target is not None
    assert Path(one.target).read_bytes() == b'{"torn'
    assert path.read_bytes() == whole
    path = write_lines(tmp_path / "pi.jsonl", PI, pi("a", None), b'{"torn')
    before = path.read_bytes()
    assert actions(repair(path)) == [("pi.jsonl", "newline_added"), ("pi.jsonl", "noted")]
    assert path.read_bytes() == before + b"\n"
    assert examine(path) == []


ODD_NAME = pytest.param(
    os.fsdecode(b"odd\xff.jsonl"),
    marks=pytest.mark.skipif(sys.platform == "darwin", reason="file names must be Unicode here"),
    id="not Unicode",
)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", ODD_NAME])
def test_noted_damage_is_reported_again_if_it_changes(tmp_path: Path, name: str) -> None:
    root = tmp_path / "s"
    path = write_lines(root / name, NATIVE, A, b"garbage\n")
    data = path.read_bytes()

    def rewrite(content: bytes) -> None:
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    rewrite(data)
    assert [each.action for each in repair(root)] == ["noted"]
    assert examine(tmp_path) == examine(path) == []
    assert [each.code for each in examine(path, known=True)] == ["not_json"]
    rewrite(data.replace(b"garbage", b"GARBAGE"))
    assert [each.code for each in examine(path)] == ["not_json"]
    rewrite(data + b"more\n")
    assert (4, "not_json") in [(each.line, each.code) for each in examine(path)]
    repair(root)
    assert examine(path) == []
    path.unlink()
    write_lines(root / "b.jsonl", NATIVE, b"x\n")
    assert actions(repair(root)) == [("b.jsonl", "noted")]
    assert (root / ".treering/known-damage.json").read_bytes().count(b".jsonl") == 1


def test_a_session_in_use_is_not_repaired(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, native("a", "gone", 1), b'{"torn')
    companion(path, ".index").write_bytes(b"torn")
    before = lines_of(tmp_path)
    locks = locks_of(OsDisk(), str(tmp_path))
    held = locks.take(os.path.realpath(path))
    (locked,) = [each for each in examine(path) if each.code == "locked"]
    assert (locked.severity, f"process {os.getpid()} on " in locked.message) == ("note", True)
    assert actions(repair(tmp_path)) == [("a.jsonl", "locked")]
    assert lines_of(tmp_path) == before
    assert not isinstance(held, Exception)
    locks.give_back(held)
    assert "locked" not in {each.code for each in examine(path)}
    assert actions(repair(tmp_path)) == [
        ("a.jsonl", "fragment_moved"),
        ("a.jsonl.index", "made_anew"),
        ("a.jsonl", "noted"),
    ]
    assert examine(tmp_path) == []


def test_valid_companions_are_not_findings_and_not_repaired(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A, B)
    write_companions(path)
    assert examine(tmp_path, known=True) == []
    with path.open("ab") as file:
        file.write(json.dumps(native("c", "b", 3)).encode() + b"\n")
    assert examine(tmp_path, known=True) == []
    before = sorted(tmp_path.rglob("*"))
    assert repair(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_a_rebuilt_snapshot_has_another_generation(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A, B)
    generation = write_companions(path).generation
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
        file.seek(0, os.SEEK_END)
        file.write(b" \n")
    assert [each.code for each in examine(path) if "index" in each.code] == ["index_foreign"]
    repair(path)
    assert examined_log(path).generation != generation
    assert examine(path) == []


@pytest.mark.feature("U-24")
def test_derived_files_are_checked_against_the_log_and_can_be_rebuilt(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A, B, native("c", "b", 3))
    log = write_companions(path)
    sound = index_of(log)
    assert examine(tmp_path) == []
    other = write_lines(tmp_path / "b.jsonl", NATIVE, A, native("b", None, 2), native("c", "a", 3))
    log.save_snapshot(3, index_of(examined_log(other)))  # a valid snapshot with the content of another log
    assert [each.code for each in examine(path)] == ["index_wrong", "view_foreign"]
    assert actions(repair(tmp_path)) == [("a.jsonl.index", "made_anew"), ("a.jsonl.view-words", "moved_aside")]
    assert examine(tmp_path) == []
    assert index_of(examined_log(path)) == sound


def test_a_torn_snapshot_with_a_later_generation_is_rebuilt(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A)
    write_companions(path)
    log = examined_log(path)
    log.counter = 7
    log.examine()
    log.save_snapshot(1, index_of(log))
    save_blob(log, "view-words", log.head, b"words", sync=False)
    assert examine(path) == []
    data = companion(path, ".index").read_bytes()
    companion(path, ".index").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert actions(repair(path)) == [("a.jsonl.index", "made_anew")]
    assert examine(path) == []


def test_a_leaf_record_that_cannot_be_read_is_not_repaired(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A)
    write_companions(path)
    disk = FaultyDisk(OsDisk())
    disk.fail("open", EIO, path="*.leaf", times=None)
    assert [each.code for each in examine(path, disk=disk)] == ["unreadable"]
    assert repair(path, disk=disk) == []
    assert examine(path) == []


def test_files_moved_aside_get_distinct_names_and_are_leftovers(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / "gone.jsonl.index").write_bytes(b"%d" % n)
        assert actions(repair(tmp_path)) == [("gone.jsonl.index", "moved_aside")]
    aside = tmp_path / ".treering/aside"
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == {
        "gone.jsonl.index": b"0",
        "gone.jsonl.index-2": b"1",
        "gone.jsonl.index-3": b"2",
    }
    write_lines(tmp_path / "a.jsonl.leaf.tmp-4194305-1", b"half")
    (finding,) = examine(tmp_path)
    (done,) = repair(tmp_path)
    assert done.message == finding.message == "a temporary file left by a crash"


def test_a_locked_journal_is_not_replayed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE)
    block = path.read_bytes()
    kept = write_journal(tmp_path, "a.jsonl", len(block), block, json.dumps(A).encode() + b"\n")
    locks = locks_of(OsDisk(), str(tmp_path))
    locks.take(os.path.realpath(kept))
    assert (examine(tmp_path), repair(tmp_path)) == ([], [])
    assert [each.code for each in examine(tmp_path, known=True)] == ["journal_held"]
    locks.close()
    assert actions(repair(tmp_path)) == [("9-1.journal", "replayed")]
    assert (path.read_bytes().count(b"\n"), kept.exists()) == (2, False)


def test_a_journal_of_a_newer_version_is_kept(tmp_path: Path) -> None:
    newer = b'{"format":"treering-journal","version":2,"nonce":"x"}\nthings\n'
    path = write_lines(tmp_path / JOURNALS / "9-1.journal", newer)
    assert [each.code for each in examine(tmp_path)] == ["journal_newer"]
    assert actions(repair(tmp_path)) == [("9-1.journal", "noted")]
    assert path.read_bytes() == newer
    assert examine(tmp_path) == []


def test_a_repair_on_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, A, b'{"torn')
    companion(path, ".index").write_bytes(b"torn")
    before = lines_of(tmp_path)

    def full(fd: int, data: bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(OsDisk, "write", staticmethod(full))
    (one,) = repair(path)
    assert (one.action, "No space left" in one.message) == ("failed", True)
    assert lines_of(tmp_path) == before
    monkeypatch.undo()
    repair(path)
    assert examine(path) == []


def small_damaged_disk(tmp_path: Path) -> MemoryDisk:
    """A disk in memory with some kinds of damage."""
    disk, root = MemoryDisk(), tmp_path / "small"
    write_lines(root / "a.jsonl", NATIVE, A, b"garbage\n", b'{"torn')
    write_lines(root / "p.jsonl", PI, pi("a", "gone"), b'{"half')
    (root / "a.jsonl.index").write_bytes(b"torn\n")
    (root / "a.jsonl.leaf.tmp-4194305-1").write_bytes(b"half\n")
    (root / "gone.jsonl.view-words").write_bytes(b"of nobody\n")
    for path in sorted(root.rglob("*.*")):
        put_file(disk, f"/{path.name}", path.read_bytes())
    disk.settle()
    return disk


def lines_on(disk: MemoryDisk) -> set[bytes]:
    return {line for data in disk.files().values() for line in data.split(b"\n")}


@pytest.mark.parametrize(
    "call", ["open", "write", "datasync", "rename", "sync_directory", "make_directory", "truncate", "unlink"]
)
def test_if_any_call_of_the_disk_fails_no_line_is_lost_and_the_next_repair_completes(tmp_path: Path, call: str) -> None:
    nth, failed = 0, True
    while failed:
        nth += 1
        inner = small_damaged_disk(tmp_path)
        before, disk = lines_on(inner), FaultyDisk(inner)
        fault = disk.fail(call, EIO, nth=nth)
        repair("/", disk=disk)
        failed = fault.done
        assert before - lines_on(inner) == set(), (call, nth)
        assert inner.open_files == 0
        disk.heal()
        repair("/", disk=disk)
        assert before - lines_on(inner) == set(), (call, nth)
        assert examine("/", disk=disk) == [], (call, nth)
    assert nth > 1


def test_after_a_power_cut_at_any_point_of_a_repair_no_line_is_lost(tmp_path: Path) -> None:
    disk = small_damaged_disk(tmp_path)
    before = lines_on(disk)
    left: list[MemoryDisk] = []
    disk.listeners.append(lambda _: left.extend(disk.crash_states()))
    repair("/", disk=disk)
    whole = {line for line in before if line not in (b'{"torn', b'{"half')}
    for after in left:
        assert whole - lines_on(after) == set(), after.cut_after
        repair("/", disk=after)
        assert whole - lines_on(after) == set(), after.cut_after
        # Locks of this process are notes.
        assert [each for each in examine("/", disk=after) if each.severity != "note"] == [], after.cut_after
    assert len(left) > 50


def test_repairing_a_missing_directory_raises() -> None:
    with pytest.raises(FileNotFoundError):
        repair("/nowhere/at/all")


@pytest.mark.parametrize("suffix", [".index", ".leaf", ".view-words", ".tmp-1-1", ".gz.tmp-1-1"])
def test_companions_of_an_archived_session_are_moved_aside(tmp_path: Path, suffix: str) -> None:
    path = write_lines(tmp_path / "work/a.jsonl", NATIVE, A)
    packed = companion(path, ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    companion(path, suffix).write_bytes(b"garbage")
    before = packed.read_bytes()
    assert [each.code for each in examine(tmp_path)] != []
    locks = locks_of(OsDisk(), str(tmp_path))
    held = locks.take(os.path.realpath(path))
    assert not isinstance(held, Exception)
    assert actions(repair(tmp_path)) == [("a.jsonl.gz", "locked")]
    locks.give_back(held)
    assert actions(repair(tmp_path)) == [(f"a.jsonl{suffix}", "moved_aside")]
    assert examine(tmp_path) == []
    assert packed.read_bytes() == before
    assert (tmp_path / f".treering/aside/work/a.jsonl{suffix}").read_bytes() == b"garbage"


async def test_other_versions_snapshots_are_notes_no_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(columns, "_SNAPSHOT_VERSION", columns._SNAPSHOT_VERSION - 1)
        async with SessionHost(tmp_path, limits=Limits(snapshot_after_lines=1)) as host:
            session = await host.create("main")
            await session.append_message("user", "still here")
            await session.append_message("assistant", "yes")
    assert (tmp_path / "main.jsonl.index").is_file()
    findings = [(each.code, each.severity) for each in examine(tmp_path)]
    assert ("index_stale", "note") in findings
    assert not [code for code, severity in findings if severity == "error"]
    async with SessionHost(tmp_path) as host:
        assert (await host.load("main")).message_count == 2

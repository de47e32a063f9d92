"""Repair: every kind of damage is found, then repaired or noted, and no line is lost."""

from __future__ import annotations

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
from treering.events import index
from treering.events.disk import Disk, OsDisk
from treering.events.doctor import examine
from treering.events.findings import Finding
from treering.events.index import LogIndex
from treering.events.repair import Repair, repair
from treering.events.stores.files.blob_files import save_blob
from treering.events.stores.files.journal import JOURNALS, Record, Segment
from treering.events.stores.files.locks import locks_of_this_system
from treering.events.stores.files.log import Log
from treering.testing.disks import FaultyDisk, MemoryDisk

Line: TypeAlias = "dict[str, Any] | bytes"

NATIVE = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
PI = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w"}
OMP_SLOT = (b'{"type":"title","v":1,"title":"Work","updatedAt":"2026-01-01T10:00:00.000Z","pad":"').ljust(253) + b'"}\n'


def message_line(entry_id: str, parent_id: str | None, seq: int, **more: object) -> dict[str, Any]:
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


def native_damage(root: Path) -> None:
    """Write native logs with every kind of damage."""
    write_lines(
        root / "native/tree.jsonl",
        NATIVE,
        message_line("a", "gone", 1),
        message_line("b", "c", 2),
        message_line("c", None, 3),
        message_line("d", "d", 4),
    )
    write_lines(
        root / "native/cycle.jsonl",
        NATIVE,
        message_line("a", "c", 1),
        message_line("b", "a", 2),
        message_line("c", "b", 3),
    )
    write_lines(root / "native/twice.jsonl", NATIVE, message_line("a", None, 1), message_line("a", None, 2))
    wrong = message_line("b", "a", 2, message={"role": 7})
    write_lines(root / "native/fields.jsonl", NATIVE, message_line("a", None, 1), wrong, message_line("c", "b", 3))
    write_lines(
        root / "native/json.jsonl",
        NATIVE,
        message_line("a", None, 1),
        b"garbage\n",
        b"[1]\n",
        b"\xff\xfe\n",
        message_line("b", "a", 5),
    )
    write_lines(root / "native/torn.jsonl", NATIVE, message_line("a", None, 1), b'{"type":"message","id":"b')
    write_lines(
        root / "native/open.jsonl", NATIVE, message_line("a", None, 1), json.dumps(message_line("b", "a", 2)).encode()
    )
    write_lines(root / "native/header_open.jsonl", json.dumps({**NATIVE, "id": "s-open"}).encode())
    batches = [
        batch(message_line("b", "a", 2), 0, 2),
        message_line("c", "a", 3),
        batch(message_line("d", "c", 4), 0, 2),
    ]
    write_lines(root / "native/batch.jsonl", {**NATIVE}, message_line("a", None, 1), *batches)
    write_lines(
        root / "native/odd.jsonl",
        NATIVE,
        message_line("a", None, 1),
        b"\n",
        message_line("b", "a", 2),
        end="\r\n",
        before=b"\xef\xbb\xbf",
    )
    write_lines(root / "native/empty.jsonl")
    write_lines(root / "native/second.jsonl", NATIVE, message_line("a", None, 1), NATIVE, message_line("b", "a", 3))
    write_lines(root / "native/none.jsonl", message_line("a", None, 1), b"tail")
    write_lines(root / "native/newer.jsonl", {**NATIVE, "version": 99}, b"tail")
    write_lines(
        root / "native/order.jsonl",
        NATIVE,
        message_line("a", None, 1),
        message_line("b", "a", 9, timestamp="2025-01-01T10:00:00Z"),
    )
    write_lines(
        root / "native/every.jsonl",
        NATIVE,
        message_line("a", "gone", 1),
        b"garbage\n",
        message_line("a", "a", 3),
        b'{"torn',
    )


def pi_damage(root: Path, folder: str, *slot: bytes) -> None:
    """Write files of pi, or of oh-my-pi with a title slot, with the damage that such files can have."""
    head: tuple[Line, ...] = (*slot, PI)
    write_lines(root / folder / "tree.jsonl", *head, pi("a", "gone"), pi("b", "c"), pi("c", None), pi("d", "d"))
    write_lines(root / folder / "cycle.jsonl", *head, pi("a", "b"), pi("b", "a"))
    write_lines(root / folder / "twice.jsonl", *head, pi("a", None), pi("a", None))
    write_lines(
        root / folder / "lines.jsonl",
        *head,
        pi("a", None),
        b"null\n",
        b"5\n",
        b"[]\n",
        b"{glued" + json.dumps(PI).encode() + b"\n",
    )
    write_lines(root / folder / "nameless.jsonl", *head, pi(None, None), {"type": "custom"})
    write_lines(root / folder / "second.jsonl", *head, pi("a", None), PI, pi("b", "a"))
    write_lines(root / folder / "torn.jsonl", *head, pi("a", None), b'{"type":"cu')
    write_lines(root / folder / "open.jsonl", *head, pi("a", None), json.dumps(pi("b", "a")).encode())
    write_lines(root / folder / "odd.jsonl", *head, pi("a", None), b" \n", pi("b", "a"), end="\r\n")
    write_lines(root / folder / "newer.jsonl", *slot, {**PI, "version": 4}, pi("a", None), b'{"half')


def beside_damage(root: Path) -> None:
    """Write damaged companions of logs: snapshots, leaf records, checkpoints, leftovers."""
    for name in (
        "torn",
        "foreign",
        "stale",
        "wrong",
        "leaf_torn",
        "leaf_foreign",
        "leaf_unknown",
        "view_torn",
        "view_foreign",
    ):
        write_lines(root / f"companion/{name}.jsonl", NATIVE, message_line("a", None, 1), message_line("b", "a", 2))
    folder = root / "companion"
    log = write_companions(folder / "torn.jsonl")
    os.truncate(companion(folder / "torn.jsonl", ".index"), 100)
    write_companions(folder / "foreign.jsonl")
    (folder / "copy").write_bytes((folder / "foreign.jsonl").read_bytes())
    os.replace(folder / "copy", folder / "foreign.jsonl")
    write_companions(folder / "stale.jsonl")
    os.utime(folder / "stale.jsonl", ns=(1, 1))
    log = examined_log(folder / "wrong.jsonl")
    log.table.ends = array("Q", [log.table.ends[0], log.table.ends[1] - 3, log.table.ends[2]])
    log.save_snapshot(2, None)
    write_companions(folder / "leaf_torn.jsonl")
    companion(folder / "leaf_torn.jsonl", ".leaf").write_bytes(b'{"seq":3')
    write_companions(folder / "leaf_foreign.jsonl")
    write_lines(folder / "other.jsonl", NATIVE, message_line("z", None, 1), message_line("y", "z", 2))
    write_companions(folder / "other.jsonl", leaf="z")
    companion(folder / "leaf_foreign.jsonl", ".leaf").write_bytes(
        companion(folder / "other.jsonl", ".leaf").read_bytes()
    )
    write_companions(folder / "leaf_unknown.jsonl", leaf="nobody")
    write_companions(folder / "view_torn.jsonl")
    companion(folder / "view_torn.jsonl", ".view-words").write_bytes(b"x")
    write_companions(folder / "view_foreign.jsonl")
    companion(folder / "view_foreign.jsonl", ".view-words").write_bytes(
        companion(folder / "other.jsonl", ".view-words").read_bytes()
    )
    write_lines(folder / "temporary.jsonl", NATIVE, message_line("a", None, 1))
    companion(folder / "temporary.jsonl", ".index.tmp-4194305-1").write_bytes(b"half")
    companion(folder / "temporary.jsonl", ".torn-9-00000000").write_bytes(b"changed")
    companion(folder / "temporary.jsonl", ".bak").write_bytes(b"as it was\n")
    for suffix in (".index", ".leaf", ".view-words"):
        (folder / f"gone.jsonl{suffix}").write_bytes(b"of nobody\n")


def treering_damage(root: Path) -> None:
    """Write damaged journals and other damaged files in `.treering`."""
    block, first, second = (
        json.dumps(line).encode() + b"\n"
        for line in ({**NATIVE, "id": "s-late"}, message_line("a", None, 1), message_line("b", "a", 2))
    )
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
    native_damage(root)
    pi_damage(root, "pi")
    pi_damage(root, "omp", OMP_SLOT)
    beside_damage(root)
    treering_damage(root)
    return root


PI_FOUND = {
    "tree.jsonl": {(1, "parent_missing"), (2, "parent_later"), (4, "self_parent")},
    "cycle.jsonl": {(1, "cycle")},
    "twice.jsonl": {(2, "duplicate_id")},
    "lines.jsonl": {(2, "not_json"), (3, "not_json"), (4, "not_json"), (5, "not_json")},
    "nameless.jsonl": {(1, "no_id"), (2, "no_id")},
    "second.jsonl": {(2, "second_header")},
    "torn.jsonl": {(2, "torn_tail")},
    "open.jsonl": {(2, "no_newline")},
    "odd.jsonl": {(0, "crlf"), (2, "blank_lines")},
    "newer.jsonl": {(0, "unsupported_version")},
}
"""The findings in the files of pi, with lines counted from the header."""

FOUND: dict[str, set[tuple[int | None, str]]] = {
    "native/tree.jsonl": {(2, "parent_missing"), (3, "parent_later"), (5, "self_parent")},
    "native/cycle.jsonl": {(2, "cycle")},
    "native/twice.jsonl": {(3, "duplicate_id")},
    "native/fields.jsonl": {(3, "wrong_fields")},
    "native/json.jsonl": {(3, "not_json"), (4, "not_json"), (5, "not_json")},
    "native/torn.jsonl": {(3, "torn_tail")},
    "native/open.jsonl": {(3, "no_newline")},
    "native/header_open.jsonl": {(1, "no_newline")},
    "native/batch.jsonl": {(3, "batch_incomplete"), (5, "batch_incomplete")},
    "native/odd.jsonl": {(1, "bom"), (1, "crlf"), (3, "blank_lines")},
    "native/empty.jsonl": {(None, "empty")},
    "native/second.jsonl": {(3, "second_header")},
    "native/none.jsonl": {(1, "no_header")},
    "native/newer.jsonl": {(1, "unsupported_version")},
    "native/order.jsonl": {(3, "time_backwards"), (3, "seq_mismatch")},
    "native/every.jsonl": {(2, "parent_missing"), (3, "not_json"), (4, "duplicate_id"), (5, "torn_tail")},
    **{f"pi/{name}": {(line + 1, code) for line, code in found} for name, found in PI_FOUND.items()},
    **{f"omp/{name}": {(line + 2, code) for line, code in found} for name, found in PI_FOUND.items()},
    "companion/torn.jsonl.index": {(None, "index_torn")},
    "companion/foreign.jsonl.index": {(None, "index_foreign")},
    "companion/foreign.jsonl.view-words": {(None, "view_foreign")},
    "companion/stale.jsonl.index": {(None, "index_stale")},
    "companion/wrong.jsonl.index": {(None, "index_wrong")},
    "companion/leaf_torn.jsonl.leaf": {(None, "leaf_torn")},
    "companion/leaf_foreign.jsonl.leaf": {(None, "leaf_foreign")},
    "companion/leaf_unknown.jsonl.leaf": {(None, "leaf_unknown")},
    "companion/view_torn.jsonl.view-words": {(None, "view_torn")},
    "companion/view_foreign.jsonl.view-words": {(None, "view_foreign")},
    "companion/temporary.jsonl.index.tmp-4194305-1": {(None, "temporary")},
    "companion/temporary.jsonl.torn-9-00000000": {(None, "fragment_changed")},
    "companion/gone.jsonl.index": {(None, "orphan")},
    "companion/gone.jsonl.leaf": {(None, "orphan")},
    "companion/gone.jsonl.view-words": {(None, "orphan")},
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
    repairs = repair(damaged_root)
    assert [each for each in repairs if not each.done] == []
    assert before - lines_of(damaged_root) == set()
    assert examine(damaged_root) == []
    assert repair(damaged_root) == []

    after = lines_of(damaged_root)
    assert json.dumps(message_line("b", "a", 2)).encode() in (damaged_root / "late.jsonl").read_bytes().splitlines()
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


def test_a_torn_tail_of_a_native_log_is_moved_to_a_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), b'{"torn')
    whole = path.read_bytes()[:-6]
    (one,) = repair(path)
    assert (one.path, one.action, one.byte) == (str(path), "fragment_moved", len(whole))
    assert one.target is not None
    assert Path(one.target).read_bytes() == b'{"torn'
    assert path.read_bytes() == whole


def test_a_torn_tail_of_a_pi_file_gets_a_newline_and_is_noted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", PI, pi("a", None), b'{"torn')
    before = path.read_bytes()
    assert actions(repair(path)) == [("a.jsonl", "newline_added"), ("a.jsonl", "noted")]
    assert path.read_bytes() == before + b"\n"
    assert examine(path) == []


def test_noted_damage_is_reported_again_if_it_changes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s/a.jsonl", NATIVE, message_line("a", None, 1), b"garbage\n")
    repair(tmp_path / "s")
    assert examine(tmp_path) == examine(path) == []
    assert [each.code for each in examine(path, known=True)] == ["not_json"]
    data = path.read_bytes()
    path.write_bytes(data.replace(b"garbage", b"GARBAGE"))
    assert [each.code for each in examine(path)] == ["not_json"]
    path.write_bytes(data + b"more\n")
    assert [(each.line, each.code) for each in examine(path)] == [(4, "not_json")]
    repair(tmp_path / "s")
    assert examine(path) == []
    path.unlink()
    write_lines(tmp_path / "s/b.jsonl", NATIVE, b"x\n")
    repair(tmp_path / "s")
    assert b"a.jsonl" not in (tmp_path / "s/.treering/known-damage.json").read_bytes()


def test_a_session_in_use_is_not_repaired(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", "gone", 1), b'{"torn')
    companion(path, ".index").write_bytes(b"torn")
    before = lines_of(tmp_path)
    locks = locks_of_this_system(OsDisk(), str(tmp_path))
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
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), message_line("b", "a", 2))
    write_companions(path)
    assert examine(tmp_path, known=True) == []
    with path.open("ab") as file:
        file.write(json.dumps(message_line("c", "b", 3)).encode() + b"\n")
    assert examine(tmp_path, known=True) == []
    before = sorted(tmp_path.rglob("*"))
    assert repair(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_a_rebuilt_snapshot_has_another_generation(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), message_line("b", "a", 2))
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
    path = write_lines(
        tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), message_line("b", "a", 2), message_line("c", "b", 3)
    )
    log = write_companions(path)
    sound = index_of(log)
    assert examine(tmp_path) == []
    other = write_lines(
        tmp_path / "b.jsonl", NATIVE, message_line("a", None, 1), message_line("b", None, 2), message_line("c", "a", 3)
    )
    log.save_snapshot(3, index_of(examined_log(other)))  # a valid snapshot with the content of another log
    assert [each.code for each in examine(path)] == ["index_wrong", "view_foreign"]
    assert actions(repair(tmp_path)) == [("a.jsonl.index", "made_anew"), ("a.jsonl.view-words", "moved_aside")]
    assert examine(tmp_path) == []
    assert index_of(examined_log(path)) == sound


def test_a_torn_snapshot_with_a_later_generation_is_rebuilt(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1))
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
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1))
    write_companions(path)
    disk = FaultyDisk(OsDisk())
    disk.fail("open", EIO, path="*.leaf", times=None)
    assert [each.code for each in examine(path, disk=disk)] == ["unreadable"]
    assert repair(path, disk=disk) == []
    assert examine(path) == []


def test_a_leftover_that_was_moved_aside_is_not_called_one_that_is_being_written(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1))
    companion(path, ".leaf.tmp-4194305-1").write_bytes(b"half")
    (finding,) = examine(tmp_path)
    (done,) = repair(tmp_path)
    assert done.message == finding.message == "a temporary file left by a crash"


def test_files_moved_aside_get_distinct_names(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / "gone.jsonl.index").write_bytes(b"%d" % n)
        assert actions(repair(tmp_path)) == [("gone.jsonl.index", "moved_aside")]
    aside = tmp_path / ".treering/aside"
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == {
        "gone.jsonl.index": b"0",
        "gone.jsonl.index-2": b"1",
        "gone.jsonl.index-3": b"2",
    }


def test_a_locked_journal_is_not_replayed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE)
    block = path.read_bytes()
    kept = write_journal(
        tmp_path, "a.jsonl", len(block), block, json.dumps(message_line("a", None, 1)).encode() + b"\n"
    )
    locks = locks_of_this_system(OsDisk(), str(tmp_path))
    locks.take(os.path.realpath(kept))
    assert (examine(tmp_path), repair(tmp_path)) == ([], [])
    assert [each.code for each in examine(tmp_path, known=True)] == ["journal_held"]
    locks.close()
    assert actions(repair(tmp_path)) == [("9-1.journal", "replayed")]
    assert (path.read_bytes().count(b"\n"), kept.exists()) == (2, False)


def test_a_journal_of_a_newer_version_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / JOURNALS
    folder.mkdir(parents=True)
    (folder / "9-1.journal").write_bytes(b'{"format":"treering-journal","version":2,"nonce":"x"}\nthings\n')
    assert [each.code for each in examine(tmp_path)] == ["journal_newer"]
    assert actions(repair(tmp_path)) == [("9-1.journal", "noted")]
    assert (folder / "9-1.journal").exists()
    assert examine(tmp_path) == []


def test_a_repair_on_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), b'{"torn')
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


def test_repair_uses_the_given_disk(tmp_path: Path) -> None:
    disk: Disk = MemoryDisk()
    disk.make_directory("/w")
    fd = disk.open("/w/a.jsonl", os.O_CREAT | os.O_WRONLY)
    disk.write(
        fd, write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), b"garbage\n", b'{"torn').read_bytes()
    )
    disk.close(fd)
    assert actions(repair("/w", disk=disk)) == [("a.jsonl", "fragment_moved"), ("a.jsonl", "noted")]
    assert examine("/w", disk=disk) == []


def small_damaged_disk(tmp_path: Path) -> MemoryDisk:
    """A disk in memory with some kinds of damage."""
    disk, root = MemoryDisk(), tmp_path / "small"
    write_lines(root / "a.jsonl", NATIVE, message_line("a", None, 1), b"garbage\n", b'{"torn')
    write_lines(root / "p.jsonl", PI, pi("a", "gone"), b'{"half')
    (root / "a.jsonl.index").write_bytes(b"torn\n")
    (root / "a.jsonl.leaf.tmp-4194305-1").write_bytes(b"half\n")
    (root / "gone.jsonl.view-words").write_bytes(b"of nobody\n")
    for path in sorted(root.rglob("*.*")):
        fd = disk.open(f"/{path.name}", os.O_CREAT | os.O_WRONLY)
        disk.write(fd, path.read_bytes())
        disk.datasync(fd)
        disk.close(fd)
    disk.sync_directory("/")
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
        problems = [each for each in examine("/", disk=after) if each.severity != "note"]
        assert problems == [], after.cut_after
    assert len(left) > 50


def test_repairing_a_missing_directory_raises() -> None:
    with pytest.raises(FileNotFoundError):
        repair("/nowhere/at/all")


@pytest.mark.parametrize("suffix", [".index", ".leaf", ".view-words", ".tmp-1-1", ".gz.tmp-1-1"])
def test_companions_of_an_archived_session_are_moved_aside(tmp_path: Path, suffix: str) -> None:
    path = write_lines(tmp_path / "work/a.jsonl", NATIVE, message_line("a", None, 1))
    packed = companion(path, ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    companion(path, suffix).write_bytes(b"garbage")
    before = packed.read_bytes()
    assert [each.code for each in examine(tmp_path)] != []

    locks = locks_of_this_system(OsDisk(), str(tmp_path))
    held = locks.take(os.path.realpath(path))
    assert not isinstance(held, Exception)
    assert actions(repair(tmp_path)) == [("a.jsonl.gz", "locked")]
    locks.give_back(held)

    assert actions(repair(tmp_path)) == [(f"a.jsonl{suffix}", "moved_aside")]
    assert examine(tmp_path) == []
    assert packed.read_bytes() == before
    assert (tmp_path / f".treering/aside/work/a.jsonl{suffix}").read_bytes() == b"garbage"


def test_damage_in_an_archived_session_is_noted_until_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    content = write_lines(tmp_path / "a.jsonl", NATIVE, message_line("a", None, 1), b"garbage\n")
    data = content.read_bytes()
    content.unlink()
    path.write_bytes(gzip.compress(data))
    assert actions(repair(tmp_path)) == [("a.jsonl.gz", "noted")]
    assert examine(tmp_path) == []
    path.write_bytes(gzip.compress(data.replace(b"garbage", b"GARBAGE")))
    assert [each.code for each in examine(tmp_path)] == ["not_json"]


@pytest.mark.skipif(sys.platform == "darwin", reason="file names must be Unicode here")
def test_damage_in_a_file_whose_name_is_not_unicode_is_noted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / os.fsdecode(b"odd\xff.jsonl"), NATIVE, message_line("a", None, 1), b"garbage\n")
    assert [each.action for each in repair(tmp_path)] == ["noted"]
    assert examine(tmp_path) == []
    write_lines(tmp_path / "b.jsonl", NATIVE, b"x\n")
    assert actions(repair(tmp_path)) == [("b.jsonl", "noted")]
    assert examine(tmp_path) == []
    path.write_bytes(path.read_bytes().replace(b"garbage", b"GARBAGE"))
    assert [each.code for each in examine(tmp_path)] == ["not_json"]


async def test_a_snapshot_of_another_version_is_a_note_and_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "_SNAPSHOT_VERSION", index._SNAPSHOT_VERSION - 1)
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

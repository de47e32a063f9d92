"""Repair: every kind of damage is named, put right or noted, and not one line of anybody is lost."""

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

from treering.events.disk import Disk, OsDisk
from treering.events.doctor import examine
from treering.events.findings import Finding
from treering.events.index import LogIndex
from treering.events.repair import Repair, repair
from treering.events.stores.files.journal import JOURNALS, Record, Segment
from treering.events.stores.files.locks import locks_of_this_system
from treering.events.stores.files.log import Log
from treering.testing.disks import FaultyDisk, MemoryDisk

Line: TypeAlias = "dict[str, Any] | bytes"

NATIVE = {"type": "session", "id": "s-1", "version": 1, "timestamp": "2026-01-01T10:00:00Z"}
PI = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w"}
OMP_SLOT = (b'{"type":"title","v":1,"title":"Work","updatedAt":"2026-01-01T10:00:00.000Z","pad":"').ljust(253) + b'"}\n'


def said(entry_id: str, parent_id: str | None, seq: int, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": {"content": "x"}}]
    line = {"type": "message", "id": entry_id, "parent_id": parent_id, "timestamp": f"2026-01-01T10:00:{seq:02}Z"}
    return {**line, "seq": seq, "message": {"role": "user", "content": content}, **more}


def pi(entry_id: object, parent_id: object, **more: object) -> dict[str, Any]:
    line = {"type": "custom", "customType": "x", "id": entry_id, "parentId": parent_id}
    return {**line, "timestamp": "2026-01-01T10:00:01.000Z", **more}


def batch(line: dict[str, Any], i: int, n: int) -> dict[str, Any]:
    return {**line, "batch": {"session": "s-1", "id": "k", "i": i, "n": n}}


def put(path: Path, *lines: Line, end: str = "\n", before: bytes = b"") -> Path:
    """Write lines; those that are bytes bring their own ending, or none. Each file is a session of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = f"-{crc32(os.fsencode(path)):08x}"
    lines = tuple({**line, "id": line["id"] + own} if line is NATIVE or line is PI else line for line in lines)
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() + end.encode() for line in lines]
    path.write_bytes(before + b"".join(encoded))
    return path


def opened(path: Path) -> Log:
    """Know a log as its owner does, without a lock."""
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


def surround(path: Path, *, leaf: str = "a") -> Log:
    """Put a valid snapshot, leaf record and checkpoint beside a log."""
    log = opened(path)
    log.save_snapshot(log.table.count, index_of(log))
    log.save_leaf(json.dumps({"leaf": leaf}).encode(), sync=False)
    log.save_checkpoint(".view-words", log.head, b"words")
    return log


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def journal(root: Path, name: str, offset: int, block: bytes, *lines: bytes, number: int = 1) -> Path:
    """Leave a journal of a host that is no more."""
    folder = root / JOURNALS
    folder.mkdir(parents=True, exist_ok=True)
    segment = Segment(OsDisk(), str(folder / f"9-{number}.journal"), str(number))
    segment.begin([])
    segment.write([Record(name.encode(), offset, block, lines, 1, 1, "g")])
    segment.close()
    return Path(segment.path)


def native_damage(root: Path) -> None:
    """Every row of the table of damage, in native logs."""
    put(
        root / "native/tree.jsonl",
        NATIVE,
        said("a", "gone", 1),
        said("b", "c", 2),
        said("c", None, 3),
        said("d", "d", 4),
    )
    put(root / "native/cycle.jsonl", NATIVE, said("a", "c", 1), said("b", "a", 2), said("c", "b", 3))
    put(root / "native/twice.jsonl", NATIVE, said("a", None, 1), said("a", None, 2))
    wrong = said("b", "a", 2, message={"role": 7})
    put(root / "native/fields.jsonl", NATIVE, said("a", None, 1), wrong, said("c", "b", 3))
    put(
        root / "native/json.jsonl", NATIVE, said("a", None, 1), b"garbage\n", b"[1]\n", b"\xff\xfe\n", said("b", "a", 5)
    )
    put(root / "native/torn.jsonl", NATIVE, said("a", None, 1), b'{"type":"message","id":"b')
    put(root / "native/open.jsonl", NATIVE, said("a", None, 1), json.dumps(said("b", "a", 2)).encode())
    put(root / "native/header_open.jsonl", json.dumps({**NATIVE, "id": "s-open"}).encode())
    batches = [batch(said("b", "a", 2), 0, 2), said("c", "a", 3), batch(said("d", "c", 4), 0, 2)]
    put(root / "native/batch.jsonl", {**NATIVE}, said("a", None, 1), *batches)
    put(
        root / "native/odd.jsonl",
        NATIVE,
        said("a", None, 1),
        b"\n",
        said("b", "a", 2),
        end="\r\n",
        before=b"\xef\xbb\xbf",
    )
    put(root / "native/empty.jsonl")
    put(root / "native/second.jsonl", NATIVE, said("a", None, 1), NATIVE, said("b", "a", 3))
    put(root / "native/none.jsonl", said("a", None, 1), b"tail")
    put(root / "native/newer.jsonl", {**NATIVE, "version": 99}, b"tail")
    put(root / "native/order.jsonl", NATIVE, said("a", None, 1), said("b", "a", 9, timestamp="2025-01-01T10:00:00Z"))
    put(root / "native/every.jsonl", NATIVE, said("a", "gone", 1), b"garbage\n", said("a", "a", 3), b'{"torn')


def pi_damage(root: Path, folder: str, *slot: bytes) -> None:
    """What pi's files were found to hold, in pi's and in oh-my-pi's form."""
    head: tuple[Line, ...] = (*slot, PI)
    put(root / folder / "tree.jsonl", *head, pi("a", "gone"), pi("b", "c"), pi("c", None), pi("d", "d"))
    put(root / folder / "cycle.jsonl", *head, pi("a", "b"), pi("b", "a"))
    put(root / folder / "twice.jsonl", *head, pi("a", None), pi("a", None))
    put(
        root / folder / "lines.jsonl",
        *head,
        pi("a", None),
        b"null\n",
        b"5\n",
        b"[]\n",
        b"{glued" + json.dumps(PI).encode() + b"\n",
    )
    put(root / folder / "nameless.jsonl", *head, pi(None, None), {"type": "custom"})
    put(root / folder / "second.jsonl", *head, pi("a", None), PI, pi("b", "a"))
    put(root / folder / "torn.jsonl", *head, pi("a", None), b'{"type":"cu')
    put(root / folder / "open.jsonl", *head, pi("a", None), json.dumps(pi("b", "a")).encode())
    put(root / folder / "odd.jsonl", *head, pi("a", None), b" \n", pi("b", "a"), end="\r\n")
    put(root / folder / "newer.jsonl", *slot, {**PI, "version": 4}, pi("a", None), b'{"half')


def beside_damage(root: Path) -> None:
    """Everything that can be wrong beside a log and in `.treering`."""
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
        put(root / f"beside/{name}.jsonl", NATIVE, said("a", None, 1), said("b", "a", 2))
    folder = root / "beside"
    log = surround(folder / "torn.jsonl")
    os.truncate(beside(folder / "torn.jsonl", ".index"), 100)
    surround(folder / "foreign.jsonl")
    (folder / "copy").write_bytes((folder / "foreign.jsonl").read_bytes())
    os.replace(folder / "copy", folder / "foreign.jsonl")
    surround(folder / "stale.jsonl")
    os.utime(folder / "stale.jsonl", ns=(1, 1))
    log = opened(folder / "wrong.jsonl")
    log.table.ends = array("Q", [log.table.ends[0], log.table.ends[1] - 3, log.table.ends[2]])
    log.save_snapshot(2, None)
    surround(folder / "leaf_torn.jsonl")
    beside(folder / "leaf_torn.jsonl", ".leaf").write_bytes(b'{"seq":3')
    surround(folder / "leaf_foreign.jsonl")
    put(folder / "other.jsonl", NATIVE, said("z", None, 1), said("y", "z", 2))
    surround(folder / "other.jsonl", leaf="z")
    beside(folder / "leaf_foreign.jsonl", ".leaf").write_bytes(beside(folder / "other.jsonl", ".leaf").read_bytes())
    surround(folder / "leaf_unknown.jsonl", leaf="nobody")
    surround(folder / "view_torn.jsonl")
    beside(folder / "view_torn.jsonl", ".view-words").write_bytes(b"x")
    surround(folder / "view_foreign.jsonl")
    beside(folder / "view_foreign.jsonl", ".view-words").write_bytes(
        beside(folder / "other.jsonl", ".view-words").read_bytes()
    )
    put(folder / "temporary.jsonl", NATIVE, said("a", None, 1))
    beside(folder / "temporary.jsonl", ".index.tmp-4194305-1").write_bytes(b"half")
    beside(folder / "temporary.jsonl", ".torn-9-00000000").write_bytes(b"changed")
    beside(folder / "temporary.jsonl", ".bak").write_bytes(b"as it was\n")
    for suffix in (".index", ".leaf", ".view-words"):
        (folder / f"gone.jsonl{suffix}").write_bytes(b"of nobody\n")


def treering_damage(root: Path) -> None:
    """Everything that can be wrong in `.treering`."""
    block, first, second = (
        json.dumps(line).encode() + b"\n"
        for line in ({**NATIVE, "id": "s-late"}, said("a", None, 1), said("b", "a", 2))
    )
    put(root / "late.jsonl", block, first)
    torn = journal(root, "late.jsonl", len(block + first), block, second)
    torn.write_bytes(torn.read_bytes() + b"7c1e6f0a 12 half a record")
    (root / JOURNALS / "9-2.journal").write_bytes(b"")
    (root / JOURNALS / "9-3.journal").write_bytes(b"no journal at all\n")
    (root / JOURNALS / "9-4.void").write_bytes(b"of no journal\n")
    (root / ".treering/known-damage.json.tmp-4194305-1").write_bytes(b"half")
    (root / ".treering/known-damage.json").write_bytes(b'{"version":1,"dam')


def lines_of(root: Path) -> set[bytes]:
    """Every line of every file below a folder, and every unfinished one; lock files hold no lines."""
    files = [path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts]
    return {line for path in files for line in path.read_bytes().split(b"\n")}


def named(root: Path, found: list[Finding]) -> dict[str, set[tuple[int | None, str]]]:
    """What was found, by file: line and code."""
    by_file: dict[str, set[tuple[int | None, str]]] = {}
    for each in found:
        by_file.setdefault(os.path.relpath(each.path, root), set()).add((each.line, each.code))
    return by_file


def done(repairs: list[Repair]) -> list[tuple[str, str]]:
    return [(os.path.basename(each.path), each.action) for each in repairs]


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """A directory with every kind of damage."""
    root = tmp_path / "ward"
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
"""What is found in pi's files, with lines counted from the header."""

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
    "beside/torn.jsonl.index": {(None, "index_torn")},
    "beside/foreign.jsonl.index": {(None, "index_foreign")},
    "beside/foreign.jsonl.view-words": {(None, "view_foreign")},
    "beside/stale.jsonl.index": {(None, "index_stale")},
    "beside/wrong.jsonl.index": {(None, "index_wrong")},
    "beside/leaf_torn.jsonl.leaf": {(None, "leaf_torn")},
    "beside/leaf_foreign.jsonl.leaf": {(None, "leaf_foreign")},
    "beside/leaf_unknown.jsonl.leaf": {(None, "leaf_unknown")},
    "beside/view_torn.jsonl.view-words": {(None, "view_torn")},
    "beside/view_foreign.jsonl.view-words": {(None, "view_foreign")},
    "beside/temporary.jsonl.index.tmp-4194305-1": {(None, "temporary")},
    "beside/temporary.jsonl.torn-9-00000000": {(None, "fragment_changed")},
    "beside/gone.jsonl.index": {(None, "orphan")},
    "beside/gone.jsonl.leaf": {(None, "orphan")},
    "beside/gone.jsonl.view-words": {(None, "orphan")},
    ".treering/known-damage.json": {(None, "known_torn")},
    ".treering/known-damage.json.tmp-4194305-1": {(None, "temporary")},
    ".treering/journal/9-1.journal": {(None, "journal_waiting"), (5, "journal_torn")},
    ".treering/journal/9-2.journal": {(None, "journal_unused")},
    ".treering/journal/9-3.journal": {(1, "journal_foreign")},
    ".treering/journal/9-4.void": {(None, "orphan")},
}


@pytest.mark.feature("X-30")
def test_every_kind_of_damage_is_named_and_put_right_and_no_line_is_lost(ward: Path) -> None:
    found = examine(ward)
    assert named(ward, found) == FOUND
    for each in found:  # by file, line and byte
        if each.line is not None:
            data = Path(each.path).read_bytes()
            assert each.byte is not None
            assert (data[: each.byte].count(b"\n") + 1, data[: each.byte][-1:] in (b"", b"\n")) == (each.line, True)

    before = lines_of(ward)
    repairs = repair(ward)
    assert [each for each in repairs if not each.done] == []
    assert before - lines_of(ward) == set()
    assert examine(ward) == []
    assert repair(ward) == []

    after = lines_of(ward)
    assert json.dumps(said("b", "a", 2)).encode() in (ward / "late.jsonl").read_bytes().splitlines()
    assert {each.code for each in examine(ward, known=True)} > {
        "not_json",
        "duplicate_id",
        "cycle",
        "fragment",
        "backup",
    }
    assert after == lines_of(ward)


def test_whole_lines_stay_where_they_are(ward: Path) -> None:
    before = {path: path.read_bytes() for path in ward.rglob("*.jsonl")}
    repair(ward)
    for path, data in before.items():
        now = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        assert now.startswith(whole), path
        assert now == whole or len(now) > len(data) or path.name in ("none.jsonl", "newer.jsonl", "empty.jsonl")
    for name in ("none.jsonl", "newer.jsonl", "empty.jsonl"):
        assert (ward / "native" / name).read_bytes() == before[ward / "native" / name]


def test_a_torn_tail_of_a_native_log_moves(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), b'{"torn')
    whole = path.read_bytes()[:-6]
    (one,) = repair(path)
    assert (one.path, one.action, one.byte) == (str(path), "fragment_moved", len(whole))
    assert one.target is not None
    assert Path(one.target).read_bytes() == b'{"torn'
    assert path.read_bytes() == whole


def test_a_torn_tail_of_a_shared_log_is_isolated_and_noted(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", PI, pi("a", None), b'{"torn')
    before = path.read_bytes()
    assert done(repair(path)) == [("a.jsonl", "newline_added"), ("a.jsonl", "noted")]
    assert path.read_bytes() == before + b"\n"
    assert examine(path) == []


def test_what_is_noted_is_said_again_when_it_changes(tmp_path: Path) -> None:
    path = put(tmp_path / "s/a.jsonl", NATIVE, said("a", None, 1), b"garbage\n")
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
    put(tmp_path / "s/b.jsonl", NATIVE, b"x\n")
    repair(tmp_path / "s")
    assert b"a.jsonl" not in (tmp_path / "s/.treering/known-damage.json").read_bytes()


def test_a_session_that_is_owned_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", "gone", 1), b'{"torn')
    beside(path, ".index").write_bytes(b"torn")
    before = lines_of(tmp_path)
    locks = locks_of_this_system(OsDisk(), str(tmp_path))
    held = locks.take(os.path.realpath(path))
    (locked,) = [each for each in examine(path) if each.code == "locked"]
    assert (locked.severity, f"process {os.getpid()} on " in locked.message) == ("note", True)
    assert done(repair(tmp_path)) == [("a.jsonl", "locked")]
    assert lines_of(tmp_path) == before
    assert not isinstance(held, Exception)
    locks.give_back(held)
    assert "locked" not in {each.code for each in examine(path)}
    assert done(repair(tmp_path)) == [
        ("a.jsonl", "fragment_moved"),
        ("a.jsonl.index", "made_anew"),
        ("a.jsonl", "noted"),
    ]
    assert examine(tmp_path) == []


def test_sound_surroundings(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), said("b", "a", 2))
    surround(path)
    assert examine(tmp_path, known=True) == []
    with path.open("ab") as file:
        file.write(json.dumps(said("c", "b", 3)).encode() + b"\n")
    assert examine(tmp_path, known=True) == []
    before = sorted(tmp_path.rglob("*"))
    assert repair(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_snapshot_goes_on_counting_histories(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), said("b", "a", 2))
    generation = surround(path).generation
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
        file.seek(0, os.SEEK_END)
        file.write(b" \n")
    assert [each.code for each in examine(path) if "index" in each.code] == ["index_foreign"]
    repair(path)
    assert opened(path).generation != generation
    assert examine(path) == []


@pytest.mark.feature("U-24")
def test_what_is_derived_is_verified_against_the_log_and_can_be_made_again(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), said("b", "a", 2), said("c", "b", 3))
    log = surround(path)
    sound = index_of(log)
    assert examine(tmp_path) == []
    other = put(tmp_path / "b.jsonl", NATIVE, said("a", None, 1), said("b", None, 2), said("c", "a", 3))
    log.save_snapshot(3, index_of(opened(other)))  # it stands beside its log, and says what is not so
    assert [each.code for each in examine(path)] == ["index_wrong", "view_foreign"]
    assert done(repair(tmp_path)) == [("a.jsonl.index", "made_anew"), ("a.jsonl.view-words", "moved_aside")]
    assert examine(tmp_path) == []
    assert index_of(opened(path)) == sound


def test_a_torn_index_goes_on_counting_histories(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1))
    surround(path)
    log = opened(path)
    log.counter = 7
    log.examine()
    log.save_snapshot(1, index_of(log))
    log.save_checkpoint(".view-words", log.head, b"words")
    assert examine(path) == []
    data = beside(path, ".index").read_bytes()
    beside(path, ".index").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert done(repair(path)) == [("a.jsonl.index", "made_anew")]
    assert examine(path) == []


def test_a_leaf_record_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1))
    surround(path)
    disk = FaultyDisk(OsDisk())
    disk.fail("open", EIO, path="*.leaf", times=None)
    assert [each.code for each in examine(path, disk=disk)] == ["unreadable"]
    assert repair(path, disk=disk) == []
    assert examine(path) == []


def test_names_aside_do_not_collide(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / "gone.jsonl.index").write_bytes(b"%d" % n)
        assert done(repair(tmp_path)) == [("gone.jsonl.index", "moved_aside")]
    aside = tmp_path / ".treering/aside"
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == {
        "gone.jsonl.index": b"0",
        "gone.jsonl.index-2": b"1",
        "gone.jsonl.index-3": b"2",
    }


def test_a_journal_that_is_held_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE)
    block = path.read_bytes()
    kept = journal(tmp_path, "a.jsonl", len(block), block, json.dumps(said("a", None, 1)).encode() + b"\n")
    locks = locks_of_this_system(OsDisk(), str(tmp_path))
    locks.take(os.path.realpath(kept))
    assert (examine(tmp_path), repair(tmp_path)) == ([], [])
    assert [each.code for each in examine(tmp_path, known=True)] == ["journal_held"]
    locks.close()
    assert done(repair(tmp_path)) == [("9-1.journal", "replayed")]
    assert (path.read_bytes().count(b"\n"), kept.exists()) == (2, False)


def test_a_journal_of_a_newer_program_stays(tmp_path: Path) -> None:
    folder = tmp_path / JOURNALS
    folder.mkdir(parents=True)
    (folder / "9-1.journal").write_bytes(b'{"format":"treering-journal","version":2,"nonce":"x"}\nthings\n')
    assert [each.code for each in examine(tmp_path)] == ["journal_newer"]
    assert done(repair(tmp_path)) == [("9-1.journal", "noted")]
    assert (folder / "9-1.journal").exists()
    assert examine(tmp_path) == []


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), b'{"torn')
    beside(path, ".index").write_bytes(b"torn")
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


def test_it_works_on_the_disk_that_it_is_given(tmp_path: Path) -> None:
    disk: Disk = MemoryDisk()
    disk.make_directory("/w")
    fd = disk.open("/w/a.jsonl", os.O_CREAT | os.O_WRONLY)
    disk.write(fd, put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), b"garbage\n", b'{"torn').read_bytes())
    disk.close(fd)
    assert done(repair("/w", disk=disk)) == [("a.jsonl", "fragment_moved"), ("a.jsonl", "noted")]
    assert examine("/w", disk=disk) == []


def small_ward(tmp_path: Path) -> MemoryDisk:
    """Some damage of each sort, on a disk in memory."""
    disk, root = MemoryDisk(), tmp_path / "small"
    put(root / "a.jsonl", NATIVE, said("a", None, 1), b"garbage\n", b'{"torn')
    put(root / "p.jsonl", PI, pi("a", "gone"), b'{"half')
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
def test_whichever_call_fails_nothing_is_lost_and_the_next_repair_ends_it(tmp_path: Path, call: str) -> None:
    nth, struck = 0, True
    while struck:
        nth += 1
        inner = small_ward(tmp_path)
        before, disk = lines_on(inner), FaultyDisk(inner)
        fault = disk.fail(call, EIO, nth=nth)
        repair("/", disk=disk)
        struck = fault.done
        assert before - lines_on(inner) == set(), (call, nth)
        assert inner.open_files == 0
        disk.heal()
        repair("/", disk=disk)
        assert before - lines_on(inner) == set(), (call, nth)
        assert examine("/", disk=disk) == [], (call, nth)
    assert nth > 1


def test_the_power_may_go_at_any_moment_of_a_repair(tmp_path: Path) -> None:
    disk = small_ward(tmp_path)
    before = lines_on(disk)
    left: list[MemoryDisk] = []
    disk.listeners.append(lambda _: left.extend(disk.crash_states()))
    repair("/", disk=disk)
    whole = {line for line in before if line not in (b'{"torn', b'{"half')}
    for after in left:
        assert whole - lines_on(after) == set(), after.cut_after
        repair("/", disk=after)
        assert whole - lines_on(after) == set(), after.cut_after
        news = [each for each in examine("/", disk=after) if each.severity != "note"]  # this process lives on
        assert news == [], after.cut_after
    assert len(left) > 50


def test_a_directory_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        repair("/nowhere/at/all")


@pytest.mark.parametrize("suffix", [".index", ".leaf", ".view-words", ".tmp-1-1", ".gz.tmp-1-1"])
def test_what_stands_beside_an_archived_session_is_moved_aside(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / "work/a.jsonl", NATIVE, said("a", None, 1))
    packed = beside(path, ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    beside(path, suffix).write_bytes(b"garbage")
    before = packed.read_bytes()
    assert [each.code for each in examine(tmp_path)] != []

    locks = locks_of_this_system(OsDisk(), str(tmp_path))
    held = locks.take(os.path.realpath(path))
    assert not isinstance(held, Exception)
    assert done(repair(tmp_path)) == [("a.jsonl.gz", "locked")]
    locks.give_back(held)

    assert done(repair(tmp_path)) == [(f"a.jsonl{suffix}", "moved_aside")]
    assert examine(tmp_path) == []
    assert packed.read_bytes() == before
    assert (tmp_path / f".treering/aside/work/a.jsonl{suffix}").read_bytes() == b"garbage"


def test_damage_in_an_archived_session_is_noted_until_it_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    content = put(tmp_path / "a.jsonl", NATIVE, said("a", None, 1), b"garbage\n")
    data = content.read_bytes()
    content.unlink()
    path.write_bytes(gzip.compress(data))
    assert done(repair(tmp_path)) == [("a.jsonl.gz", "noted")]
    assert examine(tmp_path) == []
    path.write_bytes(gzip.compress(data.replace(b"garbage", b"GARBAGE")))
    assert [each.code for each in examine(tmp_path)] == ["not_json"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems know no such names")
def test_damage_in_a_file_whose_name_is_no_text_is_noted(tmp_path: Path) -> None:
    path = put(tmp_path / os.fsdecode(b"odd\xff.jsonl"), NATIVE, said("a", None, 1), b"garbage\n")
    assert [each.action for each in repair(tmp_path)] == ["noted"]
    assert examine(tmp_path) == []
    put(tmp_path / "b.jsonl", NATIVE, b"x\n")
    assert done(repair(tmp_path)) == [("b.jsonl", "noted")]
    assert examine(tmp_path) == []
    path.write_bytes(path.read_bytes().replace(b"garbage", b"GARBAGE"))
    assert [each.code for each in examine(tmp_path)] == ["not_json"]

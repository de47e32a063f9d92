"""`LogIndex` knows what the session layer needs of every line, whatever it is; a snapshot restores an equal index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treering.events.content import raw_json, text
from treering.events.entries import (
    Batch,
    Compaction,
    CompactionEntry,
    ContextEdit,
    ContextEditEntry,
    Entry,
    Header,
    KnownEntry,
    Label,
    LabelEntry,
    Message,
    MessageEntry,
    ModelChange,
    ModelChangeEntry,
    OpaqueEntry,
    SessionInfo,
    SessionInfoEntry,
    ThinkingLevel,
    ThinkingLevelEntry,
)
from treering.events.errors import CorruptTree
from treering.events.index import CYCLE, MISSING, ROOT, LabelMark, LogIndex
from treering.events.kinds import Kind
from treering.testing import strategies

START = datetime(2024, 5, 1, tzinfo=UTC)
HEADER = Header(id="this", version=1, timestamp=START)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def say(id: str, parent: str | None = None, role: str = "user", second: int = 0, **fields: object) -> MessageEntry:
    make: Any = MessageEntry
    message = Message(role, (text("x"),))
    entry: MessageEntry = make(**{"id": id, "parent_id": parent, "timestamp": at(second), "message": message, **fields})
    return entry


def level(id: str, parent: str | None = None, **fields: object) -> ThinkingLevelEntry:
    make: Any = ThinkingLevelEntry
    entry: ThinkingLevelEntry = make(
        id=id, parent_id=parent, timestamp=START, thinking_level=ThinkingLevel("off"), **fields
    )
    return entry


def unknown(type: str, id: str | None, parent: str | None = None) -> OpaqueEntry:
    return OpaqueEntry(type=type, id=id, parent_id=parent, timestamp=START, raw=Raw(b"{}"))


def label(id: str, target: str, text: str | None, parent: str | None = None) -> LabelEntry:
    return LabelEntry(id=id, parent_id=parent, timestamp=START, label=Label(target, text))


def info(id: str, **fields: object) -> SessionInfoEntry:
    make: Any = SessionInfo
    return SessionInfoEntry(id=id, parent_id=None, timestamp=START, session_info=make(**fields))


def folded(*lines: Entry | None) -> LogIndex:
    index = LogIndex(HEADER)
    for line in lines:
        index.fold(line)
    return index


def restored(index: LogIndex) -> LogIndex:
    found = LogIndex.restore(index.dump(), HEADER)
    assert found is not None
    return found


def path_ids(index: LogIndex, entry_id: str) -> list[str]:
    return [index.ids[seq] for seq in index.path(index.find(entry_id))]


# -- the tree


def test_an_empty_log() -> None:
    index = folded()
    assert (index.head, index.seen, index.leaf, index.leaf_id, index.message_count) == (0, 0, 0, None, 0)
    assert index.path(0) == []
    assert not index.is_ancestor(0, 0)


def test_a_tree_with_branches() -> None:
    index = folded(say("a"), say("b", "a"), say("c", "b"), say("d", "a"), say("e"), say("f", "d"))
    assert path_ids(index, "c") == ["a", "b", "c"]
    assert path_ids(index, "f") == ["a", "d", "f"]
    assert path_ids(index, "e") == ["e"]
    assert list(index.upward(6)) == [6, 4, 1]
    assert [index.parents[seq] for seq in range(1, 7)] == [ROOT, 1, 2, 1, ROOT, 4]
    assert (index.head, index.leaf, index.leaf_id) == (6, 6, "f")
    assert index.is_ancestor(1, 6)
    assert index.is_ancestor(6, 6)
    assert not index.is_ancestor(2, 6)
    assert not index.is_ancestor(6, 1)
    assert (index.find("d"), index.find("z"), index.find("")) == (4, 0, 0)


@given(strategies.trees(max_size=20))
def test_any_tree_has_the_paths_that_its_parents_say(entries: list[KnownEntry]) -> None:
    index = folded(*entries)
    parents = {entry.id: entry.parent_id for entry in entries}
    for entry in entries:
        upward: list[str] = []
        each: str | None = entry.id
        while each is not None:
            upward.append(each)
            each = parents[each]
        assert path_ids(index, entry.id) == upward[::-1]
        assert index.type_of(entry.seq) == entry.type
    moved = [entry.id for entry in entries if not entry.aside]
    assert index.leaf_id == (moved[-1] if moved else None)
    assert index.message_count == sum(isinstance(entry, MessageEntry) for entry in entries)
    assert index.last_time == max((entry.timestamp for entry in entries), default=index.last_time)


def test_a_deep_chain_needs_no_recursion() -> None:
    count = 100_000
    index = folded(*(say(str(n), str(n - 1) if n else None) for n in range(count)))
    assert len(index.path(index.leaf)) == count
    assert index.is_ancestor(1, count)
    assert restored(index) == index
    assert restored(index).find("77") == 78


# -- damage


def test_a_missing_parent_ends_the_path() -> None:
    index = folded(say("a", "lost"), say("b", "a"))
    assert index.parents[1] == MISSING
    assert path_ids(index, "b") == ["a", "b"]


def test_a_parent_that_comes_later_ends_the_path_too() -> None:
    index = folded(say("a", "later"), say("b", "a"), say("later"), say("c", "later"))
    assert index.parents[1] == MISSING
    assert path_ids(index, "b") == ["a", "b"]
    assert path_ids(index, "c") == ["later", "c"]


def test_an_entry_that_is_its_own_parent_is_a_corrupt_root() -> None:
    index = folded(say("a", "a"), say("b", "a"))
    assert index.parents[1] == CYCLE
    with pytest.raises(CorruptTree, match=r"entry 'a' \(seq 1\) is its own ancestor"):
        index.path(2)


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_cycle_is_found_when_it_closes(length: int) -> None:
    chain = [say(str(n), str((n - 1) % length)) for n in range(length)]
    index = folded(*chain[:-1])
    assert index.parents[1] == MISSING
    index.fold(chain[-1])
    assert index.parents[1] == CYCLE
    index.fold(say("outside"))
    index.fold(say("inside", "0"))
    assert path_ids(index, "outside") == ["outside"]
    for seq in (*range(1, length + 1), length + 2):
        with pytest.raises(CorruptTree):
            index.path(seq)


def test_of_the_entries_that_wait_for_one_parent_only_its_ancestor_is_in_a_cycle() -> None:
    index = folded(say("a", "late"), say("b", "late"), say("c", "b"), say("late", "c"))
    assert [index.parents[seq] for seq in (1, 2, 3, 4)] == [MISSING, CYCLE, 2, 3]


def test_many_that_wait_for_parents_cost_no_hang() -> None:
    count = 20_000
    waiting = [say(f"w{n}", f"p{n}") for n in range(count)]
    parents = [say(f"p{n}", f"p{n - 1}" if n else None) for n in range(count)]
    index = folded(*waiting, *parents)
    assert set(index.parents[1 : count + 1]) == {MISSING}
    many = folded(*(say(f"w{n}", "late") for n in range(count)), *parents, say("late", f"p{count - 1}"))
    assert set(many.parents[1 : count + 1]) == {MISSING}


def test_a_reference_means_the_latest_line_before_it() -> None:
    index = folded(say("a"), say("b", "a"), say("a", "b"), say("c", "a"), say("a", "a"), say("d", "a"))
    assert [index.parents[seq] for seq in range(1, 7)] == [ROOT, 1, 2, 3, 3, 5]
    assert index.find("a") == 5


def test_damaged_and_nameless_lines_keep_their_place_and_are_passed_over() -> None:
    index = folded(say("a"), None, unknown("odd", None), unknown("odd", ""), say("b", "a"), None)
    assert (index.head, index.damaged, index.leaf_id) == (6, 2, "b")
    assert [index.type_of(seq) for seq in range(1, 7)] == ["message", "damaged", "odd", "odd", "message", "damaged"]
    assert [index.is_entry(seq) for seq in range(1, 7)] == [True, False, False, False, True, False]
    assert path_ids(index, "b") == ["a", "b"]


def test_unknown_types_are_parents_with_a_name_and_no_more() -> None:
    index = folded(say("a"), unknown("odd", "b", "a"), unknown("reset_boundary", "c", "b"), unknown("odd", "d", "c"))
    assert [index.type_of(seq) for seq in range(1, 5)] == ["message", "odd", "reset_boundary", "odd"]
    assert path_ids(index, "d") == ["a", "b", "c", "d"]
    assert index.message_count == 1
    assert index.boundaries[4] == 3


def test_no_number_of_unknown_types_is_too_many() -> None:
    index = folded(*(unknown(f"type {n}", str(n)) for n in range(70_000)))
    assert [index.type_of(seq) for seq in (1, 60_000, 70_000)] == ["type 0", "type 59999", "unknown"]
    index.fold(unknown("type 3", "again"))
    assert index.type_of(70_001) == "type 3"
    assert restored(index) == index


# -- atomic batches


def marked(id: str, i: int, n: int, batch: str = "b", session: str = "this", parent: str | None = None) -> MessageEntry:
    return say(id, parent, batch=Batch(session, batch, i, n))


def test_a_batch_is_withheld_until_it_is_whole() -> None:
    index = folded(say("a"), marked("b", 0, 3, parent="a"), marked("c", 1, 3, parent="b"))
    assert (index.head, index.seen, index.leaf_id, index.find("b")) == (1, 3, "a", 0)
    index.fold(marked("d", 2, 3, parent="c"))
    assert (index.head, index.seen, index.leaf_id) == (4, 4, "d")
    assert path_ids(index, "d") == ["a", "b", "c", "d"]
    assert index.message_count == 4


@pytest.mark.parametrize(
    "after", [say("z", "a"), None, marked("z", 0, 1, "other"), marked("z", 2, 3), marked("z", 0, 2, session="that")]
)
def test_a_torn_batch_is_aborted_by_whatever_follows(after: Entry | None) -> None:
    index = folded(say("a"), marked("b", 0, 3, parent="a"), after)
    assert index.seen == index.head == 3
    assert index.type_of(2) == "aborted"
    assert path_ids(index, "b") == ["a", "b"]
    aborted = [seq for seq in range(1, 4) if index.kinds[seq] == Kind.ABORTED]
    assert aborted == ([2, 3] if after is not None and after.batch == Batch("this", "b", 2, 3) else [2])
    assert index.message_count == 3 - len(aborted) - index.damaged


def test_an_aborted_entry_contributes_nothing() -> None:
    torn: list[KnownEntry] = [
        ModelChangeEntry(id="m", parent_id="a", timestamp=at(9), model_change=ModelChange("p", "m")),
        label("l", "a", "mark", "m"),
        info("i", name="name"),
        level("t", "i"),
    ]
    lines = [msgspec.structs.replace(entry, batch=Batch("this", "b", i, 5)) for i, entry in enumerate(torn)]
    index = folded(say("a"), *lines, say("z", "t"))
    assert (index.models[6], index.levels[6], dict(index.labels), index.info) == (0, 0, {}, SessionInfo())
    assert [index.type_of(seq) for seq in range(2, 6)] == ["aborted"] * 4


def test_marks_of_another_session_mean_nothing_here() -> None:
    index = folded(marked("a", 1, 3, session="that"), marked("b", 0, 3, session="that"))
    assert (index.head, index.seen, index.message_count) == (2, 2, 2)


def test_an_opaque_line_counts_in_its_batch() -> None:
    odd = msgspec.structs.replace(unknown("odd", "c", "b"), batch=Batch("this", "b", 1, 3))
    index = folded(marked("b", 0, 3), odd, marked("d", 2, 3, parent="c"))
    assert [index.type_of(seq) for seq in range(1, 4)] == ["message", "odd", "message"]


@pytest.mark.parametrize(("i", "n"), [(0, 0), (0, -1), (-1, 2), (5, 2), (0, 1)])
def test_marks_that_make_no_sense_stop_nothing(i: int, n: int) -> None:
    index = folded(marked("a", i, n), say("b", "a"))
    assert path_ids(index, "b") == ["a", "b"]


# -- what the entries say


def test_labels_are_the_latest_of_each_entry() -> None:
    index = folded(say("a"), label("l1", "a", "one"), label("l2", "b", "two"), label("l3", "a", "three"))
    assert index.labels == {"a": LabelMark("three", 4), "b": LabelMark("two", 3)}
    assert list(index.labels) == ["a", "b"]
    assert (index.label_of("a"), index.label_of("c")) == ("three", None)
    index.fold(label("l4", "a", ""))
    index.fold(label("l5", "b", None))
    index.fold(label("l6", "c", None))
    assert index.labels == {}


def test_info_is_said_field_by_field() -> None:
    metadata = raw_json({"a": 1})
    index = folded(info("i1", name="one", status="open"), info("i2", name="two", raw_metadata=metadata))
    assert index.info == SessionInfo(name="two", status="open", raw_metadata=metadata)
    index.fold(info("i3", name=""))
    assert index.info.name == ""
    assert restored(index) == index
    assert restored(index).info.metadata == {"a": 1}


def test_an_entry_aside_is_not_the_leaf() -> None:
    index = folded(say("a"), say("b", "a"), say("c", "a", aside=True))
    assert (index.leaf_id, index.tip) == ("b", 2)
    assert path_ids(index, "c") == ["a", "c"]
    assert folded(say("a", aside=True)).leaf_id is None


def test_the_leaf_moves_and_the_next_entry_moves_it_again() -> None:
    index = folded(say("a"), say("b", "a"))
    index.move_leaf(1)
    assert (index.leaf_id, index.tip) == ("a", 2)
    assert index == folded(say("a"), say("b", "a"))
    index.move_leaf(0)
    assert index.leaf_id is None
    index.fold(say("c"))
    assert index.leaf_id == "c"


def test_the_path_tells_its_model_level_edits_and_boundary() -> None:
    answer = Message("assistant", (text("x"),), model="m", provider="p")
    cut = CompactionEntry(id="c", parent_id="b", timestamp=START, compaction=Compaction("s", "a", 1))
    edit = ContextEditEntry(id="e", parent_id="c", timestamp=START, context_edit=ContextEdit("a"))
    index = folded(say("a"), say("b", "a", message=answer), cut, edit, level("l", "e"), say("z", "a"), say("y", "l"))
    assert [index.models[seq] for seq in (1, 2, 5, 6, 7)] == [0, 2, 2, 0, 2]
    assert [index.boundaries[seq] for seq in (2, 3, 5, 6, 7)] == [0, 3, 3, 0, 3]
    assert [index.edits[seq] for seq in (3, 4, 6, 7)] == [0, 4, 0, 4]
    assert [index.levels[seq] for seq in (4, 5, 6, 7)] == [0, 5, 0, 5]


def test_messages_are_counted_by_role_and_their_times_kept() -> None:
    roles = ["system", "assistant", "user", "tool", "custom", "user"]
    index = folded(*(say(str(n), role=role, second=n) for n, role in enumerate(roles)), level("l"))
    assert index.message_counts == {
        Kind.USER: 2,
        Kind.ASSISTANT: 1,
        Kind.TOOL: 1,
        Kind.SYSTEM: 1,
        Kind.OTHER_MESSAGE: 1,
    }
    assert (index.message_count, index.first_user) == (6, 3)
    assert index.last_message_time == index.last_time == at(5)
    assert folded(say("t", role="tool", second=9)).last_message_time == START


# -- snapshots


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(["a", "b", "c", "d", "e", ""])


def lines() -> st.SearchStrategy[Entry | None]:
    """Lines of any sort over a handful of ids: with cycles, duplicates, torn batches and damage."""
    marks = st.builds(
        Batch,
        st.sampled_from(["this", "that"]),
        st.sampled_from(["b1", "b2"]),
        st.integers(-1, 3),
        st.integers(-1, 3),
    )
    ordinary = st.builds(
        lambda entry, fields: msgspec.structs.replace(entry, **fields),
        strategies.entries(),
        st.fixed_dictionaries(
            {
                "id": names().filter(bool),
                "parent_id": st.none() | names(),
                "aside": st.booleans(),
                "batch": st.none() | marks,
            }
        ),
    )
    odd = st.builds(unknown, st.sampled_from(["odd", "odder", "reset_boundary"]), st.none() | names(), names())
    return st.none() | odd | ordinary


def same(index: LogIndex, other: LogIndex, through: Sequence[str]) -> bool:
    return index == other and all(index.find(name) == other.find(name) for name in through)


@given(st.lists(lines(), max_size=16), st.data())
def test_a_fold_from_a_snapshot_ends_where_a_whole_fold_does(found: list[Entry | None], data: st.DataObject) -> None:
    whole = folded(*found)
    begun = folded(*found[: data.draw(st.integers(0, len(found)))])
    resumed = restored(begun)
    for line in found[resumed.head :]:  # what was withheld is folded again
        resumed.fold(line)
    assert same(resumed, whole, "abcde")
    assert whole.seen == len(found)
    assert whole.dump() == whole.dump()
    if whole.seen == whole.head:
        assert same(restored(whole), whole, "abcde")


@given(st.lists(lines(), max_size=16))
def test_no_lines_make_a_path_endless(found: list[Entry | None]) -> None:
    index = folded(*found)
    for seq in range(1, index.head + 1):
        assert index.parents[seq] < seq
        for other in range(index.head + 1):
            index.is_ancestor(other, seq)
        try:
            assert index.path(seq)[-1] == seq
        except CorruptTree:
            assert any(parent == CYCLE for parent in index.parents)


def test_indexes_of_other_logs_differ() -> None:
    assert folded(say("a")) != folded(say("b"))
    assert folded(say("a")) != folded(say("a"), say("a"))
    assert folded(say("a")) != folded(level("a"))
    assert LogIndex(HEADER) != LogIndex(msgspec.structs.replace(HEADER, id="that"))
    assert folded() != "an index"


SNAPSHOT = folded(
    say("a"), say("b", "a"), label("l", "a", "mark", "b"), unknown("odd", "o", "l"), say("w", "lost")
).dump()


def test_a_snapshot_of_another_session_or_version_is_none() -> None:
    assert LogIndex.restore(SNAPSHOT, msgspec.structs.replace(HEADER, id="that")) is None
    fields = msgspec.msgpack.decode(SNAPSHOT)
    assert LogIndex.restore(msgspec.msgpack.encode(fields), HEADER) is not None
    assert LogIndex.restore(msgspec.msgpack.encode([fields[0] + 1, *fields[1:]]), HEADER) is None


@pytest.mark.parametrize("position", range(2, 11))
@pytest.mark.parametrize("wrong", [None, -1, 10**6, b"\x01", [b"\x01"], [b"\x01"] * 3, [b"\x01"] * 7, [[]], "x"])
def test_a_snapshot_with_a_part_that_is_wrong_is_none(position: int, wrong: object) -> None:
    fields = msgspec.msgpack.decode(SNAPSHOT)
    fields[position] = wrong
    assert LogIndex.restore(msgspec.msgpack.encode(fields), HEADER) is None


@given(st.binary(max_size=200))
def test_garbage_is_none(garbage: bytes) -> None:
    assert LogIndex.restore(garbage, HEADER) is None


@given(st.integers(0, len(SNAPSHOT) - 1))
def test_a_snapshot_that_is_cut_off_is_none(size: int) -> None:
    assert LogIndex.restore(SNAPSHOT[:size], HEADER) is None


def chains() -> st.SearchStrategy[list[Entry | None]]:
    """Lines of which many are messages that follow one another, now and then with something else between."""

    def chained(drawn: list[tuple[Entry | None, str, int]]) -> list[Entry | None]:
        chain: list[Entry | None] = []
        for number, (other, role, second) in enumerate(drawn):
            before = chain[-1] if chain else None
            follows = before is not None and before.id
            model = ("m", "p") if second % 2 else (None, None)
            chain.append(
                other
                if other is not None
                else MessageEntry(
                    id=f"n{number}",
                    parent_id=before.id if follows and before is not None else None,
                    timestamp=at(second),
                    seq=number + 1,
                    message=Message(role, (text("said"),), *model),
                )
            )
        return chain

    role = st.sampled_from(["user", "assistant", "tool", "system", "custom"])
    sometimes = st.none() | st.none() | st.none() | lines()
    return st.lists(st.tuples(sometimes, role, st.integers(0, 50)), max_size=40).map(chained)


@given(chains(), st.lists(st.integers(1, 12), min_size=1), st.booleans())
def test_many_lines_at_once_are_the_same_as_each_in_turn(
    found: list[Entry | None], sizes: list[int], changes_win: bool
) -> None:
    each, at_once = (LogIndex(HEADER, model_changes_win=changes_win) for _ in range(2))
    for entry in found:
        each.fold(entry)
    start = 0
    for number in range(len(found)):
        size = sizes[number % len(sizes)]
        at_once.fold_all(found[start : start + size])
        start += size
    assert at_once == each
    assert at_once.leaf == each.leaf
    assert [each.find(f"n{number}") for number in range(40)] == [at_once.find(f"n{number}") for number in range(40)]


def test_a_written_batch_is_the_same_as_its_lines_in_turn() -> None:
    for count in (1, 2, 5, 9):
        batch = [marked(f"b{i}", i, count, parent=f"b{i - 1}" if i else "root") for i in range(count)]
        each, at_once = folded(say("root"), *batch), folded(say("root"))
        at_once.fold_batch(batch)
        assert at_once == each

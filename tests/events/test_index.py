"""`LogIndex` folds any lines into the tree, labels and counts of a session, and a snapshot restores an equal index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from treering.entries import SessionInfoEntry, ThinkingLevelEntry
from treering.events.columns import CYCLE, MISSING, ROOT, LabelMark
from treering.events.content import image, text
from treering.events.entries import Batch, Entry, Header, KnownEntry, Label, Message, MessageEntry, OpaqueEntry
from treering.events.entries.contextual import Compaction, CompactionEntry, ContextEdit, ContextEditEntry
from treering.events.entries.records import LabelEntry, ModelChange, ModelChangeEntry, SessionInfo, ThinkingLevel
from treering.events.errors import CorruptTree
from treering.events.index import LogIndex
from treering.events.json_values import raw_json
from treering.events.kinds import Kind
from treering.testing import strategies

START = datetime(2024, 5, 1, tzinfo=UTC)
HEADER = Header(id="this", version=1, timestamp=START)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def message_entry(
    id: str, parent: str | None = None, role: str = "user", second: int = 0, **fields: object
) -> MessageEntry:
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


def test_the_index_of_an_empty_log_has_no_leaf() -> None:
    index = folded()
    assert (index.head, index.seen, index.leaf, index.leaf_id, index.message_count) == (0, 0, 0, None, 0)
    assert index.path(0) == []
    assert not index.is_ancestor(0, 0)


def test_paths_and_ancestors_of_a_tree_with_branches() -> None:
    index = folded(
        message_entry("a"),
        message_entry("b", "a"),
        message_entry("c", "b"),
        message_entry("d", "a"),
        message_entry("e"),
        message_entry("f", "d"),
    )
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
def test_the_paths_of_any_tree_follow_its_parents(entries: list[KnownEntry]) -> None:
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


def test_a_chain_of_100000_entries_can_be_folded_and_restored() -> None:
    count = 100_000
    index = folded(*(message_entry(str(n), str(n - 1) if n else None) for n in range(count)))
    assert len(index.path(index.leaf)) == count
    assert index.is_ancestor(1, count)
    assert restored(index) == index
    assert restored(index).find("77") == 78


# -- damage


CHAINS: list[tuple[str, list[int]]] = [
    ("a<lost b<a", [MISSING, 1]),
    ("a<later b<a later<- c<later", [MISSING, 1, ROOT, 3]),
    ("a<a b<a", [CYCLE, 1]),
    ("a<late b<late c<b late<c", [MISSING, CYCLE, 2, 3]),  # only the ancestor of the later parent is in the cycle
    ("a<- b<a a<b c<a a<a d<a", [ROOT, 1, 2, 3, 3, 5]),  # an id means its latest line before
]


@pytest.mark.parametrize(("chain", "parents"), CHAINS)
def test_a_parent_is_the_latest_line_before_with_its_id(chain: str, parents: list[int]) -> None:
    lines = [each.split("<") for each in chain.split()]
    index = folded(*(message_entry(own, None if parent == "-" else parent) for own, parent in lines))
    assert [index.parents[seq] for seq in range(1, len(lines) + 1)] == parents
    for seq in range(1, len(lines) + 1):
        upward = [seq]
        while (above := parents[upward[-1] - 1]) > 0:
            upward.append(above)
        if above == CYCLE:
            with pytest.raises(CorruptTree, match=rf"entry '{index.ids[upward[-1]]}' \(seq {upward[-1]}\) is its own"):
                index.path(seq)
        else:
            assert list(index.path(seq)) == upward[::-1]
    assert index.find("a") == max(seq for seq, (own, _) in enumerate(lines, 1) if own == "a")


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_cycle_is_detected_when_its_last_entry_is_folded(length: int) -> None:
    chain = [message_entry(str(n), str((n - 1) % length)) for n in range(length)]
    index = folded(*chain[:-1])
    assert index.parents[1] == MISSING
    index.fold(chain[-1])
    assert index.parents[1] == CYCLE
    index.fold(message_entry("outside"))
    index.fold(message_entry("inside", "0"))
    assert path_ids(index, "outside") == ["outside"]
    for seq in (*range(1, length + 1), length + 2):
        with pytest.raises(CorruptTree):
            index.path(seq)


def test_many_entries_with_later_parents_do_not_take_quadratic_time() -> None:
    count = 20_000
    waiting = [message_entry(f"w{n}", f"p{n}") for n in range(count)]
    parents = [message_entry(f"p{n}", f"p{n - 1}" if n else None) for n in range(count)]
    assert set(folded(*waiting, *parents).parents[1 : count + 1]) == {MISSING}
    many = folded(
        *(message_entry(f"w{n}", "late") for n in range(count)), *parents, message_entry("late", f"p{count - 1}")
    )
    assert set(many.parents[1 : count + 1]) == {MISSING}


def test_damaged_lines_and_lines_without_an_id_keep_their_seq_and_are_skipped() -> None:
    index = folded(message_entry("a"), None, unknown("odd", None), unknown("odd", ""), message_entry("b", "a"), None)
    assert (index.head, index.damaged, index.leaf_id) == (6, 2, "b")
    assert [index.type_of(seq) for seq in range(1, 7)] == ["message", "damaged", "odd", "odd", "message", "damaged"]
    assert [index.is_entry(seq) for seq in range(1, 7)] == [True, False, False, False, True, False]
    assert path_ids(index, "b") == ["a", "b"]


def test_entries_of_unknown_types_are_parents_and_no_messages() -> None:
    index = folded(
        message_entry("a"), unknown("odd", "b", "a"), unknown("reset_boundary", "c", "b"), unknown("odd", "d", "c")
    )
    assert [index.type_of(seq) for seq in range(1, 5)] == ["message", "odd", "reset_boundary", "odd"]
    assert path_ids(index, "d") == ["a", "b", "c", "d"]
    assert (index.message_count, index.boundaries[4]) == (1, 3)


def test_70000_unknown_types_can_be_folded() -> None:
    index = folded(*(unknown(f"type {n}", str(n)) for n in range(70_000)))
    assert [index.type_of(seq) for seq in (1, 60_000, 70_000)] == ["type 0", "type 59999", "unknown"]
    index.fold(unknown("type 3", "again"))
    assert index.type_of(70_001) == "type 3"
    assert restored(index) == index


# -- atomic batches


def entry_of_batch(
    id: str, i: int, n: int, batch: str = "b", session: str = "this", parent: str | None = None
) -> MessageEntry:
    return message_entry(id, parent, batch=Batch(session, batch, i, n))


def test_a_batch_is_hidden_until_it_is_complete() -> None:
    index = folded(message_entry("a"), entry_of_batch("b", 0, 3, parent="a"), entry_of_batch("c", 1, 3, parent="b"))
    assert (index.head, index.seen, index.leaf_id, index.find("b")) == (1, 3, "a", 0)
    index.fold(entry_of_batch("d", 2, 3, parent="c"))
    assert (index.head, index.seen, index.leaf_id) == (4, 4, "d")
    assert path_ids(index, "d") == ["a", "b", "c", "d"]
    assert index.message_count == 4


@pytest.mark.parametrize(
    "after",
    [
        message_entry("z", "a"),
        None,
        entry_of_batch("z", 0, 1, "other"),
        entry_of_batch("z", 2, 3),
        entry_of_batch("z", 0, 2, session="that"),
    ],
)
def test_a_torn_batch_is_aborted_by_any_other_line(after: Entry | None) -> None:
    index = folded(message_entry("a"), entry_of_batch("b", 0, 3, parent="a"), after)
    assert index.seen == index.head == 3
    assert index.type_of(2) == "aborted"
    assert path_ids(index, "b") == ["a", "b"]
    aborted = [seq for seq in range(1, 4) if index.kinds[seq] == Kind.ABORTED]
    assert aborted == ([2, 3] if after is not None and after.batch == Batch("this", "b", 2, 3) else [2])
    assert index.message_count == 3 - len(aborted) - index.damaged


def test_an_aborted_entry_changes_no_state() -> None:
    torn: list[KnownEntry] = [
        ModelChangeEntry(id="m", parent_id="a", timestamp=at(9), model_change=ModelChange("p", "m")),
        label("l", "a", "mark", "m"),
        info("i", name="name"),
        level("t", "i"),
    ]
    lines = [msgspec.structs.replace(entry, batch=Batch("this", "b", i, 5)) for i, entry in enumerate(torn)]
    index = folded(message_entry("a"), *lines, message_entry("z", "t"))
    assert (index.models[6], index.levels[6], dict(index.labels), index.info) == (0, 0, {}, SessionInfo())
    assert [index.type_of(seq) for seq in range(2, 6)] == ["aborted"] * 4


def test_an_opaque_line_can_be_part_of_a_batch() -> None:
    odd = msgspec.structs.replace(unknown("odd", "c", "b"), batch=Batch("this", "b", 1, 3))
    index = folded(entry_of_batch("b", 0, 3), odd, entry_of_batch("d", 2, 3, parent="c"))
    assert [index.type_of(seq) for seq in range(1, 4)] == ["message", "odd", "message"]


@pytest.mark.parametrize(("i", "n"), [(0, 0), (0, -1), (-1, 2), (5, 2), (0, 1), (1, 3), (0, 3)])
def test_invalid_batch_marks_and_those_of_another_session_are_ignored(i: int, n: int) -> None:
    index = folded(entry_of_batch("a", i, n, session="that" if n == 3 else "this"), message_entry("b", "a"))
    assert path_ids(index, "b") == ["a", "b"]
    assert (index.head, index.seen) == (2, 2)
    assert n != 3 or index.message_count == 2, "a mark of another session is no batch, so nothing of it is torn"


# -- labels, info, leaf and counts


def test_the_latest_label_of_each_entry_counts() -> None:
    index = folded(message_entry("a"), label("l1", "a", "one"), label("l2", "b", "two"), label("l3", "a", "three"))
    assert index.labels == {"a": LabelMark("three", 4), "b": LabelMark("two", 3)}
    assert list(index.labels) == ["a", "b"]
    assert (index.label_of("a"), index.label_of("c")) == ("three", None)
    index.fold(label("l4", "a", ""))
    index.fold(label("l5", "b", None))
    index.fold(label("l6", "c", None))
    assert index.labels == {}


def test_session_info_is_merged_field_by_field() -> None:
    metadata = raw_json({"a": 1})
    index = folded(info("i1", name="one", status="open"), info("i2", name="two", raw_metadata=metadata))
    assert index.info == SessionInfo(name="two", status="open", raw_metadata=metadata)
    index.fold(info("i3", name=""))
    assert index.info.name == ""
    assert restored(index) == index
    assert restored(index).info.metadata == {"a": 1}


def test_archiving_keeps_the_status_of_the_program() -> None:
    index = folded(info("i1", status="open"), info("i2", archived=True))
    assert index.info == restored(index).info == SessionInfo(status="open", archived=True)
    index.fold(info("i3", archived=False))
    assert index.info == SessionInfo(status="open")
    index.fold(info("i4", archived=True))
    index.fold(info("i5", status="closed"))  # whoever gives it a status works on it
    assert index.info == SessionInfo(status="closed")


def test_the_status_archived_of_older_versions_replaces_a_status_and_archives() -> None:
    index = folded(info("i1", status="open"), info("i2", status="archived"))
    assert index.info == SessionInfo(archived=True)
    snapshot = folded()
    snapshot.info = SessionInfo(status="archived")
    assert restored(snapshot).info == SessionInfo(archived=True)
    index.fold(info("i3", status="active"))
    assert index.info == SessionInfo(status="active")


def test_an_entry_aside_is_not_the_leaf() -> None:
    index = folded(message_entry("a"), message_entry("b", "a"), message_entry("c", "a", aside=True))
    assert (index.leaf_id, index.tip) == ("b", 2)
    assert path_ids(index, "c") == ["a", "c"]
    assert folded(message_entry("a", aside=True)).leaf_id is None


def test_a_moved_leaf_holds_until_the_next_entry() -> None:
    index = folded(message_entry("a"), message_entry("b", "a"))
    index.move_leaf(1)
    assert (index.leaf_id, index.tip) == ("a", 2)
    assert index == folded(message_entry("a"), message_entry("b", "a"))
    index.move_leaf(0)
    assert index.leaf_id is None
    index.fold(message_entry("c"))
    assert index.leaf_id == "c"


def test_each_entry_has_the_model_level_edit_and_boundary_of_its_path() -> None:
    answer = Message("assistant", (text("x"),), model="m", provider="p")
    cut = CompactionEntry(id="c", parent_id="b", timestamp=START, compaction=Compaction("s", "a", 1))
    edit = ContextEditEntry(id="e", parent_id="c", timestamp=START, context_edit=ContextEdit("a"))
    index = folded(
        message_entry("a"),
        message_entry("b", "a", message=answer),
        cut,
        edit,
        level("l", "e"),
        message_entry("z", "a"),
        message_entry("y", "l"),
    )
    assert [index.models[seq] for seq in (1, 2, 5, 6, 7)] == [0, 2, 2, 0, 2]
    assert [index.boundaries[seq] for seq in (2, 3, 5, 6, 7)] == [0, 3, 3, 0, 3]
    assert [index.edits[seq] for seq in (3, 4, 6, 7)] == [0, 4, 0, 4]
    assert [index.levels[seq] for seq in (4, 5, 6, 7)] == [0, 5, 0, 5]


def test_messages_are_counted_by_role_and_the_last_time_is_kept() -> None:
    roles = ["system", "assistant", "user", "tool", "custom", "user"]
    index = folded(*(message_entry(str(n), role=role, second=n) for n, role in enumerate(roles)), level("l"))
    assert index.message_counts == {
        Kind.USER: 2,
        Kind.ASSISTANT: 1,
        Kind.TOOL: 1,
        Kind.SYSTEM: 1,
        Kind.OTHER_MESSAGE: 1,
    }
    assert (index.message_count, index.first_user) == (6, 3)
    assert index.last_message_time == index.last_time == at(5)
    assert folded(message_entry("t", role="tool", second=9)).last_message_time == START


def test_the_first_message_is_the_first_one_of_a_person_that_has_a_text() -> None:
    picture = Message("user", (image("aGk=", "image/png"),))
    blank = Message("user", (text(" \n"),))
    written = Message("user", (text("What is\nthis?"),))
    said = (Message("assistant", (text("Hello"),)), picture, blank, written, Message("user", (text("And this?"),)))
    entries = [message_entry(str(at), str(at - 1) if at else None, message=message) for at, message in enumerate(said)]
    index = folded(*entries)
    assert (index.first_user, index.first_message) == (4, "What is this?")
    assert (folded(entries[0], entries[1]).first_user, folded(entries[0], entries[1]).first_message) == (0, "")
    at_once = LogIndex(HEADER)
    at_once.fold_all(entries)
    assert (at_once.first_user, at_once.first_message) == (4, "What is this?")
    continued = restored(folded(*entries[:3]))
    continued.fold(entries[3])
    assert (continued.first_user, continued.first_message) == (4, "What is this?")


# -- snapshots


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(["a", "b", "c", "d", "e", ""])


def lines() -> st.SearchStrategy[Entry | None]:
    """Lines of any kind with few different ids: cycles, duplicates, torn batches and damage."""
    marks = st.builds(
        Batch, st.sampled_from(["this", "that"]), st.sampled_from(["b1", "b2"]), st.integers(-1, 3), st.integers(-1, 3)
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


def equal_with_finds(index: LogIndex, other: LogIndex, through: Sequence[str]) -> bool:
    return index == other and all(index.find(name) == other.find(name) for name in through)


@given(st.lists(lines(), max_size=16), st.data())
def test_folding_on_from_a_snapshot_gives_the_same_index(found: list[Entry | None], data: st.DataObject) -> None:
    whole = folded(*found)
    first_part = folded(*found[: data.draw(st.integers(0, len(found)))])
    resumed = restored(first_part)
    for line in found[resumed.head :]:  # hidden lines are folded again
        resumed.fold(line)
    assert equal_with_finds(resumed, whole, "abcde")
    assert whole.seen == len(found)
    assert whole.dump() == whole.dump()
    if whole.seen == whole.head:
        assert equal_with_finds(restored(whole), whole, "abcde")


@given(st.lists(lines(), max_size=16))
def test_paths_of_any_lines_end(found: list[Entry | None]) -> None:
    index = folded(*found)
    for seq in range(1, index.head + 1):
        assert index.parents[seq] < seq
        for other in range(index.head + 1):
            index.is_ancestor(other, seq)
        try:
            assert index.path(seq)[-1] == seq
        except CorruptTree:
            assert any(parent == CYCLE for parent in index.parents)


def test_indexes_of_different_logs_are_not_equal() -> None:
    assert folded(message_entry("a")) != folded(message_entry("b"))
    assert folded(message_entry("a")) != folded(message_entry("a"), message_entry("a"))
    assert folded(message_entry("a")) != folded(level("a"))
    assert LogIndex(HEADER) != LogIndex(msgspec.structs.replace(HEADER, id="that"))
    assert folded() != "an index"


SNAPSHOT = folded(
    message_entry("a"),
    message_entry("b", "a"),
    label("l", "a", "mark", "b"),
    unknown("odd", "o", "l"),
    message_entry("w", "lost"),
).dump()


def test_a_snapshot_of_another_session_or_version_is_not_restored() -> None:
    assert LogIndex.restore(SNAPSHOT, msgspec.structs.replace(HEADER, id="that")) is None
    fields = msgspec.msgpack.decode(SNAPSHOT)
    assert LogIndex.restore(msgspec.msgpack.encode(fields), HEADER) is not None
    assert LogIndex.restore(msgspec.msgpack.encode([fields[0] + 1, *fields[1:]]), HEADER) is None
    for size in range(len(SNAPSHOT)):
        assert LogIndex.restore(SNAPSHOT[:size], HEADER) is None


@pytest.mark.parametrize("position", range(2, 11))
@pytest.mark.parametrize("wrong", [None, -1, 10**6, b"\x01", [b"\x01"], [b"\x01"] * 3, [b"\x01"] * 7, [[]], "x"])
def test_a_snapshot_with_a_wrong_field_is_not_restored(position: int, wrong: object) -> None:
    fields = msgspec.msgpack.decode(SNAPSHOT)
    fields[position] = wrong
    assert LogIndex.restore(msgspec.msgpack.encode(fields), HEADER) is None


ROLES = ["user", "assistant", "tool", "system", "custom"]
MODELS = [("m", "p"), (None, "p"), ("m", None), (None, None)]
ALL_MESSAGES: list[Entry | None] = [
    MessageEntry(
        id=f"n{seq}",
        parent_id=f"n{seq - 1}" if seq > 1 else None,
        timestamp=at(7 * seq % 20),
        seq=seq,
        message=Message(role, (text("x"),), *model),
    )
    for seq, (model, role) in enumerate(product(MODELS, ROLES), 1)
]


def chains() -> st.SearchStrategy[list[Entry | None]]:
    """Lines that are mostly chains of messages, sometimes with other lines between them."""

    def chain_of(drawn: list[tuple[Entry | None, str, int]]) -> list[Entry | None]:
        chain: list[Entry | None] = []
        for number, (other, role, second) in enumerate(drawn):
            previous = chain[-1] if chain else None
            follows = previous is not None and previous.id
            model = ("m", "p") if second % 2 else (None, None)
            chain.append(
                other
                if other is not None
                else MessageEntry(
                    id=f"n{number}",
                    parent_id=previous.id if follows and previous is not None else None,
                    timestamp=at(second),
                    seq=number + 1,
                    message=Message(role, (text("x"),), *model),
                )
            )
        return chain

    role = st.sampled_from(ROLES)
    sometimes = st.none() | st.none() | st.none() | lines()
    return st.lists(st.tuples(sometimes, role, st.integers(0, 50)), max_size=40).map(chain_of)


@given(chains(), st.lists(st.integers(1, 12), min_size=1), st.booleans())
@example(found=ALL_MESSAGES, sizes=[1, 20], changes_win=False)
def test_fold_all_equals_folding_each_line(found: list[Entry | None], sizes: list[int], changes_win: bool) -> None:
    one_by_one, together = (LogIndex(HEADER, model_changes_win=changes_win) for _ in range(2))
    for entry in found:
        one_by_one.fold(entry)
    start = 0
    for number in range(len(found)):
        size = sizes[number % len(sizes)]
        together.fold_all(found[start : start + size])
        start += size
    assert together == one_by_one
    assert together.leaf == one_by_one.leaf
    names = [f"n{number}" for number in range(40)]
    assert [together.find(name) for name in names] == [one_by_one.find(name) for name in names]


def test_fold_batch_equals_folding_each_line() -> None:
    for count in (1, 2, 5, 9):
        batch = [entry_of_batch(f"b{i}", i, count, parent=f"b{i - 1}" if i else "root") for i in range(count)]
        one_by_one, together = folded(message_entry("root"), *batch), folded(message_entry("root"))
        together.fold_batch([msgspec.structs.replace(entry, seq=seq) for seq, entry in enumerate(batch, 2)])
        assert together == one_by_one

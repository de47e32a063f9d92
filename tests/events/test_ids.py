"""`Ids` finds the latest seq of an id, in its dictionary and in its sorted array."""

from __future__ import annotations

from array import array
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.events.ids import Ids

NAMES = st.sampled_from(["a", "b", "c", "", "Ünï", "a" * 64])


def filled(*names: str) -> Ids:
    ids = Ids()
    for name in names:
        ids.append(name)
    return ids


def latest(names: list[str], wanted: str) -> int:
    return max((seq for seq, name in enumerate(names, 1) if name == wanted), default=0) if wanted else 0


@given(
    st.lists(
        st.tuples(NAMES, st.lists(NAMES.filter(bool), max_size=3), st.sampled_from(["settle", "restore", "nothing"]))
    ),
    st.booleans(),
)
def test_the_latest_seq_of_each_id_is_found_after_any_steps(
    steps: list[tuple[str, list[str], str]], only_at_the_end: bool
) -> None:
    ids = Ids()
    names: list[str] = []
    for place, (name, run, then) in enumerate(steps, 1):
        ids.append(name)
        ids.extend(run)
        names += [name, *run]
        if then == "settle":
            ids.settle()
            assert ids.unsettled == 0
        elif then == "restore":
            ids = Ids.restore(*ids.dump())
        if only_at_the_end and place < len(steps):
            continue
        assert ids == filled(*names)
        assert [ids[seq] for seq in range(len(ids) + 1)] == ["", *names]
        assert [ids.has(seq) for seq in range(len(ids) + 1)] == [False, *map(bool, names)]
        assert {each: ids.find(each) for each in names} == {each: latest(names, each) for each in names}
        assert ids.find("never") == 0


def test_ids_of_one_length_are_dumped_without_their_ends() -> None:
    names = [f"{number:036}" for number in range(1000)]
    text, ends, ordered = filled(*names).dump()
    assert (text.nbytes, ends.nbytes, ordered.nbytes) == (36 * 1000, 8, 8 * 1000)
    odd = filled(*names, "odd")
    assert odd.dump()[1].nbytes == 8 * 1002
    assert (odd[1000], odd[1001]) == (names[-1], "odd")
    with pytest.raises(IndexError, match="seq 1002 is out of range: the last one is 1001"):
        odd[1002]


def test_a_dump_with_needless_ends_is_restored() -> None:
    text, _, ordered = filled("a", "b").dump()
    ids = Ids.restore(text, memoryview(array("Q", [0, 1, 2]).tobytes()), ordered)
    assert ids == filled("a", "b")
    ids.append("c")
    assert ids == filled("a", "b", "c")
    assert (len(ids), ids[3], ids.find("b")) == (3, "c", 2)
    empty = Ids.restore(*Ids().dump())
    empty.extend(["a", "b"])
    assert empty.dump()[1].nbytes == 8


def test_ids_with_the_same_checksum_are_distinguished() -> None:
    first, second = "plumless", "buckeroo"
    assert crc32(first.encode()) == crc32(second.encode())
    ids = filled(first, second, "another")
    ids.settle()
    assert (ids.find(first), ids.find(second)) == (1, 2)
    ids = filled(first)
    ids.settle()
    assert ids.find(second) == 0


def test_settle_sorts_the_recent_ids_only_above_the_given_number(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def checksum(data: bytes) -> int:
        checked.append(data)
        return crc32(data)

    monkeypatch.setattr("treering.events.ids.crc32", checksum)
    ids = filled("a", "b")
    ids.settle(above=2)
    assert checked == []
    ids.settle(above=1)
    assert checked == [b"a", b"b"]
    assert ids == filled("a", "b")
    assert ids.find("a") == 1


def test_equality_does_not_depend_on_whether_ids_are_sorted() -> None:
    settled = filled("a", "b", "a")
    settled.settle()
    assert settled == filled("a", "b", "a") != filled("a", "b")
    assert filled("ab", "c") != filled("a", "bc")
    assert filled() != []


def test_a_truncated_dump_is_refused() -> None:
    text, ends, ordered = filled("a", "b").dump()
    with pytest.raises(ValueError, match="multiple of item size"):
        Ids.restore(text, ends[:-3], ordered)
    with pytest.raises(ValueError, match="multiple of item size"):
        Ids.restore(text, ends, ordered[:-3])

"""Labels: listed in path order, found on all branches, maintained by changes."""

import random
from datetime import UTC, datetime

from treering.events.entries import Entry, Header, Label, LabelEntry, Message, MessageEntry
from treering.events.index import LogIndex
from treering.projections.base import replay
from treering.projections.labels import Labels, apply_change, labels

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)


def message(seq: int, parent_id: str | None) -> Entry:
    return MessageEntry(id=f"e{seq}", parent_id=parent_id, timestamp=START, seq=seq, message=Message("user"))


def label(seq: int, parent_id: str | None, target_id: str, name: str | None) -> Entry:
    return LabelEntry(id=f"e{seq}", parent_id=parent_id, timestamp=START, seq=seq, label=Label(target_id, name))


def index_of(*entries: Entry) -> LogIndex:
    index = LogIndex(HEADER)
    for entry in entries:
        index.fold(entry)
    return index


FORKED = (
    message(1, None),
    message(2, "e1"),
    message(3, "e1"),
    message(4, "e3"),
    label(5, "e4", "e4", "late"),
    label(6, "e5", "e2", "todo"),
    label(7, "e6", "e1", "todo"),
    label(8, "e7", "nowhere", "todo"),
)


def test_labels_on_the_path_come_first_in_path_order() -> None:
    index = index_of(*FORKED)
    assert labels(index) == [("e1", "todo"), ("e4", "late"), ("e2", "todo")]
    assert labels(index, 2) == [("e1", "todo"), ("e2", "todo"), ("e4", "late")]
    assert labels(index, 0) == [("e1", "todo"), ("e2", "todo"), ("e4", "late")]
    assert labels(index_of(message(1, None))) == []


def test_a_cycle_does_not_prevent_listing_labels() -> None:
    index = index_of(message(1, "e2"), message(2, "e1"), label(3, "e2", "e1", "odd"))
    assert labels(index) == [("e1", "odd")]


def test_the_projection_and_a_replica_equal_the_index_at_every_step() -> None:
    projection = Labels()
    for seed in range(100):
        rng, index = random.Random(seed), LogIndex(HEADER)
        value = replica = projection.initial(HEADER)
        entries: list[Entry] = []
        for seq in range(1, 30):
            target = f"e{rng.randint(1, seq)}"
            name = rng.choice([None, "", "a", "b", "c"])
            entry = label(seq, None, target, name) if rng.random() < 0.6 else message(seq, None)
            entries.append(entry)
            index.fold(entry)
            before = dict(value)
            held = value
            value, change = projection.apply(value, entry)
            assert held == before
            replica = apply_change(replica, change) if change else replica
            known = [(entry_id, mark.label) for entry_id, mark in index.labels.items()]
            assert list(value.items()) == list(replica.items()) == known
            assert (change is None) == (value == before)
        assert replay(projection, HEADER, entries) == value == projection.load(projection.dump(value))

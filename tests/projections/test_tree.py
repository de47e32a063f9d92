"""Trees: every entry once, in order, whatever is wrong with the log, and replicas that follow it."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Raw

from treering import Changed, Cursor, SessionHost, Snapshot, message
from treering.events.entries import Batch, Custom, CustomEntry, Entry, Header, Label, OpaqueEntry, Payload, entry_of
from treering.events.errors import EntryNotFound, InvalidInput
from treering.events.index import LogIndex
from treering.projections.tree import LeafChanged, NodeAdded, Tree, build_tree, iter_nodes, to_json, tree_changes
from treering.subscriptions import LabelChanged, TreeReplica

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)


class Log:
    """Entries, and their index."""

    def __init__(self) -> None:
        self.index = LogIndex(HEADER)
        self.entries: list[Entry | None] = []

    def add(self, payload: Payload | None = None, **fields: Any) -> str:  # noqa: ANN401  # any field of an entry
        seq = len(self.entries) + 1
        given = {"id": f"e{seq}", "parent_id": self.index.leaf_id, "seq": seq, "timestamp": START, **fields}
        return self.fold(entry_of(payload or message("user", "hi"), **given))

    def fold(self, entry: Entry) -> str:
        self.entries.append(entry)
        self.index.fold(entry)
        return entry.id or ""

    def add_damaged(self) -> None:
        self.entries.append(None)
        self.index.fold(None)


def random_step(log: Log, rng: random.Random) -> None:
    seq = len(log.entries) + 1
    ids = [entry.id for entry in log.entries if entry and entry.id]
    parent = rng.choice([*[log.index.leaf_id] * 4, *ids[-20:], None, "nowhere", f"e{seq}", f"e{seq + 2}"])
    entry_id = rng.choice(ids) if ids and rng.random() < 0.05 else f"e{seq}"
    match rng.randrange(12):
        case 0:
            log.add_damaged()
        case 1:
            entry = OpaqueEntry(
                type="new", id=rng.choice([None, entry_id]), parent_id=parent, timestamp=START, raw=Raw(b"{}"), seq=seq
            )
            log.fold(entry)
        case 2 | 3:
            log.add(Label(rng.choice([*ids, "nowhere"]), rng.choice([None, "", "todo", f"l{seq}"])), parent_id=parent)
        case 4:
            for i in range(rng.randint(1, 3)):
                parent = log.add(
                    Label(rng.choice(["e1", f"e{seq}"]), f"b{i}"), parent_id=parent, batch=Batch("s", f"b{seq}", i, 3)
                )
            if rng.random() < 0.5:
                log.add(parent_id=log.index.leaf_id)
        case _:
            log.add(id=entry_id, parent_id=parent, aside=rng.random() < 0.1)


def check(log: Log, tree: Tree) -> None:
    """Compare a tree with the entries of the log, without using the index."""
    index = log.index
    visible = [seq for seq in range(1, index.head + 1) if (entry := log.entries[seq - 1]) and entry.id]
    assert sorted(node.seq for node in tree.nodes) == visible
    above: list[int] = []
    seen: list[int] = []
    for node in tree.walk():
        entry = log.entries[node.seq - 1]
        assert entry is not None
        assert (node.id, node.type) == (entry.id, index.type_of(node.seq))
        before = [seq for seq in visible if seq < node.seq and (log.entries[seq - 1] or entry).id == entry.parent_id]
        parent = before[-1] if entry.parent_id and before else 0
        del above[node.depth :]
        assert (node.parent_seq, above[-1] if above else 0) == (parent, parent)
        assert node.parent_id == (entry.parent_id if parent else None)
        assert not seen or parent != tree.nodes[len(seen) - 1].parent_seq or node.seq > seen[-1]
        assert node.on_path == (node.seq == tree.leaf or index.is_ancestor(node.seq, tree.leaf))
        assert node.label == index.label_of(node.id)
        assert tree.node(node.id).seq == max(each.seq for each in tree.nodes if each.id == node.id)
        above.append(node.seq)
        seen.append(node.seq)
    for node in tree.nodes:
        below = [each for each in sorted(tree.nodes, key=lambda each: each.seq) if each.parent_seq == node.seq]
        assert node.children == tuple(each.id for each in below)
    assert [node.seq for node in tree.roots] == sorted(node.seq for node in tree.nodes if not node.parent_seq)


@pytest.mark.feature("G-98")
def test_every_entry_is_in_the_tree_exactly_once() -> None:
    roots = 0
    for seed in range(300):
        rng, log = random.Random(seed), Log()
        for _ in range(rng.randint(1, 40)):
            random_step(log, rng)
        tree = build_tree(log.index)
        check(log, tree)
        roots += len(tree.roots)
    assert roots > 300


@pytest.mark.feature("G-98")
def test_an_entry_without_an_earlier_parent_is_a_root() -> None:
    log = Log()
    log.add(parent_id=None)
    log.add(parent_id="nowhere")
    log.add(parent_id="e3")
    log.add(parent_id="e5")
    log.add(parent_id="e4")
    tree = build_tree(log.index)
    assert [(node.id, node.depth) for node in tree.nodes] == [("e1", 0), ("e2", 0), ("e3", 0), ("e4", 0), ("e5", 1)]
    assert [node.id for node in tree.nodes if node.on_path] == ["e4", "e5"]
    log.add(id="e1", parent_id=None)
    log.add(id="below the second", parent_id="e1")
    first, *_, second = build_tree(log.index).roots
    assert (first.seq, first.children, second.seq, second.children) == (1, (), 6, ("below the second",))
    assert build_tree(log.index).node("e1").seq == 6


def test_nodes_are_depth_first_with_children_in_log_order() -> None:
    log = Log()
    log.add()
    log.add()
    log.add(message("assistant", "a"), parent_id="e1")
    log.add(Custom("x"), parent_id="e2")
    log.add(Label("e3", "here"), parent_id="e3")
    tree = build_tree(log.index)
    assert [to_json(node) for node in tree.nodes] == [
        {
            "id": entry_id,
            "parent_id": parent_id,
            "type": kind,
            "depth": depth,
            "label": label,
            "children": children,
            "on_path": on_path,
        }
        for entry_id, parent_id, kind, depth, label, children, on_path in [
            ("e1", None, "message", 0, None, ["e2", "e3"], True),
            ("e2", "e1", "message", 1, None, ["e4"], False),
            ("e4", "e2", "custom", 2, None, [], False),
            ("e3", "e1", "message", 1, "here", ["e5"], True),
            ("e5", "e3", "label", 2, None, [], True),
        ]
    ]
    assert [node.role for node in tree.nodes] == ["user", "user", None, "assistant", None]
    assert [node.id for node in tree.walk("e2")] == ["e2", "e4"]
    assert [node.id for node in tree.walk("e3")] == ["e3", "e5"]
    assert tree.node("e3").label == "here"
    with pytest.raises(EntryNotFound):
        tree.node("nowhere")
    with pytest.raises(EntryNotFound):
        tree.walk("nowhere")


@pytest.mark.feature("G-100")
async def test_a_node_has_its_entry_its_children_and_the_latest_label(host: SessionHost) -> None:
    session = await host.create()
    first = await session.append_message("user", "one")
    left = await session.append_message("assistant", "left")
    await session.branch(first)
    right = await session.append_message("assistant", "right")
    for label in ("first", "second", None, "third"):
        await session.set_label(first, label)
        node = session.tree().node(first)
        assert (node.label, node.children, node.parent_id) == (label, (left, right), None)
    await session.passivate()
    nodes = session.tree().nodes
    assert [node.label for node in nodes] == ["third", *[None] * (len(nodes) - 1)]
    for node in nodes:
        entry = await session.entry(node.id)
        assert entry is not None
        assert (node.id, node.seq, node.parent_id, node.type) == (entry.id, entry.seq, entry.parent_id, entry.type)
        assert list(node.children) == session.children(node.id)


def test_a_replica_that_applies_changes_equals_the_tree_at_every_step() -> None:
    for seed in range(150):
        rng, log = random.Random(seed), Log()
        for _ in range(rng.randint(0, 10)):
            random_step(log, rng)
        replica = TreeReplica(build_tree(log.index))
        for _ in range(15):
            seen = log.index.head
            random_step(log, rng)
            for entry in log.entries[seen : log.index.head]:
                for change in tree_changes(log.index, entry) if entry else ():
                    replica.apply(change)
            if rng.random() < 0.2:
                leaf = rng.choice([0, *(node.seq for node in replica.tree().nodes)])
                log.index.move_leaf(leaf)
                replica.apply(LeafChanged(leaf))
            assert replica.tree() == build_tree(log.index), seed


def test_the_changes_of_an_entry_describe_its_effect() -> None:
    log = Log()
    log.add()
    log.add(Label("e1", "here"))
    log.add(parent_id="e1", aside=True)
    log.add(batch=Batch("s", "b", 0, 2))
    changes = [tree_changes(log.index, entry) for entry in log.entries if entry]
    assert changes == [
        [NodeAdded("e1", 1, 0, "message", "here", "user"), LeafChanged(1)],
        [NodeAdded("e2", 2, 1, "label", None, None), LabelChanged("e1", "here"), LeafChanged(2)],
        [NodeAdded("e3", 3, 1, "message", None, "user")],
        [],
    ]


@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_a_hundred_thousand_entries_need_no_recursion(shape: str) -> None:
    index, count = LogIndex(HEADER), 100_000
    for seq in range(1, count + 1):
        parent_id = None if seq == 1 else f"e{seq - 1}" if shape == "deep" else "e1"
        index.fold(CustomEntry(id=f"e{seq}", parent_id=parent_id, timestamp=START, seq=seq, custom=Custom("x")))
    tree = build_tree(index)
    assert len(tree.nodes) == count
    assert tree.nodes[-1].depth == (count - 1 if shape == "deep" else 1)
    assert sum(node.on_path for node in tree.nodes) == (count if shape == "deep" else 2)
    assert len(list(iter_nodes(index))) == sum(1 for _ in tree.walk("e1")) == count


def test_a_replica_refuses_a_step_of_a_subscription_in_place_of_its_change() -> None:
    cursor, replica = Cursor("one", 1), TreeReplica()
    added = NodeAdded("a", 1, 0, "message", None, "user")
    for step in (Changed(cursor, added), Snapshot(cursor, Tree((), 0))):
        with pytest.raises(InvalidInput, match=f"a `{type(step).__name__}` is not a change to a tree"):
            replica.apply(step)  # type: ignore[arg-type]
    replica.apply(added)
    assert [node.id for node in replica.tree().nodes] == ["a"]

"""The tree: every entry of a session, on all branches, in display order.

A tree is a flat tuple of nodes, parents before children and children in the order of the log, so that neither building
nor displaying it recurses, however deep it is. It is built from the index alone. An entry whose parent is missing, or
that is its own ancestor, is a root.

A follower keeps a `TreeReplica` and applies changes to it. The tree holds no bodies: load an entry by its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

from msgspec import Struct

from ..events.content import JSON
from ..events.entries import Entry, LabelEntry
from ..events.errors import EntryNotFound, InvalidInput
from ..events.index import LogIndex
from ..events.kinds import Kind

_ROLES = {Kind.USER: "user", Kind.ASSISTANT: "assistant", Kind.TOOL: "tool", Kind.SYSTEM: "system"}


class TreeNode(Struct, frozen=True):
    """An entry in the tree.

    Attributes:
        id: The entry's id.
        seq: Its seq, which is unique even if an id was used twice.
        parent_id: The id of its parent; None at a root.
        parent_seq: The seq of its parent; 0 at a root.
        type: The entry's type; "aborted" for a line of a batch that was never completed.
        depth: The number of its ancestors.
        label: Its label, if it has one.
        children: The ids of its children, in the order of the log.
        on_path: Whether it lies on the path to the leaf, including the leaf itself.
        role: The role of a message, if it is user, assistant, tool or system.
    """

    id: str
    seq: int
    parent_id: str | None
    parent_seq: int
    type: str
    depth: int
    label: str | None
    children: tuple[str, ...]
    on_path: bool
    role: str | None


class Tree(Struct, frozen=True, dict=True):
    """All nodes in depth-first order, and the seq of the leaf (0 for none)."""

    nodes: tuple[TreeNode, ...]
    leaf: int

    @property
    def roots(self) -> tuple[TreeNode, ...]:
        """The nodes that have no parent."""
        return tuple(node for node in self.nodes if not node.depth)

    def node(self, entry_id: str) -> TreeNode:
        """Return the node of an entry, or the latest one if two have this id.

        Raises:
            EntryNotFound: No entry has this id.
        """
        place = self._places.get(entry_id)
        if place is None:
            raise EntryNotFound(entry_id)
        return self.nodes[place]

    def walk(self, entry_id: str | None = None) -> Iterator[TreeNode]:
        """Yield all nodes, or one node and its descendants, depth first.

        Raises:
            EntryNotFound: No entry has this id.
        """
        if entry_id is None:
            return iter(self.nodes)
        top = self.node(entry_id)
        return self._below(self._places[entry_id], top.depth)

    def _below(self, place: int, depth: int) -> Iterator[TreeNode]:
        yield self.nodes[place]
        for node in self.nodes[place + 1 :]:
            if node.depth <= depth:
                return
            yield node

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for place, node in enumerate(self.nodes):
            other = places.get(node.id)
            if other is None or self.nodes[other].seq < node.seq:
                places[node.id] = place
        return places


class NodeAdded(Struct, frozen=True, tag_field="change", tag="node_added"):
    """An entry became visible, below the node `parent_seq` (0: as a root)."""

    id: str
    seq: int
    parent_seq: int
    type: str
    label: str | None
    role: str | None


class LabelChanged(Struct, frozen=True, tag_field="change", tag="label_changed"):
    """The label of the nodes with this id changed or was removed."""

    id: str
    label: str | None


class LeafChanged(Struct, frozen=True, tag_field="change", tag="leaf_changed"):
    """The leaf moved to another node; 0 for none."""

    leaf: int


TreeChange: TypeAlias = NodeAdded | LabelChanged | LeafChanged
"""Any change of a tree."""


class TreeReplica:
    """A tree that is kept current by applying changes.

    Applying a change takes constant time; `tree` builds the whole tree. Of a subscription to "tree", a `Snapshot`
    begins a replica, `TreeReplica(step.value)`, and a `Changed` holds a change, `replica.apply(step.change)`.
    """

    __slots__ = ("_children", "_labels", "_leaf", "_nodes")

    def __init__(self, tree: Tree | None = None) -> None:
        self._nodes: dict[int, NodeAdded] = {}
        self._children: dict[int, list[int]] = {0: []}
        self._labels: dict[str, str] = {}
        self._leaf = 0
        if tree is not None:
            for node in sorted(tree.nodes, key=attrgetter("seq")):
                self.apply(NodeAdded(node.id, node.seq, node.parent_seq, node.type, node.label, node.role))
            self._leaf = tree.leaf

    def apply(self, change: TreeChange) -> None:
        """Apply one change; changes must come in the order of the log.

        Raises:
            InvalidInput: It is not a change to a tree.
        """
        match change:
            case NodeAdded():
                self._nodes[change.seq] = change
                self._children.setdefault(change.parent_seq, []).append(change.seq)
                self._set_label(change.id, change.label)
            case LabelChanged():
                self._set_label(change.id, change.label)
            case LeafChanged():
                self._leaf = change.leaf
            case _:  # pyright: ignore[reportUnnecessaryComparison]
                raise InvalidInput(
                    f"a `{type(change).__name__}` is not a change to a tree: make a replica of a snapshot's `value`, "
                    "and apply the `change` of each `Changed`"
                )

    def tree(self) -> Tree:
        """Return the current tree."""
        nodes, children, labels = self._nodes, self._children, self._labels
        path = self._path()
        tree_nodes: list[TreeNode] = []
        stack = [(seq, 0) for seq in reversed(children[0])]
        while stack:
            seq, depth = stack.pop()
            node = nodes[seq]
            below = children.get(seq, ())
            parent = nodes.get(node.parent_seq)
            tree_nodes.append(
                TreeNode(
                    node.id,
                    seq,
                    parent.id if parent else None,
                    node.parent_seq,
                    node.type,
                    depth,
                    labels.get(node.id),
                    tuple([nodes[each].id for each in below]),
                    seq in path,
                    node.role,
                )
            )
            stack.extend([(each, depth + 1) for each in reversed(below)])
        return Tree(tuple(tree_nodes), self._leaf)

    def _set_label(self, entry_id: str, label: str | None) -> None:
        if label:
            self._labels[entry_id] = label
        else:
            self._labels.pop(entry_id, None)

    def _path(self) -> set[int]:
        path: set[int] = set()
        seq = self._leaf
        while seq:
            path.add(seq)
            seq = self._nodes[seq].parent_seq
        return path


def build_tree(index: LogIndex) -> Tree:
    """Return the tree of all entries of a log that have an id."""
    replica = TreeReplica()
    for seq in range(1, index.head + 1):
        if index.is_entry(seq):
            replica.apply(_node_added(index, seq))
    replica.apply(LeafChanged(index.leaf))
    return replica.tree()


def tree_changes(index: LogIndex, entry: Entry) -> list[TreeChange]:
    """Return the changes to the tree by an entry that has just become visible.

    When a whole batch becomes visible at once, call this for its entries in order: the tree is correct after the last.
    """
    seq = entry.seq
    if not 0 < seq <= index.head or not index.is_entry(seq):
        return []
    changes: list[TreeChange] = [_node_added(index, seq)]
    if isinstance(entry, LabelEntry) and index.kinds[seq] != Kind.ABORTED:
        changes.append(LabelChanged(entry.label.target_id, entry.label.label or None))
    if index.becomes_leaf(entry):
        changes.append(LeafChanged(seq))
    return changes


def to_json(tree: Tree) -> list[dict[str, JSON]]:
    """Return the nodes as plain JSON values, which the caller may modify, in the order of the tree."""
    return [
        {
            "id": node.id,
            "parent_id": node.parent_id,
            "type": node.type,
            "depth": node.depth,
            "label": node.label,
            "children": list(node.children),
            "on_path": node.on_path,
        }
        for node in tree.nodes
    ]


def _node_added(index: LogIndex, seq: int) -> NodeAdded:
    entry_id = index.ids[seq]
    return NodeAdded(
        entry_id,
        seq,
        max(index.parents[seq], 0),
        index.type_of(seq),
        index.label_of(entry_id),
        _ROLES.get(index.kinds[seq]),
    )

"""The tree: every entry of a session, on all branches, in display order.

A tree is a flat tuple of nodes, parents before children and children in the order of the log, so that neither building
nor displaying it recurses, however deep it is. It is built from the index alone. An entry whose parent is missing, or
that is its own ancestor, is a root.

A follower keeps a `TreeReplica` and applies changes to it. The tree holds no bodies: load an entry by its id.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..events.entries import Entry, LabelEntry
from ..events.errors import EntryNotFound, InvalidInput
from ..events.index import LogIndex
from ..events.json_values import JSON
from ..events.kinds import Kind
from .feed import LogView
from .feed_events import EntryAdded, LeafMove
from .labels import label_change

_ROLES = {Kind.USER: "user", Kind.ASSISTANT: "assistant", Kind.TOOL: "tool", Kind.SYSTEM: "system"}


class TreeNode(Struct, frozen=True, gc=False):
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


class TreeColumns(Struct, frozen=True):
    """The nodes of a tree in the order of the log, as columns: a tenth of the size of the nodes.

    Attributes:
        ids: The id of each entry.
        seqs: Its seq.
        parents: The seq of its parent; 0 at a root.
        kinds: What it is: a place in `types`.
        types: Each type that occurs, and the role if it is a message's.
        labels: The labels, by the entry's id.
        leaf: The seq of the leaf; 0 for none.
    """

    ids: tuple[str, ...]
    seqs: tuple[int, ...]
    parents: tuple[int, ...]
    kinds: tuple[int, ...]
    types: tuple[tuple[str, str | None], ...]
    labels: dict[str, str]
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
        for seq, depth, below in _depth_first(lambda seq: children.get(seq, ())):
            node = nodes[seq]
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
    return Tree(tuple(iter_nodes(index)), index.leaf)


def iter_nodes(index: LogIndex, leaf: int | None = None) -> Iterator[TreeNode]:
    """Yield the nodes of a log's tree in its order, without holding them all in memory.

    Args:
        index: The log's index.
        leaf: The seq of the leaf; by default that of the log.
    """
    ids, kinds, parents = index.ids, index.kinds, index.parents
    children_of = _children(index)
    path: set[int] = set()
    above = index.leaf if leaf is None else leaf
    while above > 0:  # a path into a cycle ends there, as at a missing parent
        path.add(above)
        above = parents[above]
    # As `_depth_first`, with the ids of a node and of its parent, so that each id is made only once.
    stack: list[tuple[int, str, str | None, int]] = [(seq, ids[seq], None, 0) for seq in reversed(children_of(0))]
    while stack:
        seq, entry_id, parent_id, depth = stack.pop()
        below = children_of(seq)
        child_ids = tuple([ids[each] for each in below])
        yield TreeNode(
            entry_id,
            seq,
            parent_id,
            max(parents[seq], 0),
            index.type_of(seq),
            depth,
            index.label_of(entry_id),
            child_ids,
            seq in path,
            _ROLES.get(kinds[seq]),
        )
        stack += [(below[at], child_ids[at], entry_id, depth + 1) for at in reversed(range(len(below)))]


def tree_columns(index: LogIndex) -> TreeColumns:
    """Return the tree of all entries of a log that have an id, as columns."""
    seqs = tuple([seq for seq in range(1, index.head + 1) if index.is_entry(seq)])
    ids, kinds, parents = index.ids, index.kinds, index.parents
    places: dict[int, int] = {}
    numbers = tuple([places.setdefault(kinds[seq], len(places)) for seq in seqs])
    first = {kinds[seq]: seq for seq in reversed(seqs)}
    types = tuple([(index.type_of(first[kind]), _ROLES.get(kind)) for kind in places])
    labels = {entry_id: mark.label for entry_id, mark in index.labels.items() if mark.label}
    shown = tuple([max(parents[seq], 0) for seq in seqs])
    return TreeColumns(tuple([ids[seq] for seq in seqs]), seqs, shown, numbers, types, labels, index.leaf)


def _children(index: LogIndex) -> Callable[[int], Sequence[int]]:
    """Return a function that returns the children of an entry, or the roots for 0, as seqs in the order of the log."""
    # Two arrays of links take a twentieth of the memory of a list for each entry.
    first_child = array("I", bytes(4 * (index.head + 1)))
    next_sibling = array("I", first_child)
    for seq in range(index.head, 0, -1):
        if index.is_entry(seq):
            parent = max(index.parents[seq], 0)
            next_sibling[seq], first_child[parent] = first_child[parent], seq

    def children_of(seq: int) -> list[int]:
        children: list[int] = []
        child = first_child[seq]
        while child:
            children.append(child)
            child = next_sibling[child]
        return children

    return children_of


def _depth_first(children_of: Callable[[int], Sequence[int]]) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield the seq, the depth and the children of each node; the children of 0 are the roots."""
    stack = [(seq, 0) for seq in reversed(children_of(0))]
    while stack:
        seq, depth = stack.pop()
        children = children_of(seq)
        yield seq, depth, children
        stack += [(each, depth + 1) for each in reversed(children)]


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


def to_json(node: TreeNode) -> dict[str, JSON]:
    """Return a node as a plain JSON value, which the caller may modify."""
    return {
        "id": node.id,
        "parent_id": node.parent_id,
        "type": node.type,
        "depth": node.depth,
        "label": node.label,
        "children": list(node.children),
        "on_path": node.on_path,
    }


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


class TreeStepper:
    """All entries as a tree."""

    name = "tree"
    read_by: ClassVar[str] = "session.tree()"

    def __init__(self) -> None:
        self._replica = TreeReplica()
        self._labels: dict[str, str | None] = {}
        self._tree: Tree | None = None

    @property
    def value(self) -> Tree:
        """The current tree."""
        if self._tree is None:
            self._tree = self._replica.tree()
        return self._tree

    async def begin(self, log: LogView) -> int:
        """Build the whole tree."""
        self._tree = build_tree(log.index)
        self._replica = TreeReplica(self._tree)
        self._labels = {entry_id: mark.label for entry_id, mark in log.index.labels.items()}
        return log.index.head

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[TreeChange]:
        """Return the changes that an event causes in the tree."""
        if isinstance(event, EntryAdded):
            label = label_change(event.entry)
            if label is not None:
                self._labels[label.entry_id] = label.label
            changes = [self._with_label_at_event(change) for change in tree_changes(log.index, event.entry)]
        else:
            changes = [LeafChanged(event.leaf)]
        for change in changes:
            self._replica.apply(change)
        self._tree = None
        return changes

    def _with_label_at_event(self, change: TreeChange) -> TreeChange:
        """Return the change with the label that the node has at this event, since the index may know a later one."""
        return replace(change, label=self._labels.get(change.id)) if isinstance(change, NodeAdded) else change

    def weigh(self, change: TreeChange) -> int:
        """Count a change as one."""
        return 1

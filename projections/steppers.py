"""The steppers: how each view that can be followed advances from one event of a session to the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from ..events.errors import ProjectionFailed
from .base import Projection
from .context import Context
from .context_changes import ContextChange, apply_change, diff, extended
from .feed import EntryAdded, LeafChange, LogView
from .labels import LabelChange, LabelledEntry, label_change, labels
from .tree import LeafChanged, NodeAdded, Tree, TreeChange, TreeReplica, build_tree, tree_changes

V = TypeVar("V")
C = TypeVar("C")

Fold: TypeAlias = Callable[[LogView, Projection[V, C]], Awaitable[tuple[V, int]]]
"""Returns a projection's value over a log's entries, and the seq of the last line that it includes."""


class ContextStepper:
    """The context of the leaf. An append below the leaf extends it; any other event rebuilds and compares it."""

    name = "context"

    def __init__(self) -> None:
        self._context: Context | None = None

    @property
    def value(self) -> Context:
        """The current context."""
        assert self._context is not None
        return self._context

    async def begin(self, log: LogView) -> int:
        """Build the context of the log's leaf."""
        head = log.index.head
        self._context = await log.context(log.index.leaf)
        return head

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[ContextChange]:
        """Return the change that an event causes; a label causes one too, since it becomes the leaf."""
        old = self.value
        change = extended(old, log.index, event.entry) if isinstance(event, EntryAdded) else None
        if change is None:
            if event.leaf == old.leaf:
                return ()
            change = diff(old, await log.context(event.leaf))
        self._context = apply_change(old, change)
        return (change,)

    def weigh(self, change: ContextChange) -> int:
        """Return one more than the number of messages that a change inserts."""
        return 1 + len(change.insert)


class TreeStepper:
    """All entries as a tree."""

    name = "tree"

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

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[TreeChange]:
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


class LabelStepper:
    """The labelled entries, those of the path first. The changes carry labels, but not the order."""

    name = "labels"

    def __init__(self) -> None:
        self._labels: list[LabelledEntry] = []
        self._leaf = 0

    @property
    def value(self) -> list[LabelledEntry]:
        """The current labels."""
        return list(self._labels)

    async def begin(self, log: LogView) -> int:
        """Load all labels."""
        self._labels, self._leaf = labels(log.index), log.index.leaf
        return log.index.head

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[LabelChange]:
        """Return the change that an event causes in the labels; if the path only grows, their order stays."""
        index = log.index
        change = label_change(event.entry) if isinstance(event, EntryAdded) else None
        grows = isinstance(event, EntryAdded) and index.parents[event.entry.seq] == self._leaf
        if change is not None or not grows:
            self._labels = labels(index)
        self._leaf = event.leaf
        return () if change is None else (change,)

    def weigh(self, change: LabelChange) -> int:
        """Count a change as one."""
        return 1


class FoldStepper(Generic[V, C]):
    """A projection, built-in or custom.

    Args:
        projection: The projection.
        fold: Computes its value, from a checkpoint if there is one.
    """

    def __init__(self, projection: Projection[V, C], fold: Fold[V, C]) -> None:
        self._projection = projection
        self._fold = fold
        self._value: tuple[V] | None = None

    @property
    def name(self) -> str:
        """The projection's name."""
        return self._projection.name

    @property
    def value(self) -> V:
        """The projection's current value."""
        if self._value is None:
            raise ProjectionFailed(f"the projection {self.name!r} has no value yet: wait for its first snapshot")
        return self._value[0]

    async def begin(self, log: LogView) -> int:
        """Compute the value over all entries."""
        value, seq = await self._fold(log, self._projection)
        self._value = (value,)
        return seq

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[C]:
        """Fold one entry; a move of the leaf changes nothing."""
        if not isinstance(event, EntryAdded):
            return ()
        value, change = self._projection.apply(self.value, event.entry)
        self._value = (value,)
        return () if change is None else (change,)

    def weigh(self, change: C) -> int:
        """Count a change as one."""
        return 1

"""How each view that can be followed goes on from one event of a session to the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from ..events.errors import ProjectionFailed
from .base import Projection
from .context import Context, ContextChange, apply_change, diff, extended
from .feed import EntryAdded, LeafChange
from .labels import LabelChange, LabelledEntry, label_change, labels
from .source import LogView
from .tree import LeafChanged, NodeAdded, Tree, TreeChange, TreeReplica, build_tree, tree_changes

V = TypeVar("V")
C = TypeVar("C")

Fold: TypeAlias = Callable[[LogView, Projection[V, C]], Awaitable[tuple[V, int]]]
"""Returns a projection's value over a log's entries, and the ordinal of the last line that is in."""


class ContextStepper:
    """The context of the leaf. An append below the leaf adds to it; whatever else happens, it is built and compared."""

    name = "context"

    def __init__(self) -> None:
        self._context: Context | None = None

    @property
    def value(self) -> Context:
        """The context as it stands."""
        assert self._context is not None
        return self._context

    async def begin(self, log: LogView) -> int:
        """Build the context of the log's leaf."""
        head = log.index.head
        self._context = await log.context(log.index.leaf)
        return head

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[ContextChange]:
        """Return the change that an event makes; a label makes one too, since it becomes the leaf."""
        old = self.value
        change = extended(old, log.index, event.entry) if isinstance(event, EntryAdded) else None
        if change is None:
            if event.leaf == old.leaf:
                return ()
            change = diff(old, await log.context(event.leaf))
        self._context = apply_change(old, change)
        return (change,)

    def weigh(self, change: ContextChange) -> int:
        """Count the messages that a change holds."""
        return 1 + len(change.insert)


class TreeStepper:
    """All entries as a tree."""

    name = "tree"

    def __init__(self) -> None:
        self._replica = TreeReplica()
        self._labels: dict[str, str | None] = {}
        self._drawn: Tree | None = None

    @property
    def value(self) -> Tree:
        """The tree as it stands."""
        if self._drawn is None:
            self._drawn = self._replica.tree()
        return self._drawn

    async def begin(self, log: LogView) -> int:
        """Take the whole tree."""
        self._drawn = build_tree(log.index)
        self._replica = TreeReplica(self._drawn)
        self._labels = {entry_id: mark.label for entry_id, mark in log.index.labels.items()}
        return log.index.head

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[TreeChange]:
        """Return what an event does to the tree."""
        if isinstance(event, EntryAdded):
            label = label_change(event.entry)
            if label is not None:
                self._labels[label.entry_id] = label.label
            changes = [self._as_of_now(change) for change in tree_changes(log.index, event.entry)]
        else:
            changes = [LeafChanged(event.leaf)]
        for change in changes:
            self._replica.apply(change)
        self._drawn = None
        return changes

    def _as_of_now(self, change: TreeChange) -> TreeChange:
        """Give a node the label that it has at this event: the index may know a later one."""
        return replace(change, label=self._labels.get(change.id)) if isinstance(change, NodeAdded) else change

    def weigh(self, change: TreeChange) -> int:
        """Count a change as one."""
        return 1


class LabelStepper:
    """The labelled entries, those of the path first. The changes say what is labelled how, and nothing of the order."""

    name = "labels"

    def __init__(self) -> None:
        self._labels: list[LabelledEntry] = []
        self._leaf = 0

    @property
    def value(self) -> list[LabelledEntry]:
        """The labels as they stand."""
        return list(self._labels)

    async def begin(self, log: LogView) -> int:
        """Take all labels."""
        self._labels, self._leaf = labels(log.index), log.index.leaf
        return log.index.head

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[LabelChange]:
        """Return what an event does to the labels; where the path only grows, they need no new order."""
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
    """A projection: built in or a program's own.

    Args:
        projection: The projection.
        fold: Gives its value, from a checkpoint where there is one.
    """

    def __init__(self, projection: Projection[V, C], fold: Fold[V, C]) -> None:
        self._projection = projection
        self._fold = fold
        self._held: tuple[V] | None = None

    @property
    def name(self) -> str:
        """The projection's name."""
        return self._projection.name

    @property
    def value(self) -> V:
        """The projection's value as it stands."""
        if self._held is None:
            raise ProjectionFailed(f"the projection {self.name!r} has not begun: wait for its first snapshot")
        return self._held[0]

    async def begin(self, log: LogView) -> int:
        """Take the value over all entries."""
        value, seq = await self._fold(log, self._projection)
        self._held = (value,)
        return seq

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[C]:
        """Fold one entry; a move of the leaf changes nothing."""
        if not isinstance(event, EntryAdded):
            return ()
        value, change = self._projection.apply(self.value, event.entry)
        self._held = (value,)
        return () if change is None else (change,)

    def weigh(self, change: C) -> int:
        """Count a change as one."""
        return 1

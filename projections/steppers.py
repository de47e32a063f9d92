"""How each view that can be followed goes on from one event of a session to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from ..events.errors import ProjectionFailed
from .base import Projection
from .context import Context, ContextChange, apply_change, diff, extended
from .feed import EntryAdded, LeafMoved
from .labels import LabelChange, label_change, labels
from .source import LogView
from .tree import LeafMoved as TreeLeafMoved
from .tree import Tree, TreeChange, TreeReplica, build_tree, tree_changes

V = TypeVar("V")
C = TypeVar("C")


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

    async def begin(self, log: LogView) -> None:
        """Build the context of the log's leaf."""
        self._context = await log.context(log.index.leaf)

    async def step(self, log: LogView, event: EntryAdded | LeafMoved) -> Sequence[ContextChange]:
        """Return the change that an event makes; a label makes one too, since it becomes the leaf."""
        old = self.value
        change = extended(old, log.index, event.entry) if isinstance(event, EntryAdded) else None
        if change is None:
            if event.leaf == old.leaf:
                return ()
            change = diff(old, await log.context(event.leaf))
        self._context = apply_change(old, change)
        return (change,)


class TreeStepper:
    """All entries as a tree."""

    name = "tree"

    def __init__(self) -> None:
        self._replica = TreeReplica()

    @property
    def value(self) -> Tree:
        """The tree as it stands."""
        return self._replica.tree()

    async def begin(self, log: LogView) -> None:
        """Take the whole tree."""
        self._replica = TreeReplica(build_tree(log.index))

    async def step(self, log: LogView, event: EntryAdded | LeafMoved) -> Sequence[TreeChange]:
        """Return what an event does to the tree."""
        changes: Sequence[TreeChange]
        if isinstance(event, EntryAdded):
            changes = tree_changes(log.index, event.entry)
        else:
            changes = (TreeLeafMoved(event.leaf),)
        for change in changes:
            self._replica.apply(change)
        return changes


class LabelStepper:
    """The labelled entries, those of the path first."""

    name = "labels"

    def __init__(self) -> None:
        self._labels: list[tuple[str, str]] = []

    @property
    def value(self) -> list[tuple[str, str]]:
        """The labels as they stand."""
        return list(self._labels)

    async def begin(self, log: LogView) -> None:
        """Take all labels."""
        self._labels = labels(log.index)

    async def step(self, log: LogView, event: EntryAdded | LeafMoved) -> Sequence[LabelChange]:
        """Return what an event does to the labels."""
        change = label_change(event.entry) if isinstance(event, EntryAdded) else None
        self._labels = labels(log.index)
        return () if change is None else (change,)


class FoldStepper(Generic[V, C]):
    """A projection: built in or a program's own."""

    def __init__(self, projection: Projection[V, C]) -> None:
        self._projection = projection
        self._value: V | None = None
        self._seq = 0

    @property
    def name(self) -> str:
        """The projection's name."""
        return self._projection.name

    @property
    def value(self) -> V:
        """The projection's value as it stands."""
        if self._value is None and not self._seq:
            raise ProjectionFailed(f"the projection {self.name!r} has not begun: wait for its first snapshot")
        return self._value  # type: ignore[return-value]  # None is a value that a projection may have

    async def begin(self, log: LogView) -> None:
        """Fold the log from its beginning."""
        head = log.index.head
        value, seq = self._projection.initial(log.index.header), 0
        while seq < head:
            entries, seq = await log.page(seq, head)
            for entry in entries:
                value, _ = self._projection.apply(value, entry)
        self._value, self._seq = value, head

    async def step(self, log: LogView, event: EntryAdded | LeafMoved) -> Sequence[C]:
        """Fold one entry; a move of the leaf changes nothing."""
        if not isinstance(event, EntryAdded) or event.entry.seq <= self._seq or self._value is None:
            return ()
        self._value, change = self._projection.apply(self._value, event.entry)
        self._seq = event.entry.seq
        return () if change is None else (change,)

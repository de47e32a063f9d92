"""The labels: bookmarks on entries.

A label belongs to an entry's id and is the same on every branch; the last label entry in the log wins. The index holds
all labels, so the lists here read no entries. Labels never reach a context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from ..events.entries import Entry, Header, LabelEntry
from ..events.index import LogIndex
from .base import OWN
from .feed import LogView
from .feed_events import EntryAdded, LeafMove

LabelledEntry: TypeAlias = tuple[str, str]
"""The id of an entry, and its label."""


class LabelChange(Struct, frozen=True):
    """The label of an entry was set to another one, or removed."""

    entry_id: str
    label: str | None


class Labels:
    """The fold of labels by entry id, in the order in which the entries were first labelled."""

    name = OWN + "labels"

    def initial(self, header: Header) -> Mapping[str, str]:
        """Return an empty mapping."""
        return {}

    def apply(self, value: Mapping[str, str], entry: Entry) -> tuple[Mapping[str, str], LabelChange | None]:
        """Fold an entry; see `Projection.apply`."""
        change = label_change(entry)
        if change is None or value.get(change.entry_id) == change.label:
            return value, None
        return apply_change(value, change), change

    def dump(self, value: Mapping[str, str]) -> bytes:
        """Return the labels as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> Mapping[str, str]:
        """Return the labels that were dumped."""
        return msgspec.json.decode(blob, type=dict[str, str])


def label_change(entry: Entry) -> LabelChange | None:
    """Return the change that an entry makes to the labels, or None if it is not a label entry."""
    if not isinstance(entry, LabelEntry):
        return None
    return LabelChange(entry.label.target_id, entry.label.label or None)


def apply_change(labels: Mapping[str, str], change: LabelChange) -> dict[str, str]:
    """Return the labels after a change."""
    changed = dict(labels)
    if change.label is None:
        changed.pop(change.entry_id, None)
    else:
        changed[change.entry_id] = change.label
    return changed


def labels(index: LogIndex, leaf: int | None = None) -> list[LabelledEntry]:
    """List the labelled entries as (id, label): those on the path first, from the root down, then the others.

    The others come in the order of the log. A label on an id that no entry has is not listed.

    Args:
        index: The log's index.
        leaf: The seq of the path's last entry; by default the session's leaf.
    """
    id_by_seq = {seq: entry_id for entry_id in index.labels if (seq := index.find(entry_id))}
    if not id_by_seq:
        return []
    path = _path_down_to(min(id_by_seq), index, index.leaf if leaf is None else leaf)
    ordered = sorted(id_by_seq, key=lambda seq: (seq not in path, seq))
    return [(id_by_seq[seq], index.labels[id_by_seq[seq]].label) for seq in ordered]


def find_by_label(index: LogIndex, label: str) -> list[str]:
    """Return the ids of the entries that carry a label, on all branches, in the order of `labels`."""
    return [entry_id for entry_id, each in labels(index) if each == label]


def _path_down_to(lowest: int, index: LogIndex, seq: int) -> set[int]:
    """Return the seqs on the path to an entry that are at least `lowest`; a cycle ends the path like a root."""
    path: set[int] = set()
    while seq >= lowest:
        path.add(seq)
        seq = index.parents[seq]
    return path


class LabelStepper:
    """The labelled entries, those of the path first. The changes carry labels, but not the order."""

    name = "labels"
    read_by: ClassVar[str] = "session.labels()"

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

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[LabelChange]:
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

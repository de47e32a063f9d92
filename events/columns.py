"""The columns of an index: what is known about every line of a log without reading it again, and its snapshot.

A handful of numbers and the id for each line; bodies stay on disk. Offsets belong to the store and are not part of it.
`index` folds entries into the columns; here they are only read, stored and restored.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Self

import msgspec
from msgspec import Struct

from .entries import ENTRY_TYPES, EPOCH, Entry, Header, SessionInfo, Usage
from .errors import CorruptTree, EntryNotFound
from .ids import Ids
from .kinds import MESSAGE_KINDS, TYPE_NAMES, Kind, UnknownTypes

ROOT = 0
"""The parent of an entry that has none."""

MISSING = -1
"""The parent of an entry whose parent is not in the file before it."""

CYCLE = -2
"""The parent of an entry that is its own ancestor."""

# A log may hold entries of a type that was unknown when its snapshot was made, so each new type makes another version.
_SNAPSHOT_VERSION = 6 + 1000 * (len(ENTRY_TYPES) - 12)


class LabelMark(Struct, frozen=True):
    """A current label: its text, and the seq of the entry that set it."""

    label: str
    seq: int


class _Dump(Struct, array_like=True):
    """An index as stored in a snapshot."""

    version: int
    session_id: str
    ids: tuple[memoryview, memoryview, memoryview]
    columns: tuple[memoryview, ...]
    type_names: dict[int, str]
    labels: dict[str, LabelMark]
    info: bytes  # JSON, since msgpack cannot hold raw JSON
    counts: tuple[int, ...]
    times: tuple[datetime, datetime]
    tip: int
    first_user: int
    first_message: str
    usage: Usage
    unresolved: dict[str, list[int]]


def _stored(column: array[int]) -> memoryview:
    """Return a column as stored in a snapshot: a single value if all are equal, as in a session without compactions."""
    data, first = column.tobytes(), column[:1].tobytes()
    return memoryview(first if data == first * len(column) else data)


class MissingParents:
    """The entries that name a parent which the log does not hold so far.

    An entry's parent is fixed when the entry is added, so a parent that comes later does not become one. But if it is a
    descendant of the entry that names it, that entry is its own ancestor.

    Attributes:
        children: The seqs of the entries, by the id of the missing parent.
    """

    __slots__ = ("_roots", "children")

    def __init__(self, children: dict[str, list[int]] | None = None) -> None:
        self.children: dict[str, list[int]] = {} if children is None else children
        self._roots: dict[int, int] = {}  # of entries whose path was walked, so that no part is walked twice

    def add(self, parent_id: str, seq: int) -> None:
        """Note that an entry names a parent that is missing."""
        self.children.setdefault(parent_id, []).append(seq)

    def found(self, entry_id: str, seq: int, parents: Sequence[int]) -> int:
        """Note that an entry was added, and return the entry that is its own ancestor because of that; 0 if none is.

        Args:
            entry_id: The id of the added entry.
            seq: Its seq.
            parents: The parents of all entries, by seq; not positive where there is none.
        """
        children = self.children.pop(entry_id, None)
        if not children:
            return 0
        root = self._root_of(seq, parents)
        return root if root in children else 0

    def _root_of(self, seq: int, parents: Sequence[int]) -> int:
        walked: list[int] = []
        while seq not in self._roots and parents[seq] > 0:
            walked.append(seq)
            seq = parents[seq]
        root = self._roots.get(seq, seq)
        self._roots.update(dict.fromkeys(walked, root))
        return root


class Columns:
    """What is known about each line of a log, by seq (from 1).

    Attributes:
        header: The log's header.
        model_changes_win: A change of the model stays in force although a later assistant's message names another.
        ids: The ids by seq, and the seqs by id.
        parents: By seq, the seq of the parent; `ROOT`, `MISSING` or `CYCLE` if there is none.
        kinds: By seq, the kind of the entry; see `Kind`. Numbers from `Kind.FIRST_UNKNOWN` on are in `unknown_types`.
        boundaries: By seq, the latest entry on its path at which a context begins: a compaction or a reset; 0 for none.
        models: By seq, the latest entry on its path that names the model; 0 for none.
        levels: By seq, the latest entry on its path that sets the thinking level; 0 for none.
        edits: By seq, the latest entry on its path that edits the context; 0 for none.
        unknown_types: The types of entries that this program does not know, and their numbers among the kinds.
        message_counts: The number of messages on all branches, by kind.
        damaged: The number of damaged lines.
        leaf: The seq of the entry below which the next append goes; 0 in an empty session.
        leaf_id: Its id; None in an empty session.
        tip: The seq of the last entry that was not appended aside: the leaf, unless it was moved since.
        labels: The label of each labelled entry, by the entry's id, in the order in which they were first set.
        info: The merged fields of all session_info entries, the later over the earlier.
        last_time: The latest timestamp so far.
        last_message_time: The latest timestamp of a user's or an assistant's message; the header's time before one.
        first_user: The seq of the first user message with a text that a person wrote, or 0; see `asked_text`.
        first_message: How that message begins; see `preview`.
        usage: The usage that the entries of all branches report; see `projections.usage`.
        withheld: The lines of a batch whose last line has not been folded yet.
    """

    __slots__ = (
        "_batch",
        "_batch_usage",
        "_last_id",
        "_missing_parents",
        "boundaries",
        "damaged",
        "edits",
        "first_message",
        "first_user",
        "header",
        "ids",
        "info",
        "kinds",
        "labels",
        "last_message_time",
        "last_time",
        "leaf",
        "leaf_id",
        "levels",
        "message_counts",
        "model_changes_win",
        "models",
        "parents",
        "tip",
        "unknown_types",
        "usage",
        "withheld",
    )

    def __init__(self, header: Header, *, model_changes_win: bool = False) -> None:
        self.header = header
        self.model_changes_win = model_changes_win
        self.ids = Ids()
        self.parents = array("i", [ROOT])
        self.kinds = array("H", [0])
        self.boundaries = array("I", [0])
        self.models: array[int] = array("I", [0])
        self.levels = array("I", [0])
        self.edits = array("I", [0])
        self.unknown_types = UnknownTypes()
        self.labels: dict[str, LabelMark] = {}
        self.info = SessionInfo()
        self.message_counts: dict[int, int] = dict.fromkeys(MESSAGE_KINDS, 0)
        self.damaged: int = 0
        self.last_time = EPOCH
        self.last_message_time = header.timestamp
        self.leaf = 0
        self.leaf_id: str | None = None
        self.tip = 0
        self.first_user = 0
        self.first_message = ""
        self.usage: Usage = Usage()
        self._batch: str | None = None  # whose messages reported `_batch_usage`
        self._batch_usage: Usage = Usage()
        self._last_id = ""
        self.withheld: list[Entry] = []
        self._missing_parents = MissingParents()

    # -- queries

    @property
    def head(self) -> int:
        """The seq of the last visible line."""
        return len(self.kinds) - 1

    @property
    def seen(self) -> int:
        """The seq of the last line that was folded, withheld ones included."""
        return len(self.kinds) - 1 + len(self.withheld)

    @property
    def message_count(self) -> int:
        """The number of messages on all branches."""
        return sum(self.message_counts.values())

    def find(self, entry_id: object) -> int:
        """Return the seq of the latest visible entry with this id; 0 if there is none or the value is not a text."""
        return self.ids.find(entry_id)

    def seq_of(self, entry_id: str) -> int:
        """Return the seq of the latest visible entry with this id.

        Raises:
            EntryNotFound: No entry has this id.
        """
        seq = self.ids.find(entry_id)
        if not seq:
            raise EntryNotFound(entry_id)
        return seq

    def path_end(self, leaf_id: str | None) -> int:
        """Return the seq of the entry at which a path ends: that of the leaf if no id is given.

        Raises:
            EntryNotFound: No entry has this id.
        """
        return self.leaf if leaf_id is None else self.seq_of(leaf_id)

    def type_of(self, seq: int) -> str:
        """Return the name of an entry's type."""
        kind = self.kinds[seq]
        return TYPE_NAMES.get(kind) or self.unknown_types.names[kind]

    def label_of(self, entry_id: object) -> str | None:
        """Return the entry's label, or None; also None if the id is not a string."""
        mark = self.labels.get(entry_id) if isinstance(entry_id, str) else None
        return mark.label if mark else None

    def is_entry(self, seq: int) -> bool:
        """Tell whether other entries can refer to the line; to damaged lines and lines without an id they cannot."""
        return self.ids.has(seq)

    def becomes_leaf(self, entry: Entry) -> bool:
        """Tell whether a visible entry became the leaf when it was appended: not if aside or of a torn batch."""
        return not entry.aside and self.kinds[entry.seq] != Kind.ABORTED

    def is_ancestor(self, ancestor: int, seq: int) -> bool:
        """Tell whether an entry is on the path to `seq`; `seq` itself is."""
        parents = self.parents
        while seq > ancestor:
            seq = parents[seq]
        return seq == ancestor and ancestor > 0

    def upward(self, seq: int) -> Iterator[int]:
        """Yield the seqs from an entry up to its root.

        Raises:
            CorruptTree: The path runs into a cycle.
        """
        parents = self.parents
        while seq > 0:
            yield seq
            parent = parents[seq]
            if parent == CYCLE:
                raise CorruptTree(
                    f"entry {self.ids[seq]!r} (seq {seq}) is its own ancestor: branch from an entry outside the cycle"
                )
            seq = parent

    def path(self, seq: int) -> list[int]:
        """Return the seqs from the root to an entry.

        Raises:
            CorruptTree: The path runs into a cycle.
        """
        seqs = list(self.upward(seq))
        seqs.reverse()
        return seqs

    # -- snapshots

    def dump(self) -> bytes:
        """Return the index as bytes, without withheld lines and leaf moves, which are restored from elsewhere."""
        return msgspec.msgpack.encode(
            _Dump(
                version=_SNAPSHOT_VERSION,
                session_id=self.header.id,
                ids=self.ids.dump(),
                columns=tuple(map(_stored, self._columns())),
                type_names=self.unknown_types.names,
                labels=self.labels,
                info=msgspec.json.encode(self.info),
                counts=(*self.message_counts.values(), self.damaged),
                times=(self.last_time, self.last_message_time),
                tip=self.tip,
                first_user=self.first_user,
                first_message=self.first_message,
                usage=self.usage,
                unresolved=self._missing_parents.children,
            )
        )

    @classmethod
    def restore(cls, blob: bytes, header: Header, *, model_changes_win: bool = False) -> Self | None:
        """Rebuild an index from what `dump` returned; None if the blob is invalid or of another version or session."""
        try:
            dump = msgspec.msgpack.decode(blob, type=_Dump)
            return cls._restore_into(dump, cls(header, model_changes_win=model_changes_win))
        except (ValueError, IndexError, OverflowError):
            return None

    @staticmethod
    def is_of_another_version(blob: bytes) -> bool:
        """Tell whether `restore` refuses a blob only because another version of this module made it."""
        try:
            fields = msgspec.msgpack.decode(blob, type=list[object])
        except ValueError:
            return False
        return bool(fields) and isinstance(fields[0], int) and fields[0] != _SNAPSHOT_VERSION

    @classmethod
    def _restore_into(cls, dump: _Dump, index: Self) -> Self | None:
        if dump.version != _SNAPSHOT_VERSION or dump.session_id != index.header.id:
            return None
        columns = index._columns()
        if len(dump.columns) != len(columns) or len(dump.counts) != len(index.message_counts) + 1:
            return None
        index.ids = Ids.restore(*dump.ids)
        for column, stored in zip(columns, dump.columns, strict=True):
            del column[:]
            column.frombytes(stored)
            if len(column) == 1:
                column *= len(index.ids) + 1
            if len(column) != len(index.ids) + 1:
                return None
        if not 0 <= dump.tip <= index.head or not 0 <= dump.first_user <= index.head:
            return None
        index.unknown_types = UnknownTypes(dump.type_names)
        index.labels = dump.labels
        index.info = SessionInfo().merged(msgspec.json.decode(dump.info, type=SessionInfo))
        *counts, index.damaged = dump.counts
        index.message_counts = dict(zip(MESSAGE_KINDS, counts, strict=True))
        index.last_time, index.last_message_time = dump.times
        index.leaf = index.tip = dump.tip
        index.leaf_id = index.ids[dump.tip] or None
        index.first_user = dump.first_user
        index.first_message = dump.first_message
        index.usage = dump.usage
        index._missing_parents = MissingParents(dump.unresolved)
        index._last_id = index.ids[index.head] if index.head else ""
        return index

    def _columns(self) -> tuple[array[int], ...]:
        return (self.parents, self.kinds, self.boundaries, self.models, self.levels, self.edits)

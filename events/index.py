"""The index of one log: what the session layer knows about every line without reading it again.

The index is a fold over entries. `LogIndex.fold` both replays a stored log and follows a live one, so a reopened
session knows exactly what the running one knew. The index is columnar: a handful of numbers and the id for each line;
bodies stay on disk. Offsets belong to the store and are not part of it.

Damage never stops a fold:

- a parent that is missing, or later in the file than its child, ends the path there (`MISSING`);
- an entry that is its own ancestor is a root whose path is corrupt (`CYCLE`);
- of two entries with one id, a reference means the latest line before it;
- the lines of an atomic batch are withheld until the last of them is there, and become opaque ("aborted") when another
  line comes first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

import msgspec
from msgspec import Struct

from .entries import (
    EPOCH,
    Entry,
    Header,
    LabelEntry,
    Message,
    MessageEntry,
    SessionInfo,
    SessionInfoEntry,
    asked_text,
    names_model,
)
from .errors import CorruptTree, EntryNotFound
from .ids import Ids
from .kinds import KIND_OF_ROLE, MESSAGE_KINDS, TYPE_NAMES, Kind, UnknownTypes, kind_of, kinds_of_messages
from .texts import preview

ROOT = 0
"""The parent of an entry that has none."""
MISSING = -1
"""The parent of an entry whose parent is not in the file before it."""
CYCLE = -2
"""The parent of an entry that is its own ancestor."""

_MARKING = frozenset(
    {Kind.ASSISTANT, Kind.MODEL_CHANGE, Kind.THINKING_LEVEL, Kind.CONTEXT_EDIT, Kind.COMPACTION, Kind.RESET}
)
_SPOKEN = frozenset({Kind.USER, Kind.ASSISTANT})
_RUN_MIN = 4  # for shorter runs, the search for a run costs more than it saves
_SNAPSHOT_VERSION = 5


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
    unresolved: dict[str, list[int]]


def _stored(column: array[int]) -> memoryview:
    """Return a column as stored in a snapshot: a single value if all are equal, as in a session without compactions."""
    data, first = column.tobytes(), column[:1].tobytes()
    return memoryview(first if data == first * len(column) else data)


class LogIndex:
    """The index of a log's lines, by seq (from 1).

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
        tip: The seq of the last entry that was not appended aside: the leaf, unless it was moved since.
        labels: The label of each labelled entry, by the entry's id, in the order in which they were first set.
        info: The merged fields of all session_info entries, the later over the earlier.
        last_time: The latest timestamp so far.
        last_message_time: The latest timestamp of a user's or an assistant's message; the header's time before one.
        first_user: The seq of the first user message with a text that a person wrote, or 0; see `asked_text`.
        first_message: How that message begins; see `preview`.
    """

    __slots__ = (
        "_last_id",
        "_missing_parents",
        "_pending",
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
        "levels",
        "message_counts",
        "model_changes_win",
        "models",
        "parents",
        "tip",
        "unknown_types",
    )

    def __init__(self, header: Header, *, model_changes_win: bool = False) -> None:
        self.header = header
        self.model_changes_win = model_changes_win
        self.ids = Ids()
        self.parents = array("i", [ROOT])
        self.kinds = array("H", [0])
        self.boundaries = array("I", [0])
        self.models = array("I", [0])
        self.levels = array("I", [0])
        self.edits = array("I", [0])
        self.unknown_types = UnknownTypes()
        self.labels: dict[str, LabelMark] = {}
        self.info = SessionInfo()
        self.message_counts: dict[int, int] = dict.fromkeys(MESSAGE_KINDS, 0)
        self.damaged = 0
        self.last_time = EPOCH
        self.last_message_time = header.timestamp
        self.leaf = 0
        self.tip = 0
        self.first_user = 0
        self.first_message = ""
        self._last_id = ""
        self._pending: list[Entry] = []
        self._missing_parents = MissingParents()

    # -- queries

    @property
    def head(self) -> int:
        """The seq of the last visible line."""
        return len(self.kinds) - 1

    @property
    def seen(self) -> int:
        """The seq of the last line that was folded, withheld ones included."""
        return len(self.kinds) - 1 + len(self._pending)

    @property
    def withheld(self) -> Sequence[Entry]:
        """The lines of a batch whose last line has not been folded yet."""
        return self._pending

    def position(self) -> tuple[int, str | None, datetime]:
        """Return what the next append depends on: the seq of the last line, the leaf's id, and the latest time.

        Withheld lines are included, as in `seen`.
        """
        leaf, head, last_time = self.leaf, len(self.kinds) - 1, self.last_time
        leaf_id = (self._last_id or None) if leaf == head else self.ids[leaf] or None
        if self._pending:
            return head + len(self._pending), leaf_id, max(last_time, *(each.timestamp for each in self._pending))
        return head, leaf_id, last_time

    @property
    def message_count(self) -> int:
        """The number of messages on all branches."""
        return sum(self.message_counts.values())

    @property
    def leaf_id(self) -> str | None:
        """The id of the leaf, or None in an empty session."""
        return self.position()[1]

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
        return bool(self.ids[seq])

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

    # -- folding

    def fold(self, entry: Entry | None) -> None:
        """Fold the next line: its entry, or None if it is damaged."""
        batch = entry.batch if entry is not None else None
        if batch is None and not self._pending:
            self._add(entry)
        elif entry is not None and batch is not None and batch.session == self.header.id:
            self._fold_marked(entry, batch.i, batch.n)
        else:
            self._abort()
            self._add(entry)

    def fold_all(self, entries: Sequence[Entry | None]) -> None:
        """Fold the next lines; equivalent to folding each, but runs of consecutive messages are added in one step."""
        at = 0
        while at < len(entries):
            end = at if self._pending else self._end_of_run(entries, at, marked=False)
            if end - at >= _RUN_MIN:
                self._add_run(cast(Sequence[MessageEntry], entries[at:end]))
                at = end
            else:
                for entry in entries[at : end + 1]:
                    self.fold(entry)
                at = end + 1

    def fold_batch(self, entries: Sequence[Entry]) -> int:
        """Fold lines that were just written together; equivalent to folding each line of a complete batch.

        Returns:
            How many of them had been folded already, by a reader.
        """
        if self._pending or entries[0].seq != len(self.kinds):
            folded = max(0, self.seen + 1 - entries[0].seq)
            if folded:
                self.fold_all(entries[folded:])
                return folded
            self._abort()
        if len(entries) >= _RUN_MIN and self._end_of_run(entries, 0, marked=True) == len(entries):
            self._add_run(cast(Sequence[MessageEntry], entries))
        else:
            for entry in entries:
                self._add(entry)
        return 0

    def _end_of_run(self, entries: Sequence[Entry | None], at: int, *, marked: bool) -> int:
        """Return the end of the run of messages from `at` on that each follow the line before and become the leaf.

        Args:
            entries: The lines.
            at: The position at which the run begins.
            marked: Include messages with the mark of a batch, since the batch is known to be complete.
        """
        last = self._last_id
        if self._missing_parents.children or not last:
            return at
        for position in range(at, len(entries)):
            entry = entries[position]
            if (
                type(entry) is not MessageEntry
                or entry.parent_id != last
                or entry.aside
                or (entry.batch is not None and not marked)
                or not entry.id
            ):
                return position
            last = entry.id
        return len(entries)

    def _add_run(self, run: Sequence[MessageEntry]) -> None:
        """Add messages that each follow the line before."""
        above, count = self.head, len(run)
        first = above + 1
        kinds = kinds_of_messages(run)
        self.ids.extend([entry.id for entry in run])
        self.parents.extend(range(above, above + count))
        self.models += self._models_of_run(run, kinds, above)
        self.kinds.fromlist(kinds)
        for column in (self.boundaries, self.levels, self.edits):
            column.extend(array("I", [column[above]]) * count)
        occurring = set(kinds)
        for kind in occurring:
            self.message_counts[kind] += kinds.count(kind)
        if not self.first_user and Kind.USER in kinds:
            for at, kind in enumerate(kinds):
                if kind == Kind.USER and self._note_asked(run[at].message, first + at):
                    break
        times = [entry.timestamp for entry in run]
        latest = latest_spoken = max(times)
        if not occurring <= _SPOKEN:
            spoken = (time for time, kind in zip(times, kinds, strict=True) if kind in _SPOKEN)
            latest_spoken = max(spoken, default=self.last_message_time)
        self.last_time = max(self.last_time, latest)
        self.last_message_time = max(self.last_message_time, latest_spoken)
        self.leaf = self.tip = self.head
        self._last_id = run[-1].id

    def _models_of_run(self, run: Sequence[MessageEntry], kinds: Sequence[int], above: int) -> array[int]:
        """Return for each message of a run the seq of the latest entry that names the model there."""
        model = self.models[above]
        if Kind.ASSISTANT not in kinds or self._overrides_answers(model):
            return array("I", [model]) * len(run)
        models: list[int] = []
        for seq, entry in enumerate(run, above + 1):
            # Users' messages have no provider: calling `names_model` for them would take longer than the rest of this.
            if entry.message.provider is not None and names_model(entry.message):
                model = seq
            models.append(model)
        return array("I", models)

    def _overrides_answers(self, model: int) -> bool:
        """Tell whether the model that this entry sets stays in force although a later answer names another."""
        return self.model_changes_win and self.kinds[model] == Kind.MODEL_CHANGE

    def move_leaf(self, seq: int) -> None:
        """Make another entry the leaf, or no entry (0)."""
        self.leaf = seq

    def _fold_marked(self, entry: Entry, i: int, n: int) -> None:
        """Withhold one line of an atomic batch; if it is the last, add the whole batch."""
        before = self._pending[-1].batch if self._pending else None
        follows = before is not None and entry.batch is not None and before.id == entry.batch.id and before.i + 1 == i
        if not follows:
            self._abort()
            if i != 0:
                self._add(entry, aborted=True)
                return
        self._pending.append(entry)
        if i + 1 >= n:
            complete, self._pending = self._pending, []
            for each in complete:
                self._add(each)

    def _abort(self) -> None:
        """Turn withheld lines into opaque entries, since another line came before their batch was complete."""
        torn, self._pending = self._pending, []
        for each in torn:
            self._add(each, aborted=True)

    def _add(self, entry: Entry | None, *, aborted: bool = False) -> None:
        if entry is None or not entry.id:
            self._add_nameless(entry)
            return
        seq = len(self.kinds)
        if entry.parent_id and entry.parent_id == self._last_id:
            parent = above = seq - 1
        else:
            parent = self._parent_of(entry, seq)
            above = max(parent, 0)
        if aborted:
            kind = Kind.ABORTED
        elif isinstance(entry, MessageEntry):
            kind = self._note_message(entry, seq)
        else:
            kind = self._kind_of(entry)
            self._note(entry, seq)
        self.ids.append(entry.id)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.boundaries.append(self.boundaries[above])
        self.levels.append(self.levels[above])
        self.edits.append(self.edits[above])
        self.models.append(self.models[above])
        if kind in _MARKING:
            self._mark(entry, kind, seq, above)
        if self._missing_parents.children:
            own_ancestor = self._missing_parents.found(entry.id, seq, self.parents)
            if own_ancestor:
                self.parents[own_ancestor] = CYCLE
        if not entry.aside and not aborted:
            self.leaf = self.tip = seq
        self._last_id = entry.id
        if entry.timestamp > self.last_time:  # noqa: PLR1730 - max() costs a call on the hot path
            self.last_time = entry.timestamp

    def _mark(self, entry: Entry, kind: int, seq: int, above: int) -> None:
        """Record that this entry is the latest of its kind from here on the path."""
        if kind == Kind.MODEL_CHANGE:
            self.models[seq] = seq
        elif isinstance(entry, MessageEntry):
            if names_model(entry.message) and not self._overrides_answers(self.models[above]):
                self.models[seq] = seq
        elif kind == Kind.THINKING_LEVEL:
            self.levels[seq] = seq
        elif kind == Kind.CONTEXT_EDIT:
            self.edits[seq] = seq
        else:
            self.boundaries[seq] = seq

    def _add_nameless(self, entry: Entry | None) -> None:
        """Add a line that nothing can refer to: it keeps its seq and is skipped."""
        self.ids.append("")
        self.parents.append(MISSING)
        for column in (self.boundaries, self.models, self.levels, self.edits):
            column.append(0)
        self.kinds.append(Kind.DAMAGED if entry is None else self._kind_of(entry))
        self._last_id = ""
        self.damaged += entry is None

    def _parent_of(self, entry: Entry, seq: int) -> int:
        parent_id = entry.parent_id
        if parent_id is None:
            return ROOT
        parent = self.ids.find(parent_id)
        if parent:
            return parent
        if parent_id == entry.id:
            return CYCLE
        self._missing_parents.add(parent_id, seq)
        return MISSING

    def _kind_of(self, entry: Entry) -> int:
        kind = kind_of(entry)
        return self.unknown_types.number_of(entry.type) if kind is None else kind

    def _note_message(self, entry: MessageEntry, seq: int) -> int:
        """Count a message, and return its kind."""
        kind = KIND_OF_ROLE.get(entry.message.role, Kind.OTHER_MESSAGE)
        self.message_counts[kind] += 1
        if kind in _SPOKEN:
            if entry.timestamp > self.last_message_time:  # noqa: PLR1730 - max() costs a call on the hot path
                self.last_message_time = entry.timestamp
            if not self.first_user and kind == Kind.USER:
                self._note_asked(entry.message, seq)
        return kind

    def _note_asked(self, message: Message, seq: int) -> bool:
        """Record a user message as the first if a person wrote it and it has a text; return whether it is."""
        begins = preview(asked_text(message))
        if begins:
            self.first_user = seq
            self.first_message = begins
        return bool(begins)

    def _note(self, entry: Entry, seq: int) -> None:
        """Record what the index must know from the payload of an entry that is not a message."""
        if isinstance(entry, LabelEntry):
            label = entry.label
            if label.label:
                self.labels[label.target_id] = LabelMark(label.label, seq)
            else:
                self.labels.pop(label.target_id, None)
        elif isinstance(entry, SessionInfoEntry):
            self.info = self.info.merged(entry.session_info)

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
                unresolved=self._missing_parents.children,
            )
        )

    @classmethod
    def restore(cls, blob: bytes, header: Header, *, model_changes_win: bool = False) -> LogIndex | None:
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
    def _restore_into(cls, dump: _Dump, index: LogIndex) -> LogIndex | None:
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
        index.first_user = dump.first_user
        index.first_message = dump.first_message
        index._missing_parents = MissingParents(dump.unresolved)
        index._last_id = index.ids[index.head] if index.head else ""
        return index

    def _columns(self) -> tuple[array[int], ...]:
        return (self.parents, self.kinds, self.boundaries, self.models, self.levels, self.edits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogIndex):
            return NotImplemented
        return self._folded_state() == other._folded_state()

    def _folded_state(self) -> tuple[object, ...]:
        """Return everything that results from folding; a move of the leaf does not."""
        return (
            self.header.id,
            self.seen,
            self.ids,
            self._columns(),
            self.unknown_types.names,
            list(self.labels.items()),
            self.info,
            self.message_counts,
            self.damaged,
            self.last_time,
            self.last_message_time,
            self.tip,
            self.first_user,
            self.first_message,
            self._missing_parents.children,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes with every entry

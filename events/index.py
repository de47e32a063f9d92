"""The index of one log: what the session layer knows about every line without reading it again.

The index is a fold over entries. `LogIndex.fold` both replays a stored log and follows a live one, so a reopened
session knows exactly what the running one knew. What an entry marks for those below it (`EntryBase.marks`) is read from
the table of entry types.

Damage never stops a fold:

- a parent that is missing, or later in the file than its child, ends the path there (`MISSING`);
- an entry that is its own ancestor is a root whose path is corrupt (`CYCLE`);
- of two entries with one id, a reference means the latest line before it;
- the lines of an atomic batch are withheld until the last of them is there, and become opaque ("aborted") when another
  line comes first.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast, get_args

from .columns import CYCLE, MISSING, ROOT, Columns, LabelMark
from .entries import (
    Column,
    Entry,
    LabelEntry,
    Message,
    MessageEntry,
    OpaqueEntry,
    SessionInfoEntry,
    Usage,
    UsageEntry,
    asked_text,
    names_model,
)
from .kinds import KIND_OF_ROLE, Kind, kind_of, kinds_marking, kinds_of_messages
from .texts import preview

_MARKING = frozenset({Kind.ASSISTANT, *(kind for column in get_args(Column) for kind in kinds_marking(column))})
_SPOKEN = frozenset({Kind.USER, Kind.ASSISTANT})
_RUN_MIN = 4  # for shorter runs, the search for a run costs more than it saves


class LogIndex(Columns):
    """The index of a log: the columns, and the folding of its lines."""

    __slots__ = ()

    def fold(self, entry: Entry | None) -> None:
        """Fold the next line: its entry, or None if it is damaged."""
        batch = entry.batch if entry is not None else None
        if batch is None and not self.withheld:
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
            end = at if self.withheld else self._end_of_run(entries, at, marked=False)
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
        if self.withheld or entries[0].seq != len(self.kinds):
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
        for entry in run:
            usage = entry.message.usage
            if usage is not None:
                self._count(entry, usage)
        self.last_time = max(self.last_time, latest)
        self.last_message_time = max(self.last_message_time, latest_spoken)
        self.leaf = self.tip = self.head
        self.leaf_id = self._last_id = run[-1].id

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
        self.leaf, self.leaf_id = seq, self.ids[seq] or None

    def _fold_marked(self, entry: Entry, i: int, n: int) -> None:
        """Withhold one line of an atomic batch; if it is the last, add the whole batch."""
        before = self.withheld[-1].batch if self.withheld else None
        follows = before is not None and entry.batch is not None and before.id == entry.batch.id and before.i + 1 == i
        if not follows:
            self._abort()
            if i != 0:
                self._add(entry, aborted=True)
                return
        self.withheld.append(entry)
        if i + 1 >= n:
            complete, self.withheld = self.withheld, []
            for each in complete:
                self._add(each)

    def _abort(self) -> None:
        """Turn withheld lines into opaque entries, since another line came before their batch was complete."""
        torn, self.withheld = self.withheld, []
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
            message = entry.message
            kind = KIND_OF_ROLE.get(message.role, Kind.OTHER_MESSAGE)
            self.message_counts[kind] += 1
            if message.usage is not None:
                self._count(entry, message.usage)
            if kind in _SPOKEN and entry.timestamp > self.last_message_time:
                self.last_message_time = entry.timestamp
            if kind == Kind.USER and not self.first_user:
                self._note_asked(message, seq)
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
            self._mark(entry, seq, above)
        if self._missing_parents.children:
            own_ancestor = self._missing_parents.found(entry.id, seq, self.parents)
            if own_ancestor:
                self.parents[own_ancestor] = CYCLE
        if not entry.aside and not aborted:
            self.leaf = self.tip = seq
            self.leaf_id = entry.id
        self._last_id = entry.id
        if entry.timestamp > self.last_time:  # noqa: PLR1730 - max() costs a call on the hot path
            self.last_time = entry.timestamp

    def _mark(self, entry: Entry, seq: int, above: int) -> None:
        """Record that this entry is the latest of its kind from here on the path."""
        if isinstance(entry, MessageEntry):
            if names_model(entry.message) and not self._overrides_answers(self.models[above]):
                self.models[seq] = seq
        elif isinstance(entry, OpaqueEntry):  # a reset
            self.boundaries[seq] = seq
        elif entry.marks is not None:
            column: array[int] = getattr(self, entry.marks)
            column[seq] = seq

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

    def _count(self, entry: Entry, usage: Usage) -> None:
        """Add the usage that an entry reports; the record of a turn includes that of the messages in its batch."""
        batch = None if entry.batch is None else entry.batch.id
        if batch != self._batch:
            self._batch, self._batch_usage = batch, Usage()
        if isinstance(entry, UsageEntry) and entry.usage.messages is not None:
            usage = usage.beyond(self._batch_usage)
        elif batch is not None and isinstance(entry, MessageEntry):
            self._batch_usage += usage
        self.usage += usage

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
        elif not isinstance(entry, OpaqueEntry):
            usage: object = getattr(getattr(entry, entry.type), "usage", None)
            if isinstance(usage, Usage):
                self._count(entry, usage)

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
            self.usage,
            self._missing_parents.children,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes with every entry

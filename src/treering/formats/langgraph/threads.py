"""The checkpoints of one thread in a saver's database, as the entries that the adapter makes of them."""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from ...events.entries import EPOCH, ContextEdit, Custom, KnownEntry, Message, Payload, entry_of
from ...events.errors import InvalidEntry
from ..chain import derived_id
from ..databases import Database, Row
from ..json_lines import Notes, unheard
from ..values import as_time
from .messages import fields_in, is_list, items_in, shown
from .records import (
    CHECKPOINT,
    WRITES,
    Grown,
    Record,
    Typed,
    Unreadable,
    Whole,
    Written,
    change_of,
    dump,
    load,
    shown_messages,
)

NAME = "langgraph"
"""The name of the format, from which ids are derived."""

_STORED_KEPT_MAX = 8
"""Of how many checkpoints the values are held in memory, for those that come after them."""

Stored: TypeAlias = Mapping[str, Typed | list[Typed]]
"""The values of a checkpoint by channel, as they are stored."""


class _Said(NamedTuple):
    """A message that contexts show, its place in a channel's list, and those before it."""

    before: _Said | None
    entry_id: str
    channel: str
    at: int


class _Imported(NamedTuple):
    """A checkpoint: its entry, of how many checkpoints each value is made, and what was said up to it."""

    entry_id: str
    depths: Mapping[str, int]
    said: _Said | None


class _Checkpoint(NamedTuple):
    """A row of the table of checkpoints, decoded."""

    row: Row
    namespace: str
    id: str
    parent: str | None
    kind: str
    fields: Mapping[str, object]
    values: Mapping[str, object]

    @property
    def time(self) -> datetime | None:
        """When it was made."""
        written = self.fields.get("ts")
        return as_time(written) if isinstance(written, str) else None


class ThreadReading:
    """A conversion of the checkpoints of one thread.

    Args:
        database: The database.
        thread: The thread.
        notes: Where damage is reported.
    """

    def __init__(self, database: Database, thread: str, notes: Notes) -> None:
        self._database = database
        self._thread = thread
        self._notes = notes
        self._time = EPOCH
        self._leaf: str | None = None
        self._imported: dict[tuple[str, str], _Imported] = {}
        self._kept: OrderedDict[tuple[str, str], Stored] = OrderedDict()

    def started(self) -> datetime | None:
        """Return when the first checkpoint was made; None if it does not say."""
        query = "SELECT * FROM checkpoints WHERE thread_id = ? ORDER BY rowid LIMIT 1"
        for row in self._database.rows_until_damage(unheard(), "", query, self._thread):
            try:
                return _checkpoint(row).time
            except Unreadable:
                return None
        return None

    def entries(self) -> Iterator[KnownEntry]:
        """Yield the entries of all checkpoints in the order in which they were stored, each with what was written."""
        query = "SELECT * FROM checkpoints WHERE thread_id = ? ORDER BY rowid"
        for row in self._database.rows_until_damage(self._notes, "the checkpoints", query, self._thread):
            try:
                checkpoint = _checkpoint(row)
                yield from self._entries(checkpoint)
            except (Unreadable, InvalidEntry) as error:
                message = f"the checkpoint {row['checkpoint_id']!r} is left out: {error}"
                self._notes.add("damaged", "error", message)
                continue
            yield from self._writes(checkpoint.namespace, checkpoint.id)
        lost = "SELECT DISTINCT checkpoint_ns, checkpoint_id FROM writes WHERE thread_id = ? ORDER BY 1, 2"
        for row in [*self._database.rows_until_damage(self._notes, "some writes", lost, self._thread)]:
            key = str(row["checkpoint_ns"]), str(row["checkpoint_id"])
            if key not in self._imported:
                yield from self._writes(*key)
        self._database.check()
        self._notes.close()

    # -- a checkpoint

    def _entries(self, checkpoint: _Checkpoint) -> Iterator[KnownEntry]:
        parent = None if checkpoint.parent is None else self._imported.get((checkpoint.namespace, checkpoint.parent))
        before: Stored = {} if parent is None else self._stored(checkpoint.namespace, checkpoint.parent or "")
        new = _stored(checkpoint)
        ids = self._ids(checkpoint)
        changed: dict[str, Whole | Grown] = {}
        depths: dict[str, int] = {}
        payloads: list[tuple[str, Payload]] = []
        said = None if parent is None else parent.said
        for channel, value in new.items():
            old, depth = before.get(channel), 0 if parent is None else parent.depths.get(channel, 0)
            change = change_of(value, old, depth)
            depths[channel] = depth if change is None else 1
            if change is None:
                continue
            changed[channel] = change.stored
            if isinstance(change.stored, Grown):
                depths[channel] = depth + 1 if change.stored.keep else 1
                if not checkpoint.namespace:
                    if parent is not None and isinstance(old, list) and change.keep < len(old):
                        said, taken_back = _without(said, channel, change.keep)
                        payloads += [(next(ids), ContextEdit(each)) for each in taken_back]
                    for message in self._shown(checkpoint, channel, change.keep):
                        payloads.append((next(ids), message))
                        place = msgspec.json.decode(message.raw_metadata or b"{}", type=dict[str, dict[str, object]])
                        said = _Said(said, payloads[-1][0], channel, int(str(place["langgraph"]["at"])))
        record = self._record(checkpoint, changed, tuple(each for each in new if each not in changed))
        payloads.append((next(ids), Custom(CHECKPOINT, Raw(msgspec.json.encode(record)))))
        below = self._leaf if parent is None and checkpoint.namespace else None if parent is None else parent.entry_id
        aside = bool(checkpoint.namespace) and below is not None  # the leaf is where the graph itself is
        self._time = max(self._time, checkpoint.time or self._time)
        for entry_id, payload in payloads:
            yield entry_of(payload, id=entry_id, parent_id=below, timestamp=self._time, aside=aside)
            below = entry_id
        assert below is not None
        if not aside:
            self._leaf = below
        key = checkpoint.namespace, checkpoint.id
        self._imported[key] = _Imported(below, depths, said)
        self._keep(key, new)

    def _record(self, checkpoint: _Checkpoint, changed: Mapping[str, Whole | Grown], same: tuple[str, ...]) -> Record:
        metadata = checkpoint.row["metadata"]
        known: object = {}
        try:
            known = msgspec.json.decode(metadata) if isinstance(metadata, (bytes, str)) and metadata else {}
        except ValueError:
            self._notes.add("damaged", "error", f"the metadata of the checkpoint {checkpoint.id!r} are left out")
        run = fields_in(known).get("run_id")
        rest = {name: value for name, value in checkpoint.fields.items() if name != "channel_values"}
        return Record(
            namespace=checkpoint.namespace,
            id=checkpoint.id,
            parent=checkpoint.parent,
            checkpoint=dump(rest, checkpoint.kind),
            metadata=dump(known),
            run_id=run if isinstance(run, str) else None,
            values=dict(changed),
            same=same,
        )

    def _shown(self, checkpoint: _Checkpoint, channel: str, first: int) -> Iterator[Message]:
        value = checkpoint.values[channel]
        added = map(shown, items_in(value)[first:])
        for at, each in enumerate(added, first):
            try:
                yield from shown_messages(channel, [each], at)
            except InvalidEntry as error:
                self._notes.add("damaged", "warning", f"a message of {checkpoint.id!r} is shown to nobody: {error}")

    def _stored(self, namespace: str, checkpoint_id: str) -> Stored:
        """Return the values of an earlier checkpoint, which are read again if that was long ago."""
        key = namespace, checkpoint_id
        if key not in self._kept:
            query = "SELECT * FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
            (row,) = self._database.rows(query, self._thread, *key)
            self._keep(key, _stored(_checkpoint(row)))
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: tuple[str, str], stored: Stored) -> None:
        self._kept[key] = stored
        if len(self._kept) > _STORED_KEPT_MAX:
            self._kept.popitem(last=False)

    def _ids(self, checkpoint: _Checkpoint) -> Iterator[str]:
        """Yield ids for the entries of a checkpoint, which may be stored again with other values."""
        digest, at = _digest(checkpoint.row["checkpoint"], checkpoint.row["metadata"]), 0
        while True:
            yield derived_id(NAME, self._thread, checkpoint.namespace, checkpoint.id, digest, str(at))
            at += 1

    # -- what tasks wrote

    def _writes(self, namespace: str, checkpoint_id: str) -> Iterator[KnownEntry]:
        query = "SELECT * FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY rowid"
        known = self._imported.get((namespace, checkpoint_id))
        below = self._leaf if known is None else known.entry_id
        found = self._database.rows_until_damage(
            self._notes, "the writes", query, self._thread, namespace, checkpoint_id
        )
        for (task, path), rows in groupby(found, lambda row: (str(row["task_id"]), str(row.get("task_path") or ""))):
            writes = tuple(map(_write, rows))
            written = msgspec.json.encode(Written(namespace, checkpoint_id, task, path, writes))
            entry_id = derived_id(NAME, self._thread, namespace, checkpoint_id, "writes", task, _digest(written))
            custom = Custom(WRITES, Raw(written))
            yield entry_of(custom, id=entry_id, parent_id=below, timestamp=self._time, aside=below is not None)


def _checkpoint(row: Row) -> _Checkpoint:
    kind, data = str(row["type"]), row["checkpoint"]
    loaded = load(kind, data if isinstance(data, bytes) else str(data).encode())
    fields = {str(name): value for name, value in fields_in(loaded).items()}
    if not fields:
        raise Unreadable("it holds no fields")
    parent = row["parent_checkpoint_id"]
    named = {str(name): value for name, value in fields_in(fields.get("channel_values")).items()}
    return _Checkpoint(
        row, str(row["checkpoint_ns"]), str(row["checkpoint_id"]), str(parent) if parent else None, kind, fields, named
    )


def _stored(checkpoint: _Checkpoint) -> Stored:
    kind = checkpoint.kind
    return {
        channel: [dump(each, kind) for each in value] if is_list(value) else dump(value, kind)
        for channel, value in checkpoint.values.items()
    }


def _without(said: _Said | None, channel: str, keep: int) -> tuple[_Said | None, Sequence[str]]:
    """Return what was said without the elements of a list from one on, and the entries of these, oldest first."""
    all_of_it: list[_Said] = []
    at = said
    while at is not None:
        all_of_it.append(at)
        at = at.before
    rest: _Said | None = None
    taken_back: list[str] = []
    for each in reversed(all_of_it):
        if each.channel == channel and each.at >= keep:
            taken_back.append(each.entry_id)
        else:
            rest = each._replace(before=rest)
    return rest, taken_back


def _write(row: Row) -> tuple[int, str, Typed]:
    at, value = row["idx"], row["value"]
    data = value if isinstance(value, bytes) else b"" if value is None else str(value).encode()
    return at if isinstance(at, int) else 0, str(row["channel"]), (str(row["type"]), b64encode(data).decode())


def _digest(*values: object) -> str:
    digest = blake2b(digest_size=16)
    for each in values:
        digest.update(each if isinstance(each, bytes) else repr(each).encode())
        digest.update(b"\0")
    return digest.hexdigest()

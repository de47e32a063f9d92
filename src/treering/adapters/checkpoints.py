"""The checkpoints of one LangGraph thread, as entries of one session.

A checkpoint is a custom entry below that of its parent, so a graph that is resumed from an old checkpoint makes a
branch of the session's tree. Its values are stored as what differs from the parent's: a list that grew costs what was
added to it. The messages of a list stand before the checkpoint as messages, for people, searches and other programs;
the checkpoint itself keeps its own bytes of them, by which it is read back exactly.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from ..actors.commands import AppendOptions
from ..actors.session.session import Session
from ..events.entries import ContextEdit, ContextEditEntry, Custom, CustomEntry, MessageEntry, Payload
from ..events.errors import EntryNotFound
from ..formats.langgraph.records import (
    CHECKPOINT,
    HIDDEN,
    WRITES,
    Grown,
    Hidden,
    Record,
    Typed,
    Whole,
    Written,
    change_of,
    shown_messages,
)
from .session_index import CustomIndex

RECORDS_KEPT_MAX = 512
"""How many checkpoints of a thread are kept decoded, since the next one needs its parents."""


class Serde(Protocol):
    """LangGraph's serializer, as far as it is used here."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:  # noqa: ANN401  # of whatever a graph keeps
        """Return a value's type and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:  # noqa: ANN401  # of whatever a graph keeps
        """Return the value."""
        ...


class Write(NamedTuple):
    """One write of a task."""

    task_id: str
    at: int
    task_path: str
    channel: str
    value: Typed


class CheckpointRow(NamedTuple):
    """A checkpoint as the index of a thread knows it."""

    namespace: str
    id: str
    parent: str | None
    entry_id: str
    run_id: str | None


class Thread(CustomIndex):
    """The checkpoints of a session, by namespace and id; one task at a time may change them.

    Args:
        session: The session.
        serde: The serializer of the values.
    """

    def __init__(self, session: Session, serde: Serde) -> None:
        super().__init__(session)
        self._serde = serde
        self._rows: dict[tuple[str, str], CheckpointRow] = {}
        self._hidden: set[tuple[str, str]] = set()
        self._writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self._records: OrderedDict[str, Record] = OrderedDict()

    def dump(self, value: Any) -> Typed:  # noqa: ANN401  # of whatever a graph keeps
        """Return a value as it is stored."""
        kind, data = self._serde.dumps_typed(value)
        return kind, b64encode(data).decode()

    def load(self, stored: Typed) -> Any:  # noqa: ANN401  # of whatever a graph keeps
        """Return a stored value, decoded afresh."""
        return self._serde.loads_typed((stored[0], b64decode(stored[1])))

    # -- what is there

    def rows(self, namespace: str | None = None) -> list[CheckpointRow]:
        """Return the checkpoints that are shown, of one namespace or of all, the latest first."""
        found = [
            row for key, row in self._rows.items() if key not in self._hidden and namespace in (None, row.namespace)
        ]
        return sorted(found, key=lambda row: row.id, reverse=True)

    def row(self, namespace: str, checkpoint_id: str | None) -> CheckpointRow | None:
        """Return a checkpoint that is shown, or the latest of the namespace."""
        if checkpoint_id is None:
            return next(iter(self.rows(namespace)), None)
        key = namespace, checkpoint_id
        return None if key in self._hidden else self._rows.get(key)

    def writes(self, row: CheckpointRow) -> Iterable[Write]:
        """Return what tasks wrote after a checkpoint."""
        return self._writes.get((row.namespace, row.id), {}).values()

    async def record(self, row: CheckpointRow) -> Record:
        """Return what is stored of a checkpoint.

        Raises:
            EntryNotFound: Its entry is not there any more.
        """
        known = self._records.get(row.entry_id)
        if known is None:
            entry = await self.session.entry(row.entry_id)
            if not isinstance(entry, CustomEntry) or entry.custom.raw_data is None:
                raise EntryNotFound(f"the entry {row.entry_id!r} of the checkpoint {row.id!r} is not there any more")
            known = msgspec.json.decode(entry.custom.raw_data, type=Record)
            self._keep(row.entry_id, known)
        self._records.move_to_end(row.entry_id)
        return known

    async def values(self, row: CheckpointRow) -> dict[str, Any]:
        """Return the values of a checkpoint, decoded afresh."""
        record = await self.record(row)
        found: dict[str, Any] = {}
        for channel in (*record.values, *record.same):
            stored, _ = await self._stored(row, channel)
            if stored is not None:
                found[channel] = [*map(self.load, stored)] if isinstance(stored, list) else self.load(stored)
        return found

    # -- changing it

    async def put(
        self, namespace: str, checkpoint: Mapping[str, Any], metadata: Mapping[str, Any], parent_id: str | None
    ) -> None:
        """Append a checkpoint below its parent, with the messages that it adds before it.

        Args:
            namespace: The namespace.
            checkpoint: The checkpoint.
            metadata: Its metadata.
            parent_id: The id of its parent in the namespace, if it has one.
        """
        parent = None if parent_id is None else self._rows.get((namespace, parent_id))
        values: dict[str, Whole | Grown] = {}
        same: list[str] = []
        payloads: list[Payload] = []
        for channel, value in checkpoint["channel_values"].items():
            new = [self.dump(each) for each in value] if type(value) is list else self.dump(value)
            old, depth = (None, 0) if parent is None else await self._stored(parent, channel)
            change = change_of(new, old, depth)
            if change is None:
                same.append(channel)
                continue
            values[channel] = change.stored
            if isinstance(new, list) and not namespace:
                if parent is not None and isinstance(old, list) and change.keep < len(old):
                    payloads += await self._taken_back(parent, channel, change.keep)
                payloads += shown_messages(channel, value[change.keep :], change.keep)
        record = Record(
            namespace=namespace,
            id=checkpoint["id"],
            parent=parent_id,
            checkpoint=self.dump({name: each for name, each in checkpoint.items() if name != "channel_values"}),
            metadata=self.dump(dict(metadata)),
            run_id=metadata.get("run_id"),
            values=values,
            same=tuple(same),
        )
        options: AppendOptions = {"below": self._below(namespace, parent)}
        if namespace and options["below"] is not None:  # the leaf is where the graph itself is
            options["aside"] = True
        custom = Custom(CHECKPOINT, Raw(msgspec.json.encode(record)))
        ids = await self.session.append_many([*payloads, custom], **options)
        self._index(ids[-1], record)
        self._keep(ids[-1], record)
        self.skip(len(ids))

    async def put_writes(self, written: Written) -> None:
        """Append what a task wrote after a checkpoint; a place below zero replaces what is there, others keep it."""
        known = self._writes.get((written.namespace, written.id), {})
        fresh = tuple(each for each in written.writes if each[0] < 0 or (written.task_id, each[0]) not in known)
        if not fresh:
            return
        custom = Custom(WRITES, Raw(msgspec.json.encode(msgspec.structs.replace(written, writes=fresh))))
        row = self._rows.get((written.namespace, written.id))
        options: AppendOptions = {} if row is None else {"below": row.entry_id, "aside": True}
        (entry_id,) = await self.session.append_many([custom], **options)
        self._note(entry_id, custom)
        self.skip(1)

    async def hide(self, rows: Sequence[CheckpointRow]) -> None:
        """Show checkpoints no more; what others are made of stays in the session."""
        if rows:
            keys = tuple((row.namespace, row.id) for row in rows)
            custom = Custom(HIDDEN, Raw(msgspec.json.encode(Hidden(keys))))
            below = self.session.leaf_id
            options: AppendOptions = {} if below is None else {"below": below, "aside": True}
            (entry_id,) = await self.session.append_many([custom], **options)
            self._note(entry_id, custom)
            self.skip(1)

    async def append_all(self, source: Session) -> None:
        """Append the entries of another session, each below the copy of its parent."""
        ids: dict[str | None, str | None] = {None: None}
        async for entry in source.iter_entries():
            if isinstance(entry, (ContextEditEntry, CustomEntry, MessageEntry)):
                payload: Payload = getattr(entry, entry.type)  # the field of the type's name
                if isinstance(payload, ContextEdit):
                    payload = msgspec.structs.replace(payload, target_id=ids[payload.target_id])
                options: AppendOptions = {"below": ids[entry.parent_id]}
                if entry.aside:
                    options["aside"] = True
                ids[entry.id] = await self.session.append(payload, **options)
            elif entry.id is not None:
                ids[entry.id] = ids[entry.parent_id]

    # -- within

    def _note(self, entry_id: str, custom: Custom) -> None:
        raw = custom.raw_data
        assert raw is not None  # only those are noted
        match custom.custom_type:
            case "langgraph.checkpoint":
                record = msgspec.json.decode(raw, type=Record)
                self._index(entry_id, record)
                self._keep(entry_id, record)
            case "langgraph.writes":
                written = msgspec.json.decode(raw, type=Written)
                known = self._writes.setdefault((written.namespace, written.id), {})
                for at, channel, value in written.writes:
                    write = Write(written.task_id, at, written.task_path, channel, value)
                    if at < 0:
                        known[written.task_id, at] = write
                    else:
                        known.setdefault((written.task_id, at), write)
            case "langgraph.hidden":
                for key in msgspec.json.decode(raw, type=Hidden).checkpoints:
                    self._hidden.add(key)
                    self._writes.pop(key, None)
            case _:
                pass

    def _index(self, entry_id: str, record: Record) -> None:
        key = record.namespace, record.id
        self._rows[key] = CheckpointRow(*key, record.parent, entry_id, record.run_id)
        self._hidden.discard(key)

    def _keep(self, entry_id: str, record: Record) -> None:
        self._records[entry_id] = record
        if len(self._records) > RECORDS_KEPT_MAX:
            self._records.popitem(last=False)

    def _below(self, namespace: str, parent: CheckpointRow | None) -> str | None:
        if parent is not None:
            return parent.entry_id
        return self.session.leaf_id if namespace else None

    async def _stored(self, row: CheckpointRow, channel: str) -> tuple[Typed | list[Typed] | None, int]:
        """Return a value as it is stored, and of how many checkpoints it is made.

        It is one value, the elements of a list, or None if the checkpoint has none.
        """
        parts: list[Sequence[Typed]] = []
        most: int | None = None  # so many elements of the list at hand are wanted
        at: CheckpointRow | None = row
        while at is not None:
            record = await self.record(at)
            stored = record.values.get(channel)
            if isinstance(stored, Whole):
                return stored.value, 1
            if isinstance(stored, Grown):
                wanted = stored.add if most is None else stored.add[: max(0, most - stored.keep)]
                parts.append(wanted)
                most = stored.keep if most is None else min(most, stored.keep)
                if most == 0:
                    return [each for part in reversed(parts) for each in part], len(parts)
            elif channel not in record.same:
                break
            at = None if at.parent is None else self._rows.get((at.namespace, at.parent))
        return None, 0

    async def _taken_back(self, parent: CheckpointRow, channel: str, keep: int) -> list[Payload]:
        """Return the edits by which contexts show no more of a list than the elements that were kept."""
        edits: list[Payload] = []
        for each in (await self.session.context(parent.entry_id)).messages:
            place = each.message.metadata.get("langgraph")
            if isinstance(place, dict) and place.get("channel") == channel and _number(place.get("at")) >= keep:
                edits.append(ContextEdit(each.entry_id))
        return edits


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1

"""What a command comes to: the entries to write, or the error that refuses it.

Deciding is pure. It reads a draft (the committed index and what this batch has added to it), takes time and ids from
its arguments, and touches neither disk nor clock, so the same inputs give the same entries. Where a rule needs more
than the index knows, `seqs_to_read` names the ordinals whose entries the actor reads first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..events.dialects.base import Dialect
from ..events.entries import (
    Batch,
    BranchSummary,
    Compaction,
    ContextEdit,
    CustomMessageEntry,
    Entry,
    KnownEntry,
    Label,
    MessageEntry,
    OpaqueEntry,
    Payload,
    SessionInfo,
    ToolExecution,
    entry_class,
    payload_of,
)
from ..events.errors import CommandConflict, EntryNotFound, InvalidEntry, LeafMoved, UnsafeCut
from ..events.index import LogIndex
from ..events.kinds import Kind
from ..projections.cuts import unsafe_reason
from .commands import Append, Command, AnswerFromLog, MoveLeaf

Entries: TypeAlias = Mapping[int, Entry | None]
"""Entries by ordinal; None where the line is damaged."""

NewEntries: TypeAlias = Sequence[KnownEntry]
"""The entries that the same command has made so far."""

NO_ENTRIES: Entries = {}

_COMMAND_NAMESPACE = UUID("7b1f6a52-52a5-5a0e-9d2c-3d3c6c9f0b61")
_EDITABLE_ROLES = frozenset({"user", "assistant", "tool"})


class _Check(Protocol):
    def __call__(self, draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries, /) -> Payload: ...


class Draft:
    """The state that a command is decided against: what is committed, and what the batch has added so far.

    Attributes:
        leaf: The ordinal of the leaf, 0 in an empty session.
        leaf_id: Its id.
        head: The ordinal of the last line.
        last_time: The latest timestamp so far.
    """

    __slots__ = ("_ids", "_parents", "head", "index", "last_time", "leaf", "leaf_id")

    def __init__(self, index: LogIndex) -> None:
        self.index = index
        self.leaf = index.leaf
        self.leaf_id = index.leaf_id
        self.head = index.seen
        self.last_time = index.last_time_seen
        self._ids: dict[str, int] = {}
        self._parents: dict[int, int] = {}

    def find(self, entry_id: object) -> int:
        """Return the ordinal of an entry, committed or drafted, or 0, as for anything that is no text."""
        drafted = self._ids.get(entry_id, 0) if self._ids and isinstance(entry_id, str) else 0
        return drafted or self.index.find(entry_id)

    def taken(self, entry_id: str) -> bool:
        """Tell whether an id is used already."""
        return self.find(entry_id) != 0

    def add(self, entry: Entry) -> None:
        """Take in an entry that is about to be written."""
        self.head = entry.seq
        self._parents[entry.seq] = self.find(entry.parent_id) if entry.parent_id else 0
        self._ids[entry.id or ""] = entry.seq
        self.last_time = entry.timestamp
        if not entry.aside:
            self.leaf, self.leaf_id = entry.seq, entry.id

    def parent(self, seq: int) -> int:
        """Return the ordinal of an entry's parent; 0 or less where it has none."""
        if seq in self._parents:
            return self._parents[seq]
        return self.index.parents[seq]

    def is_ancestor(self, ancestor: int, seq: int) -> bool:
        """Tell whether an entry lies on the path to another, which may be itself."""
        while seq > ancestor:
            seq = self.parent(seq)
        return seq == ancestor and ancestor > 0


def command_entry_id(session_id: str, command_id: str, position: int) -> str:
    """Return the id of the entry that a command's payload at `position` becomes: the same at every try."""
    return str(uuid5(_COMMAND_NAMESPACE, f"{session_id}\n{command_id}\n{position}"))


def seqs_to_read(draft: Draft, command: Append) -> Sequence[int]:
    """Name the ordinals of committed entries that deciding this command needs to look into."""
    if command.command_id is None and _LOOKING.isdisjoint(map(type, command.payloads)):
        return ()
    if command.command_id is not None:
        found = _earlier(draft, command, command.command_id)
        if found:
            return found
    seqs: list[int] = []
    for payload in command.payloads:
        if isinstance(payload, Compaction):
            seqs.extend(seq for seq in _compacted(draft, command, payload) if seq <= draft.index.head)
        elif isinstance(payload, ContextEdit):
            target = draft.find(payload.target_id)
            if 0 < target <= draft.index.head:
                seqs.append(target)
    seqs.sort()
    return seqs


def decide(
    draft: Draft,
    command: Append,
    now: datetime,
    new_id: Callable[[], str],
    dialect: Dialect,
    entries: Entries = NO_ENTRIES,
) -> tuple[list[KnownEntry], bool]:
    """Decide an append.

    Args:
        draft: The state; it is not changed.
        command: What is asked for.
        now: The time that the new entries get, unless the session's last entry is later.
        new_id: The host's source of uuid4 strings.
        dialect: How the log writes ids.
        entries: What `seqs_to_read` asked for.

    Returns:
        The entries, and whether they are new: False when the same command was carried out before.

    Raises:
        Conflict: The state is not the one that the caller relied on, or the command id was used for something else.
        InvalidInput: The command breaks a rule of what it appends.
        EntryNotFound: It refers to an entry that is not there.
    """
    if not command.payloads:
        raise InvalidEntry("there is nothing to append: give at least one payload")
    if command.command_id is not None:
        earlier = _earlier(draft, command, command.command_id)
        if earlier:
            return _repeated(command, earlier, entries), False
    if command.expected_leaf is not UNSET or command.expected_seq is not None:
        _check_expectations(draft, command)
    parent_id = _parent_id(draft, command)
    time = max(draft.last_time, now)
    session_id = draft.index.header.id
    count = len(command.payloads)
    made: list[KnownEntry] = []
    for position, payload in enumerate(command.payloads):
        check = _CHECKS.get(type(payload))
        checked = payload if check is None else check(draft, command, payload, entries, made)
        if command.command_id is not None:
            entry_id = command_entry_id(session_id, command.command_id, position)
        else:
            entry_id = dialect.new_id(new_id(), draft.taken)
        kind = entry_class(checked)
        fields: dict[str, Any] = {kind.type: checked}
        if count > 1:
            fields["batch"] = Batch(session_id, made[0].id if made else entry_id, position, count)
        made.append(
            kind(
                id=entry_id,
                parent_id=parent_id,
                timestamp=time,
                seq=draft.head + 1 + position,
                aside=command.aside,
                command_id=command.command_id,
                **fields,
            )
        )
        parent_id = entry_id
    if count > 1 and len({entry.id for entry in made}) < count:
        raise InvalidEntry("the id source gave the same id twice: it must give a fresh id each time")
    return made, True


def decide_move(index: LogIndex, command: MoveLeaf) -> int:
    """Decide a move of the leaf.

    Returns:
        The ordinal of the entry that becomes the leaf, 0 for none.

    Raises:
        LeafMoved: The leaf is not the one that the caller relied on.
        EntryNotFound: There is no such entry.
    """
    if not isinstance(command.expected_leaf, UnsetType) and command.expected_leaf != index.leaf_id:
        raise LeafMoved(f"the leaf is {index.leaf_id!r} and not {command.expected_leaf!r}: read the session again")
    return 0 if command.entry_id is None else index.seq_of(command.entry_id)


def sets_status(command: Command | AnswerFromLog) -> bool:
    """Tell whether a command says itself whether the session is archived."""
    return isinstance(command, Append) and any(
        isinstance(each, SessionInfo) and each.status is not None for each in command.payloads
    )


def needs_own_write(draft: Draft, command: Command | AnswerFromLog) -> bool:
    """Tell whether a command cannot be written in one go with others: all but an append of one entry that needs no look.

    What is atomic has to land whole, a change of status decides what becomes of those after it, and what was written
    before has to be readable where a command looks into it.
    """
    return (
        not isinstance(command, Append)
        or len(command.payloads) > 1
        or sets_status(command)
        or bool(seqs_to_read(draft, command))
    )


def _check_expectations(draft: Draft, command: Append) -> None:
    expected = command.expected_leaf
    if not isinstance(expected, UnsetType) and expected != draft.leaf_id:
        raise LeafMoved(f"the leaf is {draft.leaf_id!r} and not {expected!r}: read the session again and decide again")
    if command.expected_seq is not None and command.expected_seq != draft.head:
        raise LeafMoved(
            f"the log ends with seq {draft.head} and not {command.expected_seq}: read the session again and decide again"
        )


def _parent_id(draft: Draft, command: Append) -> str | None:
    if isinstance(command.below, UnsetType):
        if command.aside:
            raise InvalidEntry("an entry aside needs the entry that it goes below: give `below`")
        return draft.leaf_id
    if command.below is not None and not draft.taken(command.below):
        raise EntryNotFound(command.below)
    return command.below


def _parent_seq(draft: Draft, command: Append) -> int:
    if isinstance(command.below, UnsetType):
        return draft.leaf
    return draft.find(command.below) if command.below is not None else 0


def _earlier(draft: Draft, command: Append, command_id: str) -> list[int]:
    """Return the ordinals of the entries that this command made when it was carried out before."""
    session_id, kinds = draft.index.header.id, draft.index.kinds
    found = [draft.find(command_entry_id(session_id, command_id, i)) for i in range(len(command.payloads))]
    # What is left of a batch that a crash tore does not count: the command was not carried out.
    return [seq for seq in found if seq and (seq >= len(kinds) or kinds[seq] != Kind.ABORTED)]


def _repeated(command: Append, earlier: Sequence[int], entries: Entries) -> list[KnownEntry]:
    """Return the entries of a command that was carried out before, when it is the same command.

    Raises:
        CommandConflict: It had another payload.
    """
    stored = [entries.get(seq) for seq in earlier]
    made = [entry for entry in stored if entry is not None and not isinstance(entry, OpaqueEntry)]
    same = len(made) == len(command.payloads) and all(
        _same_payload(payload_of(entry), payload) for entry, payload in zip(made, command.payloads, strict=True)
    )
    length = made[-1].batch.n if made and made[-1].batch else 1
    if not same or length != len(command.payloads):
        raise CommandConflict(
            f"the command id {command.command_id!r} was used for another command: give each request an id of its own"
        )
    return made


def _same_payload(stored: Payload, asked: Payload) -> bool:
    if isinstance(stored, BranchSummary) and isinstance(asked, BranchSummary) and not asked.from_id:
        stored = replace(stored, from_id="")
    return stored == asked or (type(stored) is type(asked) and _compact(stored) == _compact(asked))


def _compact(payload: Payload) -> bytes:
    """Return a payload without the white space that a caller's raw JSON may hold, and a line need not keep."""
    return msgspec.json.format(msgspec.json.encode(payload), indent=-1)


def _check_label(draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries) -> Payload:
    assert isinstance(payload, Label)
    if not draft.taken(payload.target_id) and all(entry.id != payload.target_id for entry in made):
        raise EntryNotFound(payload.target_id)
    return payload


def _check_execution(draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries) -> Payload:
    assert isinstance(payload, ToolExecution)
    if payload.message_id is not None and not draft.taken(payload.message_id):
        raise EntryNotFound(payload.message_id)
    return payload


def _complete_summary(draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries) -> Payload:
    assert isinstance(payload, BranchSummary)
    return payload if payload.from_id else replace(payload, from_id=draft.leaf_id or "root")


def _check_compaction(draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries) -> Payload:
    assert isinstance(payload, Compaction)
    base = _parent_seq(draft, command)
    first = draft.head + 1 + len(made)
    first_id = payload.first_kept_entry_id
    if first_id is not None:
        above = next((entry.seq for entry in made if entry.id == first_id), 0)
        first = above or draft.find(first_id)
        if not first:
            raise EntryNotFound(first_id)
        if not above and not draft.is_ancestor(first, base):
            raise UnsafeCut(f"entry {first_id!r} is not on the path that is compacted: keep from an entry of that path")
    committed = {seq: entry for seq in _compacted(draft, command, payload) if (entry := entries.get(seq)) is not None}
    path = {**committed, **{entry.seq: entry for entry in made}}
    reason = unsafe_reason(list(path.values()), sum(seq < first for seq in path))
    if reason is not None:
        raise UnsafeCut(f"{reason}: ask `find_safe_cut` for an entry to keep from")
    return payload


def _compacted(draft: Draft, command: Append, payload: Compaction) -> list[int]:
    """Return the ordinals of the path that is compacted, as far up as a context or the kept range reaches."""
    seq = _parent_seq(draft, command)
    first = draft.find(payload.first_kept_entry_id) if payload.first_kept_entry_id is not None else seq
    top = min(first, draft.index.boundaries[min(seq, draft.index.head)])
    found: list[int] = []
    while seq > 0 and seq >= top:
        found.append(seq)
        seq = draft.parent(seq)
    found.reverse()
    return found


def _check_edit(draft: Draft, command: Append, payload: Payload, entries: Entries, made: NewEntries) -> Payload:
    assert isinstance(payload, ContextEdit)
    target = draft.find(payload.target_id)
    if not target:
        raise EntryNotFound(payload.target_id)
    if not draft.is_ancestor(target, _parent_seq(draft, command)):
        raise InvalidEntry(f"entry {payload.target_id!r} is not on the path: only what stands there can be edited")
    entry = entries.get(target)
    editable = isinstance(entry, CustomMessageEntry) or (
        isinstance(entry, MessageEntry) and entry.message.role in _EDITABLE_ROLES
    )
    if not editable:
        raise InvalidEntry(
            f"entry {payload.target_id!r} shows nothing that can be edited: give a user's, an assistant's, a tool's or "
            "an extension's message"
        )
    return payload


_CHECKS: Mapping[type[Payload], _Check] = {
    Label: _check_label,
    Compaction: _check_compaction,
    ContextEdit: _check_edit,
    BranchSummary: _complete_summary,
    ToolExecution: _check_execution,
}
"""How a payload is held against the rules of its type, and completed where the state completes it."""

_LOOKING = frozenset({Compaction, ContextEdit})

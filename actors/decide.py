"""Decide a command: the entries to write, or the error that refuses it.

Deciding is pure. It reads a draft (the committed index and what this batch has added to it), takes time and ids from
its arguments, and touches neither disk nor clock, so the same inputs give the same entries. When a rule needs more
than the index knows, `seqs_to_read` names the entries that the actor reads first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..events.arguments import check_count
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
    entry_of,
    payload_of,
)
from ..events.errors import CommandConflict, DialectCannot, EntryNotFound, InvalidEntry, LeafMoved, UnsafeCut
from ..events.index import LogIndex
from ..events.kinds import Kind
from ..projections.cuts import unsafe_reason
from .commands import AnswerFromLog, Append, Command, Decision, MoveLeaf
from .system_message import system_message

Entries: TypeAlias = Mapping[int, Entry | None]
"""Entries by seq; None for a damaged line."""

NewEntries: TypeAlias = Sequence[Entry]
"""The entries that the same command has produced so far."""

NO_ENTRIES: Entries = {}

_COMMAND_NAMESPACE = UUID("7b1f6a52-52a5-5a0e-9d2c-3d3c6c9f0b61")
_EDITABLE_ROLES = frozenset({"user", "assistant", "tool"})


class Draft:
    """The state that a command is decided against: the committed entries, and those that the batch has added so far.

    A command that reads entries is written by itself, so it meets a draft to which nothing was added.

    Attributes:
        leaf: The seq of the leaf, 0 in an empty session.
        leaf_id: Its id.
        head: The seq of the last line.
        last_time: The latest timestamp so far.
        find: Returns the seq of an entry, committed or drafted; 0 if there is none, or if the id is not a string.
    """

    __slots__ = ("_ids", "find", "head", "index", "last_time", "leaf", "leaf_id")

    def __init__(self, index: LogIndex) -> None:
        self.index = index
        self.leaf, self.leaf_id, self.last_time = index.leaf, index.leaf_id, index.last_time
        self.head = len(index.kinds) - 1 + len(index.withheld)  # its `seen`, without a call for each append
        if index.withheld:
            self.last_time = max(self.last_time, *(each.timestamp for each in index.withheld))
        self.find: Callable[[object], int] = index.ids.find  # as long as nothing is drafted
        self._ids: dict[str, int] = {}

    def _find(self, entry_id: object) -> int:
        drafted = self._ids.get(entry_id, 0) if isinstance(entry_id, str) else 0
        return drafted or self.index.ids.find(entry_id)

    def add(self, entry: Entry) -> None:
        """Add an entry that is about to be written."""
        self.find = self._find
        self.head = entry.seq
        self._ids[entry.id or ""] = entry.seq
        self.last_time = entry.timestamp
        if not entry.aside:
            self.leaf, self.leaf_id = entry.seq, entry.id


def command_entry_id(session_id: str, command_id: str, position: int) -> str:
    """Return the id of the entry made from a command's payload at `position`: the same on every retry."""
    return str(uuid5(_COMMAND_NAMESPACE, f"{session_id}\n{command_id}\n{position}"))


def seqs_to_read(draft: Draft, command: Append) -> Sequence[int]:
    """Return the seqs of the committed entries that must be read before this command is decided."""
    if command.command_id is not None:
        earlier = _earlier(draft, command, command.command_id)
        if earlier:
            return earlier
    if READS_ENTRIES.isdisjoint(map(type, command.payloads)):
        return ()
    seqs: list[int] = []
    for payload in command.payloads:
        if isinstance(payload, Compaction):
            seqs.extend(_consulted(draft, command, payload))
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
) -> Decision:
    """Decide an append.

    Args:
        draft: The state; it is not changed.
        command: The append.
        now: The time of the new entries, unless the session's last entry is later.
        new_id: The host's source of uuid4 strings.
        dialect: The dialect of the log.
        entries: The entries named by `seqs_to_read`.

    Returns:
        The new entries as they will be read back, and their lines; no lines if the same command was carried out before.

    Raises:
        Conflict: The state is not the one that the caller expected, or the command id was used for another command.
        InvalidInput: A payload breaks a rule of its type, or the dialect cannot write it.
        EntryNotFound: It refers to an entry that does not exist.
    """
    aside, command_id, count = command.aside, command.command_id, len(command.payloads)
    if not count:
        raise InvalidEntry("nothing to append: give at least one payload")
    if command_id is not None:
        earlier = _earlier(draft, command, command_id)
        if earlier:
            return Decision([*_repeated(command, earlier, entries)], [])
    if command.expected_leaf is not UNSET or command.expected_seq is not None:
        _check_expectations(draft, command)
    parent_id = _parent_id(draft, command, dialect) if aside or command.below is not UNSET else draft.leaf_id
    time = max(draft.last_time, now)
    batch: Batch | None = None
    decided: list[Entry] = []
    lines: list[bytes] = []
    for seq, payload in enumerate(command.payloads, draft.head + 1):
        checked = _checked(draft, command, payload, entries, decided) if type(payload) in _CHECKED else payload
        if command_id is None:
            entry_id = dialect.new_id(new_id(), draft.find)
        else:
            entry_id = command_entry_id(draft.index.header.id, command_id, len(decided))
        if count > 1:
            first_id = decided[0].id if decided else entry_id
            batch = Batch(draft.index.header.id, first_id or "", len(decided), count)
        line, entry = dialect.write(
            entry_of(
                checked,
                id=entry_id,
                parent_id=parent_id,
                timestamp=time,
                seq=seq,
                aside=aside,
                command_id=command_id,
                batch=batch,
            )
        )
        decided.append(entry)
        lines.append(line)
        parent_id = entry_id
    if count > 1 and len({entry.id for entry in decided}) < count:
        raise InvalidEntry("the id source returned the same id twice: it must return a fresh id each time")
    return Decision(decided, lines)


def decide_move(index: LogIndex, command: MoveLeaf) -> int:
    """Decide a move of the leaf.

    Returns:
        The seq of the entry that becomes the leaf, 0 for none.

    Raises:
        EntryNotFound: There is no such entry.
    """
    return 0 if command.leaf_id is None else index.seq_of(command.leaf_id)


def sets_status(command: Command | AnswerFromLog) -> bool:
    """Return whether a command itself says whether the session is archived."""
    return isinstance(command, Append) and any(
        isinstance(each, SessionInfo) and each.archives is not None for each in command.payloads
    )


def needs_own_write(draft: Draft, command: Command | AnswerFromLog) -> bool:
    """Return whether a command must be written by itself: all but an append of one entry that needs no entries read.

    An atomic batch has to land whole, a change of status affects the commands after it, and entries that a command
    reads must have been written first, even if they are all drafted.
    """
    return (
        not isinstance(command, Append)
        or len(command.payloads) > 1
        or sets_status(command)
        or not READS_ENTRIES.isdisjoint(map(type, command.payloads))
        or bool(seqs_to_read(draft, command))
    )


def _check_expectations(draft: Draft, command: Append) -> None:
    expected = command.expected_leaf
    if not isinstance(expected, UnsetType) and expected != draft.leaf_id:
        raise LeafMoved(f"the leaf is {draft.leaf_id!r}, not {expected!r}: read the session again and decide again")
    if command.expected_seq is not None and command.expected_seq != draft.head:
        check_count("expected_seq", command.expected_seq)
        raise LeafMoved(
            f"the log ends with seq {draft.head}, not {command.expected_seq}: read the session again and decide again"
        )


def _parent_id(draft: Draft, command: Append, dialect: Dialect) -> str | None:
    if isinstance(command.below, UnsetType):
        raise InvalidEntry("an entry that is appended aside needs a parent: give `below`")
    if command.below is not None and not draft.find(command.below):
        raise EntryNotFound(command.below)
    if command.aside and not dialect.can_append_aside:
        raise DialectCannot(
            f"the {dialect.name} format cannot store an entry that does not become the leaf: use a native session"
        )
    return command.below


def _parent_seq(draft: Draft, command: Append) -> int:
    if isinstance(command.below, UnsetType):
        return draft.leaf
    return draft.find(command.below) if command.below is not None else 0


def _earlier(draft: Draft, command: Append, command_id: str) -> list[int]:
    """Return the seqs of the entries that this command produced if it was carried out before."""
    session_id, kinds = draft.index.header.id, draft.index.kinds
    seqs = [draft.find(command_entry_id(session_id, command_id, i)) for i in range(len(command.payloads))]
    # The remains of a batch that a crash interrupted do not count: the command was not carried out.
    return [seq for seq in seqs if seq and (seq >= len(kinds) or kinds[seq] != Kind.ABORTED)]


def _repeated(command: Append, earlier: Sequence[int], entries: Entries) -> list[KnownEntry]:
    """Return the entries of a command that was carried out before, if it is the same command.

    Raises:
        CommandConflict: The earlier command had other payloads.
    """
    stored = [entries.get(seq) for seq in earlier]
    known = [entry for entry in stored if entry is not None and not isinstance(entry, OpaqueEntry)]
    same = len(known) == len(command.payloads) and all(
        _same_payload(payload_of(entry), payload) for entry, payload in zip(known, command.payloads, strict=True)
    )
    length = known[-1].batch.n if known and known[-1].batch else 1
    if not same or length != len(command.payloads):
        raise CommandConflict(
            f"the command id {command.command_id!r} was used for another command: give each request its own id"
        )
    return known


def _same_payload(stored: Payload, requested: Payload) -> bool:
    if isinstance(stored, BranchSummary) and isinstance(requested, BranchSummary) and not requested.from_id:
        stored = replace(stored, from_id="")
    if isinstance(stored, Compaction) and isinstance(requested, Compaction) and requested.raw_system_message is None:
        stored = replace(stored, raw_system_message=None)
    return stored == requested or (type(stored) is type(requested) and _compact(stored) == _compact(requested))


def _compact(payload: Payload) -> bytes:
    """Return a payload's JSON without the whitespace of the caller's raw JSON, which a stored line may lack."""
    return msgspec.json.format(msgspec.json.encode(payload), indent=-1)


def _checked(draft: Draft, command: Append, payload: Payload, entries: Entries, new_entries: NewEntries) -> Payload:
    """Check a payload against the rules of its type, and fill in what follows from the state."""
    match payload:
        case Label(target_id=target) if not draft.find(target) and all(entry.id != target for entry in new_entries):
            raise EntryNotFound(target)
        case ToolExecution(message_id=message_id) if message_id is not None and not draft.find(message_id):
            raise EntryNotFound(message_id)
        case BranchSummary() if not payload.from_id:
            return replace(payload, from_id=draft.leaf_id or "root")
        case Compaction():
            return _checked_compaction(draft, command, payload, entries, new_entries)
        case ContextEdit():
            _check_edited(draft, command, payload.target_id, entries)
        case _:
            pass
    return payload


def _checked_compaction(
    draft: Draft, command: Append, payload: Compaction, entries: Entries, new_entries: NewEntries
) -> Compaction:
    base = _parent_seq(draft, command)
    first = draft.head + 1 + len(new_entries)
    first_id = payload.first_kept_entry_id
    if first_id is not None:
        in_batch = next((entry.seq for entry in new_entries if entry.id == first_id), 0)
        first = in_batch or draft.find(first_id)
        if not first:
            raise EntryNotFound(first_id)
        if not in_batch and not draft.index.is_ancestor(first, base):
            raise UnsafeCut(f"entry {first_id!r} is not on the path to compact: give an entry of that path")
    committed = {seq: entry for seq in _compacted(draft, command, payload) if (entry := entries.get(seq)) is not None}
    path = {**committed, **{entry.seq: entry for entry in new_entries}}
    reason = unsafe_reason(list(path.values()), sum(seq < first for seq in path))
    if reason is not None:
        raise UnsafeCut(f"{reason}: use `find_safe_cut` to find an entry to keep from")
    clears = not payload.summary and first_id is None
    if clears or payload.raw_system_message is not None:
        return payload
    seqs = _consulted(draft, command, payload)
    return replace(payload, raw_system_message=system_message(draft.index, base, seqs, entries, new_entries))


def _consulted(draft: Draft, command: Append, payload: Compaction) -> list[int]:
    """Return the seqs of the committed entries that decide whether a path may be compacted, and its system messages."""
    index = draft.index
    seqs = set(_compacted(draft, command, payload))
    seq = index.boundaries[_parent_seq(draft, command)] if index.message_counts[Kind.SYSTEM] else 0
    while seq > 0:  # what an earlier compaction keeps from before it
        if index.kinds[seq] == Kind.SYSTEM:
            seqs.add(seq)
        seq = index.parents[seq]
    return sorted(seqs)


def _compacted(draft: Draft, command: Append, payload: Compaction) -> list[int]:
    """Return the seqs of the compacted path, as far up as a context or the kept range reaches."""
    index, seq = draft.index, _parent_seq(draft, command)
    first = draft.find(payload.first_kept_entry_id) if payload.first_kept_entry_id is not None else seq
    top = min(first, index.boundaries[seq])
    seqs: list[int] = []
    while seq > 0 and seq >= top:
        seqs.append(seq)
        seq = index.parents[seq]
    seqs.reverse()
    return seqs


def _check_edited(draft: Draft, command: Append, target_id: str, entries: Entries) -> None:
    target = draft.find(target_id)
    if not target:
        raise EntryNotFound(target_id)
    if not draft.index.is_ancestor(target, _parent_seq(draft, command)):
        raise InvalidEntry(f"entry {target_id!r} is not on the path: only entries of the path can be edited")
    entry = entries.get(target)
    editable = isinstance(entry, CustomMessageEntry) or (
        isinstance(entry, MessageEntry) and entry.message.role in _EDITABLE_ROLES
    )
    if not editable:
        raise InvalidEntry(
            f"entry {target_id!r} cannot be edited: give a message of a user, assistant, tool or extension"
        )


READS_ENTRIES = frozenset({Compaction, ContextEdit})
"""The types of payloads that are decided by what entries of the log say."""

_CHECKED = READS_ENTRIES | {Label, BranchSummary, ToolExecution}
"""The types of payloads that are decided by the state; see `_checked`."""

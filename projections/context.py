"""The context: the messages of a session for a model, from the root or the latest summary down to the leaf.

A context is built in two reads, so that only the kept range of a compacted session is read::

    end = boundary(index, leaf)                             # the latest compaction or reset on the path
    chosen = plan(index, leaf, entries[end] if end else None)
    context = build(index, chosen, read(chosen.needed))

The messages are, in this order: the system message that the latest compaction stored, its summary, then the messages of
the entries from the first kept one through the leaf. An older compaction inside that range contributes nothing. Entries
before the first kept one are neither read nor walked, so damage there goes unnoticed.

A context whose path has only grown is extended: `plan_since` chooses the new entries, and `extended_to` adds what they
contribute. `context_edits` applies edits, `context_changes` tells how a context changed; cutting a context to a budget
happens elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..events.columns import MISSING
from ..events.content import Content, text
from ..events.entries import (
    CompactionEntry,
    ContextEdit,
    Entry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    OpaqueEntry,
    ThinkingLevelEntry,
    payload_of,
)
from ..events.index import LogIndex
from ..events.kinds import CONTRIBUTING_KINDS, MESSAGE_KINDS, Kind, kinds_marking
from ..events.providers.common import bash_text, with_sections
from .context_edits import NO_EDIT, last_edits, referenced, with_edits

DEFAULT_THINKING_LEVEL = "off"
"""The thinking level of a path that sets none."""

RELEVANT = frozenset({*MESSAGE_KINDS, *CONTRIBUTING_KINDS, *kinds_marking("edits")})
"""The kinds of the entries that contribute a message or an edit to contexts."""

REARRANGING = frozenset({*kinds_marking("boundaries"), *kinds_marking("edits")})
"""The kinds of the entries that change what contexts show of earlier entries."""


class ModelRef(Struct, frozen=True, gc=False):
    """A model, identified by its provider and its id at the provider."""

    provider: str
    model_id: str


class ContextMessage(Struct, frozen=True, gc=False):
    """A message of a context, with the entry that it comes from.

    For a message entry this is its own message. A summary, an extension's message and a command that a user ran become
    messages too, with the roles compactionSummary, branchSummary, custom and bashExecution.
    """

    entry_id: str
    message: Message

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def content(self) -> tuple[Content, ...]:
        """The message's parts."""
        return self.message.content


class Context(Struct, frozen=True, gc=False):
    """The messages of a session for a model, at one leaf.

    `model` and `thinking_level` are the last ones set on the whole path. `warnings` describes damage on the path.
    """

    session_id: str
    leaf: int = 0
    leaf_id: str | None = None
    model: ModelRef | None = None
    thinking_level: str = DEFAULT_THINKING_LEVEL
    messages: tuple[ContextMessage, ...] = ()
    warnings: tuple[str, ...] = ()


class ContextPlan(Struct, frozen=True):
    """The seqs of the entries from which the context at `leaf` is built; 0 stands for none.

    Attributes:
        leaf: The end of the path.
        compaction: The compaction with which the context begins.
        model: The entry that sets the model.
        level: The entry that sets the thinking level.
        kept: The entries that may contribute a message or an edit, in path order.
        warnings: The warnings of the context.
    """

    leaf: int
    compaction: int
    model: int
    level: int
    kept: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    @property
    def needed(self) -> list[int]:
        """The seqs of the entries that `build` needs, in path order."""
        seqs = [*self.kept]
        for seq in {self.compaction, self.model, self.level} - {0}:
            at = bisect_left(seqs, seq)
            if at == len(seqs) or seqs[at] != seq:
                seqs.insert(at, seq)
        return seqs


def boundary(index: LogIndex, leaf: int) -> int:
    """Return the seq of the latest compaction or reset on the path to `leaf`, or 0."""
    return index.boundaries[leaf]


def plan(index: LogIndex, leaf: int, boundary_entry: Entry | None) -> ContextPlan:
    """Return which entries are needed to build the context at `leaf`.

    Args:
        index: The log's index.
        leaf: The seq of the leaf, or 0.
        boundary_entry: The entry at `boundary(index, leaf)`; None if that is 0.

    Raises:
        CorruptTree: The path runs into a cycle.
    """
    end = stop = boundary(index, leaf)
    compaction = 0
    warnings: tuple[str, ...] = ()
    if isinstance(boundary_entry, CompactionEntry):
        compaction = end
        stop = first_kept(index, end, boundary_entry)
    elif index.kinds[end] == Kind.COMPACTION:
        warnings = (f"the compaction {index.ids[end]!r} (seq {end}) cannot be read: the path begins after it",)
    kinds, root = index.kinds, 0
    kept: list[int] = []
    for seq in index.upward(leaf):
        if kinds[seq] in RELEVANT:
            kept.append(seq)
        if seq == stop:
            break
        root = seq
    else:
        if index.parents[root] == MISSING:
            at = f"entry {index.ids[root]!r} (seq {root})"
            warnings = (f"the parent of {at} is not in the log before it: the path begins there",)
    kept.reverse()
    return ContextPlan(leaf, compaction, index.models[leaf], index.levels[leaf], tuple(kept), warnings)


def plan_since(index: LogIndex, leaf: int, context: Context) -> ContextPlan | None:
    """Return which entries are needed to extend an earlier context of the same log to `leaf`; see `extended_to`.

    None means that the context must be built as a whole: its leaf is not on the path to `leaf`, or an entry after it
    rearranges the context, or it has warnings, in which case a missing parent that turns up could close a cycle.

    Args:
        index: The log's index.
        leaf: The seq of the later leaf, or 0.
        context: The earlier context.
    """
    before = context.leaf
    if not before or context.warnings:
        return None
    if index.boundaries[leaf] != index.boundaries[before] or index.edits[leaf] != index.edits[before]:
        return None
    kept: list[int] = []
    seq = leaf
    while seq > before:
        if index.kinds[seq] in RELEVANT:
            kept.append(seq)
        seq = index.parents[seq]
    if seq != before:
        return None
    model, level = index.models[leaf], index.levels[leaf]
    return ContextPlan(
        leaf,
        0,
        model if model != index.models[before] else 0,
        level if level != index.levels[before] else 0,
        tuple(reversed(kept)),
    )


def extended_to(index: LogIndex, plan: ContextPlan, entries: Mapping[int, Entry | None], context: Context) -> Context:
    """Return what `build` returns for the plan's leaf, given an earlier context and a plan of `plan_since`.

    Args:
        index: The log's index.
        plan: The plan that `plan_since` returned.
        entries: The entries that it needs, by seq.
        context: The earlier context.
    """
    later = build(index, plan, entries, follows=bool(context.messages))
    return Context(
        context.session_id,
        later.leaf,
        later.leaf_id,
        later.model if plan.model else context.model,
        later.thinking_level if plan.level else context.thinking_level,
        context.messages + later.messages,
    )


def build(
    index: LogIndex,
    plan: ContextPlan,
    entries: Mapping[int, Entry | None],
    *,
    follows: bool = False,
    sections: bool = True,
) -> Context:
    """Build a context from the entries that its plan needs.

    An entry that is absent, None or opaque contributes nothing.

    Args:
        index: The log's index.
        plan: The plan.
        entries: The entries that it needs, by seq.
        follows: Whether other messages come before these.
        sections: Whether the text of pi's system messages includes that of their sections.
    """
    edits = _edits(index, plan, entries)
    kinds = index.kinds
    messages: list[ContextMessage] = []
    start = entries.get(plan.compaction)
    before = 0
    if isinstance(start, CompactionEntry):
        stored = start.compaction.system_message
        if stored is not None:
            # It repeats the system messages up to the compaction, so those are left out below.
            before = plan.compaction
        if edits.get(plan.compaction, NO_EDIT).replacement is not None:
            # Truncating a history also writes a compaction, with an empty summary that contributes nothing.
            summary = start.compaction.summary
            summary_message = Message("compactionSummary", (text(summary),)) if summary else None
            messages.extend(ContextMessage(start.id, each) for each in (stored, summary_message) if each is not None)
    kept = [
        entry
        for seq in plan.kept
        if (entry := entries.get(seq)) is not None and entry.id and not (seq < before and kinds[seq] == Kind.SYSTEM)
    ]
    messages += messages_of(with_edits(kept, edits))
    if sections and (before or index.message_counts[Kind.SYSTEM]):
        messages = [
            _with_sections(each, leads=not (place or follows)) if each.role == "system" else each
            for place, each in enumerate(messages)
        ]
    return Context(
        index.header.id,
        plan.leaf,
        index.ids[plan.leaf] if plan.leaf else None,
        model_of(entries.get(plan.model)),
        level_of(entries.get(plan.level)) or DEFAULT_THINKING_LEVEL,
        tuple(messages),
        plan.warnings,
    )


def _with_sections(each: ContextMessage, *, leads: bool) -> ContextMessage:
    message = with_sections(each.message, leads=leads)
    return each if message is each.message else ContextMessage(each.entry_id, message)


def message_of(entry: Entry) -> Message | None:
    """Return the message that an entry contributes to a context, or None.

    A compaction contributes a message only at the beginning of a context, so it has none here. A command that is
    excluded from the context is included here, as in pi: it is left out when messages are rendered for a provider.
    """
    if isinstance(entry, MessageEntry):
        message = entry.message
        if message.bash is None or message.role != "bashExecution" or message.content:
            return message
        return replace(message, content=(text(bash_text(message.bash)),))
    return None if isinstance(entry, OpaqueEntry) else payload_of(entry).as_message()


def messages_of(entries: Iterable[Entry]) -> list[ContextMessage]:
    """Return the messages that entries contribute to a context."""
    messages: list[ContextMessage] = []
    for entry in entries:
        # Most are messages as they are: calling `message_of` for each of them would take longer than the rest of this.
        message = entry.message if isinstance(entry, MessageEntry) and entry.message.bash is None else message_of(entry)
        if message is not None:
            messages.append(ContextMessage(entry.id or "", message))
    return messages


def clears(entry: Entry | None, edits: Mapping[int, ContextEdit]) -> bool:
    """Return whether the compaction or reset at a boundary drops the earlier messages without a summary."""
    if not isinstance(entry, CompactionEntry) or not entry.compaction.summary:
        return True
    return edits.get(entry.seq, NO_EDIT).replacement is None


def first_kept(index: LogIndex, seq: int, boundary_entry: Entry | None) -> int:
    """Return the seq of the first entry that a compaction or reset keeps; its own seq if it keeps no earlier entry."""
    if not isinstance(boundary_entry, CompactionEntry):
        return seq
    return _first_kept(index, seq, boundary_entry.compaction.first_kept_entry_id) or seq


def json_fields(context: Context) -> dict[str, object]:
    """Return the context as values for `msgspec.json.encode`, with the parts in native form."""
    return {
        "session_id": context.session_id,
        "leaf_id": context.leaf_id,
        "model": context.model,
        "thinking_level": context.thinking_level,
        "messages": [
            {"entry_id": each.entry_id, "role": each.role, "content": each.content} for each in context.messages
        ],
    }


def _first_kept(index: LogIndex, compaction: int, entry_id: str | None) -> int:
    """Return the seq of a compaction's first kept entry, or 0 if no earlier entry is kept."""
    if not entry_id or entry_id == index.ids[compaction]:
        return 0
    seq = referenced(index, entry_id, compaction)
    return seq if seq and index.is_ancestor(seq, compaction) else 0


def _edits(index: LogIndex, plan: ContextPlan, entries: Mapping[int, Entry | None]) -> dict[int, ContextEdit]:
    """Return the last edit of each entry that the kept edits target, by the entry's seq."""
    if not plan.kept or index.edits[plan.leaf] < plan.kept[0]:
        return {}
    return last_edits(index, (entries.get(seq) for seq in plan.kept if index.kinds[seq] == Kind.CONTEXT_EDIT))


def model_of(entry: Entry | None) -> ModelRef | None:
    """Return the model that an entry sets, or None."""
    if isinstance(entry, ModelChangeEntry):
        return ModelRef(entry.model_change.provider, entry.model_change.model_id)
    if isinstance(entry, MessageEntry) and entry.message.provider is not None and entry.message.model is not None:
        return ModelRef(entry.message.provider, entry.message.model)
    return None


def level_of(entry: Entry | None) -> str | None:
    """Return the thinking level that an entry sets, or None."""
    return entry.thinking_level.thinking_level if isinstance(entry, ThinkingLevelEntry) else None

"""The context: the messages of a session for a model, from the root or the latest summary down to the leaf.

A context is built in two reads, so that only the kept range of a compacted session is read::

    end = boundary(index, leaf)                             # the latest compaction or reset on the path
    chosen = plan(index, leaf, entries[end] if end else None)
    context = build(index, chosen, read(chosen.needed))

The messages are, in this order: the system message that the latest compaction stored, its summary, then the messages of
the entries from the first kept one through the leaf. An older compaction inside that range contributes nothing. Entries
before the first kept one are neither read nor walked, so damage there goes unnoticed.

A follower keeps a context current by applying changes. `extended` returns the change of an append without building
anything; otherwise `diff` compares two contexts. A context whose path has only grown is extended: `plan_since` chooses
the new entries, and `extended_to` adds what they contribute. Cutting a context to a budget happens elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ..events.columns import MISSING
from ..events.content import (
    Content,
    ImagePart,
    TextPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    text,
)
from ..events.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEdit,
    ContextEditEntry,
    CustomMessageEntry,
    Entry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelEntry,
)
from ..events.index import LogIndex
from ..events.kinds import MESSAGE_KINDS, Kind
from ..events.providers.common import bash_text, with_sections

DEFAULT_THINKING_LEVEL = "off"
"""The thinking level of a path that sets none."""

LEFT_OUT = "[result left out]"
"""The content of a tool result that an edit left out, while its call is shown."""

_EDITABLE = frozenset({"user", "assistant", "tool", "custom"})
_RELEVANT = frozenset({*MESSAGE_KINDS, Kind.BRANCH_SUMMARY, Kind.CUSTOM_MESSAGE, Kind.CONTEXT_EDIT})
_REARRANGING = frozenset({Kind.COMPACTION, Kind.RESET, Kind.CONTEXT_EDIT})


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


class ContextChange(Struct, frozen=True):
    """The change from one context of a session to another.

    `delete` messages from position `start` are replaced by those of `insert`; the other fields hold the new values.
    """

    start: int
    delete: int
    insert: tuple[ContextMessage, ...]
    leaf: int
    leaf_id: str | None
    model: ModelRef | None
    thinking_level: str
    warnings: tuple[str, ...] = ()


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
        if kinds[seq] in _RELEVANT:
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
        if index.kinds[seq] in _RELEVANT:
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
        if edits.get(plan.compaction, _NO_EDIT).replacement is not None:
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
    if isinstance(entry, CustomMessageEntry):
        custom = entry.custom_message
        return Message("custom", custom.content, custom_type=custom.custom_type, display=custom.display)
    if isinstance(entry, BranchSummaryEntry) and entry.branch_summary.summary:
        return Message("branchSummary", (text(entry.branch_summary.summary),))
    return None


def messages_of(entries: Iterable[Entry]) -> list[ContextMessage]:
    """Return the messages that entries contribute to a context."""
    messages: list[ContextMessage] = []
    for entry in entries:
        # Most are messages as they are: calling `message_of` for each of them would take longer than the rest of this.
        message = entry.message if isinstance(entry, MessageEntry) and entry.message.bash is None else message_of(entry)
        if message is not None:
            messages.append(ContextMessage(entry.id or "", message))
    return messages


def edits_on(index: LogIndex, leaf: int) -> list[int]:
    """Return the seqs of the edits on the path to `leaf`, in path order."""
    seqs: list[int] = []
    seq = index.edits[leaf]
    while seq:
        seqs.append(seq)
        parent = index.parents[seq]
        seq = index.edits[parent] if parent > 0 else 0
    return seqs[::-1]


def last_edits(index: LogIndex, entries: Iterable[Entry | None]) -> dict[int, ContextEdit]:
    """Return the last of the edits among entries of a path for each target, by the seq of the target."""
    return {
        _referenced(index, entry.context_edit.target_id, entry.seq): entry.context_edit
        for entry in entries
        if isinstance(entry, ContextEditEntry)
    }


def with_edits(entries: Iterable[Entry], edits: Mapping[int, ContextEdit]) -> list[Entry]:
    """Return the entries of a path with their edits applied, without those that an edit leaves out.

    A tool result stays the answer to its call: a replacement without a result part becomes the content of the result,
    and a result that was left out says so (`LEFT_OUT`) while its call is shown. The call was answered, so it must not
    look like one that waits.
    """
    if not edits:
        return list(entries)
    shown: list[Entry] = []
    calls: set[str] = set()
    for entry in entries:
        edit = edits.get(entry.seq)
        result = entry if edit is None else edited(entry, edit, calls)
        if result is None:
            continue
        shown.append(result)
        if isinstance(result, MessageEntry):
            calls.update(part.tool_use.id for part in result.message.content if isinstance(part, ToolUsePart))
    return shown


def clears(entry: Entry | None, edits: Mapping[int, ContextEdit]) -> bool:
    """Return whether the compaction or reset at a boundary drops the earlier messages without a summary."""
    if not isinstance(entry, CompactionEntry) or not entry.compaction.summary:
        return True
    return edits.get(entry.seq, _NO_EDIT).replacement is None


def first_kept(index: LogIndex, seq: int, boundary_entry: Entry | None) -> int:
    """Return the seq of the first entry that a compaction or reset keeps; its own seq if it keeps no earlier entry."""
    if not isinstance(boundary_entry, CompactionEntry):
        return seq
    return _first_kept(index, seq, boundary_entry.compaction.first_kept_entry_id) or seq


def extended(context: Context, index: LogIndex, entry: Entry) -> ContextChange | None:
    """Return the change that an entry just appended below the leaf makes to the context.

    Takes constant time and reads nothing. None means that the context must be built again and compared with `diff`: the
    entry has another parent, or rearranges the context, or the context has warnings, in which case a missing parent
    that turns up could close a cycle.
    """
    seq = entry.seq
    if not 0 < seq <= index.head or not entry.id or not index.becomes_leaf(entry) or context.warnings:
        return None
    if index.parents[seq] != context.leaf or index.kinds[seq] in _REARRANGING:
        return None
    message = message_of(entry) if index.kinds[seq] in _RELEVANT else None
    if message is not None and message.role == "system":
        message = with_sections(message, leads=not context.messages)
    return ContextChange(
        len(context.messages),
        0,
        () if message is None else (ContextMessage(entry.id, message),),
        seq,
        entry.id,
        model_of(entry) if index.models[seq] == seq else context.model,
        level_of(entry) or DEFAULT_THINKING_LEVEL if index.levels[seq] == seq else context.thinking_level,
    )


def diff(old: Context, new: Context) -> ContextChange:
    """Return the change that turns `old` into `new`: the messages between their common beginning and common end."""
    before, after = old.messages, new.messages
    shorter = min(len(before), len(after))
    start = next((place for place in range(shorter) if not _same(before[place], after[place])), shorter)
    left = shorter - start
    end = next((place for place in range(left) if not _same(before[-1 - place], after[-1 - place])), left)
    return ContextChange(
        start,
        len(before) - start - end,
        after[start : len(after) - end],
        new.leaf,
        new.leaf_id,
        new.model,
        new.thinking_level,
        new.warnings,
    )


def apply_change(context: Context, change: ContextChange) -> Context:
    """Return the context with the change applied."""
    messages = context.messages
    if change.delete or change.insert:
        messages = (*messages[: change.start], *change.insert, *messages[change.start + change.delete :])
    return Context(
        context.session_id,
        change.leaf,
        change.leaf_id,
        change.model,
        change.thinking_level,
        messages,
        change.warnings,
    )


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


_NO_EDIT = ContextEdit("-", ())


def _first_kept(index: LogIndex, compaction: int, entry_id: str | None) -> int:
    """Return the seq of a compaction's first kept entry, or 0 if no earlier entry is kept."""
    if not entry_id or entry_id == index.ids[compaction]:
        return 0
    seq = _referenced(index, entry_id, compaction)
    return seq if seq and index.is_ancestor(seq, compaction) else 0


def _referenced(index: LogIndex, entry_id: str, before: int) -> int:
    """Return the seq to which an id in the line `before` refers: the latest earlier line with that id, or 0."""
    seq = index.find(entry_id)
    if seq < before:
        return seq
    # A later line has the same id, or the reference points forward: both are damage, so the scan may be slow.
    return next((each for each in range(before - 1, 0, -1) if index.ids[each] == entry_id), 0)


def _edits(index: LogIndex, plan: ContextPlan, entries: Mapping[int, Entry | None]) -> dict[int, ContextEdit]:
    """Return the last edit of each entry that the kept edits target, by the entry's seq."""
    if not plan.kept or index.edits[plan.leaf] < plan.kept[0]:
        return {}
    return last_edits(index, (entries.get(seq) for seq in plan.kept if index.kinds[seq] == Kind.CONTEXT_EDIT))


def edited(entry: Entry, edit: ContextEdit, calls: AbstractSet[str]) -> Entry | None:
    """Return an entry with an edit applied, or None if the edit leaves it out.

    Args:
        entry: The entry.
        edit: Its last edit.
        calls: The ids of the calls that are shown before it.
    """
    replacement = edit.replacement
    if isinstance(entry, CustomMessageEntry):
        custom = entry.custom_message
        return None if replacement is None else replace(entry, custom_message=replace(custom, content=replacement))
    if not isinstance(entry, MessageEntry) or (replacement is not None and entry.message.role not in _EDITABLE):
        return None if replacement is None else entry
    message = entry.message
    results = [part.tool_result for part in message.content if isinstance(part, ToolResultPart)]
    content: tuple[Content, ...]
    if replacement is None:
        content = _left_out([each for each in results if each.tool_use_id in calls])
        if not content:
            return None
    elif results and not any(isinstance(part, ToolResultPart) for part in replacement):
        answer = tuple(part for part in replacement if isinstance(part, (TextPart, ImagePart)))
        content = (ToolResultPart(replace(results[0], content=answer)), *_left_out(results[1:]))
    else:
        content = replacement
    return replace(entry, message=replace(message, content=content))


def _left_out(results: Iterable[ToolResult]) -> tuple[ToolResultPart, ...]:
    """Return the results with `LEFT_OUT` as their content."""
    return tuple(ToolResultPart(replace(each, content=LEFT_OUT)) for each in results)


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


def _same(one: ContextMessage, other: ContextMessage) -> bool:
    return one.entry_id == other.entry_id and (one.message is other.message or one.message == other.message)

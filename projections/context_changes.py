"""How a context changes, and how a follower keeps one current by applying the changes.

`extended` returns the change of an append without building anything; otherwise `diff` compares two contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from ..events.entries import Entry
from ..events.index import LogIndex
from ..events.providers.common import with_sections
from .context import (
    DEFAULT_THINKING_LEVEL,
    REARRANGING,
    RELEVANT,
    Context,
    ContextMessage,
    ModelRef,
    level_of,
    message_of,
    model_of,
)
from .feed import LogView
from .feed_events import EntryAdded, LeafMove


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


def extended(context: Context, index: LogIndex, entry: Entry) -> ContextChange | None:
    """Return the change that an entry just appended below the leaf makes to the context.

    Takes constant time and reads nothing. None means that the context must be built again and compared with `diff`: the
    entry has another parent, or rearranges the context, or the context has warnings, in which case a missing parent
    that turns up could close a cycle.
    """
    seq = entry.seq
    if not 0 < seq <= index.head or not entry.id or not index.becomes_leaf(entry) or context.warnings:
        return None
    if index.parents[seq] != context.leaf or index.kinds[seq] in REARRANGING:
        return None
    message = message_of(entry) if index.kinds[seq] in RELEVANT else None
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
        context.session_id, change.leaf, change.leaf_id, change.model, change.thinking_level, messages, change.warnings
    )


def _same(one: ContextMessage, other: ContextMessage) -> bool:
    return one.entry_id == other.entry_id and (one.message is other.message or one.message == other.message)


class ContextStepper:
    """The context of the leaf. An append below the leaf extends it; any other event rebuilds and compares it."""

    name = "context"
    read_by: ClassVar[str] = "await session.context()"

    def __init__(self) -> None:
        self._context: Context | None = None

    @property
    def value(self) -> Context:
        """The current context."""
        assert self._context is not None
        return self._context

    async def begin(self, log: LogView) -> int:
        """Build the context of the log's leaf."""
        head = log.index.head
        self._context = await log.context(log.index.leaf)
        return head

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[ContextChange]:
        """Return the change that an event causes; a label causes one too, since it becomes the leaf."""
        old = self.value
        change = extended(old, log.index, event.entry) if isinstance(event, EntryAdded) else None
        if change is None:
            if event.leaf == old.leaf:
                return ()
            change = diff(old, await log.context(event.leaf))
        self._context = apply_change(old, change)
        return (change,)

    def weigh(self, change: ContextChange) -> int:
        """Return one more than the number of messages that a change inserts."""
        return 1 + len(change.insert)

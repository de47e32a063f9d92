"""What a context is built from: the messages at hand, the path that they come from, the summaries that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...events.entries import Entry
from ..context import Context, ContextMessage
from .pairing import is_request, paired
from .summary_cache import StoredSummary


class ContextSource(Struct, frozen=True):
    """What the strategies choose from; `ContextSource.of` makes one.

    Attributes:
        messages: What can be sent, oldest first, each call with its result.
        original_count: How many messages the context has that this was made from.
        entry_ids: The entries that those messages come from.
        entries: The entries of the path as contexts show them, oldest first, for the state of the work; the messages serve
            where there are none.
        project_path: The directory that the session works in.
        summaries: The summaries that are stored.
    """

    messages: tuple[ContextMessage, ...]
    original_count: int
    entry_ids: frozenset[str]
    entries: tuple[Entry, ...] = ()
    project_path: str = ""
    summaries: tuple[StoredSummary, ...] = ()

    @classmethod
    def of(
        cls,
        context: Context,
        entries: Iterable[Entry] = (),
        *,
        project_path: str = "",
        summaries: Sequence[StoredSummary] = (),
        request: ContextMessage | None = None,
    ) -> ContextSource:
        """Make a source of a context.

        Args:
            context: The context of the leaf.
            entries: The entries of its path, oldest first.
            project_path: The directory that the session works in.
            summaries: The summaries that are stored.
            request: The last user message of the path, for the case that a compaction keeps none: it goes behind the
                compaction's summary, so that the model sees what it was asked for.
        """
        messages = paired(context.messages)
        if request is not None and not any(is_request(each.message) for each in messages):
            place = _opening(messages, ("system", "compactionSummary"))
            messages = (*messages[:place], request, *messages[place:])
        return cls(
            messages,
            len(context.messages),
            frozenset(each.entry_id for each in context.messages),
            tuple(entries),
            project_path,
            tuple(summaries),
        )

    @property
    def opening(self) -> int:
        """How many system messages the source begins with; they are always sent."""
        return _opening(self.messages, ("system",))

    @property
    def request(self) -> int:
        """The position of the last user message, or -1."""
        places = range(len(self.messages) - 1, -1, -1)
        return next((place for place in places if is_request(self.messages[place].message)), -1)

    def originals(self, messages: Iterable[ContextMessage]) -> int:
        """Count the messages that stand in the context, and were not made here."""
        return sum(each.entry_id in self.entry_ids for each in messages)


def _opening(messages: Sequence[ContextMessage], roles: tuple[str, ...]) -> int:
    return next((place for place, each in enumerate(messages) if each.role not in roles), len(messages))

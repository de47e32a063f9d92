"""The source of a context: the messages, the entries of their path, the stored summaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...events.entries import Entry
from ..context import Context, ContextMessage
from .pairing import is_request, paired, request_at
from .summary_cache import StoredSummary


class ContextSource(Struct, frozen=True):
    """The input of the strategies; made by `ContextSource.of`.

    Attributes:
        messages: The messages that can be sent, oldest first, each call with its result.
        original_count: The number of messages in the original context.
        entry_ids: The entries of those messages.
        entries: The entries of the path with their edits applied, oldest first, for the state of the work; if empty,
            the messages are used.
        project_path: The directory of the project.
        summaries: The stored summaries.
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
        """Make a source from a context.

        Args:
            context: The context of the leaf.
            entries: The entries of its path, oldest first.
            project_path: The directory of the project.
            summaries: The stored summaries.
            request: The last user message of the path, in case a compaction kept none: it is inserted after the
                compaction's summary, so that the model sees the request.
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
        """The number of system messages at the beginning; they are always sent."""
        return _opening(self.messages, ("system",))

    @property
    def request(self) -> int:
        """The position of the last request, see `request_at`; -1 if there is none."""
        return request_at(self.messages)

    def originals(self, messages: Iterable[ContextMessage]) -> int:
        """Count the messages that come from the original context."""
        return sum(each.entry_id in self.entry_ids for each in messages)


def _opening(messages: Sequence[ContextMessage], roles: tuple[str, ...]) -> int:
    return next((place for place, each in enumerate(messages) if each.role not in roles), len(messages))

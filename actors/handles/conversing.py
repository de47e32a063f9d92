"""The part of a session's handle that treats it as one conversation: history, summary, title, usage.

Programs that know nothing of trees need no more than this. Every change is an append; what was there before stays in
the log and can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from ...events.entries import Compaction, Entry, Message, SessionInfo, Usage
from ...projections.stats import EventCount
from ...projections.usage import UsageProjection, usage_totals
from ..commands import AppendOptions
from ..session.appending import Appending
from ..session.conversing import truncate
from ..session.reading import Reading, read_log

if TYPE_CHECKING:
    from ..log.open_log import OpenLog


class Conversing(Appending, Reading):
    """A session as one conversation."""

    __slots__ = ()

    # -- the history

    async def history(self) -> list[Message]:
        """Return the messages that the context shows, oldest first, as a list of the caller's own."""
        return await self.messages()

    async def set_history(self, messages: Sequence[Message], **options: Unpack[AppendOptions]) -> list[str]:
        """Start over with other messages, all of them or none; the former ones stay readable on their branch.

        Args:
            messages: The new history, oldest first; an empty one empties the context.
            **options: See `AppendOptions`; `below` is always the root.

        Returns:
            The ids of the appended entries.
        """
        options["below"] = None
        return await self.append_many(messages or [Compaction("", None, 0)], **options)

    async def truncate_history(
        self, keep_last: int, *, summary: str | None = None, **options: Unpack[AppendOptions]
    ) -> str | None:
        """Keep the last messages in the context and leave out the others, which stay in the log.

        A call and its results are kept together, so a few more messages than requested may stay. Messages appended to
        the same path in the meantime count as last messages. System messages stay, and are not counted.

        Args:
            keep_last: How many messages stay; 0 leaves none, and no system message either.
            summary: A summary of the omitted messages, set in the same step.
            **options: See `AppendOptions`. With `expected_leaf`, no message that the summary does not cover is left
                out.

        Returns:
            The id of the compaction, or None if the context shows no more than that many messages.

        Raises:
            InvalidInput: `keep_last` is not a whole number of 0 or more, or an option is invalid.
            LeafMoved: The session moved to another branch in the meantime; nothing was written.
            UnsafeCut: A tool call waits for its result; nothing was written.
        """
        return await truncate(self, keep_last, summary, options)

    # -- summary and title

    @property
    def summary(self) -> str:
        """The summary that was set last; empty if there is none."""
        return self._index().info.summary or ""

    async def set_summary(self, summary: str, **options: Unpack[AppendOptions]) -> str:
        """Store a summary beside the messages ("" removes it); see `append`."""
        return await self.append(SessionInfo(summary=summary), **options)

    @property
    def title(self) -> str | None:
        """The title that a person set, otherwise the one that came with the file; None if there is neither."""
        index = self._index()
        return (index.header.title if index.info.name is None else index.info.name) or None

    async def set_title(self, title: str, **options: Unpack[AppendOptions]) -> str:
        """Set the title ("" removes it); it is in the file when this returns; see `append`."""
        return await self.append(SessionInfo(title), **options)

    @property
    def updated(self) -> datetime:
        """When something was last appended, or when the session was created if nothing was."""
        index = self._index()
        return max(index.last_time, index.header.timestamp)

    # -- totals

    async def event_count(self) -> int:
        """Return how many events the session holds, on all branches; a turn of several messages counts as one."""
        return await self.view(EventCount())

    async def total_usage(self, leaf_id: str | None = None) -> Usage:
        """Return what the session has used: on all branches together, since all were paid for, or on one path.

        Args:
            leaf_id: The end of the path to add up; by default all entries of the session count.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        if leaf_id is None:
            return (await self.view(UsageProjection())).total

        async def read(log: OpenLog) -> list[Entry]:
            return await log.entries_in(log.index.path(log.index.seq_of(leaf_id)))

        return usage_totals(await read_log(self, read)).total

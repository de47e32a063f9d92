"""The part of a session's handle that takes it for one conversation: its history, its summary, its title, what it cost.

Programs that know nothing of trees need no more than this. Each call that changes something appends; what was there
before stays in the log and can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from ..events.entries import Compaction, Message, SessionInfo, Usage
from ..projections.event_count import EventCount
from ..projections.usage import UsageProjection, usage_totals
from .appending import Appending
from .commands import AppendOptions
from .reading import Reading
from .truncating import truncate


class Conversing(Appending, Reading):
    """A session as one conversation."""

    __slots__ = ()

    # -- the history

    async def history(self) -> list[Message]:
        """Return the messages that the context shows, oldest first: a list of the caller's own."""
        return await self.messages()

    async def set_history(self, messages: Sequence[Message], **options: Unpack[AppendOptions]) -> list[str]:
        """Begin anew with other messages, all or none of them; the former ones stay readable on their branch.

        Args:
            messages: The new history, oldest first; without any, the context is empty.
            **options: See `AppendOptions`; `below` is always the root.

        Returns:
            The ids of what was appended.
        """
        options["below"] = None
        return await self.append_many(messages or [Compaction("", None, 0)], **options)

    async def truncate_history(
        self, keep_last: int, *, summary: str | None = None, **options: Unpack[AppendOptions]
    ) -> str | None:
        """Keep the last messages in the context and leave out the others, which stay in the log.

        A call and its results are kept together, so a message or a few more than asked for may stay. What is said
        meanwhile on the same path is among the last messages.

        Args:
            keep_last: How many messages stay; 0 leaves none.
            summary: A summary to set in the same step, of what is left out.
            **options: See `AppendOptions`. With `expected_leaf`, nothing that was appended since goes unsummarized.

        Returns:
            The id of the compaction that does it; None where the context shows no more than that.

        Raises:
            InvalidInput: The number is negative.
            LeafMoved: Meanwhile the session went over to another branch; nothing was written.
            UnsafeCut: A tool call waits for its result; nothing was written.
        """
        return await truncate(self, keep_last, summary, options)

    # -- what is said of it

    @property
    def summary(self) -> str:
        """The summary that was set last; empty where there is none."""
        return self._index().info.summary or ""

    async def set_summary(self, summary: str, **options: Unpack[AppendOptions]) -> str:
        """Keep a summary beside the messages ("" takes it away); see `append`."""
        return await self.append(SessionInfo(summary=summary), **options)

    @property
    def title(self) -> str | None:
        """The title that a person set, else the one that the file came with; None where there is neither."""
        index = self._index()
        return (index.header.title if index.info.name is None else index.info.name) or None

    async def set_title(self, title: str, **options: Unpack[AppendOptions]) -> str:
        """Give the session a title ("" takes it away), which is in the file when this returns; see `append`."""
        return await self.append(SessionInfo(title), **options)

    @property
    def updated(self) -> datetime:
        """When something was last appended; when the session was created, where nothing was."""
        index = self._index()
        return max(index.last_time, index.header.timestamp)

    # -- what it amounts to

    async def event_count(self) -> int:
        """Return how many events the session holds, on all branches: a turn is one, however many messages it has."""
        return await self.view(EventCount())

    async def total_usage(self, leaf_id: str | None = None) -> Usage:
        """Return what the session has used: all branches together, since all were paid for, or one path.

        Args:
            leaf_id: The end of the path to add up; all entries of the session where none is given.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        if leaf_id is None:
            return (await self.view(UsageProjection())).total
        log = await self.log()
        seqs = log.index.path(log.index.seq_of(leaf_id))
        return usage_totals(await log.entries_in(seqs)).total

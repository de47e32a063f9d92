"""The part of a session's handle that treats it as one conversation: history, summary, title, usage.

Programs that know nothing of trees need no more than this. Every change is an append; what was there before stays in
the log and can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from msgspec import UNSET, UnsetType

from ...events.arguments import check_count
from ...events.entries import Compaction, CompactionEntry, Entry, Message, Payload, SessionInfo, Usage
from ...events.errors import LeafMoved, UnsafeCut
from ...projections.context import build
from ...projections.cuts import safe_cuts, unsafe_reason
from ...projections.stats import EventCount
from ...projections.tokens import ByteEstimator, context_tokens
from ...projections.usage import UsageProjection, usage_totals
from ..commands import AppendOptions, append_command
from ..decide import command_entry_id
from ..log.open_log import OpenLog
from .appending import Appending
from .reading import read_log


class Conversing(Appending):
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
        check_count("keep_last", keep_last)
        append_command((), options)  # rejects invalid options, even if nothing is to be cut
        infos = () if summary is None else (SessionInfo(summary=summary),)
        has_expectations = not _EXPECTATIONS.isdisjoint(options)
        leaf = head = 0
        while True:
            cut = await _earlier_cut(self, options.get("command_id"), len(infos))
            append_options = options
            if isinstance(cut, UnsetType):
                log = await self.log()
                leaf, leaf_id, head = log.index.leaf, log.index.leaf_id, log.index.head
                cut = await _cut(log, keep_last)
                append_options = _expecting_leaf(options, leaf_id)
            payloads: tuple[Payload, ...] = infos if cut is None else (*infos, cut)
            if not payloads:
                return None
            try:
                ids = await self.append_many(payloads, **append_options)
            except LeafMoved:
                index = (await self.log()).index
                if has_expectations or max((seq for seq in index.path(index.leaf) if seq <= head), default=0) != leaf:
                    raise
                continue  # the same path has grown meanwhile, so the last messages are different ones now
            return None if cut is None else ids[-1]

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


_EXPECTATIONS = frozenset({"expected_leaf", "expected_seq"})


def _expecting_leaf(options: AppendOptions, leaf_id: str | None) -> AppendOptions:
    """Return the options of an append that is valid below this leaf only.

    Raises:
        LeafMoved: The caller expects another leaf.
    """
    if options.get("expected_leaf", leaf_id) != leaf_id:
        raise LeafMoved(
            f"the leaf is {leaf_id!r}, not {options.get('expected_leaf')!r}: read the session again and decide again"
        )
    return {**options, "expected_leaf": leaf_id}


async def _earlier_cut(session: Appending, command_id: str | None, position: int) -> Compaction | UnsetType | None:
    """Return the compaction that this command appended earlier as its payload at `position`; unset if there is none.

    The history is shorter by now, so a cut computed again would make it a different command.
    """
    if command_id is None:
        return UNSET
    index = (await session.log()).index
    seqs = [index.find(command_entry_id(index.header.id, command_id, each)) for each in range(position + 1)]
    if not any(seqs):
        return UNSET
    if not seqs[position]:
        return None
    entry = await session.entry(index.ids[seqs[position]])
    return entry.compaction if isinstance(entry, CompactionEntry) else UNSET


async def _cut(log: OpenLog, keep_last: int) -> Compaction | None:
    """Return the compaction that keeps the last messages, or None if the context shows no more than those.

    Raises:
        UnsafeCut: A tool call waits for its result.
    """
    index, leaf = log.index, log.index.leaf
    context_plan = await log.plan(leaf)
    entries = await log.entries_at(context_plan.needed)
    messages = build(index, context_plan, entries).messages
    path = [entry for seq in context_plan.kept if (entry := entries[seq]) is not None]
    places = {entry.id: place for place, entry in enumerate(path)}
    # system messages stay whatever is cut off: the compaction stores what they say
    shown = [places[each.entry_id] for each in messages if each.entry_id in places and each.role != "system"]
    if len(shown) <= keep_last and (keep_last or not messages):
        return None
    open_call = unsafe_reason(path, len(path))
    if open_call is not None:
        raise UnsafeCut(f"{open_call}: append that first, or start over with `set_history`")
    before = context_tokens(messages, ByteEstimator())
    if not keep_last:
        return Compaction("", None, before)
    first_kept = shown[-keep_last]
    place = max((cut for cut in safe_cuts(path) if cut <= first_kept), default=0)
    return Compaction("", path[place].id, before) if place else None

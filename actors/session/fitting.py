"""The part of a session's handle that builds contexts that fit a budget, and stores the summaries that they need.

The builder is pure; this is the code around it. The path is read only if a strategy is tried that needs it, and the
summarizer is called only if the builder reports a missing summary.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile

from msgspec.structs import replace

from ...events.arguments import check_count
from ...events.entries import CustomEntry, UsageRecord
from ...events.errors import EntryNotFound, InvalidEntry, InvalidInput, SummaryRefused
from ...events.kinds import Kind
from ...events.texts import counted
from ...projections.building.budget import ContextBudget, UsedTokens, checked_budget, last_measured, used_since
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.pairing import is_request, paired
from ...projections.building.strategy import ALL_PARTS, ContextSource, NeededSummary, Part, SourceUnread
from ...projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    StoredSummary,
    Summarizer,
    SummarizerOptions,
    generate_summary,
    longest_summary,
    stored_summaries,
    summarizer_id,
)
from ...projections.context import Context, ContextMessage, boundary, messages_of
from ...projections.tokens import Tokenizer, context_tokens, tokenizer_of
from ..log.open_log import OpenLog
from .appending import Appending
from .compaction import Compacting
from .reading import read_log
from .shown_path import ShownPath, grown_state, state_of_work


class Fitting(Compacting):
    """The calls that make a session's contexts fit."""

    __slots__ = ()

    async def build_context(
        self,
        budget: ContextBudget,
        builder: ContextBuilder | None = None,
        *,
        leaf_id: str | None = None,
        summarizer: Summarizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> ContextBuildResult:
        """Build a context that fits a budget, of the path to an entry (by default the leaf).

        Args:
            budget: How many tokens are available; see `calculate_budget`.
            builder: Builds the context; by default one with the default strategies.
            leaf_id: The end of the path.
            summarizer: Makes the summary that the builder finds missing, which is stored in the log together with its
                usage. Without one, no model is called and nothing is written.
            options: How the summarizer is called.

        Raises:
            ContextOverflow: Not even the minimal context fits.
            EntryNotFound: The session has no such entry.
            SummaryRefused: The summary is empty or not shorter than what it stands for; it was not stored.
        """
        budget = checked_budget(budget)
        chosen = checked_builder(builder)
        source, result = await read_log(self, lambda log: built_from(log, chosen, budget, log.index.path_end(leaf_id)))
        if summarizer is None or result.needs_summary is None:
            return result
        stored = await _make_and_store(self, result.needs_summary, summarizer, chosen.tokenizer, options)
        return chosen.build(replace(source, summaries=(*source.summaries, stored)), budget)

    async def used_tokens(self, *, tokenizer: Tokenizer | None = None, overhead: int = 0) -> UsedTokens:
        """Return how much of the window the next request takes.

        This is what the provider counted last, and an estimate of the rest.

        Args:
            tokenizer: Counts what came after; by default it is estimated from the bytes.
            overhead: The size of the system prompt and the tools, used if no provider has counted since the latest
                compaction.
        """
        check_count("overhead", overhead)
        counter = tokenizer_of(tokenizer)
        return await read_log(self, lambda log: _used_tokens(log, counter, overhead))

    async def summary_for_range(
        self,
        start_id: str,
        end_id: str,
        target_tokens: int,
        summarizer: Summarizer,
        *,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> StoredSummary:
        """Return the summary of a range of the context's messages, from the log if this summarizer has made one before.

        Args:
            start_id: The entry of the first message.
            end_id: The entry of the last one.
            target_tokens: About how long the summary should be.
            summarizer: Makes the summary if there is none.
            tokenizer: Counts tokens; by default they are estimated from the bytes.
            options: How the summarizer is called.

        Raises:
            EntryNotFound: The session has no such entry.
            InvalidInput: An entry is not a message of the context, or the last comes before the first.
            SummaryRefused: The summary is empty or not shorter than what it stands for; it was not stored.
        """
        check_count("target_tokens", target_tokens)
        tokenizer = tokenizer_of(tokenizer)
        log = await self.log()
        messages = paired((await log.context(log.index.leaf)).messages)
        start = next((place for place, each in enumerate(messages) if each.entry_id == start_id), -1)
        end = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].entry_id == end_id), -1)
        if start < 0 or end < 0:
            raise _not_a_message_error(log, start_id if start < 0 else end_id)
        if end < start:
            raise InvalidEntry(f"entry {end_id!r} comes before {start_id!r}: give the first and the last of the range")
        end += 1
        while end < len(messages) and not messages[end].entry_id:
            end += 1
        name = summarizer_id(summarizer)
        own_summaries = [each for each in await _summaries(log) if each.summarizer == name]
        longest = longest_summary(own_summaries, messages, start, end)
        if longest is not None and longest[1] == end:
            return longest[0]
        chosen = messages[start:end]
        tokens = context_tokens(chosen, tokenizer)
        needed = NeededSummary(start_id, end_id, len(chosen), tokens, target_tokens, target_tokens, chosen, chosen)
        return await _make_and_store(self, needed, summarizer, tokenizer, options)


SUMMARY_USAGE = "summary"
"""The kind of the usage record of a summary that is stored beside the context."""


def checked_builder(builder: ContextBuilder | None) -> ContextBuilder:
    """Return the builder, or by default one with the default strategies.

    Raises:
        InvalidInput: It is not a `ContextBuilder`.
    """
    builder = builder or ContextBuilder()
    if not isinstance(builder, ContextBuilder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the builder is of type `{type(builder).__name__}`: give a `ContextBuilder(...)`")
    return builder


async def built_from(
    log: OpenLog, builder: ContextBuilder, budget: ContextBudget, leaf: int, *, before: int | None = None
) -> tuple[ContextSource, ContextBuildResult]:
    """Return what a context is built from, with the context as the stored summaries allow it.

    Args:
        log: The log.
        builder: Builds the context.
        budget: The budget.
        leaf: The seq of the end of the path.
        before: Use only the summaries that were stored before this seq.
    """
    source = await _source(log, leaf, builder.tokenizer)
    if source.tokens(builder.tokenizer) > budget.available_tokens:
        source = replace(source, summaries=await _summaries(log, before))
        state = await grown_state(log, leaf, source.project_path)
        if state is not None:  # the strategies need not be tried twice
            source = replace(source, state=state, unread=source.unread - {"state"})
    while True:
        try:
            return source, builder.build(source, budget)
        except SourceUnread as unread:
            source = await _with_read(source, unread.parts, log, leaf)


async def _with_read(source: ContextSource, parts: Collection[Part], log: OpenLog, leaf: int) -> ContextSource:
    """Return a source with parts that it did not have."""
    if "state" in parts:
        source = replace(source, state=await state_of_work(log, leaf, source.project_path))
    if "path" in parts:
        source = replace(source, entries=tuple(await (await ShownPath.to(log, leaf)).entries()))
    return replace(source, unread=source.unread.difference(parts))


async def _used_tokens(log: OpenLog, tokenizer: Tokenizer, overhead: int) -> UsedTokens:
    index, leaf = log.index, log.index.leaf
    context = await log.context(leaf)
    messages = context.messages
    position = last_measured(messages)
    # A count is valid while what was sent before it is unchanged.
    changed_at = max(boundary(index, leaf), index.edits[leaf])
    if position >= 0 and index.find(messages[position].entry_id) > changed_at:
        return used_since(messages, position, tokenizer)
    return UsedTokens(0, overhead + (await log.paired(context, tokenizer)).tokens)


async def source_of(session: Appending, tokenizer: Tokenizer) -> ContextSource:
    """Return the source of the leaf's context, of which only the messages were read."""
    return await read_log(session, lambda log: _source(log, log.index.leaf, tokenizer))


def _not_a_message_error(log: OpenLog, entry_id: str) -> EntryNotFound | InvalidInput:
    if not log.index.find(entry_id):
        return EntryNotFound(entry_id)
    return InvalidInput(
        f"entry {entry_id!r} is not a message of the context: give the first and the last of `context()`"
    )


async def _make_and_store(
    session: Appending, needed: NeededSummary, summarizer: Summarizer, tokenizer: Tokenizer, options: SummarizerOptions
) -> StoredSummary:
    """Call the summarizer, and store the summary in the log."""
    messages = [each.message for each in needed.messages]
    generated = await generate_summary(messages, needed.target_tokens, summarizer, tokenizer=tokenizer, options=options)
    if generated.tokens >= needed.tokens:
        raise SummaryRefused(
            f"the summary takes {generated.tokens} tokens and the {counted(needed.message_count, 'message')} that it "
            f"stands for {needed.tokens}: it was not stored"
        )
    index = (await session.log()).index
    stored = StoredSummary(
        needed.key,
        needed.start_id,
        needed.end_id,
        needed.message_count,
        generated.content,
        generated.tokens,
        summarizer_id(summarizer),
        needed.tokens,
        generated.tokens / needed.tokens,
        index.find(needed.start_id),
        index.find(needed.end_id),
    )
    usage = [] if generated.usage is None else [UsageRecord(SUMMARY_USAGE, generated.usage)]
    stored_id, *_ = await session.append_many([stored.payload(), *usage])
    entry = await session.entry(stored_id)
    assert isinstance(entry, CustomEntry)
    return stored.kept_by(entry)


async def _source(log: OpenLog, leaf: int, tokenizer: Tokenizer) -> ContextSource:
    context = await log.context(leaf)
    return ContextSource.of(
        context,
        project_path=log.index.info.project or log.index.header.cwd or "",
        request=await _request(log, leaf, context),
        counted=await log.paired(context, tokenizer),
        unread=ALL_PARTS,
    )


async def _request(log: OpenLog, leaf: int, context: Context) -> ContextMessage | None:
    """Return the last user message of the path if a compaction with a summary hides it from the context."""
    index = log.index
    first = boundary(index, leaf)
    if not first or any(is_request(each.message) for each in context.messages):
        return None
    path = await ShownPath.to(log, leaf)
    for seq in takewhile(lambda seq: seq >= path.start, index.upward(first)):
        if index.kinds[seq] == Kind.USER:
            messages = messages_of(await path.entries([seq]))
            request = next((each for each in messages if is_request(each.message)), None)
            if request is not None:
                return request
    return None


async def _summaries(log: OpenLog, before: int | None = None) -> tuple[StoredSummary, ...]:
    kinds = log.index.kinds
    seqs: list[int] = []
    for _ in range(kinds.count(Kind.CUSTOM)):
        seqs.append(kinds.index(Kind.CUSTOM, seqs[-1] + 1 if seqs else 0))
    return stored_summaries(await log.entries_in([seq for seq in seqs if before is None or seq < before]))

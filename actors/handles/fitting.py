"""The part of a session's handle that makes contexts fit: building them to a budget, and compacting.

The handle only delegates; the work is done in `contexts` and `compaction`.
"""

from __future__ import annotations

from ...projections.building.budget import ContextBudget, UsedTokens
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    StoredSummary,
    Summarizer,
    SummarizerOptions,
    checked_summarizer,
)
from ...projections.tokens import Tokenizer
from ..session.appending import Appending
from ..session.compaction import CompactionReport, compact
from ..session.fitting import built_context, summary_for_range, tokens_in_use
from ..session.reading import Reading


class Fitting(Appending, Reading):
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
        return await built_context(self, budget, builder, leaf_id=leaf_id, summarizer=summarizer, options=options)

    async def used_tokens(self, *, tokenizer: Tokenizer | None = None, overhead: int = 0) -> UsedTokens:
        """Return how much of the window the next request takes.

        This is what the provider counted last, and an estimate of the rest.

        Args:
            tokenizer: Counts what came after; by default it is estimated from the bytes.
            overhead: The size of the system prompt and the tools, used if no provider has counted since the latest
                compaction.
        """
        return await tokens_in_use(self, tokenizer, overhead)

    async def compact(
        self,
        summarizer: Summarizer,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> CompactionReport:
        """Append a summary that stands for the older part of the path to the leaf; the originals stay readable.

        Nothing is written if the summarizer fails or the caller is cancelled.

        Args:
            summarizer: Makes the summary: an async callable that takes a `SummaryRequest` and returns text or messages.
            budget: What the context must fit; it also determines how much is kept, unless `keep_tokens` does.
            keep_tokens: About how much of the path stays as it is.
            target_tokens: About how long the summary should be.
            tokenizer: Counts tokens; by default they are estimated from the bytes.
            options: How the summarizer is called.

        Returns:
            What was done; with a `reason` if there is nothing to compact.

        Raises:
            SummaryRefused: The summary is empty or not shorter than what it stands for.
            CompactionLoop: The context exceeds the budget, and compacting (again) does not help.
            ContextOverflow: The budget leaves nothing for the conversation, or even the smallest input is too large for
                the summarizer.
            LeafMoved: Something was appended in the meantime, or the leaf was moved: compact again.
        """
        return await compact(
            self,
            checked_summarizer(summarizer),
            budget=budget,
            keep_tokens=keep_tokens,
            target_tokens=target_tokens,
            tokenizer=tokenizer,
            options=options,
        )

    async def dry_compact(
        self,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> CompactionReport:
        """Report what `compact` would do: where it would cut, and the tokens before and after. No model is called.

        The arguments and errors are those of `compact`.
        """
        return await compact(
            self, None, budget=budget, keep_tokens=keep_tokens, target_tokens=target_tokens, tokenizer=tokenizer
        )

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
        return await summary_for_range(
            self, start_id, end_id, target_tokens, summarizer, tokenizer=tokenizer, options=options
        )

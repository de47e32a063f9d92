"""The strategy that sends a summary of the older messages, and the last messages unchanged.

It makes no summary itself. It uses the stored summary that covers the most of the older messages, and keeps it while
everything after it fits, so that requests begin alike from turn to turn. When no stored summary fits any more, it says
which one is needed; that one is made from the stored summary and the messages after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...events.content import text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens, message_tokens
from .pairing import safe_start, starts_from
from .strategies import RECENT_MESSAGE_COUNT
from .strategy import ContextSource, NeededSummary, StrategyResult
from .summaries import StoredSummary, longest_summary, range_key

SUMMARY_TARGET_RATIO = 0.3
"""The share of the budget that a summary should take."""

SUMMARY_BUDGET_SHARE = 0.9
"""The share of the budget left by the last messages that a summary may take."""

LEAST_SUMMARY_TOKENS = 64
"""The least room for a summary; with less, fewer of the last messages are kept."""


class RecentPlusSummary:
    """Send a summary and the last messages.

    Args:
        recent_count: The number of messages at the end that are kept unchanged; more, to keep an assistant's turn
            whole; fewer, if they would leave no room for a summary.
        target_ratio: The share of the budget that a summary should take.
    """

    name = "recent-plus-summary"
    priority = 3
    min_tokens = 1500
    needs_path = False

    def __init__(self, recent_count: int = RECENT_MESSAGE_COUNT, target_ratio: float = SUMMARY_TARGET_RATIO) -> None:
        self.recent_count = recent_count
        self.target_ratio = target_ratio

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult | NeededSummary:
        """Return a summary and the last messages, or the summary that is needed; see `ContextStrategy.build`."""
        messages, opening = source.messages, source.opening
        recent = safe_start(messages, len(messages) - self.recent_count)
        if recent <= opening:
            return StrategyResult(messages, source.originals(messages))
        recent, room = _with_room(source, recent, budget_tokens, tokenizer)
        stored = longest_summary(source.summaries, messages, opening, recent)
        if stored is not None:
            result = _summarized(source, *stored)
            if stored[1] == recent or context_tokens(result.messages, tokenizer) <= budget_tokens:
                return result
        if not room:
            raise ContextOverflow("the last messages leave no room for a summary: use a larger budget")
        older = messages[opening:recent]
        if stored is not None:
            older = (ContextMessage("", _earlier_summary(stored[0])), *messages[stored[1] : recent])
        return _needed(messages[opening:recent], older, room, int(budget_tokens * self.target_ratio), tokenizer)


def summary_message(summary: str) -> Message:
    """Return the system message that holds a summary."""
    return Message("system", (text(f"## Prior Conversation Summary\n\n{summary}\n\n---\n\n## Recent Messages Follow"),))


def summary_budget(budget_tokens: int, recent_tokens: int) -> int:
    """Return how many tokens a summary may take beside the last messages; 0 if they leave no room."""
    return max(0, int((budget_tokens - recent_tokens) * SUMMARY_BUDGET_SHARE))


def _with_room(source: ContextSource, recent: int, budget_tokens: int, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return where the last messages must begin to leave room for a summary, and how much room they leave."""
    messages, room = source.messages, 0
    frame = ContextMessage("", summary_message(""))
    for start in starts_from(messages, recent):
        kept = (*messages[: source.opening], *_request(source, start), *messages[start:])
        recent, room = start, summary_budget(budget_tokens, context_tokens([frame, *kept], tokenizer))
        if room >= LEAST_SUMMARY_TOKENS:
            break
    return recent, room


def _request(source: ContextSource, start: int) -> tuple[ContextMessage, ...]:
    """Return the last user message if it precedes the position, since a request must not be replaced by a summary."""
    return (source.messages[source.request],) if 0 <= source.request < start else ()


def _summarized(source: ContextSource, stored: StoredSummary, end: int) -> StrategyResult:
    messages, opening = source.messages, source.opening
    request = _request(source, end)
    kept = (*messages[:opening], *request, *messages[end:])
    summary = ContextMessage("", summary_message(stored.content))
    sent = (*messages[:opening], summary, *request, *messages[end:])
    summarized = source.originals(messages[opening:end]) - source.originals(request)
    return StrategyResult(sent, source.originals(kept), summarized)


def _needed(
    covered: Sequence[ContextMessage],
    messages: Sequence[ContextMessage],
    room: int,
    target_tokens: int,
    tokenizer: Tokenizer,
) -> NeededSummary:
    entry_ids = [each.entry_id for each in covered if each.entry_id]
    return NeededSummary(
        range_key(covered),
        entry_ids[0],
        entry_ids[-1],
        len(covered),
        sum(message_tokens(each.message, tokenizer) for each in covered),
        room,
        min(room, target_tokens),
        tuple(messages),
    )


def _earlier_summary(stored: StoredSummary) -> Message:
    return Message("compactionSummary", (text(stored.content),))

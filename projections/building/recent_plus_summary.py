"""The strategy that sends a summary of what is old and the last messages as they are.

It makes no summary. It takes the stored one that stands for most of what is old, and leaves it as long as everything after
it fits: the beginning of what is sent stays the same from turn to turn. When nothing stored fits any more, it says which
summary is needed; that is made of the stored one and of what came after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...events.content import text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens, message_tokens
from .pairing import next_start, safe_start
from .pruned_tools import RECENT_MESSAGE_COUNT
from .source import ContextSource
from .strategy import NeededSummary, StrategyResult
from .summary_cache import StoredSummary, longest_summary, range_key

SUMMARY_TARGET_RATIO = 0.3
"""The share of the budget that a summary should take."""

SUMMARY_BUDGET_SHARE = 0.9
"""The share of what the last messages leave that a summary may take."""

LEAST_SUMMARY_TOKENS = 64
"""With less room than this for a summary, fewer of the last messages are kept."""


class RecentPlusSummary:
    """Send a summary and the last messages.

    Args:
        recent_count: How many messages at the end stay as they are: more, where an assistant's turn would be parted;
            fewer, where they leave no room for a summary.
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
        """Return a summary and the last messages, or say which summary is needed; see `ContextStrategy.build`."""
        messages, opening = source.messages, source.opening
        recent = safe_start(messages, max(0, len(messages) - self.recent_count))
        if recent <= opening:
            return StrategyResult(messages, source.originals(messages))
        recent, room = _with_room(source, recent, budget_tokens, tokenizer)
        stored = longest_summary(source.summaries, messages, opening, recent)
        if stored is not None:
            result = _summarized(source, *stored)
            if stored[1] == recent or context_tokens(result.messages, tokenizer) <= budget_tokens:
                return result
        if not room:
            raise ContextOverflow("the last messages leave no room for a summary: give a larger budget")
        older = messages[opening:recent]
        if stored is not None:
            older = (ContextMessage("", _said_before(stored[0])), *messages[stored[1] : recent])
        return _needed(messages[opening:recent], older, room, int(budget_tokens * self.target_ratio), tokenizer)


def summary_message(summary: str) -> Message:
    """Return the system message that tells a model of a summary."""
    return Message("system", (text(f"## Prior Conversation Summary\n\n{summary}\n\n---\n\n## Recent Messages Follow"),))


def summary_budget(budget_tokens: int, recent_tokens: int) -> int:
    """Return how many tokens a summary may take beside the last messages; 0 where they leave none."""
    return max(0, int((budget_tokens - recent_tokens) * SUMMARY_BUDGET_SHARE))


def _with_room(source: ContextSource, recent: int, budget_tokens: int, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return where the last messages begin that leave room for a summary, and how much they leave."""
    messages = source.messages
    while True:
        kept = (*messages[: source.opening], *_request(source, recent), *messages[recent:])
        frame = ContextMessage("", summary_message(""))
        room = summary_budget(budget_tokens, context_tokens([frame, *kept], tokenizer))
        later = next_start(messages, recent)
        if room >= LEAST_SUMMARY_TOKENS or later >= len(messages):
            return recent, room
        recent = later


def _request(source: ContextSource, start: int) -> tuple[ContextMessage, ...]:
    """Return the last user message where it stands before a position: what is asked for is never only summarized."""
    return (source.messages[source.request],) if 0 <= source.request < start else ()


def _summarized(source: ContextSource, stored: StoredSummary, end: int) -> StrategyResult:
    messages, opening = source.messages, source.opening
    request = _request(source, end)
    kept = (*messages[:opening], *request, *messages[end:])
    told = (*messages[:opening], ContextMessage("", summary_message(stored.content)), *request, *messages[end:])
    summarized = source.originals(messages[opening:end]) - source.originals(request)
    return StrategyResult(told, source.originals(kept), summarized)


def _needed(
    covered: Sequence[ContextMessage],
    messages: Sequence[ContextMessage],
    room: int,
    target_tokens: int,
    tokenizer: Tokenizer,
) -> NeededSummary:
    named = [each.entry_id for each in covered if each.entry_id]
    return NeededSummary(
        range_key(covered),
        named[0],
        named[-1],
        len(covered),
        sum(message_tokens(each.message, tokenizer) for each in covered),
        room,
        min(room, target_tokens),
        tuple(messages),
    )


def _said_before(stored: StoredSummary) -> Message:
    return Message("compactionSummary", (text(stored.content),))

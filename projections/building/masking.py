"""The strategy that clears the results of old tool calls, in steps.

A provider's prompt cache is valid while each request begins with the previous one. So nothing is cleared below the
limit; when the limit is exceeded, all results but the last few are cleared at once, and the beginning then stays
unchanged until the limit is exceeded again. The steps are not stored: they are found by walking the messages from the
first one on, in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart
from ..context import ContextMessage
from ..tokens import Tokenizer, message_tokens
from .pairing import has_results, safe_starts, tool_names, with_results
from .strategy import ContextSource, StrategyResult

KEEP_LAST = 3
"""The number of results that are kept when the others are cleared."""

MIN_GAIN_SHARE = 0.1
"""The smallest share of the limit that clearing must free to be worth a broken prompt cache."""

MASK = "[Old result of {name} cleared: {chars} characters]"
"""The replacement for a cleared result."""


class MaskedTools:
    """Clear the results of old tool calls.

    Args:
        keep_last: The number of results to keep; more, to keep a batch of parallel calls whole.
        protected: The names of tools whose results are never cleared.
        min_gain: The smallest share of the budget that a step must free.
        trigger: The share of the budget at which a step is taken.
    """

    name = "masked-tools"
    priority = 2
    min_tokens = 0
    needs_path = False

    def __init__(
        self,
        keep_last: int = KEEP_LAST,
        *,
        protected: Collection[str] = (),
        min_gain: float = MIN_GAIN_SHARE,
        trigger: float = 1.0,
    ) -> None:
        self.keep_last = keep_last
        self.protected = frozenset(protected)
        self.min_gain = min_gain
        self.trigger = trigger

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return all messages, old results cleared; see `ContextStrategy.build`."""
        messages = source.messages
        limit = int(budget_tokens * self.trigger)
        masked = self.masked(messages)
        sizes = source.sizes(tokenizer)
        through = masked_through(messages, masked, sizes, tokenizer, limit, self.keep_last, int(limit * self.min_gain))
        count = sum(one is not other for one, other in zip(masked[:through], messages[:through], strict=True))
        return StrategyResult((*masked[:through], *messages[through:]), source.originals(messages), masked_count=count)

    def masked(self, messages: Sequence[ContextMessage]) -> list[ContextMessage]:
        """Return the messages with all results cleared, except protected and short ones."""
        names = tool_names(messages)
        return [with_results(each, names, self._masked) for each in messages]

    def _masked(self, result: ToolResult, name: str) -> ToolResult:
        if name in self.protected:
            return result
        mask = MASK.format(name=name or "a tool", chars=len(result.text))
        if isinstance(result.content, str) and len(result.content) <= len(mask):
            return result
        return replace(result, content=mask)


def masked_through(
    messages: Sequence[ContextMessage],
    masked: Sequence[ContextMessage],
    sizes: Sequence[int],
    tokenizer: Tokenizer,
    limit: int,
    keep_last: int,
    min_gain: int,
) -> int:
    """Return the position before which results are cleared.

    Args:
        messages: The messages, oldest first.
        masked: The same messages with their results cleared; see `MaskedTools.masked`.
        sizes: The tokens of the messages.
        tokenizer: Counts the tokens of the masked messages.
        limit: The maximum size of a request.
        keep_last: The number of results to keep.
        min_gain: The tokens that a step must free.
    """
    gains = [
        0 if one is other else size - message_tokens(other.message, tokenizer)
        for one, other, size in zip(messages, masked, sizes, strict=True)
    ]
    freed = [0, *accumulate(gains)]
    starts = _starts_kept(messages, keep_last)
    total = through = 0
    for place, size in enumerate(sizes):
        total += size
        if total - freed[through] <= limit or not _ends_request(messages, place):
            continue
        start = max(through, starts[place])
        if freed[start] - freed[through] >= max(min_gain, 1):
            through = start
    return through


def _ends_request(messages: Sequence[ContextMessage], place: int) -> bool:
    """Return whether a request to the model ended, or now ends, with this message."""
    if place + 1 == len(messages):
        return True
    return messages[place].role != "assistant" and messages[place + 1].role == "assistant"


def _starts_kept(messages: Sequence[ContextMessage], keep_last: int) -> list[int]:
    """Return for each position where the last results up to it begin, keeping a batch of parallel calls whole."""
    units = safe_starts(messages)
    results: list[int] = []
    starts: list[int] = []
    for place, each in enumerate(messages):
        results += [place for part in each.content if isinstance(part, ToolResultPart)]
        start = place + 1 if keep_last <= 0 else 0
        if 0 < keep_last <= len(results):
            start = results[-keep_last]
        whole = start < len(messages) and has_results(messages[start].message)
        starts.append(units[start] if whole else start)
    return starts

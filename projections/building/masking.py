"""The strategy that clears the results of old tool calls, in steps.

A provider's prompt cache holds as long as what was sent stays the beginning of what is sent. So nothing is cleared below
the limit; and when the limit is passed, all results but the last few are cleared at once, and the beginning stays as it
is until the limit is passed again. Where those steps lie is not remembered anywhere: they follow from the messages, which
are walked from the first on as they were sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart
from ..context import ContextMessage
from ..tokens import Tokenizer, message_tokens
from .pairing import has_results, safe_starts
from .source import ContextSource
from .strategy import StrategyResult
from .tool_results import tool_names, with_results

KEEP_LAST = 3
"""How many results stay when the others are cleared."""

MIN_GAIN_SHARE = 0.1
"""The least share of the limit that clearing must free to be worth a broken prompt cache."""

MASK = "[Old result of {name} cleared: {chars} characters]"
"""What stands in the place of a cleared result."""


class MaskedTools:
    """Clear the results of old tool calls.

    Args:
        keep_last: How many results stay; more, where a batch of parallel calls would be parted.
        protected: The names of tools whose results are never cleared.
        min_gain: The least share of the budget that a step must free.
        trigger: The share of the budget at which a step is taken.
    """

    name = "masked-tools"
    priority = 2
    min_tokens = 0
    needs_path = False

    def __init__(
        self,
        keep_last: int = KEEP_LAST,
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
        through = masked_through(messages, masked, tokenizer, limit, self.keep_last, int(limit * self.min_gain))
        count = sum(one is not other for one, other in zip(masked[:through], messages[:through], strict=True))
        return StrategyResult((*masked[:through], *messages[through:]), source.originals(messages), masked_count=count)

    def masked(self, messages: Sequence[ContextMessage]) -> list[ContextMessage]:
        """Return the messages with every result cleared that may be."""
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
    tokenizer: Tokenizer,
    limit: int,
    keep_last: int,
    min_gain: int,
) -> int:
    """Return before which position results are cleared.

    Args:
        messages: The messages, oldest first.
        masked: The same with every result cleared that may be.
        tokenizer: What counts them.
        limit: The size that may not be passed when a request is made.
        keep_last: How many results stay.
        min_gain: The tokens that a step must free.
    """
    sizes = [message_tokens(each.message, tokenizer) for each in messages]
    gains = [
        0 if one is other else size - message_tokens(other.message, tokenizer)
        for one, other, size in zip(messages, masked, sizes, strict=True)
    ]
    freed = [0, *accumulate(gains)]
    starts = _starts_kept(messages, keep_last)
    total = through = 0
    for place, size in enumerate(sizes):
        total += size
        if total - freed[through] <= limit or not _is_asked(messages, place):
            continue
        start = max(through, starts[place])
        if freed[start] - freed[through] >= max(min_gain, 1):
            through = start
    return through


def _is_asked(messages: Sequence[ContextMessage], place: int) -> bool:
    """Tell whether the model was, or is now, asked for an answer after this message."""
    if place + 1 == len(messages):
        return True
    return messages[place].role != "assistant" and messages[place + 1].role == "assistant"


def _starts_kept(messages: Sequence[ContextMessage], keep_last: int) -> list[int]:
    """Return of each place where the last results up to it begin, a batch of parallel calls being kept whole."""
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

"""The strategy protocol: one way of making a conversation smaller.

A custom strategy needs three attributes and one method, and may be registered at any time::

    class LastWords:
        name = "last-words"
        priority = 2
        min_tokens = 0

        def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
            start = safe_start(source.messages, source.request)
            kept = source.messages[start:]
            return StrategyResult(kept, source.originals(kept))

A strategy that uses only the messages may set `needs_path = False`; a session then does not read its whole path for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from ...events.arguments import check_word
from ..context import ContextMessage
from ..tokens import Tokenizer


class StrategyResult(Struct, frozen=True):
    """A conversation as a strategy made it smaller.

    Attributes:
        messages: The messages to send, oldest first.
        included_count: How many of the context's messages it contains, whole or shortened.
        summarized_count: How many are represented by a summary or by the state of the work.
        masked_count: How many of the included ones have shortened or cleared tool results.
    """

    messages: tuple[ContextMessage, ...]
    included_count: int
    summarized_count: int = 0
    masked_count: int = 0


class NeededSummary(Struct, frozen=True):
    """A summary that would help, but is not stored.

    Attributes:
        key: The key under which to store it; see `range_key`.
        start_id: The entry of the first message that it covers.
        end_id: The entry of the last message that it covers.
        message_count: The number of messages that it covers.
        tokens: The tokens of those messages.
        budget_tokens: The maximum length of the summary.
        target_tokens: The desired length of the summary.
        messages: What to summarize: those messages, or an earlier summary and the messages after it.
    """

    key: str
    start_id: str
    end_id: str
    message_count: int
    tokens: int
    budget_tokens: int
    target_tokens: int
    messages: tuple[ContextMessage, ...]


class ContextStrategy(Protocol):
    """One way of making a conversation smaller."""

    @property
    def name(self) -> str:
        """The name of the strategy in results."""
        ...

    @property
    def priority(self) -> int:
        """The order in which strategies are tried, lowest first."""
        ...

    @property
    def min_tokens(self) -> int:
        """The smallest budget with which the strategy is tried."""
        ...

    def build(
        self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer, /
    ) -> StrategyResult | NeededSummary:
        """Return messages that fit the budget, or the summary that would be needed for that.

        This is a pure function. If its result does not fit, or if it raises, the builder tries the next strategy. It
        must keep calls together with their results, and include the last user message.
        """
        ...


def needs_path(strategy: ContextStrategy) -> bool:
    """Return whether a strategy uses the entries of the path, which is assumed unless it sets `needs_path = False`."""
    return bool(getattr(strategy, "needs_path", True))


class StrategyRegistry:
    """Strategies in the order in which they are tried: by priority, then by name."""

    def __init__(self, strategies: Iterable[ContextStrategy] = ()) -> None:
        self._strategies: dict[str, ContextStrategy] = {}
        for strategy in strategies:
            self.register(strategy)

    def register(self, strategy: ContextStrategy) -> None:
        """Add a strategy, replacing one of the same name."""
        self._strategies[strategy.name] = strategy

    def remove(self, name: str) -> None:
        """Remove a strategy.

        Raises:
            InvalidInput: There is no strategy of this name.
        """
        check_word("strategy", name, self._strategies)
        del self._strategies[name]

    def __iter__(self) -> Iterator[ContextStrategy]:
        return iter(sorted(self._strategies.values(), key=lambda each: (each.priority, each.name)))

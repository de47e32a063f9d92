"""What a strategy is: one way of making a conversation smaller.

A strategy of one's own needs three attributes and one method, and may be registered at any time::

    class LastWords:
        name = "last-words"
        priority = 2
        min_tokens = 0

        def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
            start = safe_start(source.messages, source.request)
            kept = source.messages[start:]
            return StrategyResult(kept, source.originals(kept))

A strategy that looks at the messages alone may say `needs_path = False`; a session then does not read its whole path for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from ..context import ContextMessage
from ..tokens import Tokenizer
from .source import ContextSource


class StrategyResult(Struct, frozen=True):
    """What a strategy makes of a conversation.

    Attributes:
        messages: What to send, oldest first.
        included_count: How many of the context's messages are in it, cut or whole.
        summarized_count: How many are represented by a summary or by the state of the work.
        masked_count: In how many of the included ones results of tools were cut or cleared.
    """

    messages: tuple[ContextMessage, ...]
    included_count: int
    summarized_count: int = 0
    masked_count: int = 0


class NeededSummary(Struct, frozen=True):
    """A summary that would help, and that is not there.

    Attributes:
        key: The key under which to store it; see `range_key`.
        start_id: The entry of the first message that it stands for.
        end_id: The entry of the last one.
        message_count: How many messages it stands for.
        tokens: How many tokens those take.
        budget_tokens: How long it may be.
        target_tokens: How long it should be.
        messages: What to summarize: those messages, or an earlier summary and what came after it.
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
        """What results say they were made by."""
        ...

    @property
    def priority(self) -> int:
        """When it is tried: the lower, the earlier."""
        ...

    @property
    def min_tokens(self) -> int:
        """It is not tried with a smaller budget than this."""
        ...

    def build(
        self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer, /
    ) -> StrategyResult | NeededSummary:
        """Make messages of a conversation that fit a budget, or say which summary that would take.

        It is pure. It need not fit, and it may raise: the builder then tries the next one. It must part no call from its
        result, and leave the last user message in.
        """
        ...


def needs_path(strategy: ContextStrategy) -> bool:
    """Tell whether a strategy looks at the entries of the path; it does unless it says that it does not."""
    return bool(getattr(strategy, "needs_path", True))


class StrategyRegistry:
    """Strategies in the order in which they are tried: by priority, then by name."""

    def __init__(self, strategies: Iterable[ContextStrategy] = ()) -> None:
        self._strategies: dict[str, ContextStrategy] = {}
        for strategy in strategies:
            self.register(strategy)

    def register(self, strategy: ContextStrategy) -> None:
        """Add a strategy, in the place of one that has its name."""
        self._strategies[strategy.name] = strategy

    def remove(self, name: str) -> None:
        """Take a strategy away, if it is there."""
        self._strategies.pop(name, None)

    def __iter__(self) -> Iterator[ContextStrategy]:
        return iter(sorted(self._strategies.values(), key=lambda each: (each.priority, each.name)))

"""The strategy that sends the conversation unchanged."""

from __future__ import annotations

from ..tokens import Tokenizer
from .strategy import ContextSource, StrategyResult


class FullHistory:
    """Send everything."""

    name = "full-history"
    priority = 1
    min_tokens = 0
    needs_path = False

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return all messages; see `ContextStrategy.build`."""
        return StrategyResult(source.messages, source.originals(source.messages))

"""What a model is sent: contexts, their budgets, the strategies that make them fit, summaries and tokens.

A context is folded from the path to the leaf. If it is too large, `Session.build_context` tries strategies in their
order until the result fits the budget; it writes nothing and calls no model, unless it is given a summarizer::

    from treering import ContextBuilder
    from treering.contexts import RecentPlusSummary, calculate_budget

    budget = calculate_budget(32_768, system_prompt="You help.")
    builder = ContextBuilder()
    builder.register_strategy(RecentPlusSummary(target_ratio=0.2))
    result = await session.build_context(budget, builder)
    messages = result.to_messages()

`Session.compact` shortens the path itself, by an appended entry.
"""

from .actors.agents.agent import summarizer_of
from .projections.building.budget import ContextBudget, calculate_budget
from .projections.building.builder import ContextBuilder, ContextBuildResult, StrategyFailure, compose
from .projections.building.masking import MaskedTools
from .projections.building.pairing import safe_start
from .projections.building.report import ContextItem, ContextReport, HiddenRange, PartTokens
from .projections.building.strategies import FullHistory, MinimalState, PrunedTools, RecentPlusSummary
from .projections.building.strategy import (
    ContextSource,
    ContextStrategy,
    NeededSummary,
    StrategyRegistry,
    StrategyResult,
)
from .projections.building.summaries import StoredSummary, Summarizer, SummarizerOptions, SummaryRequest
from .projections.context import Context, ContextMessage, ModelRef
from .projections.tokens import ByteEstimator, MessageTokenizer, Tokenizer

__all__ = [
    "ByteEstimator",
    "Context",
    "ContextBudget",
    "ContextBuildResult",
    "ContextBuilder",
    "ContextItem",
    "ContextMessage",
    "ContextReport",
    "ContextSource",
    "ContextStrategy",
    "FullHistory",
    "HiddenRange",
    "MaskedTools",
    "MessageTokenizer",
    "MinimalState",
    "ModelRef",
    "NeededSummary",
    "PartTokens",
    "PrunedTools",
    "RecentPlusSummary",
    "StoredSummary",
    "StrategyFailure",
    "StrategyRegistry",
    "StrategyResult",
    "Summarizer",
    "SummarizerOptions",
    "SummaryRequest",
    "Tokenizer",
    "calculate_budget",
    "compose",
    "safe_start",
    "summarizer_of",
]

"""The builder: from what is at hand, a budget and the strategies, the messages that a model is sent.

    builder = ContextBuilder()
    result = builder.build(await session.context(), calculate_budget(8192, system_prompt, tools, ByteEstimator()))
    result.messages, result.strategy, result.needs_summary

What fits is sent whole. Otherwise the strategies are tried by their priority, and the first whose result fits is taken;
where none does, a minimal context. Whatever is returned fits, holds the last user message, and parts no call from its
result; where that cannot be done, `ContextOverflow` is raised, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from ...events.content import JSON, json_object
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ..context import Context, ContextMessage
from ..tokens import Tokenizer, context_tokens, tokenizer_of
from .budget import ContextBudget
from .full_history import FullHistory
from .masking import MaskedTools
from .minimal_state import MinimalState, last_request, result_of
from .pairing import is_request, pairing_fault
from .recent_plus_summary import RecentPlusSummary
from .source import ContextSource
from .strategy import ContextStrategy, NeededSummary, StrategyRegistry, StrategyResult

MINIMAL = "minimal"
"""What a result says it was made by when no strategy was of use."""


class StrategyFailure(Struct, frozen=True):
    """Why a strategy was of no use."""

    strategy: str
    reason: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason}"


class ContextBuildResult(Struct, frozen=True):
    """What a model is sent, and how it came about.

    Included, summarized and dropped messages together are the original ones.

    Attributes:
        messages: The messages, oldest first, with the entries that they come from; "" for one that was made here.
        strategy: The name of the strategy that made them.
        tokens_used: How many tokens they take.
        token_budget: How many there were.
        original_message_count: How many messages the context has.
        included_message_count: How many of them are sent, cut or whole.
        summarized_message_count: How many are represented by a summary or by the state of the work.
        masked_message_count: In how many of the included ones results of tools were cut or cleared.
        budget: The budget, filled in.
        needs_summary: The summary that would have helped, where one is missing.
        failures: Why the strategies that were tried before were of no use.
    """

    messages: tuple[ContextMessage, ...]
    strategy: str
    tokens_used: int
    token_budget: int
    original_message_count: int
    included_message_count: int
    summarized_message_count: int
    masked_message_count: int
    budget: ContextBudget
    needs_summary: NeededSummary | None = None
    failures: tuple[StrategyFailure, ...] = ()

    @property
    def dropped_message_count(self) -> int:
        """How many of the context's messages are neither sent nor represented."""
        return self.original_message_count - self.included_message_count - self.summarized_message_count

    def to_messages(self) -> list[Message]:
        """Return the messages alone, as a provider's client takes them."""
        return [each.message for each in self.messages]

    def to_json(self) -> dict[str, JSON]:
        """Return all that is sent and told here as plain JSON values that are the caller's own."""
        shown = {
            "strategy": self.strategy,
            "tokens_used": self.tokens_used,
            "token_budget": self.token_budget,
            "counts": {
                "original": self.original_message_count,
                "included": self.included_message_count,
                "summarized": self.summarized_message_count,
                "dropped": self.dropped_message_count,
                "masked": self.masked_message_count,
            },
            "failures": [str(each) for each in self.failures],
            "needs_summary": None if self.needs_summary is None else self.needs_summary.key,
            "messages": [
                {"entry_id": each.entry_id, "role": each.role, "content": each.content} for each in self.messages
            ],
        }
        return json_object(Raw(msgspec.json.encode(shown)))


class ContextBuilder:
    """Builds contexts.

    Args:
        tokenizer: What counts tokens; an estimate by bytes where none is given.
        strategies: What to try where the whole does not fit; `default_strategies` where none are given.
    """

    def __init__(self, tokenizer: Tokenizer | None = None, strategies: Iterable[ContextStrategy] | None = None) -> None:
        self.tokenizer = tokenizer_of(tokenizer)
        self._registry = StrategyRegistry(default_strategies() if strategies is None else strategies)

    @property
    def strategies(self) -> list[ContextStrategy]:
        """The strategies in the order in which they are tried."""
        return list(self._registry)

    def register_strategy(self, strategy: ContextStrategy) -> None:
        """Add a strategy, in the place of one that has its name; it is used from the next build on."""
        self._registry.register(strategy)

    def remove_strategy(self, name: str) -> None:
        """Take a strategy away, if it is there."""
        self._registry.remove(name)

    def build(self, source: ContextSource | Context, budget: ContextBudget) -> ContextBuildResult:
        """Build a context that fits.

        Args:
            source: The context of the leaf, or a source that was made of it and more.
            budget: How many tokens there are.

        Raises:
            ContextOverflow: Not even the minimal context fits.
        """
        if isinstance(source, Context):
            source = ContextSource.of(source)
        whole = FullHistory().build(source, budget.available_tokens, self.tokenizer)
        tokens = self._count(whole.messages)
        if tokens <= budget.available_tokens:
            return self._result(source, budget, FullHistory.name, whole, tokens, None, ())
        needed: NeededSummary | None = None
        failures: list[StrategyFailure] = []
        for strategy in self._registry:
            made = self._try(strategy, source, budget.available_tokens)
            if isinstance(made, tuple):
                return self._result(source, budget, strategy.name, *made, needed, tuple(failures))
            if isinstance(made, NeededSummary):
                needed = needed or made
                made = f"needs a summary of {made.message_count} messages"
            failures.append(StrategyFailure(strategy.name, made))
        return self.build_minimal_context(source, budget, needed, tuple(failures))

    def build_minimal_context(
        self,
        source: ContextSource,
        budget: ContextBudget,
        needs_summary: NeededSummary | None = None,
        failures: tuple[StrategyFailure, ...] = (),
    ) -> ContextBuildResult:
        """Build the smallest context that there is: the state of the work where it fits, and the last user message.

        Args:
            source: What to build it of.
            budget: How many tokens there are.
            needs_summary: What the result is to say of a missing summary.
            failures: What the result is to say of the strategies that were tried.

        Raises:
            ContextOverflow: Not even that fits.
        """
        available = budget.available_tokens
        try:
            result = MinimalState().build(source, available, self.tokenizer)
        except ContextOverflow:
            result = result_of(source, (*source.messages[: source.opening], last_request(source)))
        tokens = self._count(result.messages)
        if tokens > available:
            raise ContextOverflow(
                f"the smallest context takes {tokens} tokens and {available} are available: "
                "take a model with a larger window, or shorten the system prompt or the last user message",
                needed=tokens,
                available=available,
                failures=tuple(map(str, failures)),
            )
        return self._result(source, budget, MINIMAL, result, tokens, needs_summary, failures)

    def _try(
        self, strategy: ContextStrategy, source: ContextSource, available: int
    ) -> tuple[StrategyResult, int] | NeededSummary | str:
        """Return what a strategy makes and its size, the summary that it needs, or why it is of no use."""
        if available < strategy.min_tokens:
            return f"is for {strategy.min_tokens} tokens or more, and {available} are available"
        try:
            made = strategy.build(source, available, self.tokenizer)
            if isinstance(made, NeededSummary):
                return made
            tokens = self._count(made.messages)
        except Exception as error:  # noqa: BLE001 - a strategy may raise anything, and a context is needed all the same
            return f"raised {type(error).__name__}: {error}"
        if tokens > available:
            return f"takes {tokens} tokens, and {available} are available"
        fault = pairing_fault(made.messages) or _fault(source, made)
        return fault or (made, tokens)

    def _count(self, messages: Iterable[ContextMessage]) -> int:
        return context_tokens(messages, self.tokenizer)

    @staticmethod
    def _result(
        source: ContextSource,
        budget: ContextBudget,
        name: str,
        made: StrategyResult,
        tokens: int,
        needed: NeededSummary | None,
        failures: tuple[StrategyFailure, ...],
    ) -> ContextBuildResult:
        return ContextBuildResult(
            made.messages,
            name,
            tokens,
            budget.available_tokens,
            source.original_count,
            made.included_count,
            made.summarized_count,
            made.masked_count,
            budget.used(tokens),
            needed,
            failures,
        )


def default_strategies() -> list[ContextStrategy]:
    """Return the strategies of the ladder: everything, old results cleared, a summary, the state of the work.

    `PrunedTools` shortens old results instead of clearing them; register it where that is wanted.
    """
    return [FullHistory(), MaskedTools(), RecentPlusSummary(), MinimalState()]


def _fault(source: ContextSource, made: StrategyResult) -> str | None:
    if made.included_count < 0 or made.summarized_count < 0:
        return "counts fewer than no messages"
    if made.included_count + made.summarized_count > source.original_count:
        return f"counts more messages than the {source.original_count} that there are"
    request = source.request
    if request >= 0:
        wanted = source.messages[request].entry_id
        if not any(each.entry_id == wanted and is_request(each.message) for each in made.messages):
            return "leaves out the last user message"
    return None

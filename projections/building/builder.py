"""The builder: makes the messages to send to a model from a context, a budget and strategies.

    builder = ContextBuilder()
    result = builder.build(await session.context(), calculate_budget(8192, system_prompt, tools, ByteEstimator()))
    result.messages, result.strategy, result.needs_summary

A context that fits is sent whole. Otherwise the strategies are tried by priority, and the first result that fits is
used; if none fits, a minimal context is built. Every result fits, contains the last user message, and keeps calls
together with their results; if that is impossible, `ContextOverflow` is raised, and no other error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from ...events.content import ContentLike, as_content, text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ...events.json_values import JSON, json_object
from ..context import Context, ContextMessage
from ..tokens import Tokenizer, tokenizer_of
from .budget import ContextBudget
from .masking import MaskedTools
from .pairing import is_request, pairing_fault
from .strategies import FullHistory, MinimalState, RecentPlusSummary, last_request, result_of
from .strategy import (
    ContextSource,
    ContextStrategy,
    NeededSummary,
    SourceUnread,
    StrategyRegistry,
    StrategyResult,
    keeps_pairs,
    parts_needed,
)

MINIMAL = "minimal"
"""The strategy name in a result when no strategy could be used."""


class StrategyFailure(Struct, frozen=True):
    """The reason why a strategy could not be used."""

    strategy: str
    reason: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason}"


class ContextBuildResult(Struct, frozen=True):
    """The messages to send to a model, and how they were chosen.

    The included, summarized and dropped messages add up to the original ones.

    Attributes:
        messages: The messages, oldest first, with the ids of their entries; "" for a message that was made here.
        strategy: The name of the strategy that made them.
        tokens_used: The tokens of the messages.
        token_budget: The tokens that were available.
        original_message_count: The number of messages in the context.
        included_message_count: How many of them are sent, whole or shortened.
        summarized_message_count: How many are represented by a summary or by the state of the work.
        masked_message_count: How many of the included ones have shortened or cleared tool results.
        budget: The budget with the usage filled in.
        needs_summary: The summary that would have helped, if one is missing.
        failures: Why the strategies that were tried before could not be used.
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
        """The number of the context's messages that are neither sent nor represented."""
        return self.original_message_count - self.included_message_count - self.summarized_message_count

    def to_messages(self) -> list[Message]:
        """Return the messages without their entry ids, as a provider's client takes them."""
        return [each.message for each in self.messages]

    def to_json(self) -> dict[str, JSON]:
        """Return the result as plain JSON values, which the caller may modify."""
        fields = {
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
        return json_object(Raw(msgspec.json.encode(fields)))


class ContextBuilder:
    """Builds contexts.

    Args:
        tokenizer: Counts the tokens; by default they are estimated from bytes.
        strategies: The strategies to try if the whole context does not fit; by default treering's own, which
            docs/contexts.md describes.
    """

    def __init__(self, tokenizer: Tokenizer | None = None, strategies: Iterable[ContextStrategy] | None = None) -> None:
        self.tokenizer = tokenizer_of(tokenizer)
        self._registry = StrategyRegistry(default_strategies() if strategies is None else strategies)

    @property
    def strategies(self) -> list[ContextStrategy]:
        """The strategies in the order in which they are tried."""
        return list(self._registry)

    def register_strategy(self, strategy: ContextStrategy) -> None:
        """Add a strategy, replacing one of the same name; it is used from the next build on."""
        self._registry.register(strategy)

    def remove_strategy(self, name: str) -> None:
        """Remove a strategy.

        Raises:
            InvalidInput: There is no strategy of this name.
        """
        self._registry.remove(name)

    def build(self, source: ContextSource | Context, budget: ContextBudget) -> ContextBuildResult:
        """Build a context that fits.

        Args:
            source: The context of the leaf, or a source made from it.
            budget: The token budget.

        Raises:
            ContextOverflow: Not even the minimal context fits.
            SourceUnread: A strategy needs something that the source says was not read.
        """
        if isinstance(source, Context):
            source = ContextSource.of(source)
        tokens = source.tokens(self.tokenizer)
        if tokens <= budget.available_tokens:
            whole = FullHistory().build(source, budget.available_tokens, self.tokenizer)
            return self._result(source, budget, FullHistory.name, whole, tokens, None, ())
        needed: NeededSummary | None = None
        failures: list[StrategyFailure] = []
        for strategy in self._registry:
            _check_read(source, strategy)
            outcome = self._try(strategy, source, budget.available_tokens)
            if isinstance(outcome, tuple):
                return self._result(source, budget, strategy.name, *outcome, needed, tuple(failures))
            if isinstance(outcome, NeededSummary):
                needed = needed or outcome
                outcome = f"needs a summary of {outcome.message_count} messages"
            failures.append(StrategyFailure(strategy.name, outcome))
        return self.build_minimal_context(source, budget, needs_summary=needed, failures=tuple(failures))

    def build_minimal_context(
        self,
        source: ContextSource,
        budget: ContextBudget,
        *,
        needs_summary: NeededSummary | None = None,
        failures: tuple[StrategyFailure, ...] = (),
    ) -> ContextBuildResult:
        """Build the smallest possible context: the state of the work if it fits, and the last user message.

        Args:
            source: The source to build from.
            budget: The token budget.
            needs_summary: The missing summary to report in the result.
            failures: The failed strategies to report in the result.

        Raises:
            ContextOverflow: Not even that fits.
            SourceUnread: The state of the work was not read.
        """
        available = budget.available_tokens
        minimal = MinimalState()
        _check_read(source, minimal)
        try:
            result = minimal.build(source, available, self.tokenizer)
        except ContextOverflow:
            result = result_of(source, (*source.messages[: source.opening], last_request(source)))
        tokens = source.tokens(self.tokenizer, result.messages)
        if tokens > available:
            raise ContextOverflow(
                f"the smallest context takes {tokens} tokens and {available} are available: "
                "use a model with a larger window, or shorten the system prompt or the last user message",
                needed=tokens,
                available=available,
                failures=tuple(map(str, failures)),
            )
        return self._result(source, budget, MINIMAL, result, tokens, needs_summary, failures)

    def _try(
        self, strategy: ContextStrategy, source: ContextSource, available: int
    ) -> tuple[StrategyResult, int] | NeededSummary | str:
        """Return a strategy's result and its size, the summary that it needs, or why it cannot be used."""
        if available < strategy.min_tokens:
            return f"needs at least {strategy.min_tokens} tokens, and {available} are available"
        try:
            result = strategy.build(source, available, self.tokenizer)
            if isinstance(result, NeededSummary):
                return result
            tokens = source.tokens(self.tokenizer, result.messages) if result.tokens is None else result.tokens
        except Exception as error:  # noqa: BLE001  # a strategy may raise anything; a context is needed anyway
            return f"raised {type(error).__name__}: {error}"
        if tokens > available:
            return f"takes {tokens} tokens, and {available} are available"
        fault = (None if keeps_pairs(strategy) else pairing_fault(result.messages)) or _fault(source, result)
        return fault or (result, tokens)

    @staticmethod
    def _result(
        source: ContextSource,
        budget: ContextBudget,
        name: str,
        result: StrategyResult,
        tokens: int,
        needed: NeededSummary | None,
        failures: tuple[StrategyFailure, ...],
    ) -> ContextBuildResult:
        return ContextBuildResult(
            result.messages,
            name,
            tokens,
            budget.available_tokens,
            source.original_count,
            result.included_count,
            result.summarized_count,
            result.masked_count,
            budget.used(tokens),
            needed,
            failures,
        )


def default_strategies() -> list[ContextStrategy]:
    """Return the strategies of the ladder: everything, old tool results cleared, a summary, the state of the work.

    `PrunedTools` shortens old results instead of clearing them; register it if you prefer that.
    """
    return [FullHistory(), MaskedTools(), RecentPlusSummary(), MinimalState()]


def _check_read(source: ContextSource, strategy: ContextStrategy) -> None:
    unread = source.unread & parts_needed(strategy)
    if unread:
        raise SourceUnread(unread)


def _fault(source: ContextSource, result: StrategyResult) -> str | None:
    if result.included_count < 0 or result.summarized_count < 0:
        return "returned a negative message count"
    if result.included_count + result.summarized_count > source.original_count:
        return f"counts more messages than the {source.original_count} of the context"
    request = source.request
    if request >= 0:
        request_id = source.messages[request].entry_id
        if not any(each.entry_id == request_id and is_request(each.message) for each in reversed(result.messages)):
            return "leaves out the last user message"
    return None


def compose(
    system_prompt: str, history: Sequence[Message], *, summary: str | None = None, user: ContentLike | None = None
) -> list[Message]:
    """Return the messages of a request in the order in which models expect them.

    Args:
        system_prompt: The system prompt; omitted if empty.
        history: The conversation so far, such as `ContextBuildResult.to_messages` returns it.
        summary: A summary of the conversation before the history, added as a system message.
        user: The content of the new user message, unless the history ends with it.
    """
    system_texts = [system_prompt] if system_prompt else []
    if summary:
        system_texts.append(f"Previous conversation summary: {summary}")
    request = [] if user is None else [Message("user", as_content(user))]
    return [*(Message("system", (text(each),)) for each in system_texts), *history, *request]

"""The budget: the tokens of a model's window that are left for the conversation, and those that are used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...events.arguments import check_count
from ...events.entries import Message, Usage
from ...events.errors import InvalidInput
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens, tokenizer_of

RESERVE_SHARE = 0.25
"""The share of the window that is reserved for the answer."""

UNBOUNDED = 2**53
"""The tokens that are available where the model's window is unknown."""


class ContextBudget(Struct, frozen=True):
    """The division of a model's window, in tokens.

    Attributes:
        model_context_window: The whole window.
        system_prompt_tokens: The tokens of the system prompt.
        tool_definition_tokens: The tokens of the tool definitions.
        reserve_for_response: The tokens reserved for the answer.
        available_tokens: The tokens left for the conversation; never negative.
        current_conversation_tokens: The tokens of the conversation that was built; 0 before that.
        utilization_percent: The share of the available tokens that it uses, in percent; 0 before that.
    """

    model_context_window: int
    system_prompt_tokens: int
    tool_definition_tokens: int
    reserve_for_response: int
    available_tokens: int
    current_conversation_tokens: int = 0
    utilization_percent: float = 0.0

    def used(self, tokens: int) -> ContextBudget:
        """Return the budget with the size of the conversation filled in."""
        available = self.available_tokens
        percent = 100 * tokens / available if available else 100.0 if tokens else 0.0
        return replace(self, current_conversation_tokens=tokens, utilization_percent=percent)


def checked_budget(budget: object) -> ContextBudget:
    """Return the argument as a budget.

    Raises:
        InvalidInput: It is not a `ContextBudget`.
    """
    if not isinstance(budget, ContextBudget):
        raise InvalidInput(
            f"the budget is of type `{type(budget).__name__}`: pass what `calculate_budget(...)` or "
            "`session.budget()` returns"
        )
    return budget


def calculate_budget(
    model_context_window: int,
    system_prompt: str = "",
    tool_definitions: str = "",
    tokenizer: Tokenizer | None = None,
    *,
    reserve_for_response: int | None = None,
) -> ContextBudget:
    """Calculate a budget.

    Args:
        model_context_window: The model's window, in tokens.
        system_prompt: The system prompt that is sent in addition to the session.
        tool_definitions: The tool definitions, as they are sent.
        tokenizer: Counts the two; by default their tokens are estimated from bytes.
        reserve_for_response: The tokens to reserve for the answer; by default a quarter of the window.

    Raises:
        InvalidInput: A size is not a count, the text to count is not text, or the tokenizer is not one.
    """
    check_count("model_context_window", model_context_window)
    if reserve_for_response is not None:
        check_count("reserve_for_response", reserve_for_response)
    for name, value in (("system_prompt", system_prompt), ("tool_definitions", tool_definitions)):
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"`{name}` must be a string, not `{type(value).__name__}`")
    count = tokenizer_of(tokenizer).count
    system, tools = count(system_prompt), count(tool_definitions)
    reserve = int(model_context_window * RESERVE_SHARE) if reserve_for_response is None else reserve_for_response
    available = max(0, model_context_window - system - tools - reserve)
    return ContextBudget(model_context_window, system, tools, reserve, available)


INTERRUPTED = frozenset({"aborted", "error"})
"""The stop reasons of an interrupted answer."""


class UsedTokens(Struct, frozen=True):
    """The tokens of the window that are used.

    Attributes:
        measured: The provider's last count: the whole request, including system prompt and tools, and the answer.
        estimated: The tokenizer's count of later messages, or of everything if no provider has counted.
    """

    measured: int
    estimated: int

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.measured + self.estimated


def last_measured(messages: Sequence[ContextMessage]) -> int:
    """Return the position of the last message with a provider's count, or -1.

    The count of an interrupted answer cannot be trusted.
    """
    positions = reversed(range(len(messages)))
    return next((position for position in positions if _measured(messages[position].message) > 0), -1)


def used_since(messages: Sequence[ContextMessage], position: int, tokenizer: Tokenizer | None = None) -> UsedTokens:
    """Return the count at a position, see `last_measured`, and an estimate of the messages after it."""
    return UsedTokens(_measured(messages[position].message), context_tokens(messages[position + 1 :], tokenizer))


def request_tokens(usage: Usage) -> int:
    """Return the tokens of a request and its answer together."""
    return usage.total_tokens or (
        usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    )


def _measured(message: Message) -> int:
    if message.role != "assistant" or message.usage is None or message.stop_reason in INTERRUPTED:
        return 0
    return request_tokens(message.usage)  # a provider that did not count may report -1

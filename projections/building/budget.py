"""The budget: how many tokens of a model's window are left for the conversation."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ...events.counts import check_count
from ...events.errors import InvalidInput
from ..tokens import Tokenizer, tokenizer_of

RESERVE_SHARE = 0.25
"""The share of the window that is kept free for the answer."""


class ContextBudget(Struct, frozen=True):
    """How a model's window is divided, in tokens.

    Attributes:
        model_context_window: The whole window.
        system_prompt_tokens: What the system prompt takes of it.
        tool_definition_tokens: What the definitions of the tools take.
        reserve_for_response: What is kept free for the answer.
        available_tokens: What is left for the conversation; never negative.
        current_conversation_tokens: What the conversation that was built takes; 0 before.
        utilization_percent: How much of the available tokens that is; 0 before.
    """

    model_context_window: int
    system_prompt_tokens: int
    tool_definition_tokens: int
    reserve_for_response: int
    available_tokens: int
    current_conversation_tokens: int = 0
    utilization_percent: float = 0.0

    def used(self, tokens: int) -> ContextBudget:
        """Return the budget with a conversation of this size in it."""
        available = self.available_tokens
        percent = 100 * tokens / available if available else 100.0 if tokens else 0.0
        return replace(self, current_conversation_tokens=tokens, utilization_percent=percent)


def checked_budget(budget: object) -> ContextBudget:
    """Return what is given as a budget.

    Raises:
        InvalidInput: It is none.
    """
    if not isinstance(budget, ContextBudget):
        raise InvalidInput(
            f"the budget is of type `{type(budget).__name__}`: give what `calculate_budget(...)` or `session.budget()` returns"
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
    """Work out a budget.

    Args:
        model_context_window: The model's window, in tokens.
        system_prompt: What the system says that is no part of the session.
        tool_definitions: The definitions of the tools, as they are sent.
        tokenizer: What counts the two; an estimate by bytes where none is given.
        reserve_for_response: What to keep free for the answer; a quarter of the window where it is not given.

    Raises:
        InvalidInput: A size is no count, what is to be counted no text, or what counts no tokenizer.
    """
    check_count("model_context_window", model_context_window)
    if reserve_for_response is not None:
        check_count("reserve_for_response", reserve_for_response)
    for said in (system_prompt, tool_definitions):
        if not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"the system prompt and the definitions of tools are texts, no `{type(said).__name__}`")
    count = tokenizer_of(tokenizer).count
    system, tools = count(system_prompt), count(tool_definitions)
    reserve = int(model_context_window * RESERVE_SHARE) if reserve_for_response is None else reserve_for_response
    available = max(0, model_context_window - system - tools - reserve)
    return ContextBudget(model_context_window, system, tools, reserve, available)

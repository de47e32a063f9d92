"""The division of a model's window into reserve, overhead and conversation."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...projections.building.budget import ContextBudget, calculate_budget
from ...projections.tokens import Tokenizer
from .model import Model, ToolSpec
from .options import AgentOptions
from .tool import definitions

UNBOUNDED = 2**53
"""The budget of an agent that does not know its model's window."""


class Window(Struct, frozen=True):
    """The window of one turn.

    Attributes:
        budget: The budget for the conversation.
        limit: The window minus the reserve; None if the window is unknown.
    """

    budget: ContextBudget
    limit: int | None

    @property
    def overhead(self) -> int:
        """The tokens of the system prompt and the tools."""
        return self.budget.system_prompt_tokens + self.budget.tool_definition_tokens

    def with_available(self, tokens: int) -> Window:
        """Return the window with `tokens` left for the conversation, for use after a provider refused a request."""
        return Window(replace(self.budget, available_tokens=max(tokens, 0)), self.limit)


def window_of(
    model: Model, options: AgentOptions, system_prompt: str, tools: Sequence[ToolSpec], tokenizer: Tokenizer
) -> Window:
    """Calculate the window of a turn."""
    size = options.context_window if options.context_window is not None else model.context_window
    budget = calculate_budget(
        size or 0, system_prompt, definitions(tools), tokenizer, reserve_for_response=options.reserve_for_response
    )
    if size is None:
        return Window(replace(budget, available_tokens=UNBOUNDED), None)
    return Window(budget, size - budget.reserve_for_response)

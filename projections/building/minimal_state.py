"""The strategy that sends the state of the work and what the user asked last, and nothing else of the conversation."""

from __future__ import annotations

from msgspec.structs import replace

from ...events.content import ToolResultPart, text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens
from .source import ContextSource
from .state_extraction import SessionState, as_entries, extract_session_state, format_state_context, shortened
from .strategy import StrategyResult

_STEPS = ((100, 4000), (40, 1000), (15, 400), (5, 150))
"""How many lines a list may have, and how many characters the task and the status, where the whole does not fit."""


class MinimalState:
    """Send the state of the work and the last user message."""

    name = "minimal-state"
    priority = 4
    min_tokens = 400

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return the state and the last user message; see `ContextStrategy.build`.

        A state that does not fit is told in less and less detail.

        Raises:
            ContextOverflow: Not even the shortest state fits beside the last user message.
        """
        state = extract_session_state(source.entries or as_entries(source.messages), project_path=source.project_path)
        opening, request = source.messages[: source.opening], last_request(source)
        for told in (state, *(_reduced(state, *step) for step in _STEPS)):
            said = ContextMessage("", Message("system", (text(format_state_context(told)),)))
            messages = (*opening, said, request)
            if context_tokens(messages, tokenizer) <= budget_tokens:
                return result_of(source, messages)
        raise ContextOverflow(f"the state of the work does not fit beside the last user message into {budget_tokens}")


def last_request(source: ContextSource) -> ContextMessage:
    """Return the last user message; an empty one where there is none."""
    if source.request < 0:
        return ContextMessage("", Message("user", (text(""),)))
    found = source.messages[source.request]
    said = tuple(part for part in found.content if not isinstance(part, ToolResultPart))
    if len(said) == len(found.content):
        return found
    return ContextMessage(found.entry_id, replace(found.message, content=said))


def result_of(source: ContextSource, messages: tuple[ContextMessage, ...]) -> StrategyResult:
    """Return messages as a result in which all others are represented by the state."""
    included = source.originals(messages)
    return StrategyResult(messages, included, source.originals(source.messages) - included)


def _reduced(state: SessionState, lines: int, chars: int) -> SessionState:
    return replace(
        state,
        original_task=shortened(state.original_task, chars),
        current_status=shortened(state.current_status, chars),
        modified_files=state.modified_files[-lines:],
        blockers=state.blockers[-lines:],
        key_decisions=state.key_decisions[-lines:],
    )

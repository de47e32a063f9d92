"""The strategy that sends only the state of the work and the last user message."""

from __future__ import annotations

from msgspec.structs import replace

from ...events.content import ToolResultPart, text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens
from .state_of_work import SessionState, as_entries, extract_session_state, format_state_context, shortened
from .strategy import ContextSource, StrategyResult

_STEPS = ((100, 4000), (40, 1000), (15, 400), (5, 150))
"""Smaller and smaller limits on the lines of a list and the characters of task and status, tried until one fits."""


class MinimalState:
    """Send the state of the work and the last user message."""

    name = "minimal-state"
    priority = 4
    min_tokens = 400
    needs_path = False
    needs_state = True

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return the state and the last user message; see `ContextStrategy.build`.

        A state that does not fit is given in less and less detail.

        Raises:
            ContextOverflow: Not even the shortest state fits beside the last user message.
        """
        state = source.state
        if state is None:
            entries = source.entries or as_entries(source.messages)
            state = extract_session_state(entries, project_path=source.project_path)
        opening, request = source.messages[: source.opening], last_request(source)
        for candidate in (state, *(_reduced(state, *step) for step in _STEPS)):
            state_message = ContextMessage("", Message("system", (text(format_state_context(candidate)),)))
            messages = (*opening, state_message, request)
            tokens = context_tokens(messages, tokenizer)
            if tokens <= budget_tokens:
                return result_of(source, messages, tokens)
        raise ContextOverflow(f"the state of the work and the last user message do not fit into {budget_tokens} tokens")


def last_request(source: ContextSource) -> ContextMessage:
    """Return the last user message without tool results; an empty one if there is none."""
    if source.request < 0:
        return ContextMessage("", Message("user", (text(""),)))
    request = source.messages[source.request]
    content = tuple(part for part in request.content if not isinstance(part, ToolResultPart))
    if len(content) == len(request.content):
        return request
    return ContextMessage(request.entry_id, replace(request.message, content=content))


def result_of(source: ContextSource, messages: tuple[ContextMessage, ...], tokens: int | None = None) -> StrategyResult:
    """Return a result with these messages, in which the state represents all others; with their tokens, if counted."""
    included = source.originals(messages)
    return StrategyResult(messages, included, source.originals(source.messages) - included, tokens=tokens)


def _reduced(state: SessionState, lines: int, chars: int) -> SessionState:
    return replace(
        state,
        original_task=shortened(state.original_task, chars),
        current_status=shortened(state.current_status, chars),
        modified_files=state.modified_files[-lines:],
        blockers=state.blockers[-lines:],
        key_decisions=state.key_decisions[-lines:],
    )

"""Storage for the messages of a running turn: in memory until it ends, or in a session as they arrive.

`TurnStorage` is the interface of both, and the only one that `actors.agents.turns` uses. A `Window` divides the model's
window into reserve, overhead and conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ...events.entries import Message, Usage
from ...events.errors import InvalidInput
from ...projections.building.budget import RESERVE_SHARE, UNBOUNDED, ContextBudget, calculate_budget
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.pairing import PairedMessages
from ...projections.building.strategy import ContextSource
from ...projections.context import Context, ContextMessage
from ...projections.tokens import Tokenizer
from ..session.open_calls import OpenCall, Recovery, unanswered
from .calling import Finished
from .events import AgentEvent
from .model import Model, ToolSpec
from .options import AgentOptions, ConversationSession
from .tool import definitions
from .validation import answer_of


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
    reserve = options.reserve_for_response
    if reserve is None and size is not None:
        quarter = int(size * RESERVE_SHARE)
        reserve = min(max(options.max_tokens or 0, quarter), size - quarter)
    budget = calculate_budget(size or 0, system_prompt, definitions(tools), tokenizer, reserve_for_response=reserve)
    if size is None:
        return Window(replace(budget, available_tokens=UNBOUNDED), None)
    return Window(budget, size - budget.reserve_for_response)


Emit: TypeAlias = Callable[[AgentEvent], Awaitable[None]]
"""Sends an event to the reader of a turn's stream."""


class TurnStorage(Protocol):
    """Stores the messages of one turn.

    Attributes:
        session_id: The session; None without one.
        saves_immediately: Whether messages are stored as they arrive; otherwise they are stored at the end of the turn.
    """

    session_id: str | None
    saves_immediately: bool

    async def prepare(self) -> Recovery | None:
        """Prepare the session for a turn; return what had to be recovered, or None."""
        ...

    async def history(self) -> tuple[Message, ...]:
        """Return the messages before the turn."""
        ...

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """Send another history in this turn, without saving it."""
        ...

    async def pending(self) -> list[OpenCall]:
        """Return the calls that wait for external results."""
        ...

    async def thinking_level(self) -> str | None:
        """Return the session's thinking level, or None if it sets none."""
        ...

    async def summary(self) -> str:
        """Return the summary that the program stores beside the messages; empty if there is none."""
        ...

    async def append_messages(self, messages: Sequence[Message]) -> list[str]:
        """Append messages that are not the model's; return their entry ids."""
        ...

    async def append_answer(self, message: Message) -> str | None:
        """Append an answer; return its entry id."""
        ...

    async def append_result(self, finished: Finished, message_id: str | None) -> str | None:
        """Append a tool's result and the record of its execution; return the result's entry id."""
        ...

    async def suspend(self, calls: Sequence[OpenCall]) -> None:
        """Record that calls wait for external results."""
        ...

    async def keep_failed_attempt(self, partial: Message, error: Exception) -> str | None:
        """Store the partial answer of a failed request, which may be empty, off the path; return its entry id."""
        ...

    async def keep_aborted(self, partial: Message) -> None:
        """Store the partial answer of a cancelled turn."""
        ...

    async def context(self, window: Window) -> ContextBuildResult:
        """Return the conversation for the next request."""
        ...

    async def shrunk_context(self, window: Window) -> ContextBuildResult:
        """Return the conversation again for a smaller window, after the provider refused the request."""
        ...

    async def save(self, messages: Sequence[Message], usage: Usage) -> None:
        """Store what is not stored yet: the messages of the turn, and its usage."""
        ...

    def publish(self, event: AgentEvent) -> None:
        """Publish an event to the session's subscribers."""
        ...


class BufferedTurn:
    """Buffers a turn in memory and saves it as a whole when it ends; without a session, never saves it.

    A turn that fails or is cancelled leaves nothing behind.
    """

    saves_immediately = False

    def __init__(self, session: ConversationSession | None, builder: ContextBuilder) -> None:
        self._session = session
        self._builder = builder
        self._history: tuple[Message, ...] = ()
        self._messages: list[Message] = []
        self._paired: PairedMessages | None = None
        self.session_id: str | None = None if session is None else session.id

    async def prepare(self) -> Recovery | None:
        """Load the session; see `TurnStorage.prepare`."""
        if self._session is not None:
            self._history = tuple(await answer_of(self._session, self._session.messages()))
        return None

    async def history(self) -> tuple[Message, ...]:
        """See `TurnStorage.history`."""
        return self._history

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """See `TurnStorage.replace_history`."""
        self._history = history

    async def pending(self) -> list[OpenCall]:
        """Return the calls that the last turn left open; whether it was suspended or interrupted is not known."""
        return unanswered(self._numbered())

    async def thinking_level(self) -> str | None:
        """See `TurnStorage.thinking_level`."""
        return None

    async def summary(self) -> str:
        """See `TurnStorage.summary`."""
        return ""

    async def append_messages(self, messages: Sequence[Message]) -> list[str]:
        """See `TurnStorage.append_messages`."""
        self._messages += messages
        return []

    async def append_answer(self, message: Message) -> str | None:
        """See `TurnStorage.append_answer`."""
        self._messages.append(message)
        return None

    async def append_result(self, finished: Finished, message_id: str | None) -> str | None:
        """See `TurnStorage.append_result`."""
        self._messages.append(finished.message())
        return None

    async def suspend(self, calls: Sequence[OpenCall]) -> None:
        """See `TurnStorage.suspend`: nothing is recorded; the calls are open in the saved messages."""

    async def keep_failed_attempt(self, partial: Message, error: Exception) -> str | None:
        """See `TurnStorage.keep_failed_attempt`: there is no branch to store it on."""
        return None

    async def keep_aborted(self, partial: Message) -> None:
        """See `TurnStorage.keep_aborted`: a turn is saved whole or not at all."""

    async def context(self, window: Window) -> ContextBuildResult:
        """See `TurnStorage.context`."""
        messages = tuple(self._numbered())
        context = Context(self.session_id or "", len(messages), messages=messages)
        self._paired = PairedMessages.of(messages, self._builder.tokenizer, self._paired)
        return self._builder.build(ContextSource.of(context, counted=self._paired), window.budget)

    async def shrunk_context(self, window: Window) -> ContextBuildResult:
        """See `TurnStorage.shrunk_context`."""
        return await self.context(window)

    async def save(self, messages: Sequence[Message], usage: Usage) -> None:
        """See `TurnStorage.save`."""
        if self._session is not None:
            await answer_of(self._session, self._session.save_turn(messages, usage))

    def publish(self, event: AgentEvent) -> None:
        """See `TurnStorage.publish`: there are no subscribers."""

    def _numbered(self) -> list[ContextMessage]:
        return [ContextMessage(f"m{place}", each) for place, each in enumerate((*self._history, *self._messages))]


def history_change_error() -> InvalidInput:
    """Return the error for a hook that changes the history of a session."""
    return InvalidInput(
        "a pre-generation hook changed the history of a session, whose contexts are built from its log: "
        "append a context edit, or give the agent a builder with a strategy that makes the change"
    )

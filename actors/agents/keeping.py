"""Where the messages of a running turn are kept: in memory until it ends, or in a session as they are said.

What the two have in common is `Keeper`; the turn (`actors.agents.turns`) knows no more of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from ...events.entries import Message, Usage
from ...events.errors import InvalidInput, ModelError
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.context import Context, ContextMessage
from ..open_calls import OpenCall, Recovery, unanswered
from .calling import Finished
from .conversation import ConversationSession
from .events import AgentEvent
from .window import Window

Tell: TypeAlias = Callable[[AgentEvent], Awaitable[None]]
"""Tells whoever streams a turn what happens in it."""


class Keeper(Protocol):
    """Keeps the messages of one turn.

    Attributes:
        session_id: The session; None where there is none.
        at_once: Whether messages are kept as they are said; otherwise at the end of the turn.
    """

    session_id: str | None
    at_once: bool

    async def take_up(self) -> Recovery | None:
        """Get ready for a turn; tell what had to be put right, where something had."""
        ...

    async def history(self) -> tuple[Message, ...]:
        """Return what was said before the turn."""
        ...

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """Send another history in this turn; nothing is saved of it."""
        ...

    async def pending(self) -> list[OpenCall]:
        """Return the calls that wait for something outside."""
        ...

    async def thinking_level(self) -> str | None:
        """Return the thinking level that the session names, if it names one."""
        ...

    async def summary(self) -> str:
        """Return the summary that the program keeps beside the messages; empty where there is none."""
        ...

    async def say(self, messages: Sequence[Message]) -> list[str]:
        """Keep what is said by others than the model; return the entries."""
        ...

    async def answer(self, message: Message) -> str | None:
        """Keep an answer; return its entry."""
        ...

    async def result(self, finished: Finished, message_id: str | None) -> str | None:
        """Keep a tool's result and the record of its run; return the result's entry."""
        ...

    async def suspend(self, calls: Sequence[OpenCall]) -> None:
        """Note that calls wait for something outside."""
        ...

    async def failed(self, partial: Message, error: ModelError) -> str | None:
        """Keep what had come of an answer when it failed, beside the path; return its entry."""
        ...

    async def aborted(self, partial: Message) -> None:
        """Keep what had come of an answer when the turn was cancelled."""
        ...

    async def context(self, window: Window) -> ContextBuildResult:
        """Return what the next request tells of the conversation."""
        ...

    async def shrunk(self, window: Window) -> ContextBuildResult:
        """Return it again, for a smaller window than the provider was thought to have."""
        ...

    async def end(self, messages: Sequence[Message], usage: Usage) -> None:
        """Keep what is not kept yet: the messages of the turn, and what it used."""
        ...

    def show(self, event: AgentEvent) -> None:
        """Show an event to those who follow the session."""
        ...


class HeldTurn:
    """Keeps a turn in memory, and saves it whole when it ends; without a session it is not saved at all.

    A turn that fails or is cancelled leaves nothing.
    """

    at_once = False

    def __init__(self, session: ConversationSession | None, builder: ContextBuilder) -> None:
        self._session = session
        self._builder = builder
        self._history: tuple[Message, ...] = ()
        self._said: list[Message] = []
        self.session_id: str | None = None if session is None else session.id

    async def take_up(self) -> Recovery | None:
        """Load the session; see `Keeper.take_up`."""
        if self._session is not None:
            self._history = tuple(await self._session.messages())
        return None

    async def history(self) -> tuple[Message, ...]:
        """See `Keeper.history`."""
        return self._history

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """See `Keeper.replace_history`."""
        self._history = history

    async def pending(self) -> list[OpenCall]:
        """Return the calls that the last turn left open; three methods cannot tell whether it did so on purpose."""
        return unanswered(self._numbered())

    async def thinking_level(self) -> str | None:
        """See `Keeper.thinking_level`."""
        return None

    async def summary(self) -> str:
        """See `Keeper.summary`."""
        return ""

    async def say(self, messages: Sequence[Message]) -> list[str]:
        """See `Keeper.say`."""
        self._said += messages
        return []

    async def answer(self, message: Message) -> str | None:
        """See `Keeper.answer`."""
        self._said.append(message)
        return None

    async def result(self, finished: Finished, message_id: str | None) -> str | None:
        """See `Keeper.result`."""
        self._said.append(finished.message())
        return None

    async def suspend(self, calls: Sequence[OpenCall]) -> None:
        """See `Keeper.suspend`: the calls are open in what is saved, which is all that can be said."""

    async def failed(self, partial: Message, error: ModelError) -> str | None:
        """See `Keeper.failed`: there is no branch to keep it on."""
        return None

    async def aborted(self, partial: Message) -> None:
        """See `Keeper.aborted`: a turn is saved whole or not at all."""

    async def context(self, window: Window) -> ContextBuildResult:
        """See `Keeper.context`."""
        messages = tuple(self._numbered())
        return self._builder.build(Context(self.session_id or "", len(messages), messages=messages), window.budget)

    async def shrunk(self, window: Window) -> ContextBuildResult:
        """See `Keeper.shrunk`."""
        return await self.context(window)

    async def end(self, messages: Sequence[Message], usage: Usage) -> None:
        """See `Keeper.end`."""
        if self._session is not None:
            await self._session.save_turn(messages, usage)

    def show(self, event: AgentEvent) -> None:
        """See `Keeper.show`: nobody follows it."""

    def _numbered(self) -> list[ContextMessage]:
        return [ContextMessage(f"m{place}", each) for place, each in enumerate((*self._history, *self._said))]


def refuse_history() -> InvalidInput:
    """Say why a hook cannot change the history of a session."""
    return InvalidInput(
        "a hook before generation changed the history of a session, whose contexts are built of its log: "
        "append a context edit, or give the agent a builder with a strategy that makes the change"
    )

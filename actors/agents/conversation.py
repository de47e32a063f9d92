"""The only interface that an agent needs of a session, which any object may implement: an id and two methods.

    class InMyDatabase:
        id = "customer-7"

        async def messages(self) -> list[Message]: ...
        async def save_turn(self, messages: Sequence[Message], usage: Usage | None) -> None: ...

`Session` implements it too. An agent does more for a `Session`: see `AgentSession`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...events.entries import Message, Usage


class ConversationSession(Protocol):
    """A session that stores one conversation for an agent."""

    @property
    def id(self) -> str:
        """The id, unique among the sessions of the agent."""
        ...

    async def messages(self) -> Sequence[Message]:
        """Return the messages so far, oldest first."""
        ...

    async def save_turn(self, messages: Sequence[Message], usage: Usage | None, /) -> object:
        """Save the messages of one turn and its usage, atomically."""
        ...

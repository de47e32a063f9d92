"""The one thing that an agent knows of a session: three methods, and any object that has them will do.

    class InMyDatabase:
        id = "customer-7"

        async def messages(self) -> list[Message]: ...
        async def save_turn(self, messages: Sequence[Message], usage: Usage | None) -> None: ...

`Session` has them too. An agent that is given one does more for it: see `AgentSession`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...events.entries import Message, Usage


class ConversationSession(Protocol):
    """Keeps one conversation for an agent."""

    @property
    def id(self) -> str:
        """What tells it from other sessions."""
        ...

    async def messages(self) -> Sequence[Message]:
        """Return what was said so far, oldest first."""
        ...

    async def save_turn(self, messages: Sequence[Message], usage: Usage | None, /) -> object:
        """Keep the messages of one turn and what it used: all of it or nothing."""
        ...

"""Hooks: callbacks by which a program takes part in a turn.

The order of a turn is: load the session, pre-generation hooks, requests, post-generation hooks, tools, save. The
post-generation hooks run on each answer when it ends, before its calls are executed. Their result is what is executed,
sent in the next request, saved and returned. A `Session` is saved as things happen; a session that only has the three
methods of `ConversationSession` is saved once, at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.entries import Message


class TurnInput(Struct, frozen=True):
    """The prompt, history and input of a turn.

    Attributes:
        system_prompt: The system prompt of this turn; it is sent first and never saved.
        history: The messages before the turn.
        input: The new messages, which are saved.
    """

    system_prompt: str
    history: tuple[Message, ...]
    input: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history followed by the input."""
        return (*self.history, *self.input)


class LeftWork(Struct, frozen=True):
    """A branch that the leaf is about to leave.

    Attributes:
        session_id: The session.
        why: "switch" if another entry was chosen, "retry" if an answer is generated again.
        from_id: The current leaf.
        to_id: The entry that becomes the leaf.
        message_count: The number of messages after the last entry that both branches share.
    """

    session_id: str
    why: Literal["switch", "retry"]
    from_id: str
    to_id: str
    message_count: int


PreGeneration: TypeAlias = Callable[[TurnInput], Awaitable[TurnInput | None]]
"""Runs before the first request of a turn; returns a replacement for the turn's input, or None.

A changed history is sent but never saved. The history of a `Session` cannot be changed this way, since its contexts are
built from the log; use `append_context_edit` or a strategy instead.
"""

PostGeneration: TypeAlias = Callable[[Message], Awaitable[Message | None]]
"""Takes an answer and returns a replacement, or None. The arguments of a call may change, and the call is executed with the
changed ones; the calls themselves must stay, with their ids, since results refer to them.

Provider, model, usage and stop reason that the hook leaves out are taken from the original answer.

If a hook raises, is cancelled, or returns a message that cannot be stored, a `Session` stores the model's original answer
with the stop reason "aborted".
"""

LeavePolicy: TypeAlias = Callable[[LeftWork], Awaitable[bool]]
"""Decides, each time the leaf leaves work that no summary covers, whether to summarize it."""


async def summarize_switches(left: LeftWork) -> bool:
    """Summarize a branch that is left for another one, but not an answer that is generated again."""
    return left.why == "switch"


class AgentHooks(Struct, frozen=True, kw_only=True):
    """The hooks of an agent, each list in the order in which they run.

    Attributes:
        pre_generation: Run before the first request of a turn.
        post_generation: Run on each answer before it is saved and its calls are executed.
        leaving: Decides whether work that the leaf leaves gets a summary.
    """

    pre_generation: tuple[PreGeneration, ...] = ()
    post_generation: tuple[PostGeneration, ...] = ()
    leaving: LeavePolicy = summarize_switches

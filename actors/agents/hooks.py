"""Hooks: where a program takes part in a turn.

A turn goes: load the session, the hooks before generation, requests, the hooks after generation, tools, save. The hooks
after generation run on each answer when it ends, before its calls are carried out. What they make of it is what is run,
sent in the next request, saved and returned. A `Session` is saved as things happen; a session that only has the three
methods of `ConversationSession` is saved once, at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.entries import Message


class TurnInput(Struct, frozen=True):
    """What a turn begins with.

    Attributes:
        system_prompt: What the system says in this turn; it is sent first and saved nowhere.
        history: What was said before.
        input: What is said now; it is saved.
    """

    system_prompt: str
    history: tuple[Message, ...]
    input: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history and behind it the input."""
        return (*self.history, *self.input)


class LeftWork(Struct, frozen=True):
    """Work that the leaf is about to move away from.

    Attributes:
        session_id: The session.
        why: "switch" where somebody chose another entry, "retry" where an answer is to be made again.
        from_id: The leaf that is left.
        to_id: The entry that becomes the leaf.
        message_count: How many messages lie after the last entry that both branches share.
    """

    session_id: str
    why: Literal["switch", "retry"]
    from_id: str
    to_id: str
    message_count: int


PreGeneration: TypeAlias = Callable[[TurnInput], Awaitable[TurnInput | None]]
"""Runs before the first request of a turn; returns what to begin with instead, or None.

A history that it changes is what is sent, and saved nowhere. The history of a `Session` cannot be changed so: its contexts
are built of the log. `append_context_edit` and strategies are for that.
"""

PostGeneration: TypeAlias = Callable[[Message], Awaitable[Message | None]]
"""Takes an answer and returns another in its place, or None. What a call is called with may change, and that is what is run;
the calls themselves must stay, with their ids, as results refer to them.

Provider, model, usage and stop reason are the answer's own where the hook leaves them out.

Where a hook raises or is cancelled, or makes what cannot be kept, a `Session` keeps the answer as the model gave it, with
the stop reason "aborted".
"""

LeavePolicy: TypeAlias = Callable[[LeftWork], Awaitable[bool]]
"""Decides, before each move of the leaf away from work that no summary tells of, whether a summary is to be made of it."""


async def summarize_switches(left: LeftWork) -> bool:
    """Have a summary made of what somebody leaves to go on elsewhere, and none of an answer that is made again."""
    return left.why == "switch"


class AgentHooks(Struct, frozen=True, kw_only=True):
    """The hooks of an agent, each list in the order in which they run.

    Attributes:
        pre_generation: Run before the first request of a turn.
        post_generation: Run on each answer before its calls are carried out and it is saved.
        leaving: Decides whether work that the leaf moves away from gets a summary.
    """

    pre_generation: tuple[PreGeneration, ...] = ()
    post_generation: tuple[PostGeneration, ...] = ()
    leaving: LeavePolicy = summarize_switches

"""Putting a whole request together: what the system says, what is remembered, what was said, what is asked now."""

from __future__ import annotations

from collections.abc import Sequence

from ...events.content import ContentLike, as_content, text
from ...events.entries import Message


def compose(
    system_prompt: str, history: Sequence[Message], *, summary: str | None = None, user: ContentLike | None = None
) -> list[Message]:
    """Return the messages of a request in the order in which models expect them.

    Args:
        system_prompt: What the system says; left out where it is empty.
        history: The conversation so far, such as `ContextBuildResult.to_messages` gives it.
        summary: A summary of what came before it, told as a system message.
        user: What the user says now, where the history does not end with it.
    """
    said = [system_prompt] if system_prompt else []
    if summary:
        said.append(f"Previous conversation summary: {summary}")
    asked = [] if user is None else [Message("user", as_content(user))]
    return [*(Message("system", (text(each),)) for each in said), *history, *asked]

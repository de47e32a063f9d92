"""Compose a whole request: the system prompt, a summary, the history, and the new user message."""

from __future__ import annotations

from collections.abc import Sequence

from ...events.content import ContentLike, as_content, text
from ...events.entries import Message


def compose(
    system_prompt: str, history: Sequence[Message], *, summary: str | None = None, user: ContentLike | None = None
) -> list[Message]:
    """Return the messages of a request in the order in which models expect them.

    Args:
        system_prompt: The system prompt; omitted if empty.
        history: The conversation so far, such as `ContextBuildResult.to_messages` returns it.
        summary: A summary of the conversation before the history, added as a system message.
        user: The content of the new user message, unless the history ends with it.
    """
    system_texts = [system_prompt] if system_prompt else []
    if summary:
        system_texts.append(f"Previous conversation summary: {summary}")
    request = [] if user is None else [Message("user", as_content(user))]
    return [*(Message("system", (text(each),)) for each in system_texts), *history, *request]

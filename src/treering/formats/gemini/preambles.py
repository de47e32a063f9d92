"""Gemini CLI: what it writes itself into messages of the user, and puts before every conversation that it resumes."""

from __future__ import annotations

from ...events.entries import Message
from ..google_messages import USERS, read_user
from ..messages import Preambles, marks_of, opened, tagged
from ..values import Object, as_text

_PREAMBLES = Preambles(
    tagged("session_context", "hook_context"),
    rf"{opened('session_context', 'hook_context')}"
    r"|This is the Gemini CLI\.\s+We are setting up the context for our chat",
)
"""What Gemini CLI writes before the first prompt, and what hooks add."""


def marks_of_user(message: Message) -> Object:
    """Return the metadata that tells what of a user's message the program wrote; see `marks_of`."""
    return marks_of(message.content, lambda _, part: _PREAMBLES.length(part.text.content))


def is_preamble(raw: Object) -> bool:
    """Return whether a message holds nothing that a user or a model said."""
    message = read_user(raw) if as_text(raw.get("type")) in USERS else None
    return message is not None and marks_of_user(message) == {"is_meta": True}

"""A whole answer as the pieces that a model would have said it in; for models that have their answers at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from anyio.lowlevel import checkpoint

from ...events.content import TextPart, ThinkingPart, ToolUsePart
from ...events.entries import Message
from .model import Completed, ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted

PIECE_CHARS = 16
"""How many characters a piece has."""


async def replayed(message: Message, *, piece_chars: int = PIECE_CHARS) -> AsyncGenerator[ModelEvent]:
    """Yield an answer piece by piece, and last the whole of it; other tasks get their turn before each piece."""
    for part in message.content:
        if isinstance(part, TextPart):
            said = part.text.content
            for start in range(0, len(said), piece_chars):
                await checkpoint()
                yield TextDelta(said[start : start + piece_chars])
        elif isinstance(part, ThinkingPart):
            await checkpoint()
            yield ThinkingDelta(part.thinking.content)
        elif isinstance(part, ToolUsePart):
            await checkpoint()
            yield ToolCallStarted(part.tool_use.id, part.tool_use.name)
    await checkpoint()
    yield Completed(message)

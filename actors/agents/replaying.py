"""Stream a complete answer in pieces, for models that have their answers at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from anyio.lowlevel import checkpoint

from ...events.content import TextPart, ThinkingPart, ToolUsePart
from ...events.entries import Message
from .model import Completed, ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted

PIECE_CHARS = 16
"""The number of characters of a piece."""


async def replayed(message: Message, *, piece_chars: int = PIECE_CHARS) -> AsyncGenerator[ModelEvent]:
    """Yield an answer piece by piece and finally the whole, with a checkpoint before each piece."""
    for part in message.content:
        if isinstance(part, TextPart):
            content = part.text.content
            for start in range(0, len(content), piece_chars):
                await checkpoint()
                yield TextDelta(content[start : start + piece_chars])
        elif isinstance(part, ThinkingPart):
            await checkpoint()
            yield ThinkingDelta(part.thinking.content)
        elif isinstance(part, ToolUsePart):
            await checkpoint()
            yield ToolCallStarted(part.tool_use.id, part.tool_use.name)
    await checkpoint()
    yield Completed(message)

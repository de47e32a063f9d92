"""How many tokens a text or a message takes: a protocol, and an estimate that says that it is one.

A tokenizer needs to count texts and no more. What the frame of a message, a tool call with its arguments and an image
count is settled here; a tokenizer that knows better counts whole messages itself (`MessageTokenizer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from ..events.content import Content, ImagePart, TextPart, ThinkingPart, ToolUsePart
from ..events.entries import Entry, Message, MessageEntry, OpaqueEntry
from ..events.providers.rendering import rendered
from .context import message_of

BYTES_PER_TOKEN = 4
"""What the estimate takes a token for. English prose has about four bytes a token; code and other scripts have fewer."""

IMAGE_TOKENS = 1600
"""What an image counts, whatever its size: providers scale images down to about this."""

MESSAGE_TOKENS = 4
"""What the frame of a message counts beside its content."""


class Tokenizer(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens the text takes."""
        ...


class MessageTokenizer(Tokenizer, Protocol):
    """Counts the tokens of whole messages too, where its model's way of framing them is known."""

    def count_messages(self, messages: Sequence[Message]) -> int:
        """Return how many tokens the messages take together; none take none."""
        ...


class ByteEstimator:
    """Estimates by the length in bytes; within a factor of two for prose and code, never exact."""

    def count(self, text: str) -> int:
        """Return about how many tokens the text takes."""
        return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def entry_tokens(entry: Entry, tokenizer: Tokenizer | None = None) -> int:
    """Return how many tokens an entry takes in a context; 0 for one that says nothing to a model."""
    tokenizer = tokenizer or ByteEstimator()
    message = None if isinstance(entry, OpaqueEntry) else message_of(entry)
    if message is None or (message.bash is not None and message.bash.exclude_from_context):
        return 0
    frame = MESSAGE_TOKENS if isinstance(entry, MessageEntry) or message.content else 0
    return frame + sum(_part_tokens(part, tokenizer) for part in message.content)


def message_tokens(message: Message, tokenizer: Tokenizer | None = None) -> int:
    """Return how many tokens a message takes as a provider is told it; 0 for one that no provider is told."""
    return count_messages((message,), tokenizer)


def count_messages(messages: Sequence[Message], tokenizer: Tokenizer | None = None) -> int:
    """Return how many tokens messages take as a provider is told them.

    Tool calls count with their names and arguments, images `IMAGE_TOKENS` each, and each message `MESSAGE_TOKENS` more.

    Args:
        messages: Messages of any role.
        tokenizer: What counts; an estimate by bytes where none is given. A `MessageTokenizer` is asked itself.
    """
    tokenizer = tokenizer or ByteEstimator()
    whole = getattr(tokenizer, "count_messages", None)  # asking the protocol costs more than counting
    if whole is not None:
        return cast("MessageTokenizer", tokenizer).count_messages(messages)
    return sum(
        MESSAGE_TOKENS + sum(_part_tokens(part, tokenizer) for part in told.content)
        for told in map(rendered, messages)
        if told is not None
    )


def _part_tokens(part: Content, tokenizer: Tokenizer) -> int:
    if isinstance(part, TextPart):
        return tokenizer.count(part.text.content)
    if isinstance(part, ImagePart):
        return IMAGE_TOKENS
    if isinstance(part, ThinkingPart):
        return tokenizer.count(part.thinking.content)
    if isinstance(part, ToolUsePart):
        return tokenizer.count(part.tool_use.name) + tokenizer.count(bytes(part.tool_use.raw_input).decode())
    content = part.tool_result.content
    if isinstance(content, str):
        return tokenizer.count(content)
    return sum(_part_tokens(each, tokenizer) for each in content)

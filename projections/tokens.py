"""How many tokens a text or a message takes: a protocol, and an estimate that says that it is one.

A tokenizer needs to count texts and no more. What the frame of a message, a tool call with its arguments and an image
count is settled here; a tokenizer that knows better counts whole messages itself (`MessageTokenizer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from ..events.content import Content, ImagePart, TextPart, ThinkingPart, ToolUsePart
from ..events.entries import Entry, Message, MessageEntry, OpaqueEntry
from ..events.errors import InvalidInput
from ..events.providers.rendering import rendered
from .context import ContextMessage, message_of

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


def _leads(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


_DENSE = b'0123456789"{}[]:-_/='
"""What numbers, JSON and paths are made of: about two are a token, where it takes four characters of words."""

_EIGHTHS = (
    (_DENSE, 4),
    (_leads(0x00, 0x7F), 2),
    (_leads(0xC2, 0xCB), 6),  # Latin letters with marks: each breaks a word
    (_leads(0xCC, 0xDF), 4),  # Greek, Cyrillic, Hebrew, Arabic
    (_leads(0xE0, 0xE2), 4),  # the scripts of India and of South East Asia, Georgian; signs
    (_leads(0xE3, 0xE9), 7),  # kana and Han characters
    (_leads(0xEA, 0xEF), 6),  # Hangul; wide forms
    (_leads(0xF0, 0xF4), 16),  # emoji and rare characters
)
"""What a character counts, in eighths of a token, by the first byte of its UTF-8; the other bytes count nothing."""


class ByteEstimator:
    """Estimates by the characters of a text: four of ASCII are a token, two of what numbers, JSON and paths are made of.

    Other scripts have rates of their own. Against OpenAI's o200k vocabulary the estimate is 0.8 to 1.5 times the count, for
    prose of fifteen languages, what people ask agents, source code and JSON (docs/tokens.md has the table). It is too low
    where letters make no words: 0.7 of hexadecimal digits, 0.4 of base64. It never falls when a text grows, and takes about
    a millisecond for a million characters of ASCII.
    """

    def count(self, text: str) -> int:
        """Return about how many tokens the text takes."""
        rest = text.encode("utf-8", "surrogatepass")
        if text.isascii():
            return -(-(4 * len(rest) - 2 * len(rest.translate(None, _DENSE))) // 8)
        eighths = 0
        for leads, weight in _EIGHTHS:
            before, rest = len(rest), rest.translate(None, leads)
            eighths += weight * (before - len(rest))
        return -(-eighths // 8)


def tokenizer_of(tokenizer: Tokenizer | None) -> Tokenizer:
    """Return what is given to count tokens, an estimate by bytes where nothing is.

    Raises:
        InvalidInput: It counts nothing.
    """
    if tokenizer is None:
        return ByteEstimator()
    if not callable(getattr(tokenizer, "count", None)):
        raise InvalidInput(f"`{type(tokenizer).__name__}` is no tokenizer: give an object with `count(text)`")
    return tokenizer


def entry_tokens(entry: Entry, tokenizer: Tokenizer | None = None) -> int:
    """Return how many tokens an entry takes in a context; 0 for one that says nothing to a model."""
    tokenizer = tokenizer_of(tokenizer)
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
    tokenizer = tokenizer_of(tokenizer)
    whole = getattr(tokenizer, "count_messages", None)  # asking the protocol costs more than counting
    if whole is not None:
        return cast("MessageTokenizer", tokenizer).count_messages(messages)
    return sum(
        MESSAGE_TOKENS + sum(_part_tokens(part, tokenizer) for part in told.content)
        for told in map(rendered, messages)
        if told is not None
    )


def context_tokens(messages: Iterable[ContextMessage], tokenizer: Tokenizer | None = None) -> int:
    """Return how many tokens messages of a context take; see `count_messages`."""
    return count_messages([each.message for each in messages], tokenizer)


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

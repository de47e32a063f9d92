"""Token counts of texts and messages: a tokenizer protocol, and an estimator.

A tokenizer needs to count texts only. The counts of a message's frame, of a tool call with its arguments and of an
image are defined here; a tokenizer that knows better counts whole messages itself (`MessageTokenizer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeGuard

from ..events.content import Content, ImagePart, TextPart, ThinkingPart, ToolUsePart
from ..events.entries import Entry, Message, MessageEntry, OpaqueEntry
from ..events.errors import InvalidInput
from ..events.providers.common import rendered
from .context import ContextMessage, message_of

IMAGE_TOKENS = 1600
"""The tokens counted for an image of any size: providers scale images down to about this."""

MESSAGE_TOKENS = 4
"""The tokens counted for the frame of a message, in addition to its content."""


class Tokenizer(Protocol):
    """Counts the tokens of a text. The same text always has the same count, since counts are remembered."""

    def count(self, text: str) -> int:
        """Return the number of tokens of the text."""
        ...


class MessageTokenizer(Tokenizer, Protocol):
    """Counts the tokens of whole messages too, for models whose message framing is known."""

    def count_messages(self, messages: Sequence[Message]) -> int:
        """Return the number of tokens of the messages together; 0 for no messages."""
        ...


def _lead_bytes(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


_DENSE = b'0123456789"{}[]:-_/='
"""The characters of numbers, JSON and paths: about two of them are a token, compared with four characters of words."""

_EIGHTHS = (
    (_DENSE, 4),
    (_lead_bytes(0x00, 0x7F), 2),
    (_lead_bytes(0xC2, 0xCB), 6),  # Latin letters with marks: each breaks a word
    (_lead_bytes(0xCC, 0xDF), 4),  # Greek, Cyrillic, Hebrew, Arabic
    (_lead_bytes(0xE0, 0xE2), 4),  # the scripts of India and of South East Asia, Georgian; signs
    (_lead_bytes(0xE3, 0xE9), 7),  # kana and Han characters
    (_lead_bytes(0xEA, 0xEF), 6),  # Hangul; wide forms
    (_lead_bytes(0xF0, 0xF4), 16),  # emoji and rare characters
)
"""The weight of a character in eighths of a token, by the first byte of its UTF-8; the other bytes count nothing."""


class ByteEstimator:
    """An estimator that weighs characters: four of ASCII make a token, but two of those in numbers, JSON and paths.

    Other scripts have rates of their own. Against OpenAI's o200k vocabulary the estimate is 0.8 to 1.5 times the count,
    for prose in fifteen languages, requests to agents, source code and JSON (docs/tokens.md has the table). It is too
    low for letters that form no words: 0.7 times for hexadecimal digits, 0.4 times for base64. It never falls when a
    text grows, and takes about a millisecond for a million characters of ASCII.
    """

    def count(self, text: str) -> int:
        """Return the estimated number of tokens of the text."""
        rest = text.encode("utf-8", "surrogatepass")
        if text.isascii():
            return -(-(4 * len(rest) - 2 * len(rest.translate(None, _DENSE))) // 8)
        eighths = 0
        for lead_bytes, weight in _EIGHTHS:
            before, rest = len(rest), rest.translate(None, lead_bytes)
            eighths += weight * (before - len(rest))
        return -(-eighths // 8)


_ESTIMATOR = ByteEstimator()


def tokenizer_of(tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer, or by default one that estimates tokens from bytes.

    Raises:
        InvalidInput: It has no method `count`.
    """
    if tokenizer is None:
        return _ESTIMATOR
    if isinstance(tokenizer, Sequence) or not callable(getattr(tokenizer, "count", None)):  # a text's counts its parts
        raise InvalidInput(f"`{type(tokenizer).__name__}` is not a tokenizer: give an object with `count(text)`")
    return tokenizer


def entry_tokens(entry: Entry, tokenizer: Tokenizer | None = None) -> int:
    """Return the number of tokens of an entry in a context; 0 for an entry that contributes no message."""
    tokenizer = tokenizer_of(tokenizer)
    message = None if isinstance(entry, OpaqueEntry) else message_of(entry)
    if message is None or (message.bash is not None and message.bash.exclude_from_context):
        return 0
    frame = MESSAGE_TOKENS if isinstance(entry, MessageEntry) or message.content else 0
    return frame + sum(_part_tokens(part, tokenizer) for part in message.content)


def message_tokens(message: Message, tokenizer: Tokenizer | None = None) -> int:
    """Return the number of tokens of a message as sent to a provider; 0 for a message that is never sent."""
    return count_messages((message,), tokenizer)


def count_messages(messages: Sequence[Message], tokenizer: Tokenizer | None = None) -> int:
    """Return the number of tokens of messages as sent to a provider.

    Tool calls count with their names and arguments, images `IMAGE_TOKENS` each, and each message `MESSAGE_TOKENS` more.

    Args:
        messages: Messages of any role.
        tokenizer: Counts the tokens; by default they are estimated from bytes. A `MessageTokenizer` counts the messages
            itself.
    """
    tokenizer = tokenizer_of(tokenizer)
    if counts_whole_messages(tokenizer):
        return tokenizer.count_messages(messages)
    return sum(message_sizes(messages, tokenizer))


def message_sizes(messages: Iterable[Message], tokenizer: Tokenizer) -> list[int]:
    """Return the number of tokens of each message, by a tokenizer that counts texts; see `message_tokens`."""
    return [
        0 if message is None else MESSAGE_TOKENS + sum([_part_tokens(part, tokenizer) for part in message.content])
        for message in map(rendered, messages)
    ]


def counts_whole_messages(tokenizer: Tokenizer) -> TypeGuard[MessageTokenizer]:
    """Return whether a tokenizer counts messages itself; the count of several need not be the sum of their counts."""
    # An isinstance check of the protocol takes longer than the counting.
    return getattr(tokenizer, "count_messages", None) is not None


def context_tokens(messages: Iterable[ContextMessage], tokenizer: Tokenizer | None = None) -> int:
    """Return the number of tokens of context messages; see `count_messages`."""
    return count_messages([each.message for each in messages], tokenizer)


def _part_tokens(part: Content, tokenizer: Tokenizer) -> int:
    if isinstance(part, TextPart):
        return tokenizer.count(part.text.content)
    if isinstance(part, ImagePart):
        return IMAGE_TOKENS
    if isinstance(part, ThinkingPart):
        return tokenizer.count(part.thinking.content)
    if isinstance(part, ToolUsePart):
        return tokenizer.count(part.tool_use.name) + tokenizer.count(part.tool_use.input_text)
    content = part.tool_result.content
    if isinstance(content, str):
        return tokenizer.count(content)
    return sum(_part_tokens(each, tokenizer) for each in content)

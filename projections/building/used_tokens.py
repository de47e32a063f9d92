"""The used part of the window: the provider's last count, plus an estimate for later messages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...events.entries import Message, Usage
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens

INTERRUPTED = frozenset({"aborted", "error"})
"""The stop reasons of an interrupted answer."""


class UsedTokens(Struct, frozen=True):
    """The tokens of the window that are used.

    Attributes:
        measured: The provider's last count: the whole request, including system prompt and tools, and the answer.
        estimated: The tokenizer's count of later messages, or of everything if no provider has counted.
    """

    measured: int
    estimated: int

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.measured + self.estimated


def last_measured(messages: Sequence[ContextMessage]) -> int:
    """Return the position of the last message with a provider's count, or -1.

    The count of an interrupted answer cannot be trusted.
    """
    positions = reversed(range(len(messages)))
    return next((position for position in positions if _measured(messages[position].message) > 0), -1)


def used_since(messages: Sequence[ContextMessage], position: int, tokenizer: Tokenizer | None = None) -> UsedTokens:
    """Return the count at a position, see `last_measured`, and an estimate of the messages after it."""
    return UsedTokens(_measured(messages[position].message), context_tokens(messages[position + 1 :], tokenizer))


def request_tokens(usage: Usage) -> int:
    """Return the tokens of a request and its answer together."""
    return usage.total_tokens or (
        usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    )


def _measured(message: Message) -> int:
    if message.role != "assistant" or message.usage is None or message.stop_reason in INTERRUPTED:
        return 0
    return request_tokens(message.usage)  # a provider that did not count may report -1

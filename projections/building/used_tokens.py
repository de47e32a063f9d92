"""The used part of the window: the provider's last count, plus an estimate for later messages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...events.entries import CompactionEntry, ContextEditEntry, Entry, Message, MessageEntry, Usage
from ...events.kinds import RESET_TYPE
from ..context import Context, message_of
from ..tokens import Tokenizer, context_tokens, count_messages

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


def used_tokens(
    path: Sequence[Entry], context: Context, tokenizer: Tokenizer | None = None, *, overhead: int = 0
) -> UsedTokens:
    """Return how much of the window the next request takes.

    A provider's count is valid while the messages before it are unchanged: a compaction, a reset or a context edit
    invalidates it, and the count of an interrupted answer cannot be trusted.

    Args:
        path: The entries of the path, oldest first; those since the latest compaction or reset are enough.
        context: The context at the end of that path.
        tokenizer: Counts the rest; by default its tokens are estimated from bytes.
        overhead: The tokens of system prompt and tools, used if no provider has counted.
    """
    since: list[Message] = []
    for entry in reversed(path):
        if isinstance(entry, (CompactionEntry, ContextEditEntry)) or entry.type == RESET_TYPE:
            break
        measured = _measured(entry)
        if measured > 0:  # a provider that did not count may report -1
            return UsedTokens(measured, count_messages(since[::-1], tokenizer))
        message = message_of(entry)
        if message is not None:
            since.append(message)
    return UsedTokens(0, overhead + context_tokens(context.messages, tokenizer))


def request_tokens(usage: Usage) -> int:
    """Return the tokens of a request and its answer together."""
    return usage.total_tokens or (
        usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    )


def _measured(entry: Entry) -> int:
    if not isinstance(entry, MessageEntry):
        return 0
    message = entry.message
    if message.role != "assistant" or message.usage is None or message.stop_reason in INTERRUPTED:
        return 0
    return request_tokens(message.usage)

"""How full the window is, as the provider said, with an estimate of only what came after it spoke."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...events.entries import CompactionEntry, ContextEditEntry, Entry, Message, MessageEntry, Usage
from ...events.kinds import RESET_TYPE
from ..context import Context, message_of
from ..tokens import Tokenizer, context_tokens, count_messages

BROKEN_OFF = frozenset({"aborted", "error"})
"""The stop reasons of an answer that was broken off."""


class UsedTokens(Struct, frozen=True):
    """How many tokens of the window are used.

    Attributes:
        measured: What the provider counted last: its whole request, system prompt and tools included, and its answer.
        estimated: What the tokenizer counted of the rest: of everything, where no provider has counted.
    """

    measured: int
    estimated: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.measured + self.estimated


def used_tokens(
    path: Sequence[Entry], context: Context, tokenizer: Tokenizer | None = None, *, overhead: int = 0
) -> UsedTokens:
    """Tell how much of the window the next request takes.

    What a provider counted holds as long as nothing before it changed: a compaction, a reset or an edit of the context
    makes it void, and the answer of a turn that was broken off carries none that can be trusted.

    Args:
        path: The entries of the path, oldest first; those since the latest compaction or reset are enough.
        context: The context at the end of that path.
        tokenizer: What counts the rest; an estimate by bytes where none is given.
        overhead: What system prompt and tools take, for the case that no provider has counted.
    """
    since: list[Message] = []
    for entry in reversed(path):
        if isinstance(entry, (CompactionEntry, ContextEditEntry)) or entry.type == RESET_TYPE:
            break
        measured = _measured(entry)
        if measured > 0:  # one that did not count may say -1
            return UsedTokens(measured, count_messages(since[::-1], tokenizer))
        message = message_of(entry)
        if message is not None:
            since.append(message)
    return UsedTokens(0, overhead + context_tokens(context.messages, tokenizer))


def request_tokens(usage: Usage) -> int:
    """Return how many tokens a request and its answer took together."""
    return usage.total_tokens or (
        usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    )


def _measured(entry: Entry) -> int:
    if not isinstance(entry, MessageEntry):
        return 0
    message = entry.message
    if message.role != "assistant" or message.usage is None or message.stop_reason in BROKEN_OFF:
        return 0
    return request_tokens(message.usage)

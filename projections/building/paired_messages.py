"""The messages of a context in the form that providers accept, with their sizes.

Both cost a few microseconds per message, so they are made from those of an earlier context as far as it begins alike.
The result is the same as from scratch: what is reused depends on nothing but the messages that were compared.
"""

from __future__ import annotations

from msgspec import Struct

from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens, counts_whole_messages, message_tokens, tokenizer_of
from .pairing import last_turn, paired


class PairedMessages(Struct, frozen=True):
    """The paired messages of a context; made by `PairedMessages.of`.

    Attributes:
        originals: The messages of the context.
        messages: The same messages as `paired` returns them.
        tokenizer: What counted the tokens.
        sizes: The tokens of each message; empty if the tokenizer only counts messages together.
        tokens: The tokens of all messages together.
        original_turn: The position among the originals at which the assistant's last turn begins.
        turn: The position of that turn among the paired messages.
    """

    originals: tuple[ContextMessage, ...]
    messages: tuple[ContextMessage, ...]
    tokenizer: Tokenizer
    sizes: tuple[int, ...]
    tokens: int
    original_turn: int
    turn: int

    @classmethod
    def of(
        cls, originals: tuple[ContextMessage, ...], tokenizer: Tokenizer, earlier: PairedMessages | None = None
    ) -> PairedMessages:
        """Pair and count the messages of a context.

        Args:
            originals: The messages of the context.
            tokenizer: Counts the tokens.
            earlier: The paired messages of another context, probably one that begins alike.
        """
        if earlier is None or not _begins_alike(originals, earlier):
            earlier = _NOTHING
        elif originals == earlier.originals and tokenizer is earlier.tokenizer:
            return earlier
        start = earlier.original_turn
        original_turn = start + last_turn(originals[start:])
        settled = (*earlier.messages[: earlier.turn], *paired(originals[start:original_turn]))
        messages = (*settled, *paired(originals[original_turn:]))
        if counts_whole_messages(tokenizer):
            sizes: tuple[int, ...] = ()
            tokens = context_tokens(messages, tokenizer)
        else:
            known = _alike(earlier, messages) if tokenizer is earlier.tokenizer else 0
            new_sizes = [message_tokens(each.message, tokenizer) for each in messages[known:]]
            sizes = (*earlier.sizes[:known], *new_sizes)
            tokens = sum(sizes)
        return cls(originals, messages, tokenizer, sizes, tokens, original_turn, len(settled))


def _begins_alike(originals: tuple[ContextMessage, ...], earlier: PairedMessages) -> bool:
    """Return whether messages begin like earlier ones, up to and including the first message of their last turn."""
    through = earlier.original_turn + 1
    return originals[:through] == earlier.originals[:through]


def _alike(earlier: PairedMessages, messages: tuple[ContextMessage, ...]) -> int:
    """Return how many messages from the beginning on are the same; those before the earlier one's last turn are."""
    shorter = min(len(earlier.messages), len(messages))
    places = range(earlier.turn, shorter)
    return next((place for place in places if earlier.messages[place] != messages[place]), shorter)


_NOTHING = PairedMessages((), (), tokenizer_of(None), (), 0, 0, 0)

"""Exact counts of tokens, for models whose vocabulary is public; the extra `tokens` brings the vocabularies with it.

    counts = ExactTokenizer("o200k_base")
    budget = calculate_budget(128_000, system_prompt, tools, counts)
    result = await session.build_context(budget, ContextBuilder(counts))

Exact are the texts. What a provider puts around a message and around a call is its own affair: those frames are the ones
of `projections.tokens`. What a provider reports after a request is the truth, and treering goes by it where there is one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from ..events.errors import InvalidInput
from .connecting import require

VOCABULARIES = ("o200k_base", "cl100k_base", "voyage3_base")
"""The vocabularies that there are: OpenAI's from gpt-4o on, OpenAI's before that, and Voyage's."""

PIECE_CHARS = 500_000
"""How much is counted at once, since the library refuses twice as much; a longer text may count a token more per piece."""


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class ExactTokenizer:
    """Counts the tokens of texts by a vocabulary, as a `Tokenizer`.

    Loading a vocabulary takes up to a second, once in a process: make it before a loop runs, or in a worker thread.

    Args:
        vocabulary: One of `VOCABULARIES`.

    Raises:
        ExtraMissing: The package `bpe-openai` is not installed.
        InvalidInput: There is no such vocabulary.
    """

    def __init__(self, vocabulary: str = "o200k_base") -> None:
        if vocabulary not in VOCABULARIES:
            raise InvalidInput(f"there is no vocabulary {vocabulary!r}: give one of {', '.join(VOCABULARIES)}")
        require("bpe_openai", "tokens")
        library = import_module("bpe_openai")  # it tells no types
        self._encoding = cast("_Encoding", library.get_encoding(vocabulary))
        self.vocabulary = vocabulary

    def count(self, text: str) -> int:
        """Return how many tokens the text takes; what looks like a control token counts as the text that it is."""
        starts = range(0, len(text), PIECE_CHARS)
        return sum(len(self._encoding.encode_ordinary(text[start : start + PIECE_CHARS])) for start in starts)

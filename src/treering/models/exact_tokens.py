"""Exact counts of tokens, for models whose vocabulary is public; the extra `tokens` installs the vocabularies.

    counts = ExactTokenizer("o200k_base")
    budget = calculate_budget(128_000, system_prompt, tools, counts)
    result = await session.build_context(budget, ContextBuilder(counts))

Texts are counted exactly. The frames that a provider puts around messages and calls are not known, so they are
estimated by `projections.tokens`. If a provider reports usage after a request, treering uses that instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from ..events.arguments import check_word
from .remote import require

VOCABULARIES = ("o200k_base", "cl100k_base", "voyage3_base")
"""The available vocabularies: OpenAI's since gpt-4o, OpenAI's before that, and Voyage's."""

PIECE_CHARS = 500_000
"""The maximum text per call of the library, which rejects twice as much; each further piece may add one token."""


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class ExactTokenizer:
    """A `Tokenizer` that counts tokens with a vocabulary.

    Loading a vocabulary takes up to a second, once per process: do it before a loop runs, or in a worker thread.

    Args:
        vocabulary: One of `VOCABULARIES`.

    Raises:
        ExtraMissing: The package `bpe-openai` is not installed.
        InvalidInput: There is no such vocabulary.
    """

    def __init__(self, vocabulary: str = "o200k_base") -> None:
        check_word("vocabulary", vocabulary, VOCABULARIES)
        require("bpe_openai", "tokens")
        library = import_module("bpe_openai")  # it has no type hints
        self._encoding = cast("_Encoding", library.get_encoding(vocabulary))
        self.vocabulary = vocabulary

    def count(self, text: str) -> int:
        """Return how many tokens the text takes; text that looks like a control token counts as plain text."""
        starts = range(0, len(text), PIECE_CHARS)
        return sum(len(self._encoding.encode_ordinary(text[start : start + PIECE_CHARS])) for start in starts)

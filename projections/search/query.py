"""Queries, and matching them against texts.

A query consists of words and "phrases". An entry matches when it contains all of them, in any order, also inside longer
words; letter case does not matter, in any script. The words of a phrase may be separated by any whitespace. An unclosed
quote extends to the end. There are no operators and there is nothing to escape: any text with at least one word is a
query.

    timeout                 "timeout", "Timeouts", "SocketTimeoutError"
    read timeout            both, anywhere in the same entry
    "read timeout"          one right after the other

Letters are compared by Unicode's full case folding, so that "STRASSE" finds "Straße". There is no normalization: a
letter that Unicode can encode in two ways (é as one character or as two) matches only the same encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...events.errors import InvalidInput
from ...events.stores.search import folded

QUERY_CHARS_MAX = 1000
"""The maximum length of a query."""

TRIGRAM = 3
"""The number of characters that the index looks up at a time; it cannot find shorter terms."""

_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_ESCAPED = re.compile(r'[\x00-\x1f"/\\\x7f]+')
"""The characters that JSON may escape; a backslash begins any escape sequence."""


class Query:
    """A parsed query.

    Args:
        text: The query as typed.

    Attributes:
        text: The query as typed.
        trigrams: All runs of three characters that a matching text must contain; none if all terms are shorter.

    Raises:
        InvalidInput: It has no words, or is longer than `QUERY_CHARS_MAX`.
    """

    def __init__(self, text: str) -> None:
        if len(text) > QUERY_CHARS_MAX:
            raise InvalidInput(f"the query has {len(text)} characters: the limit is {QUERY_CHARS_MAX}")
        self.text = text
        # Lone surrogates come from undecodable program arguments; no searched text contains one.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        terms = ((phrase or word).split() for phrase, word in _TERM.findall(whole))
        self._terms = tuple(dict.fromkeys(tuple(map(folded, pieces)) for pieces in terms if pieces))
        if not self._terms:
            raise InvalidInput(f"the query {text[:40]!r} has no words: give at least one")
        self._words = tuple(pieces[0] for pieces in self._terms if len(pieces) == 1)
        self._phrases = tuple(_pattern(pieces) for pieces in self._terms if len(pieces) > 1)
        self._any = re.compile("|".join(_pattern(pieces).pattern for pieces in self._terms))
        all_pieces = [piece for pieces in self._terms for piece in pieces]
        self._needles = _needles(all_pieces)
        self.trigrams = _trigrams(all_pieces)

    def matches(self, text: str) -> bool:
        """Return whether a text contains all terms of the query."""
        text = folded(text)
        return all(word in text for word in self._words) and all(phrase.search(text) for phrase in self._phrases)

    def may_match(self, line: bytes) -> bool:
        """Return whether a line of JSON may contain a text that matches; there are no false negatives.

        Text that is not ASCII, or escaped, may fold to anything; for the rest the bytes are compared.
        """
        if not line.isascii() or b"\\u" in line:
            return True
        if self._needles is None:
            return False
        line = line.lower()
        return all(needle in line for needle in self._needles)

    def find_all(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the query's terms in the text, in order and without overlaps."""
        plain = folded(text)
        matches = [match.span() for match in self._any.finditer(plain)]
        if text.isascii():
            return matches
        origin = [at for at, char in enumerate(text) for _ in char.casefold()]
        spans = [(origin[start], origin[end - 1] + 1) for start, end in matches]
        # Two terms may each match one half of a letter that folds to two.
        return [span for at, span in enumerate(spans) if not at or span[0] >= spans[at - 1][1]]


def _trigrams(pieces: Iterable[str]) -> tuple[str, ...]:
    runs = (piece[at : at + TRIGRAM] for piece in pieces for at in range(len(piece) - TRIGRAM + 1))
    return tuple(dict.fromkeys(runs))


def _pattern(pieces: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, pieces)))


def _needles(pieces: Sequence[str]) -> tuple[bytes, ...] | None:
    """Return the byte strings that a matching line of ASCII JSON must contain; None if no such line can match."""
    if not all(piece.isascii() for piece in pieces):
        return None
    parts = dict.fromkeys(part for piece in pieces for part in _ESCAPED.split(piece) if part)
    return tuple(part.encode() for part in parts)

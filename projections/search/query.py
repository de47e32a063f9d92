"""What a query says, and whether a text has it.

A query is words and "phrases". An entry is found when it holds all of them, in whatever order, and also in the middle of
longer words; letter case does not matter, in any script. Between the words of a phrase stands whitespace, of whatever
kind. A quote that is not closed goes on to the end. There are no operators and nothing to escape: any text is a query,
as long as there is something in it.

    timeout                 "timeout", "Timeouts", "SocketTimeoutError"
    read timeout            both, anywhere in the same entry
    "read timeout"          one right after the other

Letters are compared by Unicode's full case folding, so that "STRASSE" finds "Straße". What a reader would call the same
letter but Unicode writes in two ways (é as one character or as two) is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from ...events.errors import InvalidInput

QUERY_CHARS_MAX = 1000
"""How long a query may be."""

TRIGRAM = 3
"""How many characters the index looks up at a time: it knows nothing of terms that are shorter."""

_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_ESCAPED = re.compile(r'[\x00-\x1f"/\\\x7f]+')
"""What JSON may write otherwise than it is; a backslash also begins whatever else it may."""


def folded(text: str) -> str:
    """Return a text as it is compared; it may be longer than it was."""
    return text.lower() if text.isascii() else text.casefold()


class Query:
    """A query that was understood.

    Args:
        text: What a person typed.

    Attributes:
        text: The same.

    Raises:
        InvalidInput: There is nothing to look for in it, or it is longer than `QUERY_CHARS_MAX`.
    """

    def __init__(self, text: str) -> None:
        if len(text) > QUERY_CHARS_MAX:
            raise InvalidInput(f"the query has {len(text)} characters: give {QUERY_CHARS_MAX} at most")
        self.text = text
        # Half of a surrogate pair comes from undecodable arguments of a program, and is in no text.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        terms = ((phrase or word).split() for phrase, word in _TERM.findall(whole))
        self._terms = tuple(dict.fromkeys(tuple(map(folded, pieces)) for pieces in terms if pieces))
        if not self._terms:
            raise InvalidInput(f"the query {text[:40]!r} says nothing to look for: give a word")
        self._words = tuple(pieces[0] for pieces in self._terms if len(pieces) == 1)
        self._phrases = tuple(_pattern(pieces) for pieces in self._terms if len(pieces) > 1)
        self._any = re.compile("|".join(_pattern(pieces).pattern for pieces in self._terms))
        self._needles = _needles([piece for pieces in self._terms for piece in pieces])

    def matches(self, text: str) -> bool:
        """Tell whether a text holds all that the query asks for."""
        text = folded(text)
        return all(word in text for word in self._words) and all(phrase.search(text) for phrase in self._phrases)

    def may_match(self, line: bytes) -> bool:
        """Tell whether a line of JSON may hold a text that matches; one that does is never left out.

        What is not plain ASCII, or escaped, may fold to anything; of the rest the bytes tell.
        """
        if not line.isascii() or b"\\u" in line:
            return True
        if self._needles is None:
            return False
        line = line.lower()
        return all(needle in line for needle in self._needles)

    def find_all(self, text: str) -> list[tuple[int, int]]:
        """Return where the text has terms of the query: where each begins and ends, in order, without overlaps."""
        plain = folded(text)
        found = [found.span() for found in self._any.finditer(plain)]
        if text.isascii():
            return found
        origin = [at for at, char in enumerate(text) for _ in char.casefold()]
        spans = [(origin[start], origin[end - 1] + 1) for start, end in found]
        # Two terms may each have a half of a letter that folds to two.
        return [span for at, span in enumerate(spans) if not at or span[0] >= spans[at - 1][1]]

    @cached_property
    def trigrams(self) -> tuple[str, ...]:
        """Every run of three characters that a text must hold to match; none where all that is asked for is shorter."""
        pieces = [piece for pieces in self._terms for piece in pieces]
        runs = (piece[at : at + TRIGRAM] for piece in pieces for at in range(len(piece) - TRIGRAM + 1))
        return tuple(dict.fromkeys(runs))


def _pattern(pieces: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, pieces)))


def _needles(pieces: Sequence[str]) -> tuple[bytes, ...] | None:
    """Return the bytes that a plain line of JSON must hold to match; None where no such line can."""
    if not all(piece.isascii() for piece in pieces):
        return None
    parts = dict.fromkeys(part for piece in pieces for part in _ESCAPED.split(piece) if part)
    return tuple(part.encode() for part in parts)

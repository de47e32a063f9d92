"""The words that an argument accepts: one that is unknown is refused, with the known ones."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import InvalidInput, TreeringError

_SHOWN_MAX = 80
_WORDS_MAX = 20


def check_word(what: str, word: object, known: Iterable[str], *, error: type[TreeringError] = InvalidInput) -> None:
    """Refuse a word that is none of the known ones.

    Args:
        what: What the words name, such as "export format".
        word: What the caller gave.
        known: The words that the argument accepts; those of a `Literal` are its `get_args`.
        error: The error to raise.

    Raises:
        InvalidInput: It is none of them; or `error`, if another one is given.
    """
    words = tuple(known)
    if word in words:  # compared and not hashed, since callers without a type checker may pass anything
        return
    shown = repr(word)
    if len(shown) > _SHOWN_MAX:
        shown = f"{shown[:_SHOWN_MAX]}…"
    known_words = [*map(repr, words[:_WORDS_MAX]), *([f"{len(words) - _WORDS_MAX} more"] if words[_WORDS_MAX:] else [])]
    *others, last = known_words or ["nothing, since there are none"]
    raise error(f"there is no {what} {shown}: choose {', '.join(others)}{' or ' if others else ''}{last}")

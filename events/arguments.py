"""The checks of arguments that callers pass: counts, words, texts."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

from .errors import InvalidInput, TreeringError


def check_count(name: str, value: object) -> None:
    """Refuse a value that is not a count.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a whole number, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {reprlib.repr(value)}: give a whole number of 0 or more")


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


def is_text(name: str) -> bool:
    """Return whether a name is valid text; file names may be arbitrary bytes, which cannot be stored."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def check_text(name: str, value: object) -> None:
    """Refuse a value that cannot be stored as text; None is accepted.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a string, or contains bytes that are not UTF-8.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is of type `{type(value).__name__}`: give a string")
    if not is_text(value):
        raise InvalidInput(f"{name} is {value!r}, which is not valid text: leave out what is not UTF-8")

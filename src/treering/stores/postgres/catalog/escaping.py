"""Texts as the database holds them where they are compared: NUL has another form, since `text` cannot hold it.

The form keeps the order of texts by code points, equality, beginnings, and what a text contains: the four least
characters become three each, of which the first is \\1 and the others \\2 or \\3, so none of them stands alone.
"""

from __future__ import annotations

import re

_CODES = str.maketrans({"\0": "\1\2\2", "\1": "\1\2\3", "\2": "\1\3\2", "\3": "\1\3\3"})
_TEXTS = {"\1\2\2": "\0", "\1\2\3": "\1", "\1\3\2": "\2", "\1\3\3": "\3"}
_CODE = re.compile("\1[\2\3]{2}")
_TO_CODE = re.compile("[\0-\3]")
_SURROGATES = re.compile("[\ud800-\udfff]")

_IN_NO_TEXT = "\2\2\2"
"""What no escaped text contains: the form of half a character, which no text that is kept has."""

BETWEEN = "\1"
"""What separates escaped texts, so that nothing is found across their borders."""

_LAST = "\U0010ffff"


def escaped(text: str) -> str:
    """Return the form of a text in the database."""
    if _TO_CODE.search(text):
        text = text.translate(_CODES)
    return text if text.isascii() else _SURROGATES.sub(_IN_NO_TEXT, text)


def unescaped(text: str) -> str:
    """Return the text of a form in the database."""
    return _CODE.sub(lambda code: _TEXTS[code[0]], text)


def escaped_or_none(text: str | None) -> str | None:
    """Return the form of a text, if there is one."""
    return None if text is None else escaped(text)


def after_prefix(prefix: str) -> str | None:
    """Return the first text, escaped, after all that begin with an escaped prefix; None if there is none."""
    rest = prefix.rstrip(_LAST)
    if not rest:
        return None
    following = ord(rest[-1]) + 1
    return rest[:-1] + chr(0xE000 if following == 0xD800 else following)


def like_containing(text: str) -> str:
    """Return the pattern of LIKE for what contains a text, which is escaped here."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", escaped(text)) + "%"

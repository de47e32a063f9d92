"""Types of fields that several requests have: what is refused before a handler runs, and stands in the description."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias, get_args

from msgspec import Meta, ValidationError

from ...events.errors import InvalidInput
from ...events.stores.base import Cursor

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A text that names something: never empty."""

Folder: TypeAlias = Annotated[str, Meta(pattern=r"^[^\x00]+$")]
"""The path of a folder."""

NewFolder: TypeAlias = Annotated[str, Meta(pattern=r"^/[^\x00]*$")]
"""The path of a folder that a session is to have: absolute, since the server's own folders mean nothing elsewhere."""

NewId: TypeAlias = Annotated[str, Meta(pattern=r"^(?!\.{1,2}$)[^/\\\x00-\x1f]{1,180}$")]
"""The id of a session to create."""

NewKey: TypeAlias = Annotated[str, Meta(pattern=r"^(?!\.{1,2}$)[^\x00-\x1f]{1,1024}$")]
"""The key of a session to create."""

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
"""How many items a page may have."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""A number of things, which every JSON reader can hold."""

Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=2**53 - 1)]
"""A number of tokens, at least one."""

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=3600)]
"""A time to wait."""

Seqs: TypeAlias = Annotated[tuple[Annotated[int, Meta(ge=1, le=2**53 - 1)], ...], Meta(min_length=1, max_length=500)]
"""The seqs of some entries."""

CURSOR_PATTERN = r"(0|[1-9][0-9]{0,17})-([A-Za-z0-9_.-]|~[0-9A-F]{2})*"

CursorText: TypeAlias = Annotated[str, Meta(pattern=rf"^{CURSOR_PATTERN}$")]
"""A cursor."""

Since: TypeAlias = Annotated[str, Meta(pattern=rf"^(start|end|{CURSOR_PATTERN})$")]
"""Where a stream begins."""

Position: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}-(0|[1-9][0-9]{0,17})$")]
"""A position in the changes of the listing."""

After: TypeAlias = Annotated[str, Meta(pattern=rf"^((0|[1-9][0-9]{{0,17}})|{CURSOR_PATTERN})$")]
"""The cursor, or the seq, after which a page begins."""


_WORDS: dict[str, object] = {
    "an id of up to 180 characters, no control characters or slashes among them": NewId,
    "a key of up to 1,024 characters, no control characters among them": NewKey,
    "an absolute path, which begins with a slash": NewFolder,
    "a cursor, as a reply gives it": CursorText,
    "`start`, `end` or a cursor": Since,
    "a seq or a cursor": After,
}


def in_words(error: ValidationError) -> str:
    """Return what is wrong with a request, with words for its regular expressions."""
    text = str(error)
    for words, kind in _WORDS.items():
        text = text.replace(f"`str` matching regex {get_args(kind)[1].pattern!r}", words)
    return text


def cursor_of(text: str) -> Cursor:
    """Return the cursor that a text means. One that only looks like a cursor is of a log that nobody has."""
    try:
        return Cursor.parse(text)
    except InvalidInput:
        if re.fullmatch(CURSOR_PATTERN, text) is None:
            raise
        return Cursor("nobody's", 1)


KEY_PATTERN = r"^[!-~]{1,255}$"
"""An Idempotency-Key."""

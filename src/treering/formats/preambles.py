"""What programs write themselves in messages of the user: the environment, instructions, notices.

Nobody asked for anything with these words. A message that has no others is marked as `is_meta` in its metadata; if one
begins or ends with them, `asked` tells where in its text the user's own words begin and end. See `kinds.asked_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..events.content import Content, TextPart, plain_text
from .values import Object


class Preambles:
    """The texts that one program writes.

    Args:
        block: Matches one that ends by itself, so that words of the user may follow in the same text.
        whole: Matches the beginning of one that takes the whole text.
    """

    def __init__(self, block: str, whole: str) -> None:
        self._block = re.compile(rf"\s*(?:{block})\s*", re.DOTALL | re.IGNORECASE)
        self._whole = re.compile(rf"\s*(?:{whole})", re.IGNORECASE)

    def length(self, text: str) -> int:
        """Return how many characters at the beginning of a text the program wrote."""
        end = 0
        while (found := self._block.match(text, end)) is not None:
            end = found.end()
        return len(text) if self._whole.match(text, end) is not None else end


def tagged(*names: str) -> str:
    """Return a pattern of what stands between the tags of one of these names."""
    return rf"<(?P<tag>{'|'.join(names)})\b[^>]*>.*?</(?P=tag)>"


def opened(*names: str) -> str:
    """Return a pattern of a tag of one of these names."""
    return rf"<(?:{'|'.join(names)})\b"


def marks_of(content: Sequence[Content], length: Callable[[int, TextPart], int]) -> Object:
    """Return the metadata that tells what of a user's message the program wrote.

    Args:
        content: The content of the message.
        length: Returns how many characters at the beginning of a text part the program wrote, given its position too.
    """
    lengths = [length(at, part) if isinstance(part, TextPart) else -1 for at, part in enumerate(content)]
    asked = [
        at for at, part in enumerate(content) if not isinstance(part, TextPart) or lengths[at] < len(part.text.content)
    ]
    if not any(own > 0 for own in lengths):
        return {}
    if not asked:
        return {"is_meta": True}
    words, first, last = plain_text(content), asked[0], asked[-1]
    start = len(words) - len(plain_text(content[first:])) + max(0, lengths[first])
    end = len(plain_text(content[: last + 1]))
    return {"asked": [start, end]} if (start, end) != (0, len(words)) else {}

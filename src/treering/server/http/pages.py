"""Pages: a part of a long reply, with a word for the next one."""

from __future__ import annotations

import base64
import binascii

from ...events.errors import InvalidInput, NotFound


def check_limit(limit: int, limit_max: int) -> None:
    """Refuse a page of no or too many items."""
    if not 1 <= limit <= limit_max:
        raise InvalidInput(f"`limit` is {limit}: give 1 to {limit_max}")


def page_word(place: int, last: str) -> str:
    """Return the word of a page that begins after an item, at a place."""
    return base64.urlsafe_b64encode(f"{place} {last}".encode()).decode().rstrip("=")


def read_page(word: str) -> tuple[int, str]:
    """Return the place and the item that a word of a page means.

    Raises:
        NotFound: It is none.
    """
    try:
        place, _, last = base64.urlsafe_b64decode(word.encode() + b"=" * (-len(word) % 4)).decode().partition(" ")
        return max(int(place), 0), last
    except (binascii.Error, ValueError) as error:
        raise NotFound("there is no such page: give what `next` of a page said") from error

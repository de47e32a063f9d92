"""Pages: a part of a long reply, with a word for the next one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...events.errors import InvalidInput, NotFound
from ...wire import Page

T = TypeVar("T")


def page_of(items: Sequence[T], page: str | None, limit: int, limit_max: int, *, id_of: Callable[[T], str]) -> Page[T]:
    """Return one page of items that are all at hand.

    A page begins after the last item of the one before, wherever that item is now; if it is gone, at its old place.

    Args:
        items: All items, in order.
        page: The word of the page before; None for the first page.
        limit: The maximum number of items.
        limit_max: What `limit` may be.
        id_of: Returns what identifies an item.

    Raises:
        InvalidInput: `limit` is out of range.
        NotFound: `page` is no word of a page.
    """
    check_limit(limit, limit_max)
    start = 0
    if page is not None:
        place, last = read_page(page)
        start = next((index + 1 for index, item in enumerate(items) if id_of(item) == last), place)
    shown = items[start : start + limit]
    end = start + len(shown)
    return Page(shown, None if end >= len(items) else page_word(end, id_of(shown[-1])))


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

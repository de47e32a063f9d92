"""Answers that were taken in before all of them was said, and what of them is still to come.

A source may be read while a model speaks. The next import finds the same answer, by its id, with more parts, with a longer
text, or with the usage that was told last. No entry is changed: the rest follows as an entry of its own, whose id tells
where in the answer it begins, so that a third import finds both.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..events.content import Content, TextPart, ThinkingPart, text
from ..events.entries import KnownEntry, MessageEntry, Usage, UsageEntry, UsageRecord
from ..events.foreign.chain import derived_id


class Piece(Struct, frozen=True):
    """What the log has of an answer, or of its rest.

    Attributes:
        parts: How many parts it has.
        last: The last of them; None where it has none.
        usage: What it says that the model used.
    """

    parts: int
    last: Content | None
    usage: Usage | None

    @classmethod
    def of(cls, entry: MessageEntry) -> Piece:
        """Remember an entry."""
        content = entry.message.content
        return cls(len(content), content[-1] if content else None, entry.message.usage)


class Growth(Struct, frozen=True):
    """What became of an answer.

    Attributes:
        known: The rests of it that the log has, by the ids of their entries, in order.
        rest: What the log may lack, without its place in the tree; None where that is nothing.
    """

    known: tuple[str, ...]
    rest: KnownEntry | None


def growth(entry: MessageEntry, pieces: Mapping[str, Piece], session: str) -> Growth:
    """Compare an answer with what the log has of it.

    Args:
        entry: The answer as the source has it now; the log has an entry of its id.
        pieces: What the log has, by the ids of the entries.
        session: The session's id, from which the ids of rests follow.
    """
    content, used = entry.message.content, entry.message.usage
    begun = pieces[entry.id]
    place, told = _Place(0, 0), begun.usage or Usage()
    if begun.parts:
        place = _after(place, begun, content)
    known: list[str] = []
    while place.part < len(content):
        following = derived_id(session, entry.id, f"from {place}")
        piece = pieces.get(following)
        if piece is None:
            left = None if used is None else _beyond(used, told)
            rest = replace(entry.message, content=_from(place, content), usage=left)
            return Growth(tuple(known), replace(entry, id=following, message=rest))
        known.append(following)
        place, told = _after(place, piece, content), told + (piece.usage or Usage())
    if used is None or told != Usage() or used == Usage():
        return Growth(tuple(known), None)
    return Growth(tuple(known), _usage_of(entry, used, session))


class _Place(Struct, frozen=True):
    """Up to where an answer is there: all parts before this one, and so many characters of it."""

    part: int
    chars: int

    def __str__(self) -> str:
        return f"{self.part}.{self.chars}" if self.chars else str(self.part)


def _after(place: _Place, piece: Piece, content: tuple[Content, ...]) -> _Place:
    """Return the place after a piece that begins at one; words that go on otherwise than they began are taken for whole."""
    part = place.part + max(piece.parts, 1) - 1
    if piece.last is not None and part < len(content) and type(piece.last) is type(content[part]):
        begun = place.chars if piece.parts == 1 else 0
        then, now = _words(piece.last), _words(content[part])
        said = begun + len(then)
        if said < len(now) and now[begun:said] == then:
            return _Place(part, said)
    return _Place(part + 1, 0)


def _words(part: Content) -> str:
    """Return the words of a part that comes word for word; nothing of others."""
    if isinstance(part, TextPart):
        return part.text.content
    return part.thinking.content if isinstance(part, ThinkingPart) else ""


def _from(place: _Place, content: tuple[Content, ...]) -> tuple[Content, ...]:
    first, *others = content[place.part :]
    later = _words(first)[place.chars :]
    if isinstance(first, TextPart):
        first = text(later)
    elif isinstance(first, ThinkingPart):
        first = ThinkingPart(replace(first.thinking, content=later))
    return first, *others


def _beyond(usage: Usage, told: Usage) -> Usage | None:
    """Return what of a usage was not told before; None where that is nothing."""
    left = Usage(
        max(0, usage.input_tokens - told.input_tokens),
        max(0, usage.output_tokens - told.output_tokens),
        max(0, usage.cache_read_tokens - told.cache_read_tokens),
        max(0, usage.cache_write_tokens - told.cache_write_tokens),
        max(0, usage.total_tokens - told.total_tokens),
    )
    if usage.cost > told.cost:
        left = replace(left, cost=usage.cost - told.cost)
    return None if left == Usage() else left


def _usage_of(entry: MessageEntry, usage: Usage, session: str) -> UsageEntry:
    """Record the usage of an answer that was told after all of it was said."""
    record = UsageRecord("response", usage, entry.message.provider, entry.message.model)
    return UsageEntry(
        id=derived_id(session, entry.id, "usage"), parent_id=None, timestamp=entry.timestamp, usage=record
    )

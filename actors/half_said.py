"""Answers that were taken in before all of them was said, and what of them is still to come.

A source may be read while a model speaks. The next import finds the same answer, by its id, with more parts, with a
longer text, or with the usage that was told last. No entry is changed: what is missing follows as an entry of its own,
the answer's first rest or its second, or a record of what else was used. Their ids follow from the answer's, so that
they are found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from ..events.content import Content, TextPart, ThinkingPart, ToolUsePart, text
from ..events.entries import KnownEntry, Message, MessageEntry, Usage, UsageEntry, UsageRecord
from ..events.foreign.chain import derived_id


class Latest(Struct, frozen=True):
    """What the log has of its latest answers.

    Attributes:
        answers: What they say, by the ids of their entries; those of rests, too.
        usages: What records say that was used, by their ids.
    """

    answers: Mapping[str, Message]
    usages: Mapping[str, Usage]


class Growth(Struct, frozen=True):
    """What became of an answer.

    Attributes:
        rests: Its rests that the log has, by their ids, in order.
        records: The records of what else it used that the log has.
        missing: What the log lacks, without its place in the tree; None where that is nothing.
    """

    rests: tuple[str, ...]
    records: tuple[str, ...]
    missing: KnownEntry | None


def growth(entry: MessageEntry, has: Callable[[str], bool], latest: Latest, session: str) -> Growth:
    """Compare an answer with what the log has of it.

    Args:
        entry: The answer as the source has it now; the log has an entry of its id.
        has: Tells whether the log has an entry.
        latest: What its latest answers say. What became of older ones is not looked at.
        session: The session's id, from which the ids of rests follow.
    """
    *rests, rest = _ids(session, entry.id, "rest", has)
    *records, record = _ids(session, entry.id, "usage", has)
    known = [latest.answers[each] for each in (entry.id, *rests) if each in latest.answers]
    if len(known) <= len(rests):
        return Growth(tuple(rests), tuple(records), None)
    told = [*(each.usage for each in known), *map(latest.usages.get, records)]
    used = beyond(entry.message.usage or Usage(), sum(filter(None, told), Usage()))
    content = _missing(entry.message.content, [part for each in known for part in each.content])
    missing: KnownEntry | None = None
    if content:
        missing = replace(entry, id=rest, message=replace(entry.message, content=content, usage=used))
    elif used is not None:
        said = UsageRecord("response", used, entry.message.provider, entry.message.model)
        missing = UsageEntry(id=record, parent_id=None, timestamp=entry.timestamp, usage=said)
    return Growth(tuple(rests), tuple(records), missing)


def beyond(usage: Usage, told: Usage) -> Usage | None:
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


def _ids(session: str, answer: str, of: str, has: Callable[[str], bool]) -> Iterator[str]:
    """Yield the ids of what the log has beside an answer, and then the one that comes next."""
    for number in count(1):
        own = derived_id(session, answer, f"{of} {number}")
        yield own
        if not has(own):
            return


def _missing(content: Sequence[Content], told: Sequence[Content]) -> tuple[Content, ...]:
    """Return the parts, and the ends of texts, that were not told before."""
    waiting = [part for part in told if _words(part) != ""]
    missing: list[Content] = []
    for at, part in enumerate(content):
        words = _words(part)
        if words is None:
            known = next((each for each in waiting if _is_same(each, part)), None)
            if known is None:
                missing.append(part)
            else:
                waiting.remove(known)
        elif words:
            said = _take(words, type(part), waiting)
            if said == 0 and _take_changed(part, content[at + 1 :], waiting):
                continue
            if said < len(words):
                missing.append(_cut(part, said))
    return tuple(missing)


def _is_same(part: Content, other: Content) -> bool:
    """Tell whether two parts are one; a call may have got more arguments meanwhile."""
    if isinstance(part, ToolUsePart) and isinstance(other, ToolUsePart):
        return part.tool_use.id == other.tool_use.id
    return part == other


def _words(part: Content) -> str | None:
    """Return the words of a part that may come word for word; None of other parts."""
    if isinstance(part, TextPart):
        return part.text.content
    return part.thinking.content or None if isinstance(part, ThinkingPart) else None


def _take(words: str, kind: type[Content], waiting: list[Content]) -> int:
    """Take out the parts which, one after the other, are how words begin; return up to where."""
    said = 0
    for part in [each for each in waiting if type(each) is kind]:
        begun = _words(part)
        if begun and words.startswith(begun, said):
            waiting.remove(part)
            said += len(begun)
    return said


def _take_changed(part: Content, later: Sequence[Content], waiting: list[Content]) -> bool:
    """Take out the part that stood where words stand now which were changed since, if there is one: it is left as it is."""
    ahead = [each for each in map(_words, later) if each]
    for each in waiting:
        begun = _words(each)
        if type(each) is type(part) and begun and not any(words.startswith(begun) for words in ahead):
            waiting.remove(each)
            return True
    return False


def _cut(part: Content, said: int) -> Content:
    """Return what a part says behind its first characters."""
    if isinstance(part, TextPart):
        return part if not said else text(part.text.content[said:])
    if isinstance(part, ThinkingPart) and said:
        return ThinkingPart(replace(part.thinking, content=part.thinking.content[said:]))
    return part

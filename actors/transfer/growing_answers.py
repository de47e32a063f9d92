"""Answers that were imported before they were complete, and how the rest of them follows.

A source may be read while a model is still answering. The next import finds the same answer, by its id, with more
parts, a longer text, newer usage, or arguments of calls that had none. No entry is changed: what is missing is appended
as an entry of its own, which is a rest of the answer (its first, its second, and so on), a record of the additional
usage, or an edit after which contexts show the calls with their arguments. The ids of these entries are derived from
the answer's id, so that later imports find them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from ...events.content import Content, TextPart, ThinkingPart, ToolUsePart, text
from ...events.entries import ContextEdit, KnownEntry, Message, MessageEntry, Usage, UsageRecord, entry_of
from ...formats.chain import derived_id
from ...projections.usage import NOTHING


class Latest(Struct, frozen=True):
    """What the log has of its latest answers.

    Attributes:
        answers: The messages of answers and of their rests, by entry id.
        usages: The usage in usage records, by entry id.
    """

    answers: Mapping[str, Message]
    usages: Mapping[str, Usage]


class Growth(Struct, frozen=True):
    """What the log has of an answer, and what it lacks.

    Attributes:
        rests: The ids of the answer's rests in the log, in order.
        records: The ids of the records of its additional usage in the log.
        edits: The ids of the edits in the log that give its calls their arguments.
        missing: The entries that the log lacks, without their place in the tree.
    """

    rests: Sequence[str]
    records: Sequence[str]
    edits: Sequence[str] = ()
    missing: Sequence[KnownEntry] = ()


def growth(entry: MessageEntry, has: Callable[[str], bool], latest: Latest, session: str) -> Growth:
    """Compare an answer with what the log has of it.

    Args:
        entry: The answer as the source has it now; the log has an entry with its id.
        has: Returns whether the log has an entry.
        latest: The latest answers of the log. Older answers are not compared.
        session: The session's id, from which the ids of rests are derived.
    """
    *rests, next_rest_id = _derived_ids(session, entry.id, "rest", has)
    *records, next_record_id = _derived_ids(session, entry.id, "usage", has)
    known = {each: latest.answers[each] for each in (entry.id, *rests) if each in latest.answers}
    if len(known) <= len(rests):
        return Growth(rests, records)
    known_usages = [*(each.usage for each in known.values()), *map(latest.usages.get, records)]
    more = (entry.message.usage or NOTHING).beyond(sum(filter(None, known_usages), NOTHING))
    more_usage = None if more == NOTHING else more
    content = _missing_parts(entry.message.content, [part for each in known.values() for part in each.content])
    edits, missing = list[str](), list[KnownEntry]()
    if content:
        rest = replace(entry.message, content=content, usage=more_usage)
        missing.append(replace(entry, id=next_rest_id, message=rest))
    elif more_usage is not None:
        record = UsageRecord("response", more_usage, entry.message.provider, entry.message.model)
        missing.append(entry_of(record, id=next_record_id, parent_id=None, timestamp=entry.timestamp))
    calls = {part.tool_use.id: part for part in entry.message.content if isinstance(part, ToolUsePart)}
    for target, message in known.items():
        shown = tuple(_with_arguments(part, calls) for part in message.content)
        gained = sum(part is not before for part, before in zip(shown, message.content, strict=True))
        ids = [derived_id(session, target, f"arguments {number}") for number in range(1, gained + 1)]
        edits += filter(has, ids)
        if ids and not has(ids[-1]):
            edit = ContextEdit(target, shown)
            missing.append(entry_of(edit, id=ids[-1], parent_id=None, timestamp=entry.timestamp))
    return Growth(rests, records, edits, missing)


def _with_arguments(part: Content, calls: Mapping[str, ToolUsePart]) -> Content:
    """Return a call that had no arguments as it is in `calls`, and any other part unchanged."""
    if not isinstance(part, ToolUsePart) or part.tool_use.input:
        return part
    call = calls.get(part.tool_use.id, part)
    return call if call.tool_use.input else part


def _derived_ids(session: str, answer: str, kind: str, has: Callable[[str], bool]) -> Iterator[str]:
    """Yield the ids of the log's additional entries for an answer, and then the next free one."""
    for number in count(1):
        entry_id = derived_id(session, answer, f"{kind} {number}")
        yield entry_id
        if not has(entry_id):
            return


def _missing_parts(content: Sequence[Content], known_parts: Sequence[Content]) -> tuple[Content, ...]:
    """Return the parts, and the ends of texts, that are not in `known_parts`."""
    unmatched = [part for part in known_parts if _streamed_text(part) != ""]
    missing: list[Content] = []
    for position, part in enumerate(content):
        words = _streamed_text(part)
        if words is None:
            same = next((each for each in unmatched if _is_same(each, part)), None)
            if same is None:
                missing.append(part)
            else:
                unmatched.remove(same)
        elif words:
            length = _match_prefix(words, type(part), unmatched)
            if length == 0 and _match_changed(part, content[position + 1 :], unmatched):
                continue
            if length < len(words):
                missing.append(_without_prefix(part, length))
    return tuple(missing)


def _is_same(part: Content, other: Content) -> bool:
    """Return whether two parts are the same one; a call may have gained arguments in between."""
    if isinstance(part, ToolUsePart) and isinstance(other, ToolUsePart):
        return part.tool_use.id == other.tool_use.id
    return part == other


def _streamed_text(part: Content) -> str | None:
    """Return the text of a part that may arrive piece by piece; None for other parts."""
    if isinstance(part, TextPart):
        return part.text.content
    return part.thinking.content or None if isinstance(part, ThinkingPart) else None


def _match_prefix(words: str, kind: type[Content], unmatched: list[Content]) -> int:
    """Remove the known parts that, one after the other, form the beginning of a text; return its length."""
    length = 0
    for part in [each for each in unmatched if type(each) is kind]:
        piece = _streamed_text(part)
        if piece and words.startswith(piece, length):
            unmatched.remove(part)
            length += len(piece)
    return length


def _match_changed(part: Content, later: Sequence[Content], unmatched: list[Content]) -> bool:
    """Remove the known part whose text was changed into this one since, and return whether there was one.

    The log keeps the earlier text.
    """
    later_texts = [each for each in map(_streamed_text, later) if each]
    for each in unmatched:
        piece = _streamed_text(each)
        if type(each) is type(part) and piece and not any(words.startswith(piece) for words in later_texts):
            unmatched.remove(each)
            return True
    return False


def _without_prefix(part: Content, length: int) -> Content:
    """Return a part without the first characters of its text."""
    if isinstance(part, TextPart):
        return part if not length else text(part.text.content[length:])
    if isinstance(part, ThinkingPart) and length:
        return ThinkingPart(replace(part.thinking, content=part.thinking.content[length:]))
    return part

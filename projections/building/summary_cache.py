"""Stored summaries: what a summarizer once made of a range of messages, so that it is not asked again.

A summary is derived: it can always be made anew, and it holds for exactly the messages that its key was taken from. It
lies in the log as a custom entry of the type `treering.summary`, which no model is shown, every dialect can say and every
fork copies::

    {"key":"3f0c...","start_id":"a1","end_id":"b7","message_count":42,"content":"The user asked ...","tokens":310,
     "summarizer":"ollama/qwen3:8b","original_tokens":18211,"compression_ratio":0.017,"start_seq":1,"end_seq":57}

Its id and the time when it was made are the entry's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...events.content import raw_json
from ...events.entries import Custom, CustomEntry, Entry
from ..context import ContextMessage

SUMMARY_TYPE = "treering.summary"
"""The custom type of the entries that keep summaries."""

_OF_THE_ENTRY = frozenset({"id", "created"})

_hashed = msgspec.json.Encoder(order="deterministic").encode


class StoredSummary(Struct, frozen=True):
    """A summary of a range of messages.

    Attributes:
        key: What the messages of the range say, as a hash; see `range_key`.
        start_id: The entry of the first message.
        end_id: The entry of the last one.
        message_count: How many messages it stands for.
        content: The summary.
        tokens: How many tokens it takes.
        summarizer: Who made it, such as the model; see `summarizer_id`.
        original_tokens: How many tokens the messages take.
        compression_ratio: The one over the other.
        start_seq: The ordinal of the first message's entry; 0 where it is not known.
        end_seq: That of the last one.
        id: The entry that keeps it; "" as long as none does.
        created: When it was kept; None as long as it is not.
    """

    key: str
    start_id: str
    end_id: str
    message_count: int
    content: str
    tokens: int
    summarizer: str
    original_tokens: int = 0
    compression_ratio: float = 0.0
    start_seq: int = 0
    end_seq: int = 0
    id: str = ""
    created: datetime | None = None

    def payload(self) -> Custom:
        """Return what to append to a log to keep it."""
        data = {name: getattr(self, name) for name in self.__struct_fields__ if name not in _OF_THE_ENTRY}
        return Custom(SUMMARY_TYPE, raw_json(data))

    def kept_by(self, entry: CustomEntry) -> StoredSummary:
        """Return it with what the entry that keeps it says: its id and its time."""
        return replace(self, id=entry.id, created=entry.timestamp)


def stored_summaries(entries: Iterable[Entry | None]) -> tuple[StoredSummary, ...]:
    """Read the summaries that entries keep; what is none is left out."""
    found: list[StoredSummary] = []
    for entry in entries:
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == SUMMARY_TYPE:
            try:
                found.append(msgspec.convert(entry.custom.data, StoredSummary).kept_by(entry))
            except msgspec.ValidationError:
                continue
    return tuple(found)


def range_key(messages: Sequence[ContextMessage]) -> str:
    """Return a hash of what messages say, so that a summary is not taken for one of messages that were edited since."""
    digest = hashlib.sha256()
    for each in messages:
        digest.update(_hashed((each.entry_id, each.message.role, each.message.content)))
        digest.update(b"\n")
    return digest.hexdigest()


def longest_summary(
    summaries: Sequence[StoredSummary], messages: Sequence[ContextMessage], start: int, end: int
) -> tuple[StoredSummary, int] | None:
    """Find the summary that stands for most of the messages from a position on, and for none from another on.

    Returns:
        The summary, the later of two of one range, and the position where its range ends.
    """
    places = {each.entry_id: place for place, each in enumerate(messages[:end]) if place >= start and each.entry_id}
    held = [
        (_end(messages, places[each.end_id], end), order, each)
        for order, each in enumerate(summaries)
        if each.end_id in places and start < len(messages) and each.start_id == messages[start].entry_id
    ]
    keys: dict[int, str] = {}
    for stop, _, each in sorted(held, key=lambda one: one[:2], reverse=True):
        if stop not in keys:
            keys[stop] = range_key(messages[start:stop])
        if keys[stop] == each.key:
            return each, stop
    return None


def _end(messages: Sequence[ContextMessage], last: int, end: int) -> int:
    """Return where a range ends that an entry is the last of: results that were made up for its calls belong to it."""
    stop = last + 1
    while stop < end and not messages[stop].entry_id:
        stop += 1
    return stop


def summarizer_id(summarizer: object) -> str:
    """Return by what name the summaries of a summarizer are kept: its `summarizer_id`, or else the name of its code."""
    given = getattr(summarizer, "summarizer_id", None)
    if isinstance(given, str):
        return given
    named = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"

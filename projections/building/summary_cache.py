"""Stored summaries of ranges of messages, so that a summarizer is not asked twice for the same range.

A summary is derived: it can always be made again, and it is valid for exactly the messages from which its key was
computed. It is stored in the log as a custom entry of the type `treering.summary`, which is never sent to a model, can
be expressed in every dialect and is copied by every fork::

    {"key":"3f0c...","start_id":"a1","end_id":"b7","message_count":42,"content":"The user asked ...","tokens":310,
     "summarizer":"ollama/qwen3:8b","original_tokens":18211,"compression_ratio":0.017,"start_seq":1,"end_seq":57}

Its id and its time are those of the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...events.entries import Custom, CustomEntry, Entry
from ...events.json_values import raw_json
from ..context import ContextMessage

SUMMARY_TYPE = "treering.summary"
"""The custom type of the entries that store summaries."""

_FIELDS_OF_ENTRY = frozenset({"id", "created"})

_hashed = msgspec.json.Encoder(order="deterministic").encode


class StoredSummary(Struct, frozen=True):
    """A summary of a range of messages.

    Attributes:
        key: A hash of the messages of the range; see `range_key`.
        start_id: The entry of the first message.
        end_id: The entry of the last message.
        message_count: The number of messages that it covers.
        content: The summary.
        tokens: Its tokens.
        summarizer: What made it, such as the model; see `summarizer_id`.
        original_tokens: The tokens of the messages.
        compression_ratio: `tokens` divided by `original_tokens`.
        start_seq: The seq of the first message's entry; 0 if unknown.
        end_seq: The seq of the last message's entry; 0 if unknown.
        id: The entry that stores it; "" while it is not stored.
        created: When it was stored; None while it is not stored.
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
        """Return the payload of the entry that stores it."""
        data = {name: getattr(self, name) for name in self.__struct_fields__ if name not in _FIELDS_OF_ENTRY}
        return Custom(SUMMARY_TYPE, raw_json(data))

    def kept_by(self, entry: CustomEntry) -> StoredSummary:
        """Return the summary with the id and the time of the entry that stores it."""
        return replace(self, id=entry.id, created=entry.timestamp)


def stored_summaries(entries: Iterable[Entry | None]) -> tuple[StoredSummary, ...]:
    """Return the summaries stored in entries, ignoring all other and invalid ones."""
    summaries: list[StoredSummary] = []
    for entry in entries:
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == SUMMARY_TYPE:
            with suppress(msgspec.ValidationError):
                summaries.append(msgspec.convert(entry.custom.data, StoredSummary).kept_by(entry))
    return tuple(summaries)


def range_key(messages: Sequence[ContextMessage]) -> str:
    """Return a hash of messages, so that a summary is not used for messages that were edited since."""
    digest = hashlib.sha256()
    for each in messages:
        digest.update(_hashed((each.entry_id, each.message.role, each.message.content)))
        digest.update(b"\n")
    return digest.hexdigest()


def longest_summary(
    summaries: Sequence[StoredSummary], messages: Sequence[ContextMessage], start: int, end: int
) -> tuple[StoredSummary, int] | None:
    """Find the summary that covers the most messages beginning at `start` and ending at or before `end`.

    Returns:
        The summary, the later of two for the same range, and the position where its range ends.
    """
    places = {each.entry_id: place for place, each in enumerate(messages[:end]) if place >= start and each.entry_id}
    candidates = [
        (_end(messages, places[each.end_id], end), order, each)
        for order, each in enumerate(summaries)
        if each.end_id in places and start < len(messages) and each.start_id == messages[start].entry_id
    ]
    keys: dict[int, str] = {}
    for stop, _, each in sorted(candidates, key=lambda one: one[:2], reverse=True):
        if stop not in keys:
            keys[stop] = range_key(messages[start:stop])
        if keys[stop] == each.key:
            return each, stop
    return None


def _end(messages: Sequence[ContextMessage], last: int, end: int) -> int:
    """Return the end of a range whose last entry is at `last`, including placeholder results for its calls."""
    return next((place for place in range(last + 1, end) if messages[place].entry_id), end)


def summarizer_id(summarizer: object) -> str:
    """Return the name under which a summarizer's summaries are stored: its `summarizer_id`, or the name of its code."""
    own_id = getattr(summarizer, "summarizer_id", None)
    if isinstance(own_id, str):
        return own_id
    code = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return f"{getattr(code, '__module__', '')}.{getattr(code, '__qualname__', '')}"

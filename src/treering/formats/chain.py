"""Building a chain of entries from another program's records, each entry below the previous one.

Ids of the original are kept if they are unique. Other ids are derived from the session and the entry's payload: the
same file always yields the same ids, and a file that has grown yields the same ids for the records that it already
held. An entry without a time gets the time of the entry before it; the first one gets the time of the session.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from ..events.content import ToolResultPart, ToolUsePart
from ..events.dialects.base import in_utc
from ..events.entries import (
    Batch,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    Entry,
    KnownEntry,
    Message,
    ModelChangeEntry,
    Payload,
    SessionInfoEntry,
    entry_class,
    entry_of,
)

DESCRIBING = (SessionInfoEntry, ModelChangeEntry, CompactionEntry, CustomEntry, ContextEditEntry)
"""The types of entries that can describe the current state of a session; see `Chain.describe`."""

P = TypeVar("P", bound=Payload)

_DERIVED_VERSION, _RANDOM_VERSION = 5, 4
_NAMESPACE = UUID("d0a6c1f2-0a5f-5d3c-9d1e-6f0f3f2b7a41")


def derived_id(*words: str) -> str:
    """Return an id that depends only on the given words."""
    return str(uuid5(_NAMESPACE, "\n".join(words)))


def describes(entry: Entry, format: str, session: str) -> bool:
    """Return whether `Chain.describe` made an entry, for this format and session."""
    if not isinstance(entry, DESCRIBING):
        return False
    payload: Payload = getattr(entry, entry.type)
    return entry.id == _described_id(format, session, entry.parent_id, entry.timestamp, payload)


def is_derived(entry: Entry) -> bool:
    """Return whether the id of an entry comes from `derived_id`; a host derives ids in this form from command ids."""
    return _id_version(entry) == _DERIVED_VERSION


def is_derived_or_random(entry: Entry) -> bool:
    """Return whether the id of an entry comes from `derived_id`, or is one of those that most programs give."""
    return _id_version(entry) in (_DERIVED_VERSION, _RANDOM_VERSION)


def _id_version(entry: Entry) -> int | None:
    """Return the version of the UUID that an entry's id is; None for any other id, and one that a command gave it."""
    with suppress(ValueError):
        return None if entry.id is None or entry.command_id is not None else UUID(entry.id).version
    return None


def _described_id(format: str, session: str, parent_id: str | None, time: datetime, payload: Payload) -> str:
    encoded = msgspec.json.encode((entry_class(payload).type, payload, in_utc(time), parent_id))
    return derived_id(format, session, "describes", blake2b(encoded, digest_size=16).hexdigest())


class Chain:
    """Builder of the entries of one session.

    Args:
        format: The format's name; together with the session's id, it makes derived ids unique.
        session: The session's id.
        started: When the session began.

    Attributes:
        leaf: The parent of the next entry; assign it to continue elsewhere.
        time: The last known time.
    """

    def __init__(self, format: str, session: str, started: datetime) -> None:
        self.leaf: str | None = None
        self.time = started
        self.session = session
        self._format = format
        self._ids: set[str] = set()
        self._digests: Counter[bytes] = Counter()

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._ids

    def add(
        self,
        payload: Payload,
        *,
        id: str = "",
        time: datetime | None = None,
        batch: Batch | None = None,
        beginning: object = None,
    ) -> KnownEntry:
        """Make the next entry, which becomes the leaf.

        Args:
            payload: The entry's payload.
            id: The original's id; "" if it has none.
            time: The entry's time; None for the last known time.
            batch: Its place in a batch.
            beginning: What to derive the id from if the original has no id and may still grow; None for the payload.
        """
        kind = entry_class(payload)
        entry_id = id
        while not entry_id or entry_id in self._ids:
            entry_id = self._derived_id(kind.type, payload if beginning is None else beginning, time, id)
        return self._append(payload, entry_id, time, batch)

    def describe(self, payload: Payload, *, time: datetime | None = None) -> KnownEntry:
        """Make an entry for what a file says about the current state of its session, as opposed to an event in it.

        A later version of the file may say something else, and then no longer contains this. The id is therefore
        derived from the payload and the parent, so that `describes` recognizes the entry without the file.
        """
        described_id = _described_id(self._format, self.session, self.leaf, time or self.time, payload)
        return self._append(payload, described_id, time, None)

    def _append(self, payload: Payload, id: str, time: datetime | None, batch: Batch | None) -> KnownEntry:
        self._ids.add(id)
        self.time = time or self.time
        entry = entry_of(payload, id=id, parent_id=self.leaf, timestamp=self.time, batch=batch)
        self.leaf = id
        return entry

    def _derived_id(self, kind: str, payload: object, time: datetime | None, original: str) -> str:
        digest = blake2b(msgspec.json.encode((kind, payload, time, original)), digest_size=16).digest()
        self._digests[digest] += 1
        return derived_id(self._format, self.session, digest.hex(), str(self._digests[digest]))


class Names:
    """The tool names of calls, for programs whose results do not name their tool."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def named(self, payload: P) -> P:
        """Record the calls of a message, and return the payload, with the name of its tool if it is a tool's result."""
        if not isinstance(payload, Message):
            return payload
        for part in payload.content:
            if isinstance(part, ToolUsePart):
                self._tools[part.tool_use.id] = part.tool_use.name
            elif isinstance(part, ToolResultPart) and payload.role == "tool" and payload.tool_name is None:
                name = self._tools.get(part.tool_result.tool_use_id)
                return payload if name is None else replace(payload, tool_name=name)
        return payload

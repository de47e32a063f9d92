"""Making entries, each below the one before it, of what another program wrote.

Ids of the original are kept where they are unique. Others follow from the session and from what the entry says, so that
the same file gives the same ids each time, and a file that went on meanwhile gives those of what it held before. An entry
whose time is not known has that of the entry before it, the first one that of the session.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from ..content import ToolResultPart, ToolUsePart
from ..entries import (
    Batch,
    CompactionEntry,
    Entry,
    KnownEntry,
    Message,
    ModelChangeEntry,
    Payload,
    SessionInfoEntry,
    entry_class,
)

DESCRIBING = (SessionInfoEntry, ModelChangeEntry, CompactionEntry)
"""The entries by which a file may say how its session is; see `Chain.describe`."""

_NAMESPACE = UUID("d0a6c1f2-0a5f-5d3c-9d1e-6f0f3f2b7a41")


def derived_id(*words: str) -> str:
    """Return an id that follows from words, and from nothing else."""
    return str(uuid5(_NAMESPACE, "\n".join(words)))


def describes(entry: Entry, format: str, session: str) -> bool:
    """Tell whether an entry is one by which a file of this session said how the session was; see `Chain.describe`."""
    if not isinstance(entry, DESCRIBING):
        return False
    payload: Payload = getattr(entry, entry.type)
    return entry.id == _described_id(format, session, entry.parent_id, entry.timestamp, payload)


def _described_id(format: str, session: str, above: str | None, time: datetime, payload: Payload) -> str:
    said = msgspec.json.encode((entry_class(payload).type, payload, time.astimezone(UTC), above))
    return derived_id(format, session, "describes", blake2b(said, digest_size=16).hexdigest())


class Chain:
    """Makes the entries of one session.

    Args:
        format: The format's name; with the session's id it tells derived ids apart.
        session: The session's id.
        started: When the session began.

    Attributes:
        leaf: The entry that the next one goes below; set it to go on elsewhere.
        time: The time that was last known.
    """

    def __init__(self, format: str, session: str, started: datetime) -> None:
        self.leaf: str | None = None
        self.time = started
        self.session = session
        self._format = format
        self._taken: set[str] = set()
        self._said: Counter[bytes] = Counter()

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._taken

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
            payload: What it says.
            id: The original's id; "" where it has none.
            time: When it was said; the last known time where the original does not say.
            batch: Its place in a batch.
            beginning: What its id follows from, where the original has none and may still grow; else all that it says.
        """
        kind = entry_class(payload)
        if not id or id in self._taken:
            id = self._derived(kind.type, payload if beginning is None else beginning, time, id)
        return self._made(payload, id, time, batch)

    def describe(self, payload: Payload, *, time: datetime | None = None) -> KnownEntry:
        """Make an entry of what a file says of its session as it is now, and not of a step that was taken.

        The file may say something else the next time, and then this is said nowhere. So its id follows from what it says
        and from the entry above it, by which it `describes` the session also where the file no longer says it.
        """
        at = time or self.time
        return self._made(payload, _described_id(self._format, self.session, self.leaf, at, payload), time, None)

    def _made(self, payload: Payload, id: str, time: datetime | None, batch: Batch | None) -> KnownEntry:
        kind = entry_class(payload)
        self._taken.add(id)
        self.time = time or self.time
        said: dict[str, Any] = {kind.type: payload}
        entry = kind(id=id, parent_id=self.leaf, timestamp=self.time, batch=batch, **said)
        self.leaf = id
        return entry

    def _derived(self, kind: str, payload: object, time: datetime | None, original: str) -> str:
        said = blake2b(msgspec.json.encode((kind, payload, time, original)), digest_size=16).digest()
        self._said[said] += 1
        return derived_id(self._format, self.session, said.hex(), str(self._said[said]))


class Names:
    """Knows which tool each call was of, for programs whose results do not say it."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def named(self, message: Message) -> Message:
        """Take notice of a message's calls, and return it with the name of the tool whose result it is."""
        for part in message.content:
            if isinstance(part, ToolUsePart):
                self._tools[part.tool_use.id] = part.tool_use.name
            elif isinstance(part, ToolResultPart) and message.role == "tool" and message.tool_name is None:
                name = self._tools.get(part.tool_result.tool_use_id)
                return message if name is None else replace(message, tool_name=name)
        return message

"""The rows of the Agents SDK's table of messages: each is one item, and becomes one message."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

from ...events.entries import KnownEntry, MessageEntry, Payload, entry_of
from ...events.errors import InvalidEntry
from ...events.providers.responses import message_of
from ..chain import derived_id
from ..databases import Row
from ..json_lines import Notes, decoded
from ..values import Object, as_time

NAME = "openai-agents"
"""The name of the format, from which ids are derived."""


class Items:
    """The entries of one session.

    Args:
        session: The SDK's id of the session.
        started: When it began.
        notes: Where damage is reported.
    """

    def __init__(self, session: str, started: datetime, notes: Notes) -> None:
        self.session = session
        self.notes = notes
        self._time = started

    def entry(self, row: Row, item: Object, parent: str | None) -> MessageEntry | None:
        """Return the entry of an item, or report why there is none."""
        try:
            message = message_of(item)
        except InvalidEntry as error:
            self._report(row, str(error))
            return None
        return MessageEntry(id=entry_id(self.session, row), parent_id=parent, timestamp=self.time(row), message=message)

    def own(self, payload: Payload, parent: str | None, *words: str, row: Row | None = None) -> KnownEntry:
        """Return the entry of something else than an item.

        Args:
            payload: What it is.
            parent: The entry above it.
            *words: What its id is derived from, beside the session.
            row: The row that says when it was.
        """
        entry_id, time = derived_id(NAME, self.session, *words), self._time if row is None else self.time(row)
        return entry_of(payload, id=entry_id, parent_id=parent, timestamp=time)

    def item(self, row: Row) -> Object | None:
        """Return the item of a row, or report that it holds none."""
        item = item_of(row)
        if item is None:
            self._report(row, "it is not a JSON object")
        return item

    def time(self, row: Row) -> datetime:
        """Return when a row was written; no entry is earlier than the one before it."""
        created = row["created_at"]
        self._time = max(self._time, as_time(created if isinstance(created, str) else None) or self._time)
        return self._time

    def _report(self, row: Row, why: str) -> None:
        self.notes.add("damaged", "error", f"the item in row {row['id']!r} is left out: {why}")


def item_of(row: Row) -> Object | None:
    """Return the item of a row; None if it holds none."""
    data = row["message_data"]
    if isinstance(data, str):
        return decoded(data.encode(errors="replace"))
    return decoded(data) if isinstance(data, bytes) else None


def entry_id(session: str, row: Row) -> str:
    """Return the id of a row's entry. Its content counts, too: a database may use the number of a deleted row again."""
    data = row["message_data"]
    digest = blake2b(data if isinstance(data, bytes) else str(data).encode(errors="replace"), digest_size=16)
    return derived_id(NAME, session, str(row["id"]), digest.hexdigest())

"""What a session of the Agents SDK holds: items, each of which is a message, marks of branches, and usage of turns.

    {"type":"custom","custom":{"custom_type":"openai_agents.branch","data":{"branch":"other"}},...}

What comes below such a mark is of that branch, up to the next mark; what has no mark above it is of "main".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b

from ...events.entries import Custom, KnownEntry, MessageEntry, Payload, Usage, UsageRecord, entry_of
from ...events.errors import InvalidEntry
from ...events.json_values import JSON, raw_object
from ...events.providers.responses import message_of
from ..chain import derived_id
from ..databases import Row
from ..json_lines import Notes, decoded
from ..values import Object, as_time

NAME = "openai-agents"
"""The name of the format, from which ids are derived."""

MAIN = "main"
"""The branch on which every session begins."""

MARK = "openai_agents.branch"
RUN = "openai_agents.run"
"""The type of the custom entry of a mark, and the kind of the record of what a turn used."""


def mark(branch: str, *, deleted: str | None = None, cleared: bool = False) -> Custom:
    """Return the mark from which on entries are of a branch.

    Args:
        branch: The branch.
        deleted: A branch that ends with it.
        cleared: Whether all branches end with it.
    """
    data: dict[str, object] = {"branch": branch}
    if deleted is not None:
        data["deleted"] = deleted
    if cleared:
        data["cleared"] = True
    return Custom(MARK, raw_object(data, "the branch"))


def usage_record(turn: str, data: Mapping[str, JSON], before: Usage | None = None) -> UsageRecord:
    """Return the record of what a turn used.

    Args:
        turn: The entry at which the turn begins.
        data: What the SDK says of it.
        before: What an earlier record of the same turn says, which counts already.
    """
    usage = usage_of(data).beyond(Usage() if before is None else before)
    return UsageRecord(RUN, usage, raw_metadata=raw_object({"turn": turn, **data}, "the usage"))


def usage_of(data: Mapping[str, JSON]) -> Usage:
    """Return usage in treering's fields, which tell cached tokens from others."""
    details = data.get("input_tokens_details")
    known = details if isinstance(details, dict) else {}
    read, written = usage_count(known, "cached_tokens"), usage_count(known, "cache_write_tokens")
    return Usage(
        max(usage_count(data, "input_tokens") - read - written, 0),
        usage_count(data, "output_tokens"),
        read,
        written,
        usage_count(data, "total_tokens"),
    )


def usage_count(usage: Mapping[str, JSON], name: str) -> int:
    """Return a count of the SDK's usage; 0 if there is none."""
    value = usage.get(name)
    return value if isinstance(value, int) else 0


# -- items


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

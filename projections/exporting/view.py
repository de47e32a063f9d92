"""The interface of a document writer: a header about the session, then its entries in reading order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from ...events.entries import Entry


class About(Struct, frozen=True, kw_only=True):
    """The information about a session at the head of a document.

    Attributes:
        title: Its name, or the beginning of its first message.
        session_id: Its id.
        created: When it was created.
        modified: When the last entry was appended.
        cwd: The directory in which it was started.
        parent_session: The session from which it was forked.
        message_count: The number of messages in the document.
        left_out: The number of entries on other branches that are not in the document.
        labels: The labels by entry id.
        redacted: Whether secrets were removed.
    """

    title: str
    session_id: str
    created: datetime
    modified: datetime
    cwd: str | None = None
    parent_session: str | None = None
    message_count: int
    left_out: int = 0
    labels: Mapping[str, str]
    redacted: bool = False


class View(Protocol):
    """Writes a document piece by piece; one object writes one document."""

    def head(self, about: About) -> str:
        """Return the beginning of the document."""
        ...

    def entry(self, entry: Entry) -> str:
        """Return the text of an entry."""
        ...

    def branch_begins(self, entry: Entry, count: int) -> str:
        """Return the beginning of a branch of `count` entries, described by `entry`."""
        ...

    def branch_ends(self) -> str:
        """Return the end of the innermost branch."""
        ...

    def tail(self) -> str:
        """Return the end of the document."""
        ...

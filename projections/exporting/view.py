"""What a document of a session is told: what the session is as a whole, then its entries in the order of reading."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from ...events.entries import Entry


class About(Struct, frozen=True, kw_only=True):
    """What is said of a session at the head of its document.

    Attributes:
        title: Its name, or how its first message begins.
        session_id: Its id.
        created: When it was created.
        modified: When something was last appended.
        cwd: The directory that it is about.
        parent_session: The session that it was forked from.
        message_count: How many messages the document shows.
        left_out: How many entries of other branches it does not show.
        labels: The labels by the ids of their entries.
        redacted: Secrets were taken out.
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
    """Writes a document, piece by piece; one object writes one document."""

    def head(self, about: About) -> str:
        """Return how the document begins."""
        ...

    def entry(self, entry: Entry) -> str:
        """Return an entry as the document shows it."""
        ...

    def branch_begins(self, entry: Entry, count: int) -> str:
        """Return how a branch of `count` entries begins; `entry` is the first that says what it is about."""
        ...

    def branch_ends(self) -> str:
        """Return how the branch that began last ends."""
        ...

    def tail(self) -> str:
        """Return how the document ends."""
        ...

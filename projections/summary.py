"""The summary of a session: its row in a listing.

All of it comes from the index, but for the first user message, which is one entry to read: `index.first_user` says
which. Finding sessions and keeping their rows is the catalog's business.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime

from msgspec import Struct

from ..events.content import plain_text
from ..events.entries import Entry, MessageEntry
from ..events.index import LogIndex
from ..events.kinds import Kind

PREVIEW_CHARS_MAX = 200
"""How long a preview of the first message is."""

ACTIVE = "active"
"""The status of a session of which nothing else was said."""

CORRUPTED = "corrupted"
"""The status of a file that cannot be read."""

_JOINER = "\u200d"


class SessionSummary(Struct, frozen=True, kw_only=True):
    """A row of the listing.

    Attributes:
        id: The session's id.
        ref: The name of its log in the store.
        path: Where its file is, if it is one.
        key: The name under which a program asks for it.
        name: The title that a person set, else the automatic one; None where there is neither.
        created: The header's time.
        modified: The time of the last message of a user or an assistant; the header's where there is none.
        message_count: All messages, on all branches.
        user_count: Those of users.
        assistant_count: Those of assistants.
        parent_session: The session that it was forked from, as its dialect names it.
        cwd: The folder that it was started in.
        first_message: How the first user message begins; "" where there is none.
        dialect: The format of its file.
        status: "active" until it is said otherwise; "corrupted" where the file cannot be read.
        problem: Why it cannot be read.
    """

    id: str
    ref: str
    path: str | None = None
    key: str | None = None
    name: str | None = None
    created: datetime
    modified: datetime
    message_count: int = 0
    user_count: int = 0
    assistant_count: int = 0
    parent_session: str | None = None
    cwd: str | None = None
    first_message: str = ""
    dialect: str
    status: str = ACTIVE
    problem: str | None = None


def summarize(
    index: LogIndex, first_user: Entry | None, *, ref: str, dialect: str, path: str | None = None
) -> SessionSummary:
    """Make the row of a session.

    Args:
        index: The log's index.
        first_user: The entry at `index.first_user`; None where that is 0.
        ref: The name of the log in its store.
        dialect: The name of its dialect.
        path: Where its file is, if it is one.
    """
    header, info, counts = index.header, index.info, index.message_counts
    # A name that a person took away must not uncover the automatic title below it.
    title = info.name if info.name is not None else header.title
    said = plain_text(first_user.message.content) if isinstance(first_user, MessageEntry) else ""
    return SessionSummary(
        id=header.id,
        ref=ref,
        path=path,
        key=header.key,
        name=(title or "").strip() or None,
        created=header.created,
        modified=index.last_message_time,
        message_count=index.message_count,
        user_count=counts[Kind.USER],
        assistant_count=counts[Kind.ASSISTANT],
        parent_session=header.parent_session,
        cwd=header.cwd,
        first_message=preview(said),
        dialect=dialect,
        status=info.status or ACTIVE,
    )


def preview(text: str, chars_max: int = PREVIEW_CHARS_MAX) -> str:
    """Return how a text begins, on one line; a cut is marked by an ellipsis and does not tear a character apart."""
    # Long pastes are common: only as much is looked at as a preview can hold.
    line = " ".join(text[: 8 * chars_max].split())
    if len(line) <= chars_max:
        return line if len(text) <= 8 * chars_max else f"{line}…"
    end = chars_max - 1
    while end > 0 and (_continues(line[end]) or line[end - 1] == _JOINER):
        end -= 1
    return f"{line[:end].rstrip()}…"


def _continues(char: str) -> bool:
    """Tell whether a character is drawn as a part of the one before it."""
    return char == _JOINER or unicodedata.category(char).startswith("M") or "\U0001f3fb" <= char <= "\U0001f3ff"

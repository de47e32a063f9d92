"""The summary of a session: its row in a listing.

All of it comes from the index of its log. Finding sessions and keeping their rows is the catalog's business.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..events.index import LogIndex
from ..events.kinds import Kind
from ..events.previews import TITLE_CHARS_MAX, preview

ACTIVE = "active"
"""The status of a session of which nothing else was said."""

ARCHIVED = "archived"
"""The status of a session that is kept and no longer listed among the others."""

CORRUPTED = "corrupted"
"""The status of a file that cannot be read."""


class SessionSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A row of the listing.

    Attributes:
        id: The session's id.
        ref: The name of its log in the store.
        path: Where its file is, if it is one. While the session is archived, what is there is compressed, and its name goes
            on in ".zst" or ".gz".
        key: The name under which a program asks for it.
        name: The name that a person gave it, else the title that its header carries; None where there is neither.
        title: The name; where there is none, how the first user message begins; None where there is neither.
        created: The header's time.
        modified: The time of the last message of a user or an assistant; the header's where there is none.
        last_entry: When its last entry was appended, of whatever kind; the header's time where there is none.
        last_accessed: When it was last loaded or appended to, as far as is known; at least the time of its last entry.
        message_count: All messages, on all branches.
        user_count: Those of users.
        assistant_count: Those of assistants.
        parent_session: The session that it was forked from, as its dialect names it.
        cwd: The folder that it was started in.
        project: The folder that it belongs to: where it was started, until it is bound to another one.
        project_hash: What stands for that folder however its path is written; see `project_hash`.
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
    title: str | None = None
    created: datetime
    modified: datetime
    last_entry: datetime
    last_accessed: datetime | None = None
    message_count: int = 0
    user_count: int = 0
    assistant_count: int = 0
    parent_session: str | None = None
    cwd: str | None = None
    project: str | None = None
    project_hash: str | None = None
    first_message: str = ""
    dialect: str
    status: str = ACTIVE
    problem: str | None = None

    @property
    def used(self) -> datetime:
        """When it was used last, as far as is known: loaded or appended to. The listing has the latest first."""
        return self.last_accessed or self.last_entry


def name_of(index: LogIndex) -> str | None:
    """Return the name that a person gave a session, else its header's title, or None."""
    # A name that a person took away must not uncover the automatic title below it.
    name = index.info.name if index.info.name is not None else index.header.title
    return (name or "").strip() or None


def title_of(index: LogIndex) -> str | None:
    """Return a session's name; where it has none, how its first user message begins."""
    return name_of(index) or preview(index.first_message, TITLE_CHARS_MAX) or None


def project_of(index: LogIndex) -> str | None:
    """Return the folder that a session belongs to: the one that it was bound to last, else where it was started."""
    return index.info.project or index.header.cwd


def summarize(
    index: LogIndex, *, ref: str, dialect: str, path: str | None = None, project_hash: str | None = None
) -> SessionSummary:
    """Make the row of a session.

    Args:
        index: The log's index.
        ref: The name of the log in its store.
        dialect: The name of its dialect.
        path: Where its file is, if it is one.
        project_hash: What stands for its project.
    """
    header, counts = index.header, index.message_counts
    last_entry = max(index.last_time, header.timestamp)
    return SessionSummary(
        id=header.id,
        ref=ref,
        path=path,
        key=header.key,
        name=name_of(index),
        title=title_of(index),
        created=header.created,
        modified=index.last_message_time,
        last_entry=last_entry,
        last_accessed=last_entry,
        message_count=index.message_count,
        user_count=counts[Kind.USER],
        assistant_count=counts[Kind.ASSISTANT],
        parent_session=header.parent_session,
        cwd=header.cwd,
        project=project_of(index),
        project_hash=project_hash,
        first_message=index.first_message,
        dialect=dialect,
        status=index.info.status or ACTIVE,
    )


def corrupted(ref: str, path: str | None, modified: datetime, problem: str) -> SessionSummary:
    """Make the row of a session that cannot be read.

    Args:
        ref: The name of the log in its store.
        path: Where its file is, if it is one.
        modified: When the file was modified last.
        problem: Why it cannot be read.
    """
    return SessionSummary(
        id=ref.rsplit("/", 1)[-1].removesuffix(".jsonl"),
        ref=ref,
        path=path,
        created=modified,
        modified=modified,
        last_entry=modified,
        last_accessed=modified,
        dialect="unknown",
        status=CORRUPTED,
        problem=problem,
    )

"""A session in short: its row in a listing, and its metadata, from its header and its session_info entries.

Both are plain values built from the index of the log: modifying one changes nothing that is stored. The catalog finds
sessions and stores their rows.
"""

from __future__ import annotations

from datetime import datetime
from heapq import nlargest

from msgspec import Struct

from ..events.entries import ARCHIVED, Provider, SessionInfo, Usage
from ..events.errors import TreeringError
from ..events.findings import Finding, unreadable
from ..events.index import LogIndex
from ..events.json_values import JSON
from ..events.kinds import Kind
from ..events.texts import TITLE_CHARS_MAX, preview
from .session_state import SessionState

ACTIVE = "active"
"""The status of a session to which no program gave another one, and which is not archived."""

CORRUPTED = "corrupted"
"""The status of a file that cannot be read."""

LABELS_MAX = 8
"""How many labels of a session its row has."""


class SessionSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A row of the listing.

    Attributes:
        id: The session's id.
        ref: The name of its log in the store.
        path: The path of its file, if it has one. While the session is archived, the file is compressed, and ".zst" or
            ".gz" is appended to its name.
        key: The key under which a program opens it.
        name: The name that a user gave it, or else the title in its header, or None.
        title: The name, or else the beginning of the first user message with a text, or None.
        created: The header's time.
        modified: The time of the last user or assistant message, or else the header's time.
        last_entry: The time of its last entry of any kind, or else the header's time.
        last_accessed: The last known time when it was loaded or appended to; at least the time of its last entry.
        message_count: The number of messages, on all branches.
        user_count: The number of user messages.
        assistant_count: The number of assistant messages.
        parent_session: The session from which it was forked, as its dialect names it.
        parent_entry: The entry of that session to which it belongs, as the session of a sub-agent.
        cwd: The folder in which it was started.
        project: The folder to which it belongs: where it was started, unless it was bound to another one.
        project_hash: A hash of that folder, independent of how its path is written; see `project_hash`.
        first_message: The beginning of the first user message with a text; "" if there is none.
        dialect: The format of its file.
        status: The status that a program set (any text); without one "archived" if it is archived, else "active".
            "corrupted" if the file cannot be read.
        archived: Whether it is archived: kept, but no longer listed by default.
        problem: Why it cannot be read, and where.
        finding: The same in its parts: the file, the place in it, and the reason.
        usage: The tokens that providers counted on all branches, and their cost; None if they counted nothing.
        state: What it is doing; None if it cannot be read.
        labels: The beginnings of the newest labels of its entries, the newest first; None if it cannot be read.
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
    parent_entry: str | None = None
    cwd: str | None = None
    project: str | None = None
    project_hash: str | None = None
    first_message: str = ""
    dialect: str
    status: str = ACTIVE
    archived: bool = False
    problem: str | None = None
    finding: Finding | None = None
    usage: Usage | None = None
    state: SessionState | None = None
    labels: tuple[str, ...] | None = None

    @property
    def used(self) -> datetime:
        """The last known time when it was loaded or appended to, by which the listing is sorted, latest first."""
        return self.last_accessed or self.last_entry


def name_of(index: LogIndex) -> str | None:
    """Return the name that a user gave a session, or else the title in its header, or None."""
    # A name that was removed must not reveal the automatic title in the header.
    name = index.info.name if index.info.name is not None else index.header.title
    return (name or "").strip() or None


def title_of(index: LogIndex) -> str | None:
    """Return a session's name, or else the beginning of its first user message with a text, or None."""
    return name_of(index) or preview(index.first_message, TITLE_CHARS_MAX) or None


def project_of(index: LogIndex) -> str | None:
    """Return the folder to which a session belongs: the one it was last bound to, or else where it was started."""
    return index.info.project or index.header.cwd


def labels_of(index: LogIndex) -> tuple[str, ...]:
    """Return the beginnings of the newest labels of a session, the newest first."""
    if not index.labels:
        return ()
    newest = nlargest(LABELS_MAX, index.labels.values(), key=lambda mark: mark.seq)
    return tuple(preview(mark.label, TITLE_CHARS_MAX) for mark in newest)


def status_of(info: SessionInfo) -> str:
    """Return a session's status: the one that a program set, or else "archived" or "active"."""
    if info.status is None or info.status == ACTIVE:
        return ARCHIVED if info.archived else ACTIVE
    return info.status


def summarize(
    index: LogIndex,
    *,
    ref: str,
    dialect: str,
    path: str | None = None,
    project_hash: str | None = None,
    state: SessionState | None = None,
) -> SessionSummary:
    """Make the row of a session.

    Args:
        index: The log's index.
        ref: The name of the log in its store.
        dialect: The name of its dialect.
        path: The path of its file, if it has one.
        project_hash: The hash of its project folder.
        state: What the session is doing, if that was read.
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
        parent_entry=header.parent_entry,
        cwd=header.cwd,
        project=project_of(index),
        project_hash=project_hash,
        first_message=index.first_message,
        dialect=dialect,
        status=status_of(index.info),
        archived=index.info.archived is True,
        usage=None if index.usage == Usage() else index.usage,
        state=state,
        labels=labels_of(index),
    )


def corrupted(ref: str, path: str | None, modified: datetime, error: TreeringError | OSError) -> SessionSummary:
    """Make the row of a session that cannot be read.

    Args:
        ref: The name of the log in its store.
        path: The path of its file, if it has one.
        modified: When the file was last modified.
        error: Why it cannot be read; it may name the place.
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
        problem=str(error),
        finding=unreadable(path or ref, error),
    )


class SessionMetadata(Struct, frozen=True, kw_only=True):
    """The metadata of a session.

    Attributes:
        id: The session's id.
        version: The version of its file format, as its dialect counts versions.
        key: The key under which a program opens it.
        title: The name that a user gave it, or else the beginning of the first user message with a text.
        description: The description that a user gave it, or else the beginning of the first user message with a text.
        created: The header's time.
        last_message: The time of the last user or assistant message, or else the header's time.
        cwd: The folder in which it was started.
        project: The folder to which it belongs.
        parent_session: The session from which it was forked, as its dialect names it.
        status: The status that a program set; without one "archived" if it is archived, else "active".
        archived: Whether it is archived.
        provider: The provider that answers, if it was recorded.
        info: The merged content of all session_info entries; later ones override earlier ones.
    """

    id: str
    version: int
    key: str | None
    title: str | None
    description: str | None
    created: datetime
    last_message: datetime
    cwd: str | None
    project: str | None
    parent_session: str | None
    status: str
    archived: bool
    provider: Provider | None
    info: SessionInfo

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free-form JSON object that programs store with the session, decoded again for each caller."""
        return self.info.metadata


def metadata_of(index: LogIndex) -> SessionMetadata:
    """Return the metadata of a session from the index of its log."""
    header, info = index.header, index.info
    return SessionMetadata(
        id=header.id,
        version=header.version,
        key=header.key,
        title=title_of(index),
        description=info.description or index.first_message or None,
        created=header.created,
        last_message=index.last_message_time,
        cwd=header.cwd,
        project=project_of(index),
        parent_session=header.parent_session,
        status=status_of(info),
        archived=info.archived is True,
        provider=info.provider,
        info=info,
    )

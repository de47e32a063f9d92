"""The metadata of a session, taken from its header and its session_info entries.

It is a plain value: modifying it changes nothing that is stored.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..events.entries import Provider, SessionInfo
from ..events.index import LogIndex
from ..events.json_values import JSON
from .summary import project_of, status_of, title_of


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

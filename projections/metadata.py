"""What is known of a session as a whole, read from its header and from what session_info entries said since.

It is a value: changing what it returns changes nothing that is stored.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..events.content import JSON
from ..events.entries import Provider, SessionInfo
from ..events.index import LogIndex
from .summary import ACTIVE, project_of, title_of


class SessionMetadata(Struct, frozen=True, kw_only=True):
    """What is known of a session as a whole.

    Attributes:
        id: The session's id.
        version: The version of its file's format, as its dialect counts.
        key: The name under which a program asks for it.
        title: The name that a person gave it; where there is none, how the first user message begins.
        description: What a person said that it is about; where nothing was said, how the first user message begins.
        created: The header's time.
        last_message: The time of the last message of a user or an assistant; the header's where there is none.
        cwd: The folder that it was started in.
        project: The folder that it belongs to.
        parent_session: The session that it was forked from, as its dialect names it.
        status: "active" until it is said otherwise.
        provider: Who answers, where that was said.
        info: All that session_info entries said, the later over the earlier.
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
    provider: Provider | None
    info: SessionInfo

    @property
    def extra(self) -> dict[str, JSON]:
        """The free JSON object that programs keep with the session, decoded afresh for this caller."""
        return self.info.metadata


def metadata_of(index: LogIndex) -> SessionMetadata:
    """Return what the index of a log says of its session as a whole."""
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
        status=info.status or ACTIVE,
        provider=info.provider,
        info=info,
    )

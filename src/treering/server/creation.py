"""Creating sessions, which exist with all that they begin with, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from msgspec import Struct

from ..actors.commands import AppendOptions
from ..actors.host.host import SessionHost
from ..actors.session.session import Session
from ..events.entries import Payload, SessionInfo
from ..events.errors import NotAuthorized, SessionExists
from .http.fields import NewFolder, NewId, NewKey
from .principals import Principal


class NewSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to create: all fields are optional; `id` and `key` exclude each other."""

    id: NewId | None = None
    key: NewKey | None = None
    cwd: NewFolder | None = None
    parent_session: str | None = None
    parent_entry: str | None = None
    title: str | None = None


async def write_new(
    host: SessionHost,
    body: NewSession,
    chosen: str | None = None,
    first: Sequence[Payload] = (),
    **options: Unpack[AppendOptions],
) -> Session:
    """Write a new session, so that it exists before anything is appended to it.

    Args:
        host: The host.
        body: What is asked for.
        chosen: Its id; None for any.
        first: What it begins with.
        **options: Those of the append of that.

    Raises:
        SessionExists: There is one with this id.
    """
    core = host.core
    async with SessionHost(clock=core.runtime.now, dialect=core.dialect.name) as drafts:  # type: ignore[arg-type]  # a name
        draft = await drafts.create(
            chosen, cwd=body.cwd, key=body.key, parent_session=body.parent_session, parent_entry=body.parent_entry
        )
        if body.title is not None:
            await draft.append(SessionInfo(name=body.title))
        if first:
            await draft.append_many(first, **options)
        there = await host.get_session(draft.id)
        if there is not None and there.id == draft.id:  # perhaps in a file of another name
            raise SessionExists(f"session {body.key or draft.id!r} already exists: load it, or choose another name")
        return await host.put(draft)


def check_own_key(principal: Principal, key: str | None) -> None:
    """Refuse to create a session that its creator could not see."""
    if not principal.sees(key):
        raise NotAuthorized(
            f"this token creates sessions with keys that begin with {principal.prefix!r} alone", known=True
        )

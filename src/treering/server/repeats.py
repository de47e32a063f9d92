"""Requests that were carried out: what a repetition with the same Idempotency-Key gets, where no log says it.

Appends are known by their log, for ever, and a session whose id was derived from the key by that id. What is here are
the other ones: they are known as long as the server runs, up to a number of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct

from ..events.errors import CommandConflict
from .principals import Principal

DONE_MAX = 10_000
"""The requests that are known, the last ones."""

_IDS = uuid.UUID("6f1d3a52-7a0e-5e0b-9a43-1c7f3b0a9d21")
"""The namespace of the ids of sessions that are created with an Idempotency-Key."""


def id_for(principal: Principal, key: str | None) -> str | None:
    """Return the id of a session that a request with an Idempotency-Key creates, the same for each repetition."""
    return None if key is None else str(uuid.uuid5(_IDS, f"{principal.name}\n{key}"))


class _Doing(Struct):
    """A request that is carried out, or was."""

    what: str
    over: anyio.Event


class Repeats:
    """The requests that a server has carried out."""

    def __init__(self) -> None:
        self._created: dict[tuple[str, str], tuple[str, str]] = {}
        self._done: dict[tuple[str, str, str], _Doing] = {}

    def note_created(self, principal: Principal, key: str | None, what: str, session_id: str) -> None:
        """Note which session a request with an Idempotency-Key created; `what` are words that no other request has."""
        if key is not None:
            self._created[principal.name, key] = what, session_id
            if len(self._created) > DONE_MAX:
                del self._created[next(iter(self._created))]

    def created(self, principal: Principal, key: str | None, what: str) -> str | None:
        """Return the session that this very request created before, if it did; see `note_created`.

        Raises:
            CommandConflict: The key was used for something else.
        """
        before, session_id = (what, None) if key is None else self._created.get((principal.name, key), (what, None))
        if before != what:
            raise CommandConflict("this Idempotency-Key was used for another request: use a fresh one")
        return session_id

    async def once(
        self, principal: Principal, key: str | None, session_id: str, what: str, do: Callable[[], Awaitable[None]]
    ) -> bool:
        """Do something to a session, unless this very request did it before; return whether it was done now.

        A repetition that comes while the first one is carried out waits for it. What failed is done again.

        Args:
            principal: Who asks.
            key: The Idempotency-Key, if any: without one it is done each time.
            session_id: The session, to which the key belongs.
            what: What is to be done, in words that no other request has.
            do: Does it.

        Raises:
            CommandConflict: The key was used for something else.
        """
        if key is None:
            await do()
            return True
        name = principal.name, session_id, key
        while (before := self._done.get(name)) is not None:
            if before.what != what:
                raise CommandConflict("this Idempotency-Key was used for another request: use a fresh one")
            if before.over.is_set():
                return False
            await before.over.wait()
        doing = self._done[name] = _Doing(what, anyio.Event())
        try:
            await do()
        except BaseException:
            self._done.pop(name, None)
            raise
        finally:
            doing.over.set()
        if len(self._done) > DONE_MAX:
            del self._done[next(iter(self._done))]
        return True

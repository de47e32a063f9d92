"""Requests that were carried out: what a repetition with the same Idempotency-Key gets, where no log says it.

Appends are known by their log, for ever, and a session whose id was derived from the key by that id. What is here are
the other ones: they are known as long as the server runs, up to a number of them. All requests of one key take turns.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

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


def used_otherwise(what: str) -> CommandConflict:
    """Return the error of a request whose Idempotency-Key another one had: what that was for, in a word or two."""
    return CommandConflict(f"this Idempotency-Key was used for another {what}: use a fresh one")


class Request(Struct):
    """What a server knows of the request of an Idempotency-Key.

    Attributes:
        what: What it asks for.
        result: The id of the session that it created, or ""; None until it was carried out.
        over: Set when it is no longer carried out.
    """

    what: str
    result: str | None = None
    over: anyio.Event | None = None


class Repeats:
    """The requests that a server has carried out."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Request] = {}

    @asynccontextmanager
    async def request(self, who: Principal, key: str | None, what: str, session_id: str) -> AsyncGenerator[Request]:
        """Carry out a request, which sets `result`, or find it there if this very request was carried out before.

        A repetition that comes meanwhile waits. What failed, or set no `result`, is done again.

        Args:
            who: Who asks.
            key: The Idempotency-Key, if any: without one each request is the first.
            what: What is to be done, in words that no other request has.
            session_id: The session to which the key belongs; "" for the sessions that are created.

        Raises:
            CommandConflict: The key was used for something else.
        """
        if key is None:
            yield Request(what)
            return
        name = who.name, session_id, key
        while (request := self._known.get(name)) is not None:
            if request.what != what:
                raise used_otherwise("request")
            if request.over is None:
                break
            await request.over.wait()
        else:
            request = self._known[name] = Request(what)
        over = request.over = anyio.Event()
        try:
            yield request
        finally:
            request.over = None
            over.set()
            if request.result is None:
                self._known.pop(name, None)
        if len(self._known) > DONE_MAX:
            del self._known[next(iter(self._known))]

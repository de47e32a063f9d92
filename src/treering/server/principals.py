"""Who asks, and what they may do: a role, and the keys within which it holds.

A principal with a prefix sees the sessions whose key begins with it, and no others: to it they do not exist, in
listings, counts, searches, streams and errors alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from starlette.requests import HTTPConnection

from ..events.errors import InvalidInput

Role: TypeAlias = Literal["read", "write", "admin"]
"""What a principal may do: each role includes those before it."""

Right: TypeAlias = Literal["none", "read", "write", "admin"]
"""What a route asks for; "none" is open to everybody."""

_ORDER = {word: place for place, word in enumerate(get_args(Right))}


class Principal(Struct, frozen=True, kw_only=True):
    """Somebody whom a server knows.

    Attributes:
        name: Their name in logs, such as the id of a token; no secret.
        role: What they may do.
        prefix: What the keys of their sessions begin with; None for all sessions, with or without a key.
        expires: When a server stops to know them.
        token: The id of their token, if the server keeps it.
    """

    name: str
    role: Role
    prefix: str | None = None
    expires: datetime | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if self.prefix is not None and not self.prefix.endswith(":"):
            raise InvalidInput(
                f"the prefix {self.prefix!r} covers longer names too: give {self.prefix + ':'!r}, which ends with ':'"
            )

    def may(self, right: Right) -> bool:
        """Return whether this principal has a right."""
        return _ORDER[self.role] >= _ORDER[right]

    def sees(self, key: str | None) -> bool:
        """Return whether a session with this key exists for this principal."""
        return self.prefix is None or (key is not None and key.startswith(self.prefix))


EVERYBODY = Principal(name="local", role="admin")
"""The principal of all requests to a server that has no tokens and listens on loopback alone."""

NOBODY = Principal(name="nobody", role="read")
"""Who asks without a token, where none is needed."""

Authorize: TypeAlias = Callable[[HTTPConnection], Awaitable[Principal | None]]
"""Tells who sends a request, by a program's own means; None is nobody."""

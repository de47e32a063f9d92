"""What names sessions of the Agent Development Kit, and the sessions in which the state of users and apps is."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

BEGUN = "adk_session"
CHANGE = "adk_state"
"""The types of the custom entries: the beginning of a session, and a change of the state of a user or an app."""

TEMPORARY = "temp:"
"""The prefix of state that is not kept."""

APP, USER = "app:", "user:"
"""The prefixes of state that other sessions see, too."""


class Scope(NamedTuple):
    """A scope's prefix, the key of its session, and what people see of that."""

    prefix: str
    key: str
    title: str


class Name(NamedTuple):
    """What names a session of the kit."""

    app_name: str
    user_id: str
    session_id: str

    @property
    def key(self) -> str:
        """The key of its session here."""
        return "/".join(quote(part, safe="") for part in self)

    def scope(self, prefix: str) -> Scope:
        """Return the scope of the state with a prefix."""
        app, user = quote(self.app_name, safe=""), quote(self.user_id, safe="")
        if prefix == APP:
            return Scope(prefix, f"app:{app}", f"State of {self.app_name}")
        return Scope(prefix, f"user:{app}/{user}", f"State of {self.user_id} in {self.app_name}")

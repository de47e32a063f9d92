"""The address of a database: what is ours in its URL, and what is libpq's.

Everything that libpq takes is passed on as it is: `postgresql://user@host:port/db?sslmode=require`, several hosts, a
socket's directory (`?host=/run/postgresql`), a service. Passwords belong into `.pgpass` or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct
from psycopg import ProgrammingError, conninfo

from ...events.errors import InvalidInput
from .archive.objects import check_place

T = TypeVar("T")

SCHEMA = "treering"
"""The schema of the tables if the address names none."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_LEASE_S_MIN, _LEASE_S_MAX = 0.5, 3600.0


class Address(Struct, frozen=True):
    """Where a store is, and how it behaves there.

    Attributes:
        conninfo: What libpq is given.
        schema: The schema of the tables.
        lease_s: The seconds after which other hosts may take what a host holds that no longer renews its lease.
        wait_s: The seconds for which a session is waited for that another host holds.
        asynchronous: Whether a server is accepted that acknowledges commits before they are on disk.
        place: The host and the database, for messages; it holds no password.
        listening: What libpq is given to hear of changes, if `conninfo` leads through a pooler.
        archive: Where archived sessions are kept as objects; None if they stay in the database.
    """

    conninfo: str
    schema: str
    lease_s: float
    wait_s: float
    asynchronous: bool
    place: str
    listening: str | None = None
    archive: str | None = None

    @property
    def application(self) -> str:
        """The name of our connections on the server, by which those for one schema can be told from others."""
        return f"treering:{self.schema}"


def parse_address(url: str) -> Address:
    """Read a URL.

    Args:
        url: `postgresql://…` or `postgres://…`. Ours among its parameters are `schema`, `lease_s` (15), `wait_s` (the
            lease and one second more), `synchronous_commit`, `listen_url` (a direct address, in percent encoding,
            if the URL leads through a pooler) and `archive` (where archived sessions are kept as objects; see
            `treering.stores.postgres.archive.objects`); the rest is libpq's.

    Raises:
        InvalidInput: It is not an address, or one of our parameters has a wrong value. The message holds no password.
        ExtraMissing: A package is not installed that the place of archived sessions needs.
    """
    base, _, query = url.partition("?")
    ours: dict[str, str] = {}
    theirs: list[tuple[str, str]] = []
    for name, value in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):  # no space to libpq, either
        if name in ("schema", "lease_s", "wait_s", "synchronous_commit", "listen_url", "archive"):
            ours[name] = value
        else:
            theirs.append((name, value))
    text = f"{base}?{urlencode(theirs, quote_via=quote)}" if theirs else base
    known = _known(text)
    listening = parse_address(ours["listen_url"]).conninfo if "listen_url" in ours else None
    schema = ours.get("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise InvalidInput(f"{schema!r} is no schema for sessions: give up to 48 of a-z, 0-9 and '_'")
    lease_s = _seconds("lease_s", ours.get("lease_s", "15"), _LEASE_S_MIN)
    wait_s = _seconds("wait_s", ours["wait_s"], 0) if "wait_s" in ours else lease_s + 1
    commit = ours.get("synchronous_commit", "")
    if commit not in ("", "off"):
        raise InvalidInput(f"synchronous_commit={commit!r} is the server's to say: set it there, or give 'off' here")
    archive = check_place(ours["archive"]) if "archive" in ours else None
    return Address(text, schema, lease_s, wait_s, commit == "off", _place(known), listening, archive)


def _known(text: str) -> dict[str, Any]:
    """Return what an address says, as libpq reads it."""
    try:
        return conninfo.conninfo_to_dict(text)
    except ProgrammingError:  # its message repeats the URL, and with it a password
        raise InvalidInput(
            "the address of the database cannot be read: give 'postgresql://user@host:port/database', with "
            "parameters of libpq after a '?', and special characters in percent encoding"
        ) from None


def _seconds(name: str, text: str, least: float) -> float:
    value = _parsed(float, text)
    if value is None or not least <= value <= _LEASE_S_MAX:
        raise InvalidInput(f"{name}={text!r} is no number of seconds from {least:g} to {_LEASE_S_MAX:g}")
    return value


def _parsed(kind: Callable[[str], T], text: str) -> T | None:
    try:
        return kind(text)
    except ValueError:
        return None


def _place(known: dict[str, Any]) -> str:
    """Return what is known of a database without asking a server."""
    host = known.get("host") or known.get("hostaddr") or known.get("service") or "the default server"
    port = f":{known['port']}" if known.get("port") else ""
    return f"{host}{port}/{known.get('dbname') or known.get('user') or ''}"

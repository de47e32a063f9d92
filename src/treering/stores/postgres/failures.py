"""What the driver reports, in the words of the tree: the place, what happened, and what to do; never a password."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as refusals

from ...events.errors import InvalidInput, ReadOnly, StoreUnavailable, TreeringError

_STATEMENT = "statement "

_ADVICE_ON_CONNECTING = (
    (r"database .* does not exist", "create it, or correct its name in the address"),
    (r"role .* does not exist|password|authentication|pg_hba", "check role and password (.pgpass, PGPASSWORD)"),
    (r"permission denied for database", "grant its role CONNECT, as 'treering postgres grants' prints it"),
    (r"too many (clients|connections)|remaining connection slots", "use fewer hosts, or raise max_connections"),
    (r"translate host name|No such file|not known|resolve", "correct the host in the address"),
)
"""A failed connection has no code, only a text; in another language than English, the general advice has to do."""


def name_statement(error: psycopg.Error, name: str) -> None:
    """Note in an error which statement it is about."""
    if name:
        error.add_note(_STATEMENT + name)


def told(error: psycopg.Error, place: str) -> TreeringError:
    """Return the error of the tree for one of the driver.

    Args:
        error: The error, with a note that names the statement if it is about one.
        place: The host and the database.
    """
    where, reason = _where(error, place), _reason(error)
    if isinstance(error, refusals.ReadOnlySqlTransaction):
        return ReadOnly(f"{where}: the server takes no writes ({reason}): connect to the primary server")
    if isinstance(error, refusals.InsufficientPrivilege):
        return ReadOnly(
            f"{where}: the role may not do this ({reason}): use another one, or run what 'treering postgres grants' "
            f"prints as the role that owns the tables"
        )
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"{where}: the database cannot hold this ({reason})")
    return StoreUnavailable(f"{where}: the database does not serve ({reason}): try again when it does")


def told_connecting(error: psycopg.Error, place: str) -> TreeringError:
    """Return the error of the tree for a connection that could not be made."""
    reason = _reason(error)
    advice = next((advice for words, advice in _ADVICE_ON_CONNECTING if re.search(words, reason)), None)
    advice = advice or "check the address, and that the server runs"
    return StoreUnavailable(f"{place}: the database cannot be reached ({reason}): {advice}")


def _where(error: psycopg.Error, place: str) -> str:
    notes: list[str] = getattr(error, "__notes__", [])
    return next((f"{place}, {note}" for note in notes if note.startswith(_STATEMENT)), place)


def _reason(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    return " ".join(text.split()) or type(error).__name__

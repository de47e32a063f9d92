"""Sessions in PostgreSQL, which many hosts share: `SessionHost("postgresql://user@host/database?schema=treering")`.

A session lives on one host at a time, which holds its log by an epoch; a host that died loses what it held when its
lease ends, and one that was paused can write nothing any more that another host has taken. Needs the extra `postgres`.
"""

from ...events.errors import ExtraMissing

try:
    from .opening import store_at
    from .store import PostgresStore
except ModuleNotFoundError as error:
    if error.name != "psycopg":
        raise
    raise ExtraMissing("sessions in PostgreSQL need the package psycopg: pip install 'treering[postgres]'") from error

__all__ = ["PostgresStore", "store_at"]

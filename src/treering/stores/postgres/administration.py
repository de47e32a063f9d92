"""What operators do with a database of sessions: look at it, migrate it, grant rights, sweep, say that it was restored.

`treering postgres` is this for people. Nothing here looks into a session, and nothing but `migrate` changes a table.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from msgspec import Struct
from psycopg import sql

from ...events.errors import InvalidInput, ReadOnly, UnsupportedVersion
from . import schema
from .address import parse_address
from .archive.sweeping import Swept, sweep
from .connections import BoundedConnection, Connections, row_of
from .statements import filled_in

_SERVER = """
select current_setting('server_version'), current_user, current_setting('server_encoding'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), pg_is_in_recovery()
"""

_HOSTS = """
select h.name, extract(epoch from h.until - now())::float8, h.draining,
    (select count(*) from {s}.logs l where l.owner = h.id)
from {s}.hosts h where h.until > now() order by h.name
"""

_SIZE = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'
"""

_ARCHIVED = "select count(*), coalesce(sum(object_size), 0)::int8 from {s}.logs where object is not null"

_VERSION_OF_OBJECTS = 6

_RESTORED = """
with given_up as (update {s}.logs set owner = null where owner is not null and header is not null),
unwritten as (delete from {s}.logs where header is null),
gone as (delete from {s}.hosts)
update {s}.meta set restored = restored + 1 returning restored
"""

_CUT_OFF = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = %s and pid <> pg_backend_pid()
"""

_GRANTS: LiteralString = """\
-- The rights of three roles on the sessions in schema {s}.
--
-- 1. Once, as a superuser:
--      create role {owner} login;
--      create role {runner} login;
--      create role {reader} login;
--      create schema {s} authorization {owner};
-- 2. As {owner}: treering postgres migrate
-- 3. As {owner}, what follows; tables of later versions are covered, too.

-- {runner}: hosts, which read and write sessions, and change no table
grant usage on schema {s} to {runner};
grant select, insert, update, delete on all tables in schema {s} to {runner};
revoke insert, update, delete on {s}.meta from {runner};
grant usage on all sequences in schema {s} to {runner};
grant execute on all functions in schema {s} to {runner};
alter default privileges for role {owner} in schema {s}
    grant select, insert, update, delete on tables to {runner};
alter default privileges for role {owner} in schema {s} grant usage on sequences to {runner};
alter default privileges for role {owner} in schema {s} grant execute on functions to {runner};

-- {reader}: reads sessions, by treering or by SQL, and writes nothing
grant usage on schema {s} to {reader};
grant select on all tables in schema {s} to {reader};
grant execute on all functions in schema {s} to {reader};
alter default privileges for role {owner} in schema {s} grant select on tables to {reader};
alter default privileges for role {owner} in schema {s} grant execute on functions to {reader};
"""

_ROLE = re.compile(r"[^\0]{1,63}")


class HostStatus(Struct, frozen=True):
    """A host that is alive.

    Attributes:
        name: Its machine and process.
        sessions: How many sessions it holds.
        left_s: The seconds until its lease ends, unless it is renewed.
        draining: Whether it takes no further sessions.
    """

    name: str
    sessions: int
    left_s: float
    draining: bool


class DatabaseStatus(Struct, frozen=True):
    """The state of a database of sessions.

    Attributes:
        place: The host, the port and the database.
        role: The role by which we are connected.
        server: The version of the server.
        encoding: The encoding of the database.
        synchronous_commit: What a commit waits for.
        standbys: The standbys that a commit waits for, as the server is configured; "" for none.
        standby: Whether the server is a standby, which takes no writes.
        schema: The name of the schema.
        version: Its version; 0 if there is none yet.
        newest: The version that this program uses.
        restored: How often the database was said to be restored from a backup.
        bytes: The size of its tables and indexes.
        archived: How many sessions are kept as objects, outside the database.
        archived_bytes: The size of these objects.
        hosts: The hosts that are alive.
    """

    place: str
    role: str
    server: str
    encoding: str
    synchronous_commit: str
    standbys: str
    standby: bool
    schema: str
    version: int
    newest: int
    restored: int
    bytes: int
    archived: int
    archived_bytes: int
    hosts: list[HostStatus]


class Migrated(Struct, frozen=True):
    """The versions of a schema before and after a migration."""

    schema: str
    before: int
    after: int


class Administration:
    """The operators' side of one database. Every method blocks, and connects by itself.

    Args:
        url: The address; see `treering.stores.postgres.address`.

    Raises:
        InvalidInput: The address cannot be read.
    """

    def __init__(self, url: str) -> None:
        self.address = parse_address(url)
        self._connections = Connections(self.address)
        self._of = filled_in(self.address.schema)

    def status(self) -> DatabaseStatus:
        """Return the state of the database, without changing anything.

        Raises:
            StoreUnavailable: The server cannot be reached.
            ReadOnly: The role may not look at the schema.
        """
        with self._connected() as connection:
            version, role, encoding, commit, standbys, is_standby = row_of(connection, _SERVER)
            found = schema.status(connection, self.address)
            restored, hosts = 0, list[HostStatus]()
            if found.version:
                (restored,) = row_of(connection, self._of("select restored from {s}.meta"))
                rows = connection.execute(self._of(_HOSTS))
                hosts = [HostStatus(name, count, left_s, draining) for name, left_s, draining, count in rows]
            archived = archived_bytes = 0
            if found.version >= _VERSION_OF_OBJECTS:
                archived, archived_bytes = row_of(connection, self._of(_ARCHIVED))
            (size,) = row_of(connection, _SIZE, [self.address.schema])
            return DatabaseStatus(
                place=self.address.place,
                role=role,
                server=version,
                encoding=encoding,
                synchronous_commit=commit,
                standbys=standbys,
                standby=is_standby,
                schema=self.address.schema,
                version=found.version,
                newest=schema.VERSION,
                restored=restored,
                bytes=size,
                archived=archived,
                archived_bytes=archived_bytes,
                hosts=hosts,
            )

    def migrate(self) -> Migrated:
        """Bring the schema to the version of this program; without one, make it.

        Raises:
            UnsupportedVersion: A newer program has migrated it.
            ReadOnly: The role may not, or the server is a standby.
            StoreUnavailable: The server cannot be reached, or others hold locks on the tables.
        """
        with self._connected() as connection:
            connection.is_migrating = True
            before = schema.status(connection, self.address)
            after = schema.migrate(connection, self.address)
            return Migrated(self.address.schema, before.version, after.version)

    def restored(self) -> int:
        """Note that the database was restored from a backup, so that nobody mistakes its present for its past.

        Every session gets a new generation: whoever follows one begins anew, since a place in it may have held other
        entries. Every lease ends, and hosts that run are cut off.

        Returns:
            How often it was restored by now.

        Raises:
            InvalidInput: There are no sessions here.
            ReadOnly: The role may not do this, or not cut off the hosts that run; then nothing was changed.
            StoreUnavailable: The server cannot be reached.
        """
        with self._connected() as connection:
            if not schema.status(connection, self.address).version:
                raise InvalidInput(f"{self.address.place}: there is no schema {self.address.schema!r} to note it in")
            with connection.transaction():
                connection.execute(self._of("lock table {s}.meta"))  # whoever connects anew waits for the new count
                try:
                    connection.execute(_CUT_OFF, [self.address.application])
                except psycopg.errors.InsufficientPrivilege as error:
                    raise ReadOnly(
                        f"{self.address.place}: hosts of another role still use the sessions: stop them first"
                    ) from error
                (count,) = row_of(connection, self._of(_RESTORED))
            return int(count)

    def sweep(self, *, dry_run: bool = False) -> Swept:
        """Delete the objects of archived sessions that crashes left, which nothing uses. Hosts may run meanwhile.

        Args:
            dry_run: Only tell which.

        Raises:
            InvalidInput: The address does not say where objects are.
            UnsupportedVersion: The schema is older than objects.
            StoreUnavailable: The server cannot be reached, or the place of objects.
        """
        place = self.address.archive
        if place is None:
            raise InvalidInput(
                f"{self.address.place}: the address does not say where archived sessions are kept: add "
                f"'archive=s3://bucket/prefix' to its parameters"
            )
        with self._connected() as connection:
            found = schema.status(connection, self.address)
            if found.version < _VERSION_OF_OBJECTS:
                raise UnsupportedVersion(
                    f"{self.address.place}: schema {self.address.schema!r} has version {found.version}, and objects "
                    f"begin with {_VERSION_OF_OBJECTS}: run 'treering postgres migrate' first"
                )
            return sweep(connection, self.address.schema, place, dry_run=dry_run)

    def grants(self, *, owner: str, runner: str, reader: str) -> str:
        """Return the SQL by which three roles get their rights; nothing is executed, and nothing is connected.

        Args:
            owner: Makes and migrates the tables.
            runner: The role of hosts, which read and write sessions.
            reader: Reads sessions, through a host or by SQL, and writes nothing.

        Raises:
            InvalidInput: A name cannot be that of a role, or two are the same.
        """
        roles = {"owner": owner, "runner": runner, "reader": reader}
        for what, name in roles.items():
            if not _ROLE.fullmatch(name) or len(name.encode()) > 63:
                raise InvalidInput(f"{name!r} is no name of a role ({what}): give 1 to 63 bytes without a NUL")
        if len(set(roles.values())) < len(roles):
            raise InvalidInput("the owner, the runner and the reader are the same role: give three")
        named = {what: sql.Identifier(name) for what, name in roles.items()}
        return sql.SQL(_GRANTS).format(s=sql.Identifier(self.address.schema), **named).as_string(None)

    @contextmanager
    def _connected(self) -> Generator[BoundedConnection]:
        """Lend a connection to a block, whose errors are told in the words of the tree."""
        connection = self._connections.connect()
        try:
            yield connection
        except psycopg.Error as error:
            raise self._connections.told(error) from error
        finally:
            connection.close()

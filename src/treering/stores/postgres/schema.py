"""The tables, made and changed by numbered migrations.

The lease is a row for each host (`hosts`), and a log belongs to a host as long as that row has not expired; what makes
writing safe is the epoch in the log's row, which grows with each change of hands. Lines are found by `history`, a
number that a log gets when it is begun or replaced, so that lines of two histories never mix.

Migrations go forward only. The first host that finds an older schema runs those that are missing, under a lock, each in
a transaction of its own. Hosts of the version before go on meanwhile and afterwards, until they are restarted: a
migration must leave what their statements need.
"""

from __future__ import annotations

import time
from typing import LiteralString, TypeAlias

import psycopg
from msgspec import Struct
from psycopg import errors as refusals
from psycopg import sql
from psycopg.rows import TupleRow

from ...events.errors import InvalidInput, ReadOnly, StoreUnavailable, UnsupportedVersion
from .address import Address

Connection: TypeAlias = psycopg.Connection[TupleRow]
Cursor: TypeAlias = psycopg.Cursor[TupleRow]

LOCK = 0x7472_6565_7269_6E67
"""The advisory lock under which schemas are changed."""

LOCK_S = 2
"""The longest time in seconds for which a migration waits for a lock on a table before it lets others pass."""

TRIES_MAX = 30
"""How often a migration is tried that waits for a lock on a table."""

BETWEEN_TRIES_S = 0.5
"""How long others are let pass before the next try, in seconds."""

_TABLES: LiteralString = """
create table {s}.meta (one boolean primary key default true check (one), version integer not null,
    restored integer not null default 0);
insert into {s}.meta (version) values (0);
create sequence {s}.epochs;
create sequence {s}.histories;
create table {s}.hosts (id text primary key, name text not null, address text, until timestamptz not null,
    draining boolean not null default false);
create table {s}.logs (ref text collate "C" primary key, owner text, epoch bigint not null, history bigint,
    head bigint not null default 0, header bytea, size bigint not null default 0,
    changed timestamptz not null default clock_timestamp(), stale boolean not null default true)
    with (fillfactor = 70);
create index logs_of_owner on {s}.logs (owner) where owner is not null;
create index logs_stale on {s}.logs (ref) where stale and header is not null;
create table {s}.lines (history bigint not null, seq bigint not null, line bytea not null, primary key (history, seq))
    partition by hash (history);
create table {s}.beside (ref text collate "C" not null, kind text collate "C" not null, history bigint not null,
    seq bigint not null, data bytea not null, primary key (ref, kind));
"""

PARTITIONS = 16
"""Into how many tables the lines of a new schema are divided."""

# Text in PostgreSQL holds neither a NUL nor half of a character: read as text, one of them would make all of its line
# unreadable. Those who look at JSON are shown U+FFFD in their place; the bytes of the line are as they were written.
_VIEWS: LiteralString = r"""
create function {s}.json_of(line bytea) returns json language plpgsql immutable strict as $body$
declare
    source text;
    -- An escape counts after an even number of backslashes. Pairs are set aside: JSON itself holds no chr(1).
    escape constant text := '(?<!\\)((?:\\\\)*)\\';
begin
    source := convert_from(line, 'UTF8');
    if source ~* '\\u(0000|d[89a-f])' then
        source := regexp_replace(
            source, escape || '(ud[89ab]..)\\(ud[c-f]..)', '\1' || chr(1) || '\2' || chr(1) || '\3', 'gi');
        source := regexp_replace(source, escape || 'u(0000|d[89a-f]..)', '\1\\ufffd', 'gi');
        source := replace(source, chr(1), '\');
    end if;
    return source::json;
exception when others then
    return null;
end $body$;
create function {s}.text_of(object json, name text) returns text language plpgsql immutable strict as $body$
begin
    return object ->> name;
exception when others then
    return null;
end $body$;
create view {s}.sessions as
    select l.ref as session, {s}.text_of(h.header, 'id') as id, {s}.text_of(h.header, 'key') as key,
        {s}.text_of(h.header, 'cwd') as cwd, {s}.text_of(h.header, 'timestamp') as created, l.head as entries,
        l.size as bytes, l.changed, l.epoch, o.name as host, l.history
    from {s}.logs l left join {s}.hosts o on o.id = l.owner and o.until > now(),
        lateral (select {s}.json_of(l.header) as header) h
    where l.header is not null;
create view {s}.entries as
    select s.session, e.seq, {s}.text_of(j.entry, 'id') as id,
        coalesce({s}.text_of(j.entry, 'parent_id'), {s}.text_of(j.entry, 'parentId')) as parent_id,
        {s}.text_of(j.entry, 'type') as type, {s}.text_of(j.entry, 'timestamp') as timestamp, j.entry, e.line
    from (select ref as session, history from {s}.logs where header is not null) s
        join {s}.lines e on e.history = s.history, lateral (select {s}.json_of(e.line) as entry) j;
create function {s}.path(of_session text, leaf text) returns setof {s}.entries language sql stable as $body$
    with recursive mine as materialized (select * from {s}.entries where session = of_session),
    up as (
        select mine.*, 0 as steps from mine where id = leaf
        union all
        select mine.*, up.steps + 1 from up join mine on mine.id = up.parent_id and mine.seq < up.seq
    )
    select session, seq, id, parent_id, type, timestamp, entry, line from up order by steps desc
$body$;
"""

_INBOX: LiteralString = """
create table {s}.inbox (n bigint generated always as identity primary key, id text collate "C" not null unique,
    ref text collate "C" not null, sender text not null, call bytea not null, until timestamptz not null, taken text,
    answer bytea);
create index inbox_waiting on {s}.inbox (ref) where taken is null;
create index inbox_answered on {s}.inbox (sender) where answer is not null;
"""

_ROWS: LiteralString = """
create table {s}.rows (ref text collate "C" primary key, log text collate "C" references {s}.logs on delete cascade,
    size bigint not null, changed bigint not null, identity bigint not null, data bytea not null,
    id text collate "C", key text collate "C", name text collate "C", title text collate "C", parent text collate "C",
    project text collate "C", project_hash text collate "C", status text collate "C", word text collate "C",
    archived boolean, created timestamptz, modified timestamptz, last_entry timestamptz, used timestamptz,
    looked text collate "C");
create index rows_of_log on {s}.rows (log) where log is not null;
create index rows_by_use on {s}.rows (used, ref) where log is not null;
create index rows_by_use_archived on {s}.rows (archived, used, ref) where log is not null;
create index rows_by_creation on {s}.rows (created, ref) where log is not null;
create index rows_by_message on {s}.rows (modified, ref) where log is not null;
create index rows_by_entry on {s}.rows (last_entry, ref) where log is not null;
create index rows_by_title on {s}.rows (left(coalesce(title, ''), 200)) where log is not null;
create index rows_by_id on {s}.rows (left(id, 200)) where log is not null;
create index rows_by_key on {s}.rows (left(key, 200)) where log is not null and key is not null;
create index rows_by_name on {s}.rows (left(name, 200)) where log is not null and name is not null;
create index rows_by_parent on {s}.rows (left(parent, 200)) where log is not null and parent is not null;
create index rows_by_project on {s}.rows (left(project, 200)) where log is not null and project is not null;
create index rows_by_hash on {s}.rows (left(project_hash, 200)) where log is not null and project_hash is not null;
create index rows_counted on {s}.rows (archived, status, word) where log is not null;
create table {s}.currents (project text collate "C" primary key, ref text collate "C" not null);
create index currents_of_log on {s}.currents (ref);
"""

_TEXTS: LiteralString = """
alter table {s}.logs add column unsearched boolean not null default true;
create index logs_unsearched on {s}.logs (ref) where unsearched and header is not null;
create table {s}.indexed (number bigint generated always as identity primary key, ref text collate "C" not null unique,
    log text collate "C" references {s}.logs on delete cascade, stamp text not null default '',
    generation text not null default '', seq bigint not null default 0, crc bigint not null default 0);
create index indexed_of_log on {s}.indexed (log) where log is not null;
create table {s}.texts (log bigint not null references {s}.indexed on delete cascade, seq bigint not null,
    entry_id text not null, role text collate "C" not null, tools text[] not null, at timestamptz not null,
    body bytea not null, grams integer[] not null, primary key (log, seq));
create index texts_grams on {s}.texts using gin (grams);
"""

# Hosts of earlier versions do not know of objects: what they would append to a log in one is refused by the check.
_OBJECTS: LiteralString = """
alter table {s}.meta add column identity uuid not null default gen_random_uuid();
alter table {s}.logs add column object text, add column object_history bigint, add column object_head bigint,
    add column object_hash bytea, add column object_size bigint;
alter table {s}.logs add constraint logs_of_objects check (
    object is null or (object_history = history and object_head = head and object_hash is not null
        and object_size is not null and header is not null)
) not valid;
create index logs_in_objects on {s}.logs (ref) where object is not null;
create or replace view {s}.sessions as
    select l.ref as session, {s}.text_of(h.header, 'id') as id, {s}.text_of(h.header, 'key') as key,
        {s}.text_of(h.header, 'cwd') as cwd, {s}.text_of(h.header, 'timestamp') as created, l.head as entries,
        l.size as bytes, l.changed, l.epoch, o.name as host, l.history, l.object
    from {s}.logs l left join {s}.hosts o on o.id = l.owner and o.until > now(),
        lateral (select {s}.json_of(l.header) as header) h
    where l.header is not null;
"""

_TRIGRAMS = (
    "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where extname = 'pg_trgm'"
)


def _first(cursor: Cursor, schema: str) -> None:
    name = sql.Identifier(schema)
    cursor.execute(sql.SQL(_TABLES).format(s=name))
    for number in range(PARTITIONS):
        cursor.execute(
            sql.SQL("create table {} partition of {} for values with (modulus {}, remainder {})").format(
                sql.Identifier(schema, f"lines_{number}"), sql.Identifier(schema, "lines"), PARTITIONS, number
            )
        )
    cursor.execute(sql.SQL(_VIEWS).format(s=name))


def _inbox(cursor: Cursor, schema: str) -> None:
    cursor.execute(sql.SQL(_INBOX).format(s=sql.Identifier(schema)))


def _rows(cursor: Cursor, schema: str) -> None:
    """Make the rows of a listing, which every log lacks at first."""
    name = sql.Identifier(schema)
    cursor.execute(sql.SQL(_ROWS).format(s=name))
    found = cursor.execute(_TRIGRAMS).fetchone()
    if found is not None:
        cursor.execute(
            sql.SQL("create index rows_looked on {s}.rows using gin (looked {t}.gin_trgm_ops)").format(
                s=name, t=sql.Identifier(found[0])
            )
        )


def _hosts(cursor: Cursor, schema: str) -> None:
    cursor.execute(
        sql.SQL("alter table {}.hosts add column renewed timestamptz not null default now()").format(
            sql.Identifier(schema)
        )
    )


def _texts(cursor: Cursor, schema: str) -> None:
    """Make the index of a search, which is empty until somebody asks for it."""
    cursor.execute(sql.SQL(_TEXTS).format(s=sql.Identifier(schema)))


def _objects(cursor: Cursor, schema: str) -> None:
    """Make room for where the lines of archived logs are that are no longer in the database."""
    cursor.execute(sql.SQL(_OBJECTS).format(s=sql.Identifier(schema)))


MIGRATIONS = (_first, _inbox, _rows, _hosts, _texts, _objects)
"""What makes each version from the one before, beginning with an empty schema. One that was published never changes."""

VERSION = len(MIGRATIONS)
"""The version of the schema that this program uses."""


class SchemaStatus(Struct, frozen=True):
    """The state of a schema.

    Attributes:
        schema: Its name.
        version: Its version; 0 if there is none yet.
        newest: The version that this program uses.
    """

    schema: str
    version: int
    newest: int = VERSION


def status(connection: Connection, address: Address) -> SchemaStatus:
    """Return the state of a schema, without changing it."""
    # Not `to_regclass`: within a transaction, it does not know of a schema that another host has just made.
    found = connection.execute(
        "select from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relname = 'meta'",
        [address.schema],
    ).fetchone()
    if found is None:
        return SchemaStatus(address.schema, 0)
    meta = sql.SQL("select version from {}").format(sql.Identifier(address.schema, "meta"))
    row = connection.execute(meta).fetchone()
    return SchemaStatus(address.schema, 0 if row is None else row[0])


def migrate(connection: Connection, address: Address) -> SchemaStatus:
    """Bring a schema to the version of this program.

    Args:
        connection: A connection in autocommit mode.
        address: The address, for its schema and for messages.

    Raises:
        UnsupportedVersion: A newer program has migrated it.
        ReadOnly: The role may not, or the server is a standby.
    """
    found = status(connection, address)
    try:
        while found.version < VERSION:
            found = _retried_step(connection, address)
    except (refusals.InsufficientPrivilege, refusals.ReadOnlySqlTransaction) as error:
        raise ReadOnly(
            f"{address.place}: schema {address.schema!r} has version {found.version}, this program needs {VERSION}, "
            f"and the role may not change it ({str(error).splitlines()[0]}): run 'treering postgres migrate' as the "
            f"role that owns it"
        ) from error
    if found.version > VERSION:
        raise UnsupportedVersion(
            f"{address.place}: schema {address.schema!r} has version {found.version}, and this program knows "
            f"{VERSION}: use the program of that version, or a newer one"
        )
    return found


def _retried_step(connection: Connection, address: Address) -> SchemaStatus:
    """Run the next migration, again and again if others hold locks on the tables.

    Raises:
        StoreUnavailable: They do not let go of them.
    """
    for _ in range(TRIES_MAX):
        try:
            return _step(connection, address)
        except refusals.LockNotAvailable:
            time.sleep(BETWEEN_TRIES_S)
    raise StoreUnavailable(
        f"{address.place}: the tables of schema {address.schema!r} could not be changed in {TRIES_MAX} tries, since "
        f"others hold locks on them: look for long transactions in pg_stat_activity, and try again"
    )


def _step(connection: Connection, address: Address) -> SchemaStatus:
    """Run the next migration, if one is missing, and return the state after it.

    Raises:
        LockNotAvailable: Another transaction holds a lock on the tables.
    """
    with connection.transaction(), connection.cursor() as cursor:
        # A session's lock would outlive the transaction behind a pooler, so each step takes it anew.
        cursor.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        # Whoever waits for a lock on a table makes all others wait behind it: appends must not stand still for long.
        cursor.execute("select set_config('lock_timeout', %s, true)", [f"{LOCK_S}s"])
        found = status(connection, address)
        if found.version >= VERSION:
            return found
        if found.version == 0:
            # `create schema if not exists` would need a right on the database also where the schema exists.
            if cursor.execute("select 1 from pg_namespace where nspname = %s", [address.schema]).fetchone() is None:
                cursor.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
            strangers = cursor.execute(
                "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s",
                [address.schema],
            ).fetchone()
            if strangers is not None and strangers[0]:
                raise InvalidInput(
                    f"{address.place}: schema {address.schema!r} holds other tables than those of sessions: choose "
                    f"another by '?schema=NAME', or an empty one"
                )
        MIGRATIONS[found.version](cursor, address.schema)
        meta = sql.Identifier(address.schema, "meta")
        cursor.execute(sql.SQL("update {} set version = %s").format(meta), [found.version + 1])
        return SchemaStatus(address.schema, found.version + 1)

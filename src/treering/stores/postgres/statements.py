"""The SQL of the store, with the schema's name filled in once."""

from __future__ import annotations

from psycopg import sql

_APPEND = """
with asked as (
    select * from unnest(%(refs)b::text[], %(epochs)b::int8[], %(histories)b::int8[], %(heads)b::int8[],
        %(counts)b::int8[], %(sizes)b::int8[], %(headers)b::bytea[])
        with ordinality as a (ref, epoch, history, head, count, size, header, n)
), moved as (
    update {s}.logs l set head = l.head + a.count, size = l.size + a.size, changed = clock_timestamp(), stale = true,
        history = case when a.header is null then l.history else nextval('{s}.histories') end,
        header = coalesce(a.header, l.header)
    from asked a
    where l.ref = a.ref and l.owner = %(owner)s and l.epoch = a.epoch and l.head = a.head
        and case when a.header is null then l.header is not null and l.history = a.history else l.header is null end
    returning a.n, l.history, l.head
), added as (
    insert into {s}.lines (history, seq, line)
    select m.history, t.seq, t.line
    from unnest(%(of)b::int8[], %(seqs)b::int8[], %(lines)b::bytea[]) as t (n, seq, line) join moved m using (n)
), told as (
    select count(pg_notify(%(channel)s, p)) as count from unnest(%(payloads)b::text[]) p
)
select n, history, head from moved, told
"""

_ACQUIRE = """
insert into {s}.logs as l (ref, owner, epoch)
select r, %(owner)s, nextval('{s}.epochs') from unnest(%(refs)s::text[]) r
on conflict (ref) do update set owner = excluded.owner, epoch = excluded.epoch
    where l.owner is null or l.owner = excluded.owner
        or not exists (select from {s}.hosts h where h.id = l.owner and h.until > now())
returning ref, epoch, history, head, header
"""

_HOLDERS = """
select l.ref, h.name, h.address, extract(epoch from h.until - now())::float8
from {s}.logs l join {s}.hosts h on h.id = l.owner and h.until > now() where l.ref = any(%(refs)s)
"""

_RENEW = """
with me as (
    insert into {s}.hosts (id, name, until) values (%(owner)s, %(name)s, now() + %(lease_s)s * interval '1 second')
    on conflict (id) do update set until = excluded.until returning id
)
select l.ref, l.epoch from me join {s}.logs l on l.owner = me.id
"""

_RELEASE = """
with mine as (select * from unnest(%(refs)s::text[], %(epochs)s::int8[]) as m (ref, epoch)),
unwritten as (
    delete from {s}.logs l using mine m
    where l.ref = m.ref and l.epoch = m.epoch and l.owner = %(owner)s and l.header is null
)
update {s}.logs l set owner = null from mine m
where l.ref = m.ref and l.epoch = m.epoch and l.owner = %(owner)s and l.header is not null
"""

_LEAVE = """
with gone as (delete from {s}.hosts where id = %(owner)s),
unwritten as (delete from {s}.logs where owner = %(owner)s and header is null)
update {s}.logs set owner = null where owner = %(owner)s and header is not null
"""

_FENCE = """
update {s}.logs set epoch = nextval('{s}.epochs') where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s
returning epoch, history, head, header is not null
"""

_STATE = "select ref, epoch, history, head, header is not null, owner from {s}.logs where ref = any(%(refs)s)"

_OPEN = "select history, head, header from {s}.logs where ref = %(ref)s and header is not null"

_READ = """
select line from (
    select seq, line, sum(octet_length(line)) over (order by seq) - octet_length(line) as before
    from (
        select seq, line from {s}.lines where history = %(history)s and seq > %(after)s and seq <= %(through)s
        order by seq limit %(lines)s
    ) taken
) page where before < %(bytes)s order by seq
"""

_BODIES = "select seq, line from {s}.lines where history = %(history)s and seq = any(%(seqs)s)"

_LOAD = """
select b.history, b.seq, b.data from {s}.beside b join {s}.logs l on l.ref = b.ref and l.history = b.history
where b.ref = %(ref)s and b.kind = %(kind)s and l.header is not null
"""

_SAVE = """
with log as (
    select ref, history from {s}.logs
    where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s and history = %(history)s and head >= %(seq)s
)
insert into {s}.beside (ref, kind, history, seq, data) select ref, %(kind)s, history, %(seq)s, %(data)b from log
on conflict (ref, kind) do update set history = excluded.history, seq = excluded.seq, data = excluded.data
returning 1
"""

_SAVE_LEAF = """
with log as (
    update {s}.logs set stale = true, changed = clock_timestamp()
    where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s and history = %(history)s and head = %(seq)s
    returning ref, history
), told as (select count(pg_notify(%(channel)s, %(payload)s)) as count)
insert into {s}.beside (ref, kind, history, seq, data)
select ref, 'leaf', history, %(seq)s, %(data)b from log, told
on conflict (ref, kind) do update set history = excluded.history, seq = excluded.seq, data = excluded.data
returning 1
"""

_REMOVE = """
with log as (
    delete from {s}.logs where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s returning ref, history
), told as (select count(pg_notify(%(channel)s, %(ref)s)) as count),
gone as (delete from {s}.beside b using log where b.ref = log.ref),
lines as (delete from {s}.lines l using log where l.history = log.history)
select history from log, told
"""

_COPY = "copy {s}.lines (history, seq, line) from stdin (format binary)"

_NEW_HISTORY = "select nextval('{s}.histories')"

_PUT = """
with old as (
    select ref, history from {s}.logs
    where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s for update
), log as (
    update {s}.logs l set history = %(history)s, head = %(head)s, header = %(header)b, size = %(size)s,
        changed = clock_timestamp(), stale = true
    from old where l.ref = old.ref returning l.ref
), told as (select count(pg_notify(%(channel)s, %(ref)s)) as count),
beside as (delete from {s}.beside b using old where b.ref = old.ref),
lines as (delete from {s}.lines l using old where l.history = old.history)
select ref from log, told
"""

_EXISTS = "select exists (select from {s}.logs where ref = %(ref)s and header is not null)"

_PAGE = """
select ref, size, changed from {s}.logs
where header is not null and ref > %(after)s and ref ^@ %(prefix)s order by ref limit %(limit)s
"""

_CHANGED = "select ref, history, head, changed from {s}.logs where ref = any(%(refs)s) and header is not null"

# A stamp counts nanoseconds.
_CHANGED_NS = "(extract(epoch from l.changed) * 1000000)::bigint * 1000"

_OUTDATED = f"""
select l.ref, l.size, {_CHANGED_NS}, l.history, l.head, r.size, r.changed, r.identity, r.data
from {{s}}.logs l left join {{s}}.rows r on r.ref = l.ref
where l.stale and l.header is not null and l.ref > %(after)s order by l.ref limit %(limit)s
"""

_OUTDATED_AMONG = _OUTDATED.replace("where", "where l.ref = any(%(refs)s::text[]) and")

_FIND = "select r.ref, r.size, r.changed, r.identity, r.data from {s}.rows r where "

_COUNT = "select r.word, count(*) from {s}.rows r where "

_ROWS = "select ref, size, changed, identity, data from {s}.rows"

_DROP_ROWS = """
delete from {s}.rows r using (select ref from {s}.rows where ref = any(%(refs)s::text[]) order by ref for update) old
where r.ref = old.ref
"""

# A row that is current stays when another host keeps an earlier one.
_KEEP_ROWS = f"""
with there as materialized (
    select ref from {{s}}.logs where ref = any(%(refs)b::text[]) and header is not null order by ref for key share
)
insert into {{s}}.rows as r (ref, log, size, changed, identity, data, id, key, name, title, parent, project,
    project_hash, status, word, archived, created, modified, last_entry, used, looked)
select g.ref, case when g.id is not null then t.ref end, g.size, g.changed, g.identity, g.data, g.id, g.key, g.name,
    g.title, g.parent, g.project, g.project_hash, g.status, g.word, g.archived, g.created, g.modified, g.last_entry,
    g.used, g.looked
from unnest(%(refs)b::text[], %(sizes)b::int8[], %(changes)b::int8[], %(identities)b::int8[], %(data)b::bytea[],
    %(ids)b::text[], %(keys)b::text[], %(names)b::text[], %(titles)b::text[], %(parents)b::text[],
    %(projects)b::text[], %(project_hashes)b::text[], %(statuses)b::text[], %(words)b::text[],
    %(archived)b::bool[], %(created)b::timestamptz[], %(modified)b::timestamptz[], %(last_entries)b::timestamptz[],
    %(used)b::timestamptz[], %(looked)b::text[])
    as g (ref, size, changed, identity, data, id, key, name, title, parent, project, project_hash, status, word,
        archived, created, modified, last_entry, used, looked)
    left join there t on t.ref = g.ref
order by g.ref collate "C"
on conflict (ref) do update set log = excluded.log, size = excluded.size, changed = excluded.changed,
    identity = excluded.identity, data = excluded.data, id = excluded.id, key = excluded.key, name = excluded.name,
    title = excluded.title, parent = excluded.parent, project = excluded.project,
    project_hash = excluded.project_hash, status = excluded.status, word = excluded.word,
    archived = excluded.archived, created = excluded.created, modified = excluded.modified,
    last_entry = excluded.last_entry, used = excluded.used, looked = excluded.looked
where not exists (
    select from {{s}}.logs l where l.ref = r.ref and r.size = l.size and r.identity = l.history
        and r.changed = {_CHANGED_NS} and (excluded.size, excluded.changed, excluded.identity)
        is distinct from (r.size, r.changed, r.identity)
)
"""

_IS_STALE = f"""not exists (
    select from {{s}}.rows r
    where r.ref = l.ref and r.size = l.size and r.identity = l.history and r.changed = {_CHANGED_NS}
)"""

_MARK_STALE = f"""
with sure as materialized (
    select ref from {{s}}.logs where ref = any(%(refs)s::text[]) and header is not null
    order by ref for no key update skip locked
)
update {{s}}.logs l set stale = {_IS_STALE} from sure where l.ref = sure.ref and l.stale <> {_IS_STALE}
"""

_CURRENTS = "select project, ref from {s}.currents"

_CURRENT = "select ref from {s}.currents where project = %(project)s"

_CURRENT_AMONG = "select distinct ref from {s}.currents where ref = any(%(refs)s::text[])"

_SET_CURRENT = """
insert into {s}.currents (project, ref) values (%(project)s, %(ref)s)
on conflict (project) do update set ref = excluded.ref
"""

_CLEAR_CURRENT = "delete from {s}.currents where project = %(project)s"

_FORGET_CURRENT = "delete from {s}.currents where ref = %(ref)s"


class Statements:
    """The statements for one schema, as bytes.

    Args:
        schema: The name of the schema.

    Attributes:
        names: Their names, by their texts.
    """

    def __init__(self, schema: str) -> None:
        name = sql.Identifier(schema).as_string(None)

        def of(text: str) -> bytes:
            return text.replace("{s}", name).encode()

        self.append = of(_APPEND)
        self.acquire = of(_ACQUIRE)
        self.holders = of(_HOLDERS)
        self.renew = of(_RENEW)
        self.release = of(_RELEASE)
        self.leave = of(_LEAVE)
        self.fence = of(_FENCE)
        self.state = of(_STATE)
        self.open = of(_OPEN)
        self.read = of(_READ)
        self.bodies = of(_BODIES)
        self.load = of(_LOAD)
        self.save = of(_SAVE)
        self.save_leaf = of(_SAVE_LEAF)
        self.remove = of(_REMOVE)
        self.copy = of(_COPY)
        self.new_history = of(_NEW_HISTORY)
        self.put = of(_PUT)
        self.exists = of(_EXISTS)
        self.page = of(_PAGE)
        self.changed = of(_CHANGED)
        self.outdated = of(_OUTDATED)
        self.outdated_among = of(_OUTDATED_AMONG)
        self.rows = of(_ROWS)
        self.drop_rows = of(_DROP_ROWS)
        self.keep_rows = of(_KEEP_ROWS)
        self.mark_stale = of(_MARK_STALE)
        self.currents = of(_CURRENTS)
        self.current = of(_CURRENT)
        self.current_among = of(_CURRENT_AMONG)
        self.set_current = of(_SET_CURRENT)
        self.clear_current = of(_CLEAR_CURRENT)
        self.forget_current = of(_FORGET_CURRENT)
        self._find = of(_FIND)
        self._count = of(_COUNT)
        self.names = {text: name for name, text in vars(self).items()}

    def find(self, where: str, page: str) -> bytes:
        """Return the statement that finds rows.

        Args:
            where: The conditions.
            page: The place, the order, and how many.
        """
        return self._named("find", self._find + f"{where}{page}".encode())

    def count(self, where: str) -> bytes:
        """Return the statement that counts rows under conditions, for each state."""
        return self._named("count", self._count + f"{where} group by r.word".encode())

    def _named(self, name: str, statement: bytes) -> bytes:
        """Remember the name of a statement that was put together; there are few, since values are parameters."""
        self.names[statement] = name
        return statement

"""The SQL of the store, with the schema's name filled in once."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

_APPEND = """
with asked as (
    select * from unnest(%(refs)b::text[], %(epochs)b::int8[], %(histories)b::int8[], %(heads)b::int8[],
        %(counts)b::int8[], %(sizes)b::int8[], %(headers)b::bytea[])
        with ordinality as a (ref, epoch, history, head, count, size, header, n)
), moved as (
    update {s}.logs l set head = l.head + a.count, size = l.size + a.size, changed = clock_timestamp(), stale = true,
        unsearched = true, history = case when a.header is null then l.history else nextval('{s}.histories') end,
        header = coalesce(a.header, l.header)
    from asked a
    where l.ref = a.ref and l.owner = %(owner)s and l.epoch = a.epoch and l.head = a.head and l.object is null
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

# It waits for no row: a statement that its host left unfinished, paused or cut off, may keep one locked for long. The
# host's own lease is renewed on the way if much of it has passed, by the server's clock.
_ACQUIRE = """
with me as (
    insert into {s}.hosts as h (id, name, address, until)
    values (%(owner)s, %(name)s, %(address)s, now() + %(lease_s)s * interval '1 second')
    on conflict (id) do update set until = excluded.until, renewed = excluded.renewed
        where h.until < now() + %(lease_s)s * interval '0.5 seconds'
), unlocked as (select ref from {s}.logs where ref = any(%(refs)s) for update skip locked)
insert into {s}.logs as l (ref, owner, epoch)
select r, %(owner)s, nextval('{s}.epochs') from unnest(%(refs)s::text[]) r
where r in (select ref from unlocked) or not exists (select from {s}.logs k where k.ref = r)
on conflict (ref) do update set owner = excluded.owner, epoch = excluded.epoch
    where l.owner is null or l.owner = excluded.owner
        or not exists (select from {s}.hosts h where h.id = l.owner and h.until > now())
returning ref, epoch, history, head, header, object is not null
"""

_HOLDERS = """
select l.ref, h.name, h.address, extract(epoch from h.until - now())::float8
from {s}.logs l join {s}.hosts h on h.id = l.owner and h.until > now() where l.ref = any(%(refs)s)
"""

_END_UNFINISHED = """
select l.ref, coalesce(extract(epoch from h.until - now())::float8, 0), pg_terminate_backend(a.pid)
from {s}.logs l left join {s}.hosts h on h.id = l.owner
    left join pg_locks k on k.locktype = 'transactionid' and k.granted and k.transactionid = l.xmax
    left join pg_stat_activity a on a.pid = k.pid and a.usename = current_user
        and l.owner is not null and a.xact_start < now() - interval '1 second'
where l.ref = any(%(refs)s) and (h.until is null or h.until <= now())
"""

_RENEW = """
with old as (
    delete from {s}.hosts h
    where until < now() - interval '1 hour' and id <> %(owner)s
        and not exists (select from {s}.logs l where l.owner = h.id)
), me as (
    insert into {s}.hosts (id, name, address, until, renewed)
    values (%(owner)s, %(name)s, %(address)s, now() + %(lease_s)s * interval '1 second', now())
    on conflict (id) do update set address = excluded.address, until = excluded.until, renewed = excluded.renewed
    returning id, draining
)
select me.draining, l.ref, l.epoch from me left join {s}.logs l on l.owner = me.id
"""

_HOSTS = """
select h.name, h.address, coalesce(l.count, 0), extract(epoch from now() - h.renewed)::float8,
    extract(epoch from h.until - now())::float8, h.draining
from {s}.hosts h left join (
    select owner, count(*) as count from {s}.logs where owner is not null and header is not null group by owner
) l on l.owner = h.id
order by h.name
"""

_DRAIN = "update {s}.hosts set draining = true where name = %(name)s and until > now() returning 1"

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

_OPEN = """
select history, head, header, object, object_hash, object_size from {s}.logs
where ref = %(ref)s and header is not null
"""

# Each row says which history the log has and where it ends, so that the lines are those of this history; the first one
# does so even if there are no lines.
_READ = """
select l.history, l.object, l.head, page.line from {s}.logs l left join (
    select seq, line, sum(octet_length(line)) over (order by seq) - octet_length(line) as before
    from (
        select seq, line from {s}.lines where history = %(history)s and seq > %(after)s and seq <= %(through)s
        order by seq limit %(lines)s
    ) taken
) page on before < %(bytes)s where l.ref = %(ref)s and l.header is not null order by page.seq
"""

# The same of several logs, each of which has its place in the order of the question.
_READ_EACH = """
select a.n, l.history, l.object, l.head, page.line
from unnest(%(refs)s::text[], %(histories)s::int8[], %(afters)s::int8[], %(throughs)s::int8[])
    with ordinality as a (ref, history, after, through, n)
join {s}.logs l on l.ref = a.ref and l.header is not null
left join lateral (
    select seq, line, sum(octet_length(line)) over (order by seq) - octet_length(line) as before
    from (
        select seq, line from {s}.lines where history = a.history and seq > a.after and seq <= a.through
        order by seq limit %(lines)s
    ) taken
) page on page.before < %(bytes)s order by a.n, page.seq
"""

_BODIES = """
select l.history, l.object, b.seq, b.line
from {s}.logs l left join {s}.lines b on b.history = %(history)s and b.seq = any(%(seqs)s)
where l.ref = %(ref)s and l.header is not null
"""

_LOAD = """
select b.history, b.seq, b.data from {s}.beside b join {s}.logs l on l.ref = b.ref and l.history = b.history
where b.ref = %(ref)s and b.kind = %(kind)s and l.header is not null
"""

_LOAD_EACH = """
select a.n, b.history, b.seq, b.data
from unnest(%(refs)s::text[], %(kinds)s::text[]) with ordinality as a (ref, kind, n)
join {s}.beside b on b.ref = a.ref and b.kind = a.kind
join {s}.logs l on l.ref = b.ref and l.history = b.history and l.header is not null
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
    delete from {s}.logs where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s
    returning ref, history, object
), told as (select count(pg_notify(%(channel)s, %(ref)s)) as count),
gone as (delete from {s}.beside b using log where b.ref = log.ref),
lines as (delete from {s}.lines l using log where l.history = log.history)
select object from log, told
"""

_COPY = "copy {s}.lines (history, seq, line) from stdin (format binary)"

_NEW_HISTORY = "select nextval('{s}.histories')"

_PUT = """
with old as (
    select ref, history, object from {s}.logs
    where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s for update
), log as (
    update {s}.logs l set history = %(history)s, head = %(head)s, header = %(header)b, size = %(size)s,
        changed = clock_timestamp(), stale = true, unsearched = true, object = null, object_history = null,
        object_head = null, object_hash = null, object_size = null
    from old where l.ref = old.ref returning l.ref
), told as (select count(pg_notify(%(channel)s, %(ref)s)) as count),
beside as (delete from {s}.beside b using old where b.ref = old.ref),
lines as (delete from {s}.lines l using old where l.history = old.history)
select old.object from old, log, told
"""

# What a listing and a search know of a log stays as it is: its lines are the same.
_PACK = """
with log as (
    update {s}.logs set object = %(object)s, object_history = history, object_head = head, object_hash = %(hash)b,
        object_size = %(size)s
    where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s and history = %(history)s and head = %(head)s
        and header is not null and object is null
    returning ref, history
), beside as (delete from {s}.beside b using log where b.ref = log.ref and b.kind <> 'leaf'),
lines as (delete from {s}.lines l using log where l.history = log.history)
select 1 from log
"""

_UNPACK = """
update {s}.logs
set object = null, object_history = null, object_head = null, object_hash = null, object_size = null
where ref = %(ref)s and owner = %(owner)s and epoch = %(epoch)s and object = %(object)s
returning history, head
"""

IDENTITY = "select identity::text from {s}.meta"
"""What no other database has in the names of its objects."""

_EXIST = "select ref from {s}.logs where ref = any(%(refs)s) and header is not null"

_PAGE = """
select ref, size, changed from {s}.logs
where header is not null and ref > %(after)s and ref ^@ %(prefix)s order by ref limit %(limit)s
"""

_CHANGED = "select ref, history, head, changed from {s}.logs where ref = any(%(refs)s) and header is not null"

_POST = """
with owned as (
    select l.owner from {s}.logs l join {s}.hosts h on h.id = l.owner and h.until > now() where l.ref = %(ref)s
), posted as (
    insert into {s}.inbox (id, ref, sender, call, until)
    select %(id)s, %(ref)s, %(sender)s, %(call)b, now() + %(keep_s)s * interval '1 second' from owned
    where %(most)s > (
        select count(*)
        from (select from {s}.inbox where ref = %(ref)s and taken is null and until > now() limit %(most)s) waiting
    )
    on conflict (id) do nothing returning 1
), told as (select count(pg_notify(%(channel)s || owner, owner)) as count from owned)
select told.count > 0 and exists (select from posted union all select from {s}.inbox where id = %(id)s), told.count > 0
from told
"""

_WITHDRAW = "delete from {s}.inbox where id = %(id)s and taken is null returning 1"

_ANSWERS = """
with asked as (select id from unnest(%(ids)s::text[]) as a (id)),
answered as (delete from {s}.inbox i using asked a where i.id = a.id and i.answer is not null returning i.id, i.answer)
select asked.id, d.answer, i.n is not null, i.taken is not null, owner.id is not null, taker.id is not null
from asked left join answered d using (id) left join {s}.inbox i using (id) left join {s}.logs l on l.ref = i.ref
    left join {s}.hosts owner on owner.id = l.owner and owner.until > now()
    left join {s}.hosts taker on taker.id = i.taken and taker.until > now()
"""

_TAKE = """
with old as (delete from {s}.inbox where until < now() - %(kept_s)s * interval '1 second'),
due as (
    select i.n, sum(octet_length(i.call)) over (order by i.n) - octet_length(i.call) as before
    from {s}.inbox i join {s}.logs l on l.ref = i.ref
    where l.owner = %(owner)s and i.taken is null and i.until > now() order by i.n limit %(most)s
)
update {s}.inbox i set taken = %(owner)s from due
where i.n = due.n and i.taken is null and due.before < %(bytes)s
returning i.n, i.id, i.ref, i.call
"""

_ANSWER = """
with answers as (select * from unnest(%(ids)s::text[], %(answers)b::bytea[]) as a (id, answer)),
answered as (
    update {s}.inbox i set answer = a.answer, call = '' from answers a
    where i.id = a.id and i.taken = %(owner)s and i.answer is null returning i.sender
)
select count(pg_notify(%(channel)s || sender, sender)) from (select distinct sender from answered) s
"""


def filled_in(schema: str) -> Callable[[str], bytes]:
    """Return the function that fills the name of a schema into a statement."""
    name = sql.Identifier(schema).as_string(None)
    return lambda text: text.replace("{s}", name).encode()


class Statements:
    """The statements for one schema, as bytes.

    Args:
        schema: The name of the schema.

    Attributes:
        names: Their names, by their texts.
    """

    def __init__(self, schema: str) -> None:
        of = filled_in(schema)
        self.append = of(_APPEND)
        self.acquire = of(_ACQUIRE)
        self.holders = of(_HOLDERS)
        self.end_unfinished = of(_END_UNFINISHED)
        self.renew = of(_RENEW)
        self.hosts = of(_HOSTS)
        self.drain = of(_DRAIN)
        self.release = of(_RELEASE)
        self.leave = of(_LEAVE)
        self.fence = of(_FENCE)
        self.state = of(_STATE)
        self.open = of(_OPEN)
        self.read = of(_READ)
        self.read_each = of(_READ_EACH)
        self.bodies = of(_BODIES)
        self.load = of(_LOAD)
        self.load_each = of(_LOAD_EACH)
        self.save = of(_SAVE)
        self.save_leaf = of(_SAVE_LEAF)
        self.remove = of(_REMOVE)
        self.copy = of(_COPY)
        self.new_history = of(_NEW_HISTORY)
        self.put = of(_PUT)
        self.pack = of(_PACK)
        self.unpack = of(_UNPACK)
        self.identity = of(IDENTITY)
        self.exist = of(_EXIST)
        self.page = of(_PAGE)
        self.changed = of(_CHANGED)
        self.post = of(_POST)
        self.withdraw = of(_WITHDRAW)
        self.answers = of(_ANSWERS)
        self.take = of(_TAKE)
        self.answer = of(_ANSWER)
        self.names = {text: name for name, text in vars(self).items()}

"""The SQL of the rows of a listing, with the schema's name filled in once."""

from __future__ import annotations

from ..statements import filled_in

CHANGED_NS = "(extract(epoch from l.changed) * 1000000)::bigint * 1000"
"""When a log, `l`, changed, as a stamp counts it."""

_OUTDATED = f"""
select l.ref, l.size, {CHANGED_NS}, l.history, l.head, r.size, r.changed, r.identity, r.data
from {{s}}.logs l left join {{s}}.rows r on r.ref = l.ref
where l.stale and l.header is not null and l.ref > %(after)s order by l.ref limit %(limit)s
"""

_OUTDATED_AMONG = _OUTDATED.replace("where", "where l.ref = any(%(refs)s::text[]) and")

_FIND = "select r.ref, r.size, r.changed, r.identity, r.data from {s}.rows r where "

_ANY_OUTDATED = "exists (select from {s}.logs l where l.stale and l.header is not null)"

_FIND_CURRENT = _FIND.replace(" from", f", {_ANY_OUTDATED} from", 1)

_FIND_CURRENT_AMONG = _FIND_CURRENT.replace("l.stale and", "l.ref = any(%(refs)s::text[]) and l.stale and")

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
        and r.changed = {CHANGED_NS} and (excluded.size, excluded.changed, excluded.identity)
        is distinct from (r.size, r.changed, r.identity)
)
"""

_IS_STALE = f"""not exists (
    select from {{s}}.rows r
    where r.ref = l.ref and r.size = l.size and r.identity = l.history and r.changed = {CHANGED_NS}
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


class RowStatements:
    """The statements for the rows of one schema, as bytes.

    Args:
        schema: The name of the schema.
        names: Where the names of statements are noted, for messages.
    """

    def __init__(self, schema: str, names: dict[bytes, str]) -> None:
        of = filled_in(schema)
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
        self._find_current = of(_FIND_CURRENT)
        self._find_current_among = of(_FIND_CURRENT_AMONG)
        self._count = of(_COUNT)
        names |= {text: name for name, text in vars(self).items()}
        self._names = names

    def find(self, where: str, page: str) -> bytes:
        """Return the statement that finds rows.

        Args:
            where: The conditions.
            page: The place, the order, and how many.
        """
        return self._named("find", self._find + f"{where}{page}".encode())

    def find_current(self, where: str, page: str, *, among: bool) -> bytes:
        """Return the statement that finds rows, and says with each whether one is outdated.

        Args:
            where: The conditions.
            page: The place, the order, and how many.
            among: Whether only the rows of the logs `refs` count as outdated.
        """
        text = self._find_current_among if among else self._find_current
        return self._named("find", text + f"{where}{page}".encode())

    def count(self, where: str) -> bytes:
        """Return the statement that counts rows under conditions, for each state."""
        return self._named("count", self._count + f"{where} group by r.word".encode())

    def _named(self, name: str, statement: bytes) -> bytes:
        """Remember the name of a statement that was put together; there are few, since values are parameters."""
        self._names[statement] = name
        return statement

"""The SQL of the index of a search, with the schema's name filled in once."""

from __future__ import annotations

from ..statements import filled_in
from .row_statements import CHANGED_NS

_STAMP = f"l.size || ' ' || {CHANGED_NS} || ' ' || l.history"  # the text of a stamp; see `text_of`

_EXISTS = "select exists (select from {s}.indexed)"

_CREATABLE = """
select has_table_privilege('{s}.texts', 'insert') and not pg_is_in_recovery()
    and current_setting('default_transaction_read_only') = 'off'
"""

_KNOWN = "select ref, number, stamp, generation, seq, crc from {s}.indexed"

_UNINDEXED = f"""
select l.ref, {_STAMP}, x.number, x.stamp, x.generation, x.seq, x.crc
from {{s}}.logs l left join {{s}}.indexed x on x.ref = l.ref
where l.unsearched and l.header is not null and l.ref > %(after)s order by l.ref limit %(limit)s
"""

_NUMBERS = """
select x.ref, x.number from {s}.indexed x join {s}.logs l on l.ref = x.log
where x.ref = any(%(refs)s::text[]) and not l.unsearched
"""

_NAMES = "select number, ref from {s}.indexed where number = any(%(numbers)s::int8[])"

_LOCK_LOG = "select number, generation, seq, crc from {s}.indexed where ref = %(ref)s for update"

_DROP_LOG = "delete from {s}.indexed where ref = any(%(refs)s::text[])"

_ADD_LOG = """
with there as materialized (select ref from {s}.logs where ref = %(ref)s and header is not null for key share)
insert into {s}.indexed (ref, log) select %(ref)s, (select ref from there) on conflict (ref) do nothing returning number
"""

_SET_LOG = """
update {s}.indexed set stamp = %(stamp)s, generation = %(generation)s, seq = %(seq)s, crc = %(crc)s
where number = %(number)s
"""

_ADD_TEXTS = """
insert into {s}.texts (log, seq, entry_id, role, tools, at, body, grams)
select %(number)s, t.seq, t.entry_id, t.role, t.tools::text[], t.at, t.body, t.grams::int4[]
from unnest(%(seqs)b::int8[], %(entry_ids)b::text[], %(roles)b::text[], %(tools)b::text[], %(times)b::timestamptz[],
    %(bodies)b::bytea[], %(grams)b::text[]) as t (seq, entry_id, role, tools, at, body, grams)
"""

# A log that somebody is writing to is not waited for: it stays marked.
_MARK = f"""
with given as (select * from unnest(%(refs)s::text[], %(stamps)s::text[]) as g (ref, stamp)),
sure as materialized (
    select l.ref from {{s}}.logs l where l.ref = any(%(refs)s::text[]) and l.header is not null
    order by l.ref for no key update skip locked
)
update {{s}}.logs l set unsearched = g.stamp is null or g.stamp <> {_STAMP}
from sure join given g using (ref) where l.ref = sure.ref
"""

_CANDIDATES = "select log, seq from {s}.texts where grams @> %(grams)s::int4[] limit %(most)s"

_FIND = """
select t.seq, t.entry_id, t.role, t.tools, t.at, t.body from {s}.texts t where t.log = %(log)s and t.seq > %(after)s
"""


class TextStatements:
    """The statements for the search index of one schema, as bytes.

    Args:
        schema: The name of the schema.
        names: Where the names of statements are noted, for messages.
    """

    def __init__(self, schema: str, names: dict[bytes, str]) -> None:
        of = filled_in(schema)
        self.index_exists = of(_EXISTS)
        self.index_creatable = of(_CREATABLE)
        self.known = of(_KNOWN)
        self.unindexed = of(_UNINDEXED)
        self.numbers = of(_NUMBERS)
        self.number_names = of(_NAMES)
        self.lock_index = of(_LOCK_LOG)
        self.drop_index = of(_DROP_LOG)
        self.add_index = of(_ADD_LOG)
        self.set_index = of(_SET_LOG)
        self.add_texts = of(_ADD_TEXTS)
        self.mark_searched = of(_MARK)
        self.candidates = of(_CANDIDATES)
        self._find = of(_FIND)
        names |= {text: name for name, text in vars(self).items()}
        self._names = names

    def find(self, conditions: str) -> bytes:
        """Return the statement that finds texts of a log under further conditions."""
        statement = self._find + f"{conditions} order by t.seq limit %(most)s".encode()
        self._names[statement] = "find_texts"
        return statement

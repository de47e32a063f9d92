"""Sessions, entries and paths as plain SQL sees them: the same as the library's."""

import itertools
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from treering import Entry, Session, SessionHost
from treering.stores.postgres.local_server import LocalServer

ODD = "\u0000 ü 漢 \U0001f332 \u2028 ' \" \\ $1 %s"
"""What PostgreSQL, JSON or a statement may trip over. PostgreSQL's own text cannot hold the first of it."""

KEY = f"mail:{'漢' * 80}@ü".ljust(255 - 80 * 2 - 1, ".")
"""A key of 255 bytes, from which the session has its id."""


def sql(url: str, query: str, *args: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode(), args).fetchall()


async def grow(session: Session) -> None:
    """Give a session branches, a compaction, a label, a title, and text of every kind."""
    said = [await session.append_message("user", f"{n} {ODD}") for n in range(4)]
    await session.append_compaction(ODD, said[2], 9)
    await session.append_message("assistant", "after the compaction")
    await session.branch(said[1])
    await session.append_message("assistant", "on a branch")
    await session.set_label(said[0], "ü 漢")
    await session.update_metadata(name="Under the trees \U0001f332")
    await session.append_custom_entry("state", {"deep": [None, {ODD: ODD}]})
    await session.branch_with_summary(None, ODD)


def row_of(entry: Entry) -> tuple[object, ...]:
    return entry.seq, entry.id, entry.parent_id, entry.__struct_config__.tag, entry.timestamp


def entries_of(rows: list[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    return [(*row[:4], datetime.fromisoformat(row[4])) for row in rows]


@pytest.mark.feature("C-3")
async def test_views_and_paths_of_plain_sql_equal_the_librarys(server: LocalServer, url: str, schema: str) -> None:
    plain, numbers = server.url(), itertools.count(10)
    columns = "seq, id, parent_id, type, timestamp"
    assert len(KEY.encode()) == 255
    async with SessionHost(url, new_id=lambda: f"{next(numbers)}-".ljust(252, "i") + "漢") as host:
        other = await host.create("1")
        await other.append_message("user", "of another session")
        session = await host.create(key=KEY, cwd="/some where")
        await grow(session)
        entries = await session.entries()
        assert {len(entry.id.encode()) for entry in entries if entry.id} == {255}

        [(ref, *of_session)] = sql(
            plain, f"SELECT session, key, cwd, entries, created, host FROM {schema}.sessions WHERE id = %s", session.id
        )
        assert of_session[:3] == [KEY, "/some where", len(entries)]
        assert datetime.fromisoformat(of_session[3]) == session.created
        assert of_session[4] is not None

        rows = sql(plain, f"SELECT {columns} FROM {schema}.entries WHERE session = %s ORDER BY seq", ref)
        assert entries_of(rows) == [row_of(entry) for entry in entries]
        by_id = {entry.id: row_of(entry) for entry in entries}
        for leaf in by_id:
            rows = sql(plain, f"SELECT {columns} FROM {schema}.path(%s, %s)", ref, leaf)
            assert entries_of(rows) == [by_id[each] for each in session.path(leaf)]

        labels = (
            "SELECT entry #>> '{{label,target_id}}', entry #>> '{{label,label}}' FROM {}.entries WHERE type = 'label'"
        )
        assert sql(plain, labels.format(schema)) == session.labels()
        titles = "SELECT entry #>> '{{session_info,name}}' FROM {}.entries WHERE type = 'session_info'"
        assert sql(plain, titles.format(schema)) == [(session.name,)]
        customs = "SELECT entry #>> '{{custom,data}}' FROM {}.entries WHERE type = 'custom'"
        [(custom,)] = sql(plain, customs.format(schema))
        shown = ODD.replace("\0", "\ufffd")
        assert json.loads(custom) == {"deep": [None, {shown: shown}]}
        assert sql(plain, f"SELECT count(*) FROM {schema}.entries") == [(len(entries) + 1,)]
    assert sql(plain, f"SELECT host FROM {schema}.sessions WHERE host IS NOT NULL") == []


@pytest.mark.feature("C-3")
async def test_the_statements_of_the_page_run_as_they_stand(server: LocalServer, url: str, schema: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    async with SessionHost(url) as host:
        session = await host.create("plan")
        said = [await session.append_message("user", text) for text in ("one", "two")]
    sessions, entries, path = (
        block.replace("treering.", f"{schema}.").replace("the id of an entry", said[1]).splitlines()
    )
    with psycopg.connect(server.url(), row_factory=dict_row) as connection:
        (row,) = connection.execute(sessions.encode()).fetchall()
        assert (row["id"], row["entries"], row["host"]) == ("plan", 2, None)
        assert [row["id"] for row in connection.execute(entries.encode()).fetchall()] == said
        assert [row["seq"] for row in connection.execute(path.encode()).fetchall()] == [1, 2]


@pytest.mark.feature("C-3")
async def test_sql_shows_what_is_no_text_there_as_a_replacement(server: LocalServer, url: str, schema: str) -> None:
    async with SessionHost(url) as host:
        await host.find_recent()  # makes the schema
    pair, high, low = r"\ud83c\udf32", r"\ud83c", r"\uDF32"
    sources, expected = [], []
    for escapes in itertools.product([r"\u0000", pair, high, low, r"\\", "x", r"\"u0000"], repeat=3):
        sources.append('{"a":"' + "".join(escapes) + '"}')
        value = json.loads(sources[-1])["a"].encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        expected.append("".join("\ufffd" if each == "\0" or "\ud800" <= each <= "\udfff" else each for each in value))
    query = f"SELECT {schema}.json_of(s) ->> 'a' FROM unnest(%s::bytea[]) WITH ORDINALITY AS t (s, n) ORDER BY n"
    shown = [text for (text,) in sql(server.url(), query, [source.encode() for source in sources])]
    assert dict(zip(sources, shown, strict=True)) == dict(zip(sources, expected, strict=True))
    for damaged in (b"\xff", b"{", b'{"a":"\x01"}', b""):
        assert sql(server.url(), f"SELECT {schema}.json_of(%s)", damaged) == [(None,)]

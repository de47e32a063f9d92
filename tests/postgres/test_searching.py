"""A search in the database finds what one by SQLite's FTS5 finds, and takes no more rows than it has to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from treering import SessionHost
from treering.actors.catalog import stored
from treering.errors import InvalidInput
from treering.events.stores import search_index
from treering.events.stores.search import FindsTexts
from treering.projections.search.query import Query
from treering.sessions import Hit
from treering.stores import Checkpoint, EntryText, Filters, Portion, Store
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.catalog import searching
from treering.stores.postgres.local_server import LocalServer
from treering.testing.clocks import ManualClock

from .counting import counted
from .test_finding import EXPLAINED, write_logs

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SAID = (
    "Where is the needle? The NEEDLE lies in the hay.",
    "needles, a pincushion, SocketTimeoutError: read  timeout",
    "read\ttimeout, then a timeout while it read",
    "Straße, STRASSE, strasse and Weiß",
    "ﬁne ligature, İstanbul, i̇stanbul, KELVIN K",
    "中文字 and 中 文, кириллица Привет, ελληνικά ΣΊΣΥΦΟΣ",
    'a\0b, x-y, "quoted", back\\slash, 100% * NEAR( ) :col',
    "😀 fox 🦊, e\u0301 and é, tab\there, control \1\2\3 signs",
    "le",
    "ss",
    "a",
    "",
    "the the the then there",
)
"""What is said, each in a session of its own and all of it in one more."""

QUERIES = (
    "needle", "NEED", "needle hay", '"needle lies"', "edl", "le", "e", "ss", "the", "then the", "timeout",
    "read timeout", '"read timeout"', '"read timeout', "straße", "STRASSE", "weiss", "fine", "istanbul", "i̇", "kelvin",
    "k", "中文", "中", "中文字", "привет", "КИРИЛ", "σίσυφος", "\0", "a\0b", "x-y", '"quoted"', "\\slash", "100%", "%",
    "_", "*", "NEAR(", ":col", "AND", "😀", "🦊 fox", "é", "e\u0301", "\1\2", "tab here", "nothing of it",
)  # fmt: skip


async def fill(host: SessionHost) -> None:
    """Say everything, by people, agents and tools."""
    everything = await host.create("everything", cwd="/work/all")
    for number, text in enumerate(SAID):
        session = await host.create(f"s{number}", cwd=f"/work/{number % 3}")
        for each in (session, everything):
            await each.append_message("user" if number % 2 else "assistant", text or "-")
            await each.append_tool_execution(f"c{number}", ("grep", "read")[number % 2], {"for": text}, text)
    await (await host.create("named")).append_session_info("Needlework")
    await host.archive("s1")


async def answers(host: SessionHost) -> dict[str, list[Hit] | str]:
    """Return what is found for every query, and with every filter."""
    found: dict[str, list[Hit] | str] = {}
    later = BEGAN + timedelta(minutes=40)
    filters: tuple[dict[str, object], ...] = (
        {},
        {"role": "user"},
        {"tool": "grep"},
        {"after": later},
        {"before": later},
        {"project": "/work/1"},
    )
    for query in QUERIES:
        found[query] = await hits(host, query, index=True, limit=1000)
    for options in filters:
        found[f"needle {options}"] = await hits(host, "e", index=True, limit=1000, **options)
        found[f"the {options}"] = await hits(host, "the", index=True, limit=3, offset=1, **options)
    for query in ("", '""', "x" * 1001):
        try:
            await hits(host, query, index=True)
        except InvalidInput as error:
            found[query] = str(error)
    return found


async def hits(host: SessionHost, query: str, **options: object) -> list[Hit]:
    """Return what is found."""
    return [hit async for hit in host.search(query, **options)]  # type: ignore[arg-type]  # of any search


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """Open a store."""
    store = PostgresStore(url)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.mark.feature("C-13")
@pytest.mark.parametrize("most", [None, 3], ids=["few", "too many"])
async def test_the_golden_queries_find_the_same_as_fts5(
    url: str, tmp_path: Path, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if most is not None:
        monkeypatch.setattr(searching, "CANDIDATES_MAX", most)
        monkeypatch.setattr(search_index, "_CANDIDATES_MAX", most)
    found = list[dict[str, list[Hit] | str]]()
    for root in (tmp_path / "files", url):
        ids = (f"e{number}" for number in count())
        async with SessionHost(root, clock=ManualClock(BEGAN, MINUTE), new_id=partial(next, ids)) as host:
            await fill(host)
            found.append(await answers(host))
    assert found[1] == found[0]
    assert sum(bool(each) for each in found[0].values()) > len(QUERIES) / 2


async def test_a_rare_word_is_found_without_reading_a_log(server: LocalServer, url: str) -> None:
    async with SessionHost(url) as host:
        for number in range(30):
            await (await host.create(f"s{number}")).append_message("user", f"hay {number * 'x'}")
        rare = await (await host.load("s7")).append_message("user", "a needle")
        assert [hit.entry_id for hit in await hits(host, "needle", index=True)] == [rare]
        with counted(server.url()) as counts:
            assert [hit.entry_id for hit in await hits(host, "needle")] == [rare]
        assert counts.of("lines") == 0
        assert counts.of("from") < 15
        await host.delete("s7")
        assert await hits(host, "needle") == []
        await (await host.load("s8")).append_message("user", "a new needle")
        assert [hit.session_id for hit in await hits(host, "needle")] == ["s8"]


async def test_a_role_that_only_reads_uses_the_index_of_others(server: LocalServer, schema: str, url: str) -> None:
    reading = f"{server.url(schema=schema)}&options={quote('-c default_transaction_read_only=on')}"
    async with SessionHost(url) as host, SessionHost(reading) as reader:
        for number in range(5):
            await (await host.create(f"s{number}")).append_message("user", f"needle {number}")
        assert len(await hits(host, "needle", index=True)) == 5
        await (await host.create("late")).append_message("user", "a late needle")
        await host.list_sessions()
        with counted(server.url()) as counts:
            found = [hit.session_id for hit in await hits(reader, "needle")]
        assert found == ["late", *(f"s{number}" for number in reversed(range(5)))]
        assert counts.of("page.line", "lines") == 2  # only of the late one: to index it, and to search it


async def test_a_session_that_is_used_while_a_common_word_is_searched_is_found_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "CANDIDATES_MAX", 2)
    monkeypatch.setattr(stored, "PAGE", 2)
    async with SessionHost(url) as host:
        sessions = [await host.create(f"s{number}") for number in range(7)]
        for session in sessions:
            await session.append_message("user", "hay")
        found = list[str]()
        async with host.search("hay", index=True) as search:
            async for hit in search:
                if not found:
                    await sessions[0].append_message("user", "more of it")
                    await host.list_sessions()  # now it is the first, and would have been the last
                found.append(hit.session_id)
        assert sorted(found) == [session.id for session in sessions]


async def test_texts_are_found_by_indexes(server: LocalServer, schema: str, url: str) -> None:
    explained = f"{server.url(schema=schema)}&options={quote(EXPLAINED)}"
    async with opened(url) as store:
        index = store.capability(FindsTexts)
        assert index is not None
        await write_logs(store, [f"log-{number:02}" for number in range(30)])
        for log in index.unindexed():
            texts = [
                EntryText(seq, f"e{seq}", "user", (), BEGAN, f"{log.ref} says {seq * 7919}") for seq in range(1, 101)
            ]
            index.update([Portion(log.ref, log.stamp, None, Checkpoint("g", 100, 7), texts)])
        assert index.unindexed() == []
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for table in ("logs", "indexed", "texts"):
            connection.execute(f"vacuum analyze {schema}.{table}".encode())
    async with opened(explained) as store:
        index = store.capability(FindsTexts)
        assert index is not None
        before = len((server.folder / "log").read_text())
        [(number, seqs)] = (index.candidates(Query(f'"log-07 says {70 * 7919}"')) or {}).items()
        assert (index.names([number]), seqs) == ({number: "log-07"}, [70])
        assert [text.seq for text in index.find(Query("says"), Filters(), number, after=90, limit=3)] == [91, 92, 93]
        assert index.numbers(["log-07"]) == {"log-07": number}
        plans = (server.folder / "log").read_text()[before:]
    assert plans.count("Query Text:") >= 4
    assert [line for line in plans.splitlines() if "Seq Scan on texts" in line] == []

"""Archived sessions of a database as objects: read and searched as before, brought back by a write, never lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace
from tests.cli.conftest import Cli
from tests.stores.copies import content

from treering import SessionHost
from treering.entries import plain_text
from treering.errors import ExtraMissing, InvalidInput, LogDamaged
from treering.events.disk import packed
from treering.events.errors import LeaseLost, StoreUnavailable
from treering.stores import Lease, MemoryStore, Store, copy_logs
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.address import parse_address
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.archive import objects
from treering.subscriptions import Reset

fsspec = pytest.importorskip("fsspec", reason="objects need the package fsspec")

KILLED = (
    "pack before object",
    "pack after object",
    "pack before commit",
    "pack after commit",
    "unpack before commit",
    "unpack after commit",
    "remove after commit",
)
"""Where the child is killed; see `archive_child`."""

SAID = [f"entry {number}: the cart is in the yard" for number in range(5)]

_places = count(1)


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for objects that no other test uses."""
    return f"file://{tmp_path}/objects" if request.param == "file" else f"memory://objects-{next(_places)}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for objects."""
    return tmp_path / "objects"


@pytest.fixture
def archiving(url: str, folder: Path) -> str:
    """The address of a store whose archived sessions are in the folder."""
    return f"{url}&archive={folder}"


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection]:
    """A connection whose statements find the tables of this test."""
    with psycopg.connect(parse_address(url).conninfo, autocommit=True) as connection:
        connection.execute("select set_config('search_path', %s, false)", [parse_address(url).schema])
        yield connection


def stored(place: str) -> list[str]:
    """Return the paths of all objects in a place."""
    files, path = fsspec.url_to_fs(place)
    return sorted(files.find(path))


def lines_in(database: psycopg.Connection, session: str) -> int:
    row = database.execute("select count(*) from entries where session = %s", [f"{session}.jsonl"]).fetchone()
    assert row is not None
    return int(row[0])


def archived(database: psycopg.Connection, session: str) -> tuple[str | None, int | None, bytes | None]:
    row = database.execute(
        "select object, object_head, object_hash from logs where ref = %s", [f"{session}.jsonl"]
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


async def fill(host: SessionHost, *names: str) -> None:
    for name in names:
        session = await host.create(name, cwd="/shop")
        for text in SAID:
            await session.append_message("user", text)


async def found(host: SessionHost, *, index: bool | None = None) -> set[str]:
    return {hit.session_id async for hit in host.search("cart", index=index)}


async def said(host: SessionHost, name: str) -> list[str]:
    session = await host.load(name, read_only=True)
    return [plain_text(each.content) for each in await session.messages()]


async def leased(store: Store, ref: str) -> Lease:
    (lease,) = await store.acquire([ref], "test")
    assert isinstance(lease, Lease)
    return lease


@pytest.mark.feature("C-15")
async def test_an_archived_session_is_an_object_and_is_read_searched_followed_and_brought_back_as_before(
    url: str, place: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(f"{url}&archive={place}") as host, SessionHost(url) as other:
        await fill(host, "old", "new")
        assert await found(host, index=True) == {"old", "new"}
        there = PostgresStore(url)
        before = await content(there)
        follower = await other.load("old", read_only=True)
        async with follower.subscribe(after=follower.cursor) as changes:
            await host.archive("old")
            uri, head, digest = archived(database, "old")
            assert uri is not None
            assert uri.startswith(f"{place}/")
            assert (head, digest) == (6, objects.hash_of(uri, 10**6))
            assert (lines_in(database, "old"), lines_in(database, "new")) == (0, 5)
            assert len(stored(place)) == 1

            for each in (host, other):  # the other one was not told where objects are
                listed = await each.list_sessions(status="any")
                assert {row.id: row.archived for row in listed} == {"old": True, "new": False}
                assert await found(each) == {"old", "new"}
                assert await said(each, "old") == SAID
            with monkeypatch.context() as patched:
                patched.setattr(objects, "read", None)  # which a listing, a search and an opening do without
                async with SessionHost(url) as third:
                    assert len(await third.list_sessions(status="any")) == 2
                    assert await found(third) == {"old", "new"}
            after = await content(there)
            await there.aclose()
            assert after["old.jsonl"][1][:5] == before["old.jsonl"][1]
            assert after["new.jsonl"] == before["new.jsonl"]

            await (await other.load("old")).append_message("user", "again")
            got = [await anext(changes) for _ in range(3)]  # archived, no longer archived, the message
            assert not any(isinstance(each, Reset) for each in got)
        assert await said(host, "old") == [*SAID, "again"]
        assert archived(database, "old") == (None, None, None)
        assert lines_in(database, "old") == 8
        assert stored(place) == []
        assert await (await other.load("old")).passivate()
        await host.archive("old")
        await host.delete("old")
        assert stored(place) == []
        assert [row.id for row in await other.list_sessions(status="any")] == ["new"]

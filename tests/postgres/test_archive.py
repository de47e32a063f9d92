"""Archived sessions of a database as objects: read and searched as before, brought back by a write."""

import sys
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.stores.copies import content

from treering import SessionHost
from treering.errors import ExtraMissing, InvalidInput, LogDamaged
from treering.events.disk import packed
from treering.events.errors import StoreUnavailable
from treering.stores import MemoryStore, copy_logs
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.archive import objects
from treering.subscriptions import Reset

pytest.importorskip("fsspec", reason="objects need the package fsspec")


from .archives import SAID, archived, fill, found, lines_in, said, stored

_places = count(1)


class LikeS3:
    """A file system of fsspec, in buckets that have to exist, read by a method that takes its arguments as S3's does.

    Args:
        files: What it is in truth.
    """

    def __init__(self, files: Any) -> None:  # noqa: ANN401  # fsspec has no types
        self._files = files

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def cat_file(
        self, path: str, version_id: str | None = None, start: int | None = None, end: int | None = None
    ) -> bytes:
        assert version_id is None
        return bytes(self._files.cat_file(path, start=start, end=end))

    def open(self, path: str, mode: str) -> object:
        if "no-bucket" in path:
            raise FileNotFoundError(path)
        return self._files.open(path, mode)


@pytest.fixture
def like_s3(monkeypatch: pytest.MonkeyPatch) -> str:
    """A place that behaves like S3."""
    fsspec = import_module("fsspec")
    found = fsspec.url_to_fs

    def url_to_fs(uri: str, **options: object) -> tuple[LikeS3, str]:
        files, path = found(uri, **options)
        return LikeS3(files), path

    monkeypatch.setattr(fsspec, "url_to_fs", url_to_fs)
    return f"memory://bucket-{next(_places)}"


@pytest.fixture(params=["file", "like S3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for objects that no other test uses."""
    return f"file://{tmp_path}/objects" if request.param == "file" else request.getfixturevalue("like_s3")


def only_file_in(folder: Path) -> str:
    (path,) = (each for each in folder.rglob("*") if each.is_file())
    return str(path)


def other_hash(_uri: str, _size: int) -> bytes:
    return b"another"


def failing(*_: object) -> bytes:
    raise RuntimeError("the network is down")


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


def write(path: str, data: bytes | None) -> None:
    """Write a file, or delete it."""
    if data is None:
        Path(path).unlink()
    else:
        Path(path).write_bytes(data)


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


async def test_an_object_that_is_written_wrongly_is_noticed_before_anything_is_deleted(
    archiving: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        with monkeypatch.context() as patched:
            patched.setattr(objects, "hash_of", other_hash)
            with pytest.raises(StoreUnavailable, match="other bytes than were written"):
                await host.archive("old")
        assert lines_in(database, "old") == 6
        assert await said(host, "old") == SAID


async def test_a_damaged_missing_or_unreachable_object_is_a_named_error_and_listed_all_the_same(
    archiving: str, folder: Path, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        await host.archive("old")
    path = only_file_in(folder)
    whole = content_of(path)

    async def refused(error: type[Exception], match: str) -> None:
        async with SessionHost(archiving) as host:
            for attempt in (said(host, "old"), host.unarchive("old")):
                with pytest.raises(error, match=match) as caught:
                    await attempt
                assert path in str(caught.value)
            assert [row.id for row in await host.list_sessions(status="any")] == ["old"]

    write(path, whole[:-1] + b"?")
    await refused(LogDamaged, "its hash is another")
    write(path, None)
    await refused(LogDamaged, "no such object")
    with monkeypatch.context() as patched:
        patched.setattr("fsspec.implementations.local.LocalFileSystem.cat_file", failing)
        await refused(StoreUnavailable, "does not serve")
    write(path, whole)
    async with SessionHost(archiving) as host:
        assert await said(host, "old") == SAID
        await host.unarchive("old")
        assert archived(database, "old") == (None, None, None)


@pytest.mark.usefixtures("like_s3")
async def test_a_bucket_that_does_not_exist_is_named_and_none_is_lost(url: str, database: psycopg.Connection) -> None:
    async with SessionHost(f"{url}&archive=memory://no-bucket") as host:
        await fill(host, "old")
        with pytest.raises(StoreUnavailable, match=r"memory://no-bucket/.*: there is no such bucket or folder"):
            await host.archive("old")
        assert await said(host, "old") == SAID
        assert lines_in(database, "old") == 6


async def test_a_host_of_an_earlier_version_appends_to_no_object(archiving: str, database: psycopg.Connection) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        await host.archive("old")
    with pytest.raises(psycopg.errors.CheckViolation):
        database.execute("update logs set head = head + 1, size = size + 10 where ref = 'old.jsonl'")


async def test_a_copy_of_an_archived_session_keeps_its_lines_and_one_to_it_brings_it_back(
    archiving: str, database: psycopg.Connection
) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        await host.archive("old")
        there, memory = PostgresStore(archiving), MemoryStore()
        assert (await copy_logs(there, memory)).failed == []
        assert await content(memory) == await content(there)
        assert (await copy_logs(memory, there)).failed == []
        assert lines_in(database, "old") == 6
        await there.aclose()
        await memory.aclose()


async def test_a_large_log_is_written_and_read_in_pieces(archiving: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.stores.postgres.archive.packed_log.PIECE_BYTES", 500)
    monkeypatch.setattr("treering.stores.postgres.archive.packed_log._FED", 100)
    monkeypatch.setattr(objects, "READ_BYTES", 300)  # what is larger is mapped from a file
    for suffix in packed.SUFFIXES:
        monkeypatch.setattr("treering.stores.postgres.archive.packing.best_suffix", lambda suffix=suffix: suffix)
        async with SessionHost(archiving) as host:
            session = await host.create(f"long{suffix}")
            for number in range(40):
                await session.append_message("user", f"{number} " + "x" * (number % 7 * 200))
            before = await session.entries()
            await host.archive(session)
            again = await host.load(f"long{suffix}", read_only=True)
            assert (await again.entries())[:40] == before
            assert [await again.entry(entry.id or "") for entry in before[::-9]] == before[::-9]


@pytest.mark.parametrize(
    ("place", "error", "match"),
    [
        ("s3bucket", InvalidInput, "is no place"),
        ("simplecache::s3://bucket", InvalidInput, "is no place"),
        ("nothing://bucket", InvalidInput, "fsspec knows"),
        ("sftp://user:secret@host/folder", InvalidInput, "must not hold a password"),
        ("oci://bucket", ExtraMissing, "another package"),
    ],
)
def test_a_useless_address_of_objects_is_refused_at_once(place: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        PostgresStore(f"postgresql:///db?archive={place}")
    assert "secret" not in str(caught.value)


def test_objects_without_the_package_for_them_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'treering\[archive\]'"):
        PostgresStore("postgresql:///db?archive=s3://bucket")
    PostgresStore("postgresql:///db")

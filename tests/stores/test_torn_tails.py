"""Bytes after a log's last newline: repaired by an owner, unchanged by readers, and never lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from zlib import crc32

import pytest

from treering.events.stores.base import Lease
from treering.events.stores.files import FileStore
from treering.testing.stores.case import NATIVE, Writer, bare, header_of, line, lines, read_all

HEADER = NATIVE.encode_header(header_of("session"))
PI_HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
WHOLE = HEADER + b"".join(lines(1, 3))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FileStore]:
    store = FileStore(root)
    yield store
    await store.aclose()


async def own(store: FileStore) -> Writer:
    [lease] = await store.acquire(["a.jsonl"], "me")
    assert isinstance(lease, Lease)
    return Writer(store, lease)


def torn_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.torn-*")}


def name_of(fragment: bytes, offset: int) -> str:
    return f"a.jsonl.torn-{offset}-{crc32(fragment):08x}"


@pytest.mark.feature("U-1")
@pytest.mark.parametrize("fragment", [line(4)[:-20], b"{", b'{"a":1', b"\x00" * 5000, b'"text"', b"[1]", b"\xff"])
async def test_a_fragment_is_moved_to_a_file_beside_the_log(store: FileStore, root: Path, fragment: bytes) -> None:
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    writer = await own(store)
    assert writer.head.seq == 3
    assert (root / "a.jsonl").read_bytes() == WHOLE
    await writer.append(line(4))
    await store.release([writer.lease])
    assert (await own(store)).head.seq == 4
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {name_of(fragment, len(WHOLE)): fragment}


@pytest.mark.feature("U-3")
async def test_a_fragment_of_fifty_megabytes_is_moved(store: FileStore, root: Path) -> None:
    fragment = b'{"type":"custom","text":"' + b"x" * 50_000_000
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    assert (await store.open("a.jsonl")).head.seq == 3
    await (await own(store)).append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {name_of(fragment, len(WHOLE)): fragment}


@pytest.mark.feature("U-4")
async def test_a_complete_line_without_a_newline_survives_the_next_append(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(WHOLE[:-1])
    writer = await own(store)
    assert writer.head.seq == 3
    await writer.append(line(4))
    assert (root / "a.jsonl").read_bytes() == WHOLE + line(4)
    assert torn_files(root) == {}


async def test_a_long_complete_line_without_a_newline_gets_one(store: FileStore, root: Path) -> None:
    long = line(4, "x" * 5_000_000)
    (root / "a.jsonl").write_bytes(WHOLE + long[:-1])
    assert (await store.open("a.jsonl")).head.seq == 4
    writer = await own(store)
    assert writer.head.seq == 4
    assert (root / "a.jsonl").read_bytes() == WHOLE + long


async def test_a_header_without_a_newline_gets_one(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(HEADER[:-1])
    assert (await store.open("a.jsonl")).head.seq == 0
    assert (root / "a.jsonl").read_bytes() == HEADER[:-1]
    writer = await own(store)
    await writer.append(line(1))
    assert (root / "a.jsonl").read_bytes() == HEADER + line(1)
    assert await read_all(store, "a.jsonl") == bare([line(1)])


async def test_whitespace_at_the_end_is_not_a_fragment(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(WHOLE + b"\n  \t")
    await (await own(store)).append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {}


async def test_a_fragment_in_a_pi_file_is_isolated_by_a_newline(store: FileStore, root: Path) -> None:
    entry = (
        b'{"type":"custom","id":"00000001","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","customType":"t"}\n'
    )
    (root / "a.jsonl").write_bytes(PI_HEADER + entry + b'{"type":"cus')
    assert (await store.open("a.jsonl")).head.seq == 1
    writer = await own(store)
    assert writer.lease.dialect is not None
    assert writer.lease.dialect.name == "pi"
    assert writer.head.seq == 2
    await writer.append(entry)
    assert (root / "a.jsonl").read_bytes() == PI_HEADER + entry + b'{"type":"cus\n' + entry
    assert torn_files(root) == {}


async def test_moving_a_fragment_again_after_a_crash_gives_the_same_file(store: FileStore, root: Path) -> None:
    fragment = b'{"half":'
    torn = root / name_of(fragment, len(WHOLE))
    torn.write_bytes(fragment[:3])  # as after a crash while it was moved
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    await own(store)
    assert torn_files(root) == {torn.name: fragment}
    assert (root / "a.jsonl").read_bytes() == WHOLE

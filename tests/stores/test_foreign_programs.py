"""Programs that take no lock: the store notices what they append, replace, truncate or delete before it writes."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from treering.events.dialects.native import is_object
from treering.events.errors import AppendFailed, LogReplaced, NotASession, SessionNotFound
from treering.events.stores.base import Committed, Cursor, Failed, Fenced
from treering.events.stores.files import FileStore, Writes
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, bare, header_of, line, lines, read_all

from .logs import HEADER, PI_HEADER, InterruptedDisk, attempt, own


@pytest.fixture(params=["inline", "thread"])
async def store(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[FileStore]:
    store = FileStore(root, writes=request.param)
    yield store
    await store.aclose()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
async def narrow(root: Path) -> AsyncIterator[FileStore]:
    """A store that keeps one file open: reading another log closes the first one."""
    (root / "b.jsonl").write_bytes(HEADER + line(1))
    store = FileStore(root, open_files_max=1)
    yield store
    await store.aclose()


@pytest.mark.parametrize("header", [HEADER, PI_HEADER], ids=["native", "pi"])
async def test_an_append_is_fenced_by_lines_of_another_program(store: FileStore, log: Path, header: bytes) -> None:
    log.write_bytes(header + line(1))
    writer = await own(store)
    append(log, line(2) + b"\n" + line(3))
    outcome = await attempt(writer, line(4))
    assert isinstance(outcome, Fenced)
    assert (outcome.head.generation, outcome.head.seq) == (writer.head.generation, 3)
    assert log.read_bytes() == header + line(1) + line(2) + b"\n" + line(3)
    writer.head = outcome.head
    await writer.append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))


@pytest.mark.parametrize("fragment", [b'{"half', b'{"whole":1}', b"  "])
async def test_a_newline_isolates_a_fragment_in_a_pi_file(store: FileStore, log: Path, fragment: bytes) -> None:
    log.write_bytes(PI_HEADER + line(1))
    writer = await own(store)
    append(log, fragment)
    outcome = await attempt(writer, line(2))
    if fragment.strip():
        assert isinstance(outcome, Fenced)
        assert outcome.head.seq == 2
        writer.head = outcome.head
        await writer.append(line(2))
    else:
        assert isinstance(outcome, Committed)
    assert log.read_bytes() == PI_HEADER + line(1) + fragment + b"\n" + line(2)


async def test_a_programs_fragment_in_a_native_log_is_moved_aside(store: FileStore, root: Path, log: Path) -> None:
    log.write_bytes(HEADER + line(1))
    writer = await own(store)
    append(log, b'{"half')
    await writer.append(line(2))
    assert log.read_bytes() == HEADER + line(1) + line(2)
    assert [path.read_bytes() for path in root.glob("*.torn-*")] == [b'{"half']


def replace(log: Path) -> None:
    other = log.with_name("other")
    other.write_bytes(HEADER + b"".join(lines(11, 12)))
    os.replace(other, log)


def rewrite(log: Path) -> None:
    log.write_bytes(HEADER + b"".join(lines(11, 12)))


def rewrite_longer(log: Path) -> None:
    log.write_bytes(HEADER + b"".join(lines(1, 6, "a longer text")))


def shorten(log: Path) -> None:
    os.truncate(log, len(HEADER + line(1)))


@pytest.mark.parametrize(("change", "left"), [(replace, 2), (rewrite, 2), (rewrite_longer, 6), (shorten, 1)])
async def test_a_replaced_rewritten_or_truncated_log_has_a_new_generation(
    store: FileStore, log: Path, change: Callable[[Path], None], left: int
) -> None:
    log.write_bytes(HEADER + b"".join(lines(1, 4)))
    writer = await own(store)
    await writer.append(line(5))
    before = writer.head
    change(log)
    content = log.read_bytes()
    outcome = await attempt(writer, line(6))
    assert isinstance(outcome, Fenced)
    assert outcome.head.seq == left
    assert outcome.head.generation not in (before.generation, "")
    assert log.read_bytes() == content
    assert await store.resolve(writer.lease) == outcome.head
    assert await read_all(store, "a.jsonl") == content.splitlines()[1:]
    other = FileStore(store.root)
    assert (await other.open("a.jsonl")).head == outcome.head, "another store sees the same generation"
    await other.aclose()
    writer.head = outcome.head
    await writer.append(line(6))
    assert log.read_bytes() == content + line(6)
    await store.release([writer.lease])
    assert (await own(store)).head.generation == outcome.head.generation


async def test_a_file_that_is_no_longer_a_session_is_not_written_to(store: FileStore, log: Path) -> None:
    log.write_bytes(HEADER + line(1))
    writer = await own(store)
    log.write_bytes(b"hello\n" * 1000)
    first = await attempt(writer, line(2))
    assert isinstance(first, Failed)
    assert isinstance(first.error, AppendFailed)
    assert isinstance(first.error.__cause__, NotASession)
    assert first.head == Cursor("", 0)
    for _ in range(2):
        assert await attempt(writer, line(2)) == Fenced(Cursor("", 0), writer.lease.epoch)
    assert log.read_bytes() == b"hello\n" * 1000


async def test_a_log_that_appears_before_the_first_append_is_not_overwritten(store: FileStore, log: Path) -> None:
    writer = await own(store)
    log.write_bytes(HEADER + line(1))
    outcome = await attempt(writer, line(2))
    assert isinstance(outcome, Fenced)
    assert outcome.head.seq == 1
    assert log.read_bytes() == HEADER + line(1)


@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_file_rewritten_at_the_same_size_has_a_new_generation(root: Path, log: Path, writes: Writes) -> None:
    store = FileStore(root, open_files_max=1, writes=writes)
    (root / "b.jsonl").write_bytes(HEADER + line(1))
    log.write_bytes(HEADER + line(1))
    writer = await own(store)
    await writer.append(line(2))
    await read_all(store, "b.jsonl")  # uses the only open file
    content = log.read_bytes().replace(HEADER, NATIVE.encode_header(header_of("another")))
    log.write_bytes(content)
    outcome = await attempt(writer, line(3))
    assert isinstance(outcome, Fenced)
    assert outcome.head.generation != writer.head.generation
    assert log.read_bytes() == content
    await store.aclose()


@pytest.mark.parametrize("writes", ["inline", "thread"])
@pytest.mark.parametrize("is_owned", [True, False])
async def test_a_file_that_is_no_longer_a_session_is_noticed_while_it_is_closed(
    root: Path, log: Path, writes: Writes, is_owned: bool
) -> None:
    store = FileStore(root, open_files_max=1, writes=writes)
    content = HEADER + line(1)
    for path in (log, root / "b.jsonl"):
        path.write_bytes(content)
    writer = await own(store) if is_owned else None
    await read_all(store, "a.jsonl")
    await read_all(store, "b.jsonl")  # uses the only open file
    log.write_bytes(content.replace(b"session", b"torrent"))
    os.utime(log, ns=(1, 1))
    content = log.read_bytes()
    for number in range(3):
        if writer is not None:
            outcome = await attempt(writer, line(2))
            assert isinstance(outcome, Fenced if number else Failed)
            assert outcome.head == Cursor("", 0)
        with pytest.raises(SessionNotFound if is_owned else NotASession):
            await store.open("a.jsonl")
    assert log.read_bytes() == content
    await store.aclose()


def rewrite_with_an_open_end(log: Path) -> None:
    log.write_bytes(HEADER + line(11) + line(12)[:-1])


def garble(log: Path) -> None:
    log.write_bytes(HEADER + b"z" * (log.stat().st_size - len(HEADER)))


@pytest.mark.parametrize("is_owned", [True, False])
@pytest.mark.parametrize("text", ["", "x" * 400_000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("call", "change", "left"),
    [
        ("pread", shorten, 1),
        ("pread", garble, 0),
        ("pread", rewrite_with_an_open_end, 2),
        ("open", replace, 2),
        ("open", rewrite, 2),
    ],
)
async def test_lines_that_change_while_they_are_read_are_not_mixed_with_others(
    root: Path, log: Path, call: str, change: Callable[[Path], None], left: int, text: str, is_owned: bool
) -> None:
    disk = InterruptedDisk()
    store = FileStore(root, disk=disk, offload=AtOnce(), open_files_max=1)
    log.write_bytes(HEADER + line(1) + b"".join(lines(2, 4, text)))
    (root / "b.jsonl").write_bytes(HEADER + line(1))
    if is_owned:
        await own(store)
    before = (await store.open("a.jsonl")).head
    assert len(await read_all(store, "a.jsonl")) == 4
    await read_all(store, "b.jsonl")  # uses the only open file
    disk.before(call, act=lambda: change(log))
    with pytest.raises(LogReplaced):
        await store.bodies("a.jsonl", before.generation, [2, 4])
    assert disk.act is None
    after = (await store.open("a.jsonl")).head
    assert after.generation != before.generation
    left -= is_owned and change is rewrite_with_an_open_end
    assert after.seq == left
    expected = log.read_bytes()[len(HEADER) :].splitlines()
    assert await read_all(store, "a.jsonl") == expected[:left]
    await store.aclose()


WHOLE_FRAGMENT = line(3)[:-1]
PIECES = [
    line(1), line(2)[:9], line(2)[9:-1], b"\n", b"\n \t", b"\n", WHOLE_FRAGMENT, b" ", b"\r\n", WHOLE_FRAGMENT,
    b"more", b"\n" + line(4) + line(5)[:-1], b"\n", b"[1]", b"\n" + WHOLE_FRAGMENT, b"\n{", b"}\n" + line(6),
]  # fmt: skip


@pytest.mark.parametrize("role", ["reader", "reader of two", "owner"])
@pytest.mark.parametrize("header", [HEADER, PI_HEADER], ids=["native", "pi"])
async def test_what_other_programs_append_is_read_while_whole(root: Path, log: Path, header: bytes, role: str) -> None:
    store = FileStore(root, open_files_max=1)
    content = header if role == "owner" else header[:-1]
    for path in (log, root / "b.jsonl"):
        path.write_bytes(content)
    if role == "owner":
        await own(store)
    before = (await store.open("a.jsonl")).head
    if role != "owner":
        append(log, b"\n")
        content += b"\n"
    generation = (await store.open("a.jsonl")).head.generation
    assert (generation == before.generation) == (role == "owner"), "a header that goes on may be another one"
    for number, piece in enumerate(PIECES):
        append(log, piece)
        content += piece
        *whole, tail = content[len(header) :].split(b"\n")
        expected = [each.removesuffix(b"\r") for each in whole if each.strip()]
        if role != "owner" and is_object(tail):
            expected.append(tail)
        assert (await store.open("a.jsonl")).head == Cursor(generation, len(expected)), number
        assert await read_all(store, "a.jsonl") == expected
        if role == "reader of two":
            await read_all(store, "b.jsonl")  # uses the only open file
            append(root / "b.jsonl", b"\n" + line(number))
    assert log.read_bytes() == content
    other = FileStore(root)
    assert await read_all(other, "a.jsonl") == expected
    await other.aclose()
    await store.aclose()


@pytest.mark.parametrize("added", [0, 3])
@pytest.mark.parametrize("owned", [True, False])
async def test_a_log_that_was_recreated_with_the_same_inode_while_it_was_closed_has_a_new_generation(
    narrow: FileStore, log: Path, owned: bool, added: int
) -> None:
    log.write_bytes(HEADER + b"".join(lines(1, 5)))
    if owned:
        await own(narrow)
    before = (await narrow.open("a.jsonl")).head
    assert len(await read_all(narrow, "a.jsonl")) == 5
    await read_all(narrow, "b.jsonl")
    content = NATIVE.encode_header(header_of("anomaly")) + b"".join(lines(1, 5 + added))
    log.write_bytes(content)
    os.utime(log, ns=(1, 1))  # the clock of the file system may be coarse
    head = (await narrow.open("a.jsonl")).head
    assert head.seq == 5 + added
    assert head.generation != before.generation
    with pytest.raises(LogReplaced):
        await narrow.read("a.jsonl", before.generation, 0)
    assert b"".join(each + b"\n" for each in await read_all(narrow, "a.jsonl")) == content.partition(b"\n")[2]


@pytest.mark.parametrize("last", [6, 9])
@pytest.mark.parametrize("is_open", [True, False])
async def test_readers_notice_a_log_shortened_and_grown(narrow: FileStore, log: Path, is_open: bool, last: int) -> None:
    log.write_bytes(HEADER + b"".join(lines(1, 5, "old")))
    before = (await narrow.open("a.jsonl")).head
    await read_all(narrow, "a.jsonl")
    if not is_open:
        await read_all(narrow, "b.jsonl")
    append(log, line(6, "old"))
    grown = (await narrow.open("a.jsonl")).head
    assert (grown.generation, grown.seq) == (before.generation, 6)
    os.truncate(log, len(HEADER + line(1, "old")))
    append(log, b"".join(lines(2, last, "new")))  # as long as the lines in their place before
    os.utime(log, ns=(1, 1))  # the clock of the file system may be coarse
    head = (await narrow.open("a.jsonl")).head
    assert head.seq == last
    assert head.generation != before.generation
    assert await read_all(narrow, "a.jsonl") == bare([line(1, "old"), *lines(2, last, "new")])


async def test_readers_notice_that_a_missing_log_came_back_with_an_older_content(root: Path, log: Path) -> None:
    store = FileStore(root)
    log.write_bytes(HEADER + b"".join(lines(1, 5)))
    before = (await store.open("a.jsonl")).head
    os.rename(log, root / "elsewhere")
    for _ in range(2):
        with pytest.raises(SessionNotFound):
            await store.open("a.jsonl")
    (root / "elsewhere").write_bytes(HEADER + b"".join(lines(1, 3)))
    os.rename(root / "elsewhere", log)  # with the same inode, which a new file may get as well
    head = (await store.open("a.jsonl")).head
    assert head.seq == 3
    assert head.generation != before.generation
    await store.aclose()


async def test_an_old_snapshot_does_not_hide_a_changed_end_of_the_log(root: Path, log: Path) -> None:
    store = FileStore(root)
    writer = await own(store)
    await writer.append(*lines(1, 5))
    await store.save(writer.lease, "index", writer.head, b"index")
    await store.release([writer.lease])
    await store.aclose()
    before: Any = writer.head
    data = log.read_bytes()
    log.write_bytes(data[: -2 * len(line(5))] + line(9) + line(9))
    again = FileStore(root)
    head = (await again.open("a.jsonl")).head
    assert head.seq == 5
    assert head.generation != before.generation
    assert await again.load("a.jsonl", "index") is None
    await again.aclose()

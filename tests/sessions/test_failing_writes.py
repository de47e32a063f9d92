"""Writes interrupted by a crash or a full disk: nothing else is lost, and nothing is doubled."""

import errno
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias
from zlib import crc32

import pytest

from treering import AppendFailed, AppendInDoubt, MessageEntry, Session, SessionHost, message
from treering.errors import AppendError, SessionExists
from treering.events.disk import OsDisk
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk

from .conftest import texts

Dialect: TypeAlias = Literal["native", "pi", "omp"]
DIALECTS: tuple[Dialect, ...] = ("native", "pi", "omp")
CLOCK = ManualClock()  # native times differ in length: a whole second has no fraction
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def torn_files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.glob("*.torn-*")}


def logs(root: Path) -> list[Path]:
    return list(root.rglob("*.jsonl"))


async def create_session(root: Path, dialect: Dialect) -> Path:
    """Create a session with two messages, and close it."""
    async with SessionHost(root, dialect=dialect, clock=CLOCK) as host:
        session = await host.create("s", cwd="/w")
        await session.append_message("user", "one")
        await session.append_message("assistant", "two", provider="p", model="m")
        return Path(session.file_path or "")


async def texts_in_file(path: Path) -> list[str]:
    """The texts that a host reads which knows nothing but the file."""
    async with SessionHost(path.parent) as host:
        return texts(await (await host.load(path, read_only=True)).messages())


@pytest.mark.feature("U-1")
@every_dialect
@pytest.mark.parametrize(
    "fragment", [b"{", b'{"type":"message","id":"dead', b"\x00" * 4096, b"\xff\xfe", b"[1]", b'"x"']
)
async def test_a_torn_line_is_moved_aside_or_isolated(tmp_path: Path, dialect: Dialect, fragment: bytes) -> None:
    path = await create_session(tmp_path, dialect)
    whole = file_bytes(path)
    append(path, fragment)
    assert await texts_in_file(path) == ["one", "two"]
    assert file_bytes(path) == whole + fragment, "a reader must not change the file"
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        await session.append_message("user", "three")
        assert texts(await session.messages()) == ["one", "two", "three"]
    assert await texts_in_file(path) == ["one", "two", "three"]
    if dialect == "native":
        assert torn_files(path) == {f"s.jsonl.torn-{len(whole)}-{crc32(fragment):08x}": fragment}
        assert file_bytes(path).startswith(whole + b"{")
    else:  # another program may still be writing it, so a newline isolates it
        assert torn_files(path) == {}
        assert file_bytes(path).startswith(whole + fragment + b"\n")
    assert len(file_bytes(path).splitlines()) == len(whole.splitlines()) + (1 if dialect == "native" else 2)


@every_dialect
async def test_a_last_line_with_a_lone_surrogate_and_no_newline_is_kept(tmp_path: Path, dialect: Dialect) -> None:
    path = await create_session(tmp_path, dialect)
    path.write_bytes(file_bytes(path)[:-1].replace(b'"two"', b'"two \\ud83d"'))
    assert await texts_in_file(path) == ["one", "two \ufffd"]
    async with SessionHost(tmp_path / "copies") as host:
        [report] = await host.import_sessions(path)
        assert (report.entries, report.findings) == (2, ())
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        await session.append_message("user", "three")
    assert await texts_in_file(path) == ["one", "two \ufffd", "three"]
    assert torn_files(path) == {}


@pytest.mark.feature("U-2")
@every_dialect
@pytest.mark.parametrize("taken", [0, 1, 60])
@pytest.mark.parametrize("command_id", [None, "c1"])
async def test_an_append_repeated_after_a_partial_write_is_stored_once(
    tmp_path: Path, dialect: Dialect, taken: int, command_id: str | None
) -> None:
    path = await create_session(tmp_path, dialect)
    whole = file_bytes(path)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load(path)
        shown = await session.entries()
        fault = disk.shorten(taken, path="*.jsonl") if taken else disk.fail("write", errno.ENOSPC, path="*.jsonl")
        with pytest.raises(AppendFailed, match="No space left") as caught:
            await append_text(session, "three", command_id)
        assert fault.hits == 1
        assert isinstance(caught.value.__cause__, OSError)
        assert await session.entries() == shown
        entry_id = await append_text(session, "three", command_id)
        if command_id is not None:
            assert await append_text(session, "three", command_id) == entry_id
        assert texts(await session.messages()) == ["one", "two", "three"]
        assert session.path()[-1] == session.leaf_id == entry_id
    assert file_bytes(path).startswith(whole)
    assert sum(b'"three"' in line and is_complete(line) for line in file_bytes(path).splitlines()) == 1
    if dialect == "native":
        assert len(file_bytes(path).splitlines()) == len(whole.splitlines()) + 1
    assert await texts_in_file(path) == ["one", "two", "three"]


async def append_text(session: Session, content: str, command_id: str | None) -> str:
    if command_id is None:
        return await session.append_message("user", content)
    return await session.append_message("user", content, command_id=command_id)


def is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


async def line_length(content: str, root: Path, dialect: Dialect, command_id: str | None) -> int:
    """The length of the line that an identical session writes for this text."""
    path = await create_session(root, dialect)
    async with SessionHost(root, clock=CLOCK) as host:
        before = len(file_bytes(path))
        await append_text(await host.load(path), content, command_id)
    return len(file_bytes(path)) - before


@pytest.mark.feature("U-2")
@every_dialect
@pytest.mark.parametrize("room_again", [True, False])
async def test_an_append_without_a_newline_is_stored_once(tmp_path: Path, dialect: Dialect, room_again: bool) -> None:
    """A line that cannot be taken back counts once a newline follows, so it must not be reported as failed."""
    size = await line_length("three", tmp_path / "probe", dialect, "c1")
    path = await create_session(tmp_path / "root", dialect)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path / "root", disk=disk, clock=CLOCK) as host:
        session = await host.load(path)
        disk.shorten(size - 1, path="*.jsonl")
        if not room_again and dialect != "native":
            disk.fail("write", errno.ENOSPC, path="*.jsonl", nth=3)
        outcome: type[Exception] | None = None
        try:
            await append_text(session, "three", "c1")
        except (AppendFailed, AppendInDoubt) as error:
            outcome = type(error)
        known = texts([entry.message for entry in await session.entries() if isinstance(entry, MessageEntry)])
        if dialect == "native":
            assert (outcome, known) == (AppendFailed, ["one", "two"])
        elif room_again:
            assert (outcome, known) == (None, ["one", "two", "three"])
        else:
            assert outcome is AppendInDoubt
        entry_id = await append_text(session, "three", "c1")
        assert texts(await session.messages()) == ["one", "two", "three"]
        assert session.leaf_id == entry_id
    assert await texts_in_file(path) == ["one", "two", "three"]
    assert len([line for line in file_bytes(path).splitlines() if b'"three"' in line]) == 1


@pytest.mark.feature("U-2")
@every_dialect
async def test_a_batch_repeated_after_a_partial_write_is_stored_once(tmp_path: Path, dialect: Dialect) -> None:
    path = await create_session(tmp_path, dialect)
    disk = FaultyDisk(OsDisk())
    batch = [message("user", f"more {number}") for number in range(3)]
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load(path)
        for taken in (1, 300, 600):
            disk.shorten(taken, path="*.jsonl")
            with pytest.raises(AppendFailed):
                await session.append_many(batch, command_id="c")
            assert texts(await session.messages()) == ["one", "two"]
        ids = await session.append_many(batch, command_id="c")
        assert await session.append_many(batch, command_id="c") == ids
        expected = ["one", "two", "more 0", "more 1", "more 2"]
        assert texts(await session.messages()) == expected
    assert await texts_in_file(path) == expected


@pytest.mark.feature("U-2")
@every_dialect
async def test_a_failed_first_append_leaves_no_file(tmp_path: Path, dialect: Dialect) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, dialect=dialect, disk=disk) as host:
        session = await host.create("s")
        disk.shorten(70, path="*.jsonl")
        with pytest.raises(AppendFailed):
            await session.append_message("user", "one")
        assert logs(tmp_path) == []
        await session.append_message("user", "one")
        assert await texts_in_file(Path(session.file_path or "")) == ["one"]


async def test_after_a_put_in_doubt_a_folder_is_flushed_before_the_next_append_is_acknowledged(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host, SessionHost() as elsewhere:
        await (await host.create("main")).append_message("user", "old")
        other = await elsewhere.create("main")
        await other.append_message("user", "new")
        disk.fail("sync_directory", errno.EIO, path=str(tmp_path), nth=2)  # the first call is for the backup
        with pytest.raises(AppendInDoubt, match="was written, but a power cut may undo that"):
            await host.put(other, replace=True)
        disk.reset_counts()
        session = await host.load("main")
        assert texts(await session.messages()) == ["new"]
        await session.append_message("user", "next")
        assert disk.counts["sync_directory"] > 0
        assert texts(await session.messages()) == ["new", "next"]


@pytest.fixture
async def source() -> AsyncIterator[Session]:
    """A session in memory whose leaf was moved back to the first of its two messages."""
    async with SessionHost() as host:
        session = await host.create("copy")
        first = await session.append_message("user", "one")
        await session.append_message("user", "two")
        await session.branch(first)
        yield session


Copy: TypeAlias = Callable[[SessionHost, Session, Path], Awaitable[object]]

COPIES: dict[str, Copy] = {
    "forked": lambda host, source, _: host.fork_from(source, session_id="copy"),
    "put": lambda host, source, _: host.put(source),
}
IMPORTED: dict[str, Copy] = {"imported": lambda host, _, exported: host.import_sessions(exported)}
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


@pytest.mark.parametrize("times", [1, None])
@pytest.mark.parametrize("copied", (COPIES | IMPORTED).values(), ids=COPIES | IMPORTED)
async def test_a_copy_that_is_in_doubt_has_the_leaf_of_its_source(
    tmp_path: Path, source: Session, copied: Copy, times: int | None
) -> None:
    disk = FaultyDisk(OsDisk())
    root = tmp_path / "root"
    exported = await source.export("json", tmp_path / "copy.json")
    async with SessionHost(root, disk=disk, durability="file") as host:
        await (await host.create("other")).append_message("user", "there is a root")
        disk.fail("sync_directory", errno.EIO, path=str(root), times=times)
        with pytest.raises(AppendInDoubt, match="was written, but a power cut may undo that"):
            await copied(host, source, exported)
        disk.heal()
        assert (await host.load("copy")).leaf_id == source.leaf_id
    async with SessionHost(root) as host:
        assert (await host.load("copy")).leaf_id == source.leaf_id


async def test_a_copy_in_doubt_whose_leaf_cannot_be_saved_says_both(tmp_path: Path, source: Session) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        disk.fail("sync_directory", errno.EIO, path=str(tmp_path))
        disk.fail("open", errno.ENOSPC, path="*.leaf.tmp-*")
        with pytest.raises(AppendInDoubt, match="was written, but a power cut may undo that") as raised:
            await host.put(source)
        assert "copy.jsonl.leaf could not be written" in "".join(raised.value.__notes__)
        assert (await host.load("copy")).message_count == 2


@pytest.mark.parametrize("failing", ["sync_directory", "open"])
@copies
async def test_a_copy_that_failed_can_be_repeated(tmp_path: Path, source: Session, copied: Copy, failing: str) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        disk.fail(failing, errno.EIO, path="*.leaf.tmp-*" if failing == "open" else str(tmp_path), times=None)
        for _ in range(2):
            with pytest.raises(AppendError):
                await copied(host, source, tmp_path)
        disk.heal()
        last = await source.append_message("user", "three")
        session = await copied(host, source, tmp_path)
        assert isinstance(session, Session)
        assert session.leaf_id == last
        with pytest.raises(SessionExists):
            await copied(host, source, tmp_path)


@copies
async def test_a_copy_in_doubt_is_not_replaced_once_continued(tmp_path: Path, source: Session, copied: Copy) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host:
        disk.fail("sync_directory", errno.EIO, path=str(tmp_path))
        with pytest.raises(AppendInDoubt):
            await copied(host, source, tmp_path)
        async with await host.load("copy") as session:
            await session.append_message("user", "continued")
            await session.passivate()
        with pytest.raises(SessionExists):
            await copied(host, source, tmp_path)
        assert (await host.load("copy")).message_count == 3

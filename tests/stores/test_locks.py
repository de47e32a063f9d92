"""Owning a log: other processes, other stores, dead owners, child processes, links and nested roots."""

# ruff: noqa: ASYNC220, ASYNC222, ASYNC240  # blocking is harmless in a test

import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import pytest

from treering.events.disk import Disk, OsDisk
from treering.events.errors import HostClosed, InvalidInput, SessionLocked
from treering.events.stores.base import Append, Committed, Lease
from treering.events.stores.files import FileStore
from treering.events.stores.files.locks import REST, SHARDS, FileLocks, Held, Locks, PrivateLocks, locks_of
from treering.testing.disks import MemoryDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import Writer, line, lines

from .logs import header_for, own

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

FEW_DESCRIPTORS = Path(__file__).with_name("few_descriptors.py")
HOLDER = """
import anyio, sys
from treering.events.stores.files import FileStore
async def main():
    store = FileStore(sys.argv[1])
    [lease] = await store.acquire([sys.argv[2]], "holder")
    print("held" if hasattr(lease, "epoch") else f"refused by {lease.pid} on {lease.host}", flush=True)
    sys.stdin.readline()
    await store.release([lease])
    print("released", flush=True)
    sys.stdin.readline()
anyio.run(main)
"""


class Holder:
    """Another process that owns a log."""

    def __init__(self, root: Path, ref: str) -> None:
        command = [sys.executable, "-c", HOLDER, str(root), ref]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.state = self.read_line()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def advance(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read_line()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


async def ask(store: FileStore, ref: str = "a.jsonl") -> Lease | SessionLocked:
    [answer] = await store.acquire([ref], "me")
    return answer


@pytest.mark.feature("U-5")
@pytest.mark.parametrize("ends", ["killed", "released"])
async def test_a_log_owned_by_another_process_is_locked_until_that_process_is_dead_or_releases_it(
    store: FileStore, root: Path, ends: str
) -> None:
    holder = Holder(root, "a.jsonl")
    try:
        assert holder.state == "held"
        refused = await ask(store)
        assert isinstance(refused, SessionLocked)
        assert (refused.pid, refused.host) == (holder.process.pid, os.uname().nodename)
        assert str(holder.process.pid) in str(refused)
        if ends == "killed":
            holder.process.send_signal(signal.SIGKILL)
            holder.process.wait()
        else:
            assert holder.advance() == "released"
        await (await own(store)).append(line(1))
    finally:
        holder.kill()


async def test_another_process_cannot_own_our_log(store: FileStore, root: Path) -> None:
    writer = await own(store)
    await writer.append(line(1))
    os.close(os.open(root / "a.jsonl", os.O_RDWR))  # POSIX locks are lost when any descriptor of the file is closed
    for shard in (root / ".treering" / "locks").iterdir():
        os.close(os.open(shard, os.O_RDWR))
    holder = Holder(root, "a.jsonl")
    holder.kill()
    assert holder.state == f"refused by {os.getpid()} on {os.uname().nodename}"


async def test_a_child_process_inherits_no_lock(store: FileStore, root: Path) -> None:
    await own(store)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        await store.aclose()
        other = FileStore(root)
        await own(other)
        await other.aclose()
    finally:
        child.communicate(b"\n")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_inherits_no_lock_and_cannot_append(root: Path) -> None:
    store = FileStore(root, durability="group")
    writer = await own(store)
    await writer.append(line(1))
    request = Append(writer.lease, writer.head, (line(2),))
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        refused = b"no"
        try:
            store.try_append(request)
        except HostClosed:
            refused = b"ok"
        if any(".journal" in os.path.realpath(f"/dev/fd/{fd}") for fd in os.listdir("/dev/fd")):
            refused = b"no"
        os.write(ready[1], refused)
        os.read(go[0], 1)
        os._exit(0)
    try:
        assert os.read(ready[0], 2) == b"ok"
        other = FileStore(root)
        assert isinstance(await ask(other), SessionLocked), "the child closed its copies, and our lock must remain"
        await store.aclose()
        await own(other)
        await other.aclose()
    finally:
        os.write(go[1], b".")
        os.waitpid(child, 0)
        for fd in (*ready, *go):
            os.close(fd)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_that_closes_its_store_leaves_the_journal_to_its_parent(root: Path) -> None:
    store = FileStore(root, durability="group", offload=AtOnce())

    async def begin() -> Writer:
        writer = await own(store)
        await writer.append(line(1))
        return writer

    writer = anyio.run(begin)
    journals = sorted((root / ".treering" / "journal").iterdir())
    assert journals
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            anyio.run(store.aclose)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted((root / ".treering" / "journal").iterdir()) == journals
    anyio.run(writer.append, line(2))
    anyio.run(store.aclose)
    assert (root / "a.jsonl").read_bytes() == header_for() + b"".join(lines(1, 2))
    assert list((root / ".treering" / "journal").iterdir()) == []


async def test_a_log_has_one_owner_through_all_symlinks(store: FileStore, root: Path, tmp_path: Path) -> None:
    await (await own(store, "work/a.jsonl")).append(line(1))
    (tmp_path / "folder").symlink_to(root / "work")
    (root / "b.jsonl").symlink_to(root / "work" / "a.jsonl")
    others = [
        (FileStore(root), "work/a.jsonl"),
        (FileStore(root), "b.jsonl"),
        (FileStore(tmp_path / "folder"), "a.jsonl"),
        (FileStore(root / "work"), "a.jsonl"),
        (FileStore(tmp_path), "sessions/work/a.jsonl"),
        (FileStore(tmp_path / "elsewhere"), str(root / "work" / "a.jsonl")),
        (FileStore(tmp_path / "elsewhere"), str(tmp_path / "folder" / "a.jsonl")),
    ]
    for other, ref in others:
        assert isinstance(await ask(other, ref), SessionLocked), (other.root, ref)
        await other.aclose()


@pytest.mark.parametrize("created_again", [False, True])
async def test_deleted_lock_files_are_created_again(store: FileStore, root: Path, created_again: bool) -> None:
    names = [f"{number}.jsonl" for number in range(4 * SHARDS)]  # so that each lock file is open
    descriptors = len(os.listdir("/dev/fd"))
    before = await store.acquire(names, "me")
    shutil.rmtree(root / ".treering" / "locks")
    other = FileStore(root)
    if created_again:
        await other.acquire([f"theirs-{name}" for name in names], "other")
    after = [f"after-{name}" for name in names]
    assert all(isinstance(lease, Lease) for lease in await store.acquire(after, "me"))
    assert isinstance(await ask(store, names[0]), SessionLocked), "a store remembers what it owns"
    assert all(isinstance(refused, SessionLocked) for refused in await other.acquire(after, "other"))
    await store.release([lease for lease in before if isinstance(lease, Lease)])
    assert all(isinstance(lease, Lease) for lease in await other.acquire(names, "other"))
    await other.aclose()
    await store.aclose()
    assert len(os.listdir("/dev/fd")) == descriptors


async def test_the_epoch_grows_with_each_owner_through_whichever_root(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    epochs: list[int] = []
    for root in ["inner"] * 3 + [""] * 3 + ["inner"]:
        store = FileStore(tmp_path / root)
        writer = await own(store, "a.jsonl" if root else "inner/a.jsonl")
        epochs.append(writer.lease.epoch)
        await store.aclose()
    assert epochs == list(range(1, 8))


@pytest.mark.parametrize(("kind", "name", "at"), [(Locks, "32", 540096), (FileLocks, "dece991d34a83df2", 0)])
def test_other_versions_find_the_holder_and_the_epoch_of_a_log(
    tmp_path: Path, kind: Callable[[Disk, str], Locks], name: str, at: int
) -> None:
    key = 0xDECE991D34A83DF2  # a hash of the name
    for epoch in 1, 2:
        locks = kind(OsDisk(), str(tmp_path))
        assert isinstance(locks.take(f"{tmp_path}/a.jsonl"), Held)
        slots = (tmp_path / ".treering" / "locks" / name).read_bytes()
        assert struct.unpack_from("<QQI", slots, at) == (key, epoch, os.getpid())
        locks.close()


def narrow(disk: Disk, root: str) -> Locks:
    """Return the locks of a process that may hold one lock file open."""
    return Locks(disk, root, 1)


@pytest.mark.parametrize(("kind", "open_max"), [(Locks, SHARDS), (FileLocks, 500), (narrow, 2)])
def test_lock_files_are_few_and_closed_later(tmp_path: Path, kind: Callable[[Disk, str], Locks], open_max: int) -> None:
    needed = 16 * open_max if kind is Locks else open_max + 100  # shards have a share of what the process may open
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < needed:
        pytest.skip(f"needs {needed} descriptors")
    locks = kind(OsDisk(), str(tmp_path))
    before = len(os.listdir("/dev/fd"))
    paths = [f"{tmp_path}/{number}.jsonl" for number in range(500)]
    held = [locks.take(path) for path in paths]
    assert before < len(os.listdir("/dev/fd")) <= before + open_max
    has_moved = (tmp_path / ".treering" / "locks" / REST).exists()
    assert has_moved == (kind is narrow), "locks share a file only if there are too many files"
    for path, each in zip(paths, held, strict=True):
        assert isinstance(each, Held)
        asker = FileLocks(OsDisk(), str(tmp_path)) if kind is FileLocks else locks_of(OsDisk(), str(tmp_path))
        assert asker.holder(path) is not None
        locks.give_back(each)
        assert asker.holder(path) is None
    assert len(os.listdir("/dev/fd")) == before
    locks.close()


def private(disk: Disk, root: str) -> Locks:
    """Return the locks of a disk in memory."""
    return PrivateLocks(MEMORY, root)


MEMORY = MemoryDisk()
KINDS: dict[str, tuple[Callable[[Disk, str], Locks], ...]] = {
    "shards": (Locks, Locks),
    "files": (FileLocks, FileLocks),
    "narrow": (narrow, narrow),
    "mixed": (Locks, narrow),
    "private": (private, private),
}


@pytest.mark.parametrize("kinds", KINDS)
def test_all_kinds_of_locks_exclude_others_and_increase_the_epoch(tmp_path: Path, kinds: str) -> None:
    first, second = (kind(OsDisk(), str(tmp_path)) for kind in KINDS[kinds])
    others = [f"{tmp_path}/{other}.jsonl" for other in range(9)]
    assert all(isinstance(second.take(other), Held) for other in others)
    path = str(tmp_path / "a.jsonl")
    epochs: list[int] = []
    earlier = Held(path, 0, [])
    for turn in range(6):
        one, two = (first, second) if turn % 2 else (second, first)
        held = one.take(path)
        assert isinstance(held, Held)
        epochs.append(held.epoch)
        two.give_back(earlier)  # it has been given back before
        for each in (one, two):
            descriptors = len(os.listdir("/dev/fd"))
            refused = each.take(path)
            assert isinstance(refused, SessionLocked)
            assert len(os.listdir("/dev/fd")) == descriptors
            assert (refused.pid, refused.host) == (os.getpid(), os.uname().nodename)
        # A process that was just started may share the files for a moment.
        shared = [os.dup(int(fd)) for fd in os.listdir("/dev/fd") if in_locks(fd)]
        one.give_back(held)
        one.give_back(held)
        taken = two.take(path)
        assert isinstance(taken, Held)
        two.give_back(taken)
        for fd in shared:
            os.close(fd)
        epochs.append(taken.epoch)
        earlier = held
    assert epochs == list(range(1, 13))
    second.close()
    assert all(isinstance(first.take(other), Held) for other in others)
    first.close()


def in_locks(fd: str) -> bool:
    try:
        return "/.treering/locks/" in os.readlink(f"/dev/fd/{fd}")
    except OSError:  # that of the listing
        return False


@pytest.mark.parametrize("kind", [Locks, FileLocks, narrow, private])
def test_closing_again_closes_nothing_and_frees_all_held(tmp_path: Path, kind: Callable[[Disk, str], Locks]) -> None:
    """The lock file of the first lock was deleted, so it is open without being looked up any more."""
    needed = 4 * SHARDS + 100  # one for each lock
    if kind is FileLocks and resource.getrlimit(resource.RLIMIT_NOFILE)[0] < needed:
        pytest.skip(f"needs {needed} descriptors")
    before = len(os.listdir("/dev/fd"))
    locks, other = kind(OsDisk(), str(tmp_path)), kind(OsDisk(), str(tmp_path))
    paths = [f"{tmp_path}/{number}.jsonl" for number in range(2 * SHARDS)]
    held = [locks.take(path) for path in paths]
    shutil.rmtree(tmp_path / ".treering" / "locks", ignore_errors=True)
    held += [locks.take(f"{path}-2") for path in paths]
    assert all(isinstance(each, Held) for each in held)
    locks.close()
    assert len(os.listdir("/dev/fd")) == before
    others = [os.open(tmp_path, os.O_RDONLY) for _ in range(9)]
    locks.close()
    for fd in others:
        os.close(fd)
    for taker in (locks, other):
        for path in paths:
            taken = taker.take(path)
            assert isinstance(taken, Held)
            taker.give_back(taken)
    for each in held:
        assert isinstance(each, Held)
        locks.give_back(each)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("error", [FileNotFoundError, IsADirectoryError])
def test_a_lock_that_cannot_be_had_in_one_folder_is_held_in_none(tmp_path: Path, error: type[OSError]) -> None:
    """A folder further up has no file for it, and cannot get one."""
    inner = Locks(OsDisk(), str(tmp_path / "inner"))
    other = Locks(OsDisk(), str(tmp_path / "inner"))
    path = str(tmp_path / "inner" / "a.jsonl")
    held = inner.take(path)  # makes the folder
    assert isinstance(held, Held)
    inner.give_back(held)
    outer = tmp_path / ".treering" / "locks"
    outer.mkdir(parents=True)
    for number in range(SHARDS):
        shard = outer / f"{number:02x}"
        if error is IsADirectoryError:
            shard.mkdir()
        else:
            shard.symlink_to(tmp_path / "nowhere" / "file")
    made: list[str] = []

    class Noting(OsDisk):
        def make_directory(self, path: str) -> None:
            made.append(path)
            super().make_directory(path)

    locks = Locks(Noting(), str(tmp_path / "inner"))
    with pytest.raises(error):
        locks.take(path)
    assert made == [str(tmp_path / "inner" / ".treering" / "locks")] * (8 if error is FileNotFoundError else 1)
    shutil.rmtree(outer)
    for each in (other, locks):
        held = each.take(path)
        assert isinstance(held, Held)
        each.give_back(held)


def test_a_lock_folder_of_our_own_that_cannot_serve_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".treering" / "locks"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError) as caught:
        Locks(OsDisk(), str(tmp_path)).take(f"{tmp_path}/a.jsonl")
    assert caught.value.filename == str(folder)


@pytest.mark.parametrize(("durability", "backend"), [("os", "asyncio"), ("file", "asyncio"), ("group", "trio")])
def test_everything_works_with_64_descriptors(tmp_path: Path, durability: str, backend: str) -> None:
    (tmp_path / ".treering" / "locks").mkdir(parents=True)  # as of a root around the other
    child = [sys.executable, str(FEW_DESCRIPTORS), str(tmp_path / "inner"), durability, backend]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout) == (0, "[100, 100, 100] followed"), done.stderr


async def test_a_folder_without_room_for_lock_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".treering").write_text("a file where a folder should be")
    store = FileStore(tmp_path)
    with pytest.raises(InvalidInput, match=rf"Not a directory: {tmp_path}/.treering\): make that a directory"):
        await ask(store)
    await store.aclose()


async def test_a_log_stays_owned_after_its_file_was_deleted(store: FileStore, root: Path) -> None:
    writer = await own(store)
    await writer.append(line(1))
    (root / "a.jsonl").unlink()
    other = FileStore(root)
    assert isinstance(await ask(other), SessionLocked)
    head = await store.resolve(writer.lease)
    assert (head.generation, head.seq) == ("", 0)
    writer.head, writer._exists = head, False
    outcome = store.try_append(writer.request(line(1)))
    assert isinstance(outcome, Committed)
    assert isinstance(await ask(other), SessionLocked)
    await other.aclose()


async def test_a_store_that_is_closed_while_it_acquires_a_log_does_not_own_it(root: Path) -> None:
    async def run_and_close(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        result = fn(*args)
        await closing.aclose()
        return result

    closing = FileStore(root, offload=run_and_close)
    with pytest.raises(HostClosed):
        await closing.acquire(["a.jsonl"], "me")
    other = FileStore(root)
    assert isinstance((await other.acquire(["a.jsonl"], "you"))[0], Lease)
    await other.aclose()

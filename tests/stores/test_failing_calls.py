"""Each disk call for a log fails once, alone or after another misfortune: what its owner is told, and what is left.

`failing_calls.txt` has the answers by the call that failed; `python -m tests.stores.test_failing_calls` writes it anew.
"""

import errno
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
import structlog

from treering.events.errors import AppendInDoubt, InvalidInput, SessionNotFound, TreeringError
from treering.events.stores.base import Committed, Failed, Fenced, InDoubt, Lease
from treering.events.stores.files import Durability, FileStore, Writes
from treering.events.stores.files.log.table import CHUNK
from treering.testing.disks import Fault, FaultyDisk, MemoryDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, Writer, bare, line, lines

from ..sampling import some_of
from .logs import PI_HEADER, append_to, header_for, own

T = TypeVar("T")

ANSWERS = Path(__file__).with_name("failing_calls.txt")
LOG = "/sessions/a.jsonl"
NEW_HEADER = header_for()
BEGINNINGS = {"new": b"", "torn": NEW_HEADER + line(0) + b'{"half":', "pi": PI_HEADER + line(0) + b'{"half":'}
STORIES: list[tuple[str, Durability, Writes]] = [
    ("new", "os", "inline"),
    ("torn", "file", "inline"),
    ("new", "file", "thread"),
    ("new", "group", "inline"),
    ("pi", "os", "thread"),
    ("pi", "file", "inline"),
]
BATCHES = [lines(1, 1), lines(2, 3), lines(4, 6)]  # the last one is all or nothing
SIZE = len(line(1))
THEIRS, THEIR_FRAGMENT = line(9), b'{"theirs":'


class SharedDisk(FaultyDisk):
    """A disk on which another program may append to the log just before the next write to it."""

    meanwhile = b""

    def write(self, fd: int, data: bytes) -> int:
        if self.meanwhile and self.path_of(fd) == LOG:
            append_to(self.inner, LOG, self.meanwhile)
            self.meanwhile = b""
        return super().write(fd, data)

    def close(self, fd: int) -> None:
        try:
            super().close(fd)
        except OSError:
            self.inner.close(fd)  # as systems do
            raise


MISFORTUNES: dict[str, Callable[[SharedDisk], object]] = {
    "full at once": lambda disk: disk.fail("write", errno.ENOSPC, path=LOG),
    "full after half a line": lambda disk: disk.shorten(SIZE // 2, path=LOG),
    "full after a line": lambda disk: disk.shorten(SIZE, path=LOG),
    "full before the second newline": lambda disk: disk.shorten(2 * SIZE - 1, path=LOG),
    "full before the third newline": lambda disk: disk.shorten(3 * SIZE - 1, path=LOG),
    "no flush": lambda disk: disk.fail("datasync", errno.EIO, path=LOG),
    "their line": lambda disk: setattr(disk, "meanwhile", THEIRS),
    "their fragment": lambda disk: setattr(disk, "meanwhile", THEIR_FRAGMENT),
}
PATHS = dict.fromkeys(
    ("open", "close", "write", "pread", "position", "truncate", "datasync", "stat", "fstat", "rename", "unlink"),
    f"{LOG}*",
) | {"sync_directory": "/sessions", "make_directory": "/sessions"}


class Story:
    """A log that is owned, appended to three times, and released, on a disk where something goes wrong."""

    def __init__(self, beginning: str, durability: Durability, writes: Writes) -> None:
        self.said: list[str] = []
        self.memory = MemoryDisk()
        if beginning != "new":
            self.memory.make_directory("/sessions")
            append_to(self.memory, LOG, BEGINNINGS[beginning])
            self.memory.settle()
        self.beginning, self.durability = beginning, durability
        self.acknowledged = [] if beginning == "new" else bare([line(0)])
        self.disk = SharedDisk(self.memory)
        self.open = partial(FileStore, "/sessions", durability=durability, writes=writes, offload=AtOnce())

    async def tell(
        self, misfortune: str, at: int | None, fail: Callable[[FaultyDisk], Callable[[], bool]] = lambda _: lambda: True
    ) -> list[str] | None:
        """Tell it, with a misfortune at one of the appends, or none, and a call that fails from then on.

        Returns:
            What its owner was told, except that all is well; None if the call was not made until that append was over.
        """
        store = self.open(disk=self.disk)
        has_failed = fail(self.disk) if at is None else lambda: True
        [lease] = await self.say("not owned", lambda: store.acquire(["a.jsonl"], "me"))
        assert isinstance(lease, Lease)
        writer = Writer(store, lease)
        for number, batch in enumerate(BATCHES):
            if number == at:
                MISFORTUNES[misfortune](self.disk)
                has_failed = fail(self.disk)
            await self.add(writer, batch, in_order=misfortune != "their fragment")
            if number == at and not has_failed():
                return None
            if self.durability != "os":
                await self.check(self.memory.crash())
        await self.say("not saved", lambda: store.save(lease, "leaf", writer.head, b"leaf"))
        await store.save(lease, "index", writer.head, b"index")
        await store.release([lease])
        await store.aclose()
        if at is None and not has_failed():
            return None
        assert self.memory.open_files == 0
        await self.check(self.memory)
        self.check_files(misfortune)
        return self.said

    async def add(self, writer: Writer, wanted: list[bytes], *, in_order: bool) -> None:
        """Append lines as an owner does: after a failure those that are missing, in doubt after looking."""
        is_atomic, store, ref = len(wanted) == 3, writer.store, writer.lease.ref
        for _ in range(4):
            [outcome] = await store.append([writer.request(*wanted, atomic=is_atomic)])
            if isinstance(outcome, Committed):
                self.acknowledged += bare(wanted)
                writer.head, writer._exists = outcome.head, True
                return
            if isinstance(outcome, InDoubt):
                self.said.append(f"in doubt ({outcome.error})")
                head = await self.say("still in doubt", lambda: store.resolve(writer.lease))
                self.said.append(f"resolved at +{head.seq - writer.head.seq}")
            else:
                assert isinstance(outcome, Failed | Fenced)
                head = outcome.head
                why = f" ({outcome.error})" if isinstance(outcome, Failed) else ""
                self.said.append(f"{type(outcome).__name__} at +{head.seq - writer.head.seq}{why}")
            landed: list[bytes] = []
            if head.seq > writer.head.seq:
                read = partial(store.read, ref, head.generation, writer.head.seq)
                landed = [each for each in (await self.say("not read", read)).lines if each + b"\n" in wanted]
            assert landed == bare(wanted)[: len(landed)] or not in_order
            self.acknowledged += landed
            wanted = [each for each in wanted if each[:-1] not in landed]
            writer.head, writer._exists = head, bool(head.generation)
            if not wanted:
                return
        raise AssertionError(f"the append never succeeded: {self.said}")

    async def say(self, failure: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call something until it succeeds, and say why it did not."""
        for _ in range(3):
            try:
                return await call()
            except (OSError, TreeringError) as error:
                self.said.append(f"{failure} ({error})")
        raise AssertionError(f"it never succeeded: {self.said}")

    async def check(self, disk: MemoryDisk) -> None:
        """Check that the next host finds what was acknowledged, once and in order."""
        store = self.open(disk=disk)
        lease = (await own(store)).lease
        page = await store.read("a.jsonl", lease.head.generation, 0)
        assert [each for each in page.lines if each + b"\n" in lines(0, 6)] == self.acknowledged
        await store.release([lease])
        await store.aclose()

    def check_files(self, misfortune: str) -> None:
        files = {path: data for path, data in self.memory.files().items() if ".treering" not in path}
        assert {path for path in files if ".torn-" not in path} | {f"{LOG}.index"} == {
            LOG, f"{LOG}.index", f"{LOG}.leaf"
        }  # fmt: skip
        if self.beginning != "pi" and misfortune != "their fragment":
            whole = NEW_HEADER + b"".join(lines(1 if self.beginning == "new" else 0, 6))
            assert files[LOG].replace(THEIRS, b"") == whole


async def answers(beginning: str, durability: Durability, writes: Writes, misfortune: str) -> str:
    """Return what is said about a misfortune at each append, and which calls, failing after it, have it said."""
    told: dict[str, dict[str, None]] = {}
    places = range(beginning == "new" and misfortune.startswith("their"), len(BATCHES))
    for at in places if misfortune else [None]:
        for reply in await Story(beginning, durability, writes).tell(misfortune, at) or ():
            told.setdefault(reply, {})["itself"] = None
        for call, path in PATHS.items():
            for nth in count(1):

                def fail(disk: FaultyDisk, call: str = call, path: str = path, nth: int = nth) -> Callable[[], bool]:
                    fault = disk.fail(call, errno.EIO, path=path, nth=nth)
                    return lambda: fault.hits > 0

                said = await Story(beginning, durability, writes).tell(misfortune, at, fail)
                if said is None:
                    break
                for reply in said:
                    if "itself" not in told.setdefault(reply, {}):
                        told[reply][call] = None
    return format_answers(f"{beginning}, {durability}: {misfortune or 'no misfortune'}", told)


def format_answers(title: str, told: dict[str, dict[str, None]]) -> str:
    text = "\n".join([title, *(f"  {reply}: {', '.join(calls)}" for reply, calls in sorted(told.items()))])
    return text.replace(f".tmp-{os.getpid()}-", ".tmp-").replace(LOG, "LOG")


def check_answers(found: str) -> None:
    [expected] = [each for each in ANSWERS.read_text().split("\n\n") if each.startswith(found.splitlines()[0])]
    assert found == expected.strip()


CASES = list(product(STORIES, ["", *MISFORTUNES]))


@pytest.mark.feature("U-2", "U-6")
@pytest.mark.parametrize(
    ("story", "misfortune"), some_of(CASES, 4), ids=lambda each: each if isinstance(each, str) else each[:2]
)
async def test_after_any_failing_call_the_owner_is_told_and_no_acknowledged_line_is_lost_or_doubled(
    story: tuple[str, Durability, Writes], misfortune: str
) -> None:
    check_answers(await answers(*story, misfortune))


NEW_LINES = lines(11, 13)
WHOLE = NEW_HEADER + b"".join(NEW_LINES)
PUTS: list[tuple[str, Durability]] = [
    (before, durability)
    for before in ("nothing", "three lines", "a log in doubt")
    for durability in ("os", "file", "group")
]


async def put(
    before: str, durability: Durability, after_doubt: str, fail: Callable[[FaultyDisk], Fault]
) -> list[str] | None:
    """Replace a log while a call fails, go on after that, and return what its owner was told; None if none failed."""
    story = Story("new", durability, "inline")
    memory, disk, said = story.memory, story.disk, story.said
    store = story.open(disk=disk)
    writer = await own(store)
    if before != "nothing":
        await writer.append(*lines(1, 3))
        await store.save(writer.lease, "leaf", writer.head, b"leaf")
    if before == "a log in doubt":
        disk.fail("sync_directory", errno.EIO, path="/sessions", nth=2 + (durability == "group"))
        with pytest.raises(AppendInDoubt):
            await store.put(writer.lease, NATIVE, NEW_HEADER, lines(5, 6))
        memory.unlink(f"{LOG}.bak")
        memory.settle()
    old = logs_of(memory)
    fault = fail(disk)
    try:
        head = await store.put(writer.lease, NATIVE, NEW_HEADER, iter(NEW_LINES))
        assert head.generation not in {0, writer.head.generation}
        assert head.seq == len(NEW_LINES)
        writer.head = head
    except AppendInDoubt as error:
        said.append(f"in doubt ({error})")
    except OSError as error:
        said.append(f"not put ({error})")
        assert logs_of(memory) == old
    else:
        assert logs_of(memory.crash())[LOG] == WHOLE
    if not fault.hits:
        disk.heal()
    if logs_of(memory) != old:
        expected = {LOG: WHOLE} | ({f"{LOG}.bak": old[LOG]} if old else {})
        found = {path: data for path, data in logs_of(memory).items() if path != f"{LOG}.leaf"}
        assert found == expected, (fault.call, sorted(found), said)
        assert f"{LOG}.leaf" not in memory.files() or fault.hits
    content = logs_of(memory).get(LOG, NEW_HEADER) + line(21)
    if said and said[-1].startswith("in doubt"):
        if after_doubt == "repeat":
            if "read the session again" in said[-1]:
                await store.resolve(writer.lease)
            writer.head = await store.put(writer.lease, NATIVE, NEW_HEADER, NEW_LINES)
        elif after_doubt == "look":
            with suppress(SessionNotFound):
                writer.head = (await store.open("a.jsonl")).head
    writer._exists = bool(writer.head.generation)
    [outcome] = await store.append([writer.request(line(21))])
    if not isinstance(outcome, Committed):
        said.append(f"{after_doubt} and be {type(outcome).__name__}")
        writer.head, writer._exists = await store.resolve(writer.lease), True
        await writer.append(line(21))
    if durability != "os":
        await recovered(story, memory.crash(), content)
    await store.aclose()
    assert memory.open_files == 0
    await recovered(story, memory, content)
    return said if fault.hits else None


def logs_of(memory: MemoryDisk) -> dict[str, bytes]:
    return {path: data for path, data in memory.files().items() if not re.search(r"/\.treering/|\.index$", path)}


async def recovered(story: Story, disk: MemoryDisk, expected: bytes) -> None:
    store = story.open(disk=disk)
    await store.acquire(["a.jsonl"], "next")
    await store.aclose()
    assert disk.files()[LOG] == expected


async def put_answers(before: str, durability: Durability) -> str:
    told: dict[str, dict[str, None]] = {}
    for after_doubt, (call, path) in product(("append", "look", "repeat"), PATHS.items()):
        for nth in count(1):
            fail = partial(FaultyDisk.fail, call=call, number=errno.EIO, path=path, nth=nth)
            said = await put(before, durability, after_doubt, fail)
            if said is None:
                break
            told.setdefault(", ".join(said) or "nothing", {})[f"{call} {nth}"] = None
    return format_answers(f"a log is put in place of {before}, {durability}", told)


@pytest.mark.parametrize(("before", "durability"), some_of(PUTS, 4))
async def test_after_a_failing_call_a_replaced_log_is_old_or_new(before: str, durability: Durability) -> None:
    check_answers(await put_answers(before, durability))


@pytest.mark.parametrize("size", [CHUNK // 4, CHUNK // 4 - 1, CHUNK // 4 + 1, CHUNK - 1, CHUNK, CHUNK + 1])
async def test_a_log_is_put_chunk_by_chunk(size: int) -> None:
    class Sizes(FaultyDisk):
        def write(self, fd: int, data: bytes) -> int:
            if self.path_of(fd).startswith(f"{LOG}.tmp-"):
                written.append(len(data))
            return super().write(fd, data)

    written: list[int] = []
    disk = MemoryDisk()
    store = FileStore("/sessions", disk=Sizes(disk), offload=AtOnce())
    lease = (await own(store)).lease
    bodies = [line(number, "x" * (size - len(line(number)))) for number in range(1, 10)]
    await store.put(lease, NATIVE, NEW_HEADER, iter(bodies))
    assert {len(each) for each in bodies} == {size}
    in_one = -(-CHUNK // size)
    rest = [9 % in_one * size] if 9 % in_one else []
    assert written == [len(NEW_HEADER), *[in_one * size] * (9 // in_one), *rest]
    assert disk.files()[LOG] == NEW_HEADER + b"".join(bodies)
    for bad in ([*bodies, b"no newline"], [b"{}\n{}\n"], [b"\n"]):
        with pytest.raises(InvalidInput):
            await store.put(lease, NATIVE, NEW_HEADER, bad)
        assert logs_of(disk) == {LOG: NEW_HEADER + b"".join(bodies)}


async def write_answers() -> None:
    found = [await answers(*story, misfortune) for story, misfortune in CASES]
    found += [await put_answers(*case) for case in PUTS]
    ANSWERS.write_text("\n\n".join(found) + "\n")


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    anyio.run(write_answers)

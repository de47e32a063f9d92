"""Projections of a program: computed once, checkpointed beside the log, and unable to disturb anything else."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering import Changed, Entry, Header, MessageEntry, Session, SessionHost, Snapshot, Usage, plain_text
from treering.errors import InvalidInput, ProjectionFailed
from treering.events.stores.base import Store
from treering.events.stores.files import FileStore
from treering.events.stores.memory import MemoryStore
from treering.events.stores.shelf import Shelf
from treering.projections import UsageProjection, WorkProjection


class Words:
    """A projection that counts words, and records the seqs that it applied."""

    name = "words"

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.poison: str | None = None

    def initial(self, header: Header) -> int:
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        self.applied.append(entry.seq)
        if not isinstance(entry, MessageEntry):
            return value, None
        words = plain_text(entry.message.content).split()
        if self.poison in words:
            raise RuntimeError("the projection is broken")
        return value + len(words), len(words)

    def dump(self, value: int) -> bytes:
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        return int(blob)


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Create a store over the same content, as after a restart."""
    shelf = Shelf()
    return lambda: MemoryStore(shelf) if request.param == "memory" else FileStore(tmp_path)


@pytest.fixture
def words() -> Words:
    return Words()


async def fill(session: Session, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await session.append_message("user", " ".join(["word"] * number))


async def save_checkpoint(store: Store, words: Words) -> None:
    """Leave a session of twenty messages whose words were counted."""
    async with SessionHost(store=store) as host:
        session = await host.create("one")
        await fill(session, 1, 20)
        await session.view(words)


@pytest.mark.feature("X-23")
async def test_a_projection_resumes_its_checkpoint_and_equals_anew(store: Callable[[], Store], words: Words) -> None:
    async with SessionHost(store=store()) as host:
        session = await host.create("one")
        await fill(session, 1, 20)
        assert await session.view(words) == 210
        assert words.applied == list(range(1, 21))
        await fill(session, 21, 25)
        assert await session.view(words) == 325
        assert words.applied == list(range(1, 26))
        assert await session.view(words) == 325
    restarted = Words()
    async with SessionHost(store=store()) as host:
        session = await host.load("one")
        assert await session.view(restarted) == 325
        assert restarted.applied == []
        await fill(session, 26, 27)
        assert await session.view(restarted) == 378
        assert restarted.applied == [26, 27]
        anew = Words()
        assert await session.rebuild(anew) == 378
        assert anew.applied == list(range(1, 28))
        assert await session.passivate()
        again = Words()
        assert await session.view(again) == 378
        assert again.applied == []


@pytest.mark.feature("X-23")
async def test_a_subscription_begins_from_the_checkpoint(store: Callable[[], Store], words: Words) -> None:
    await save_checkpoint(store(), words)
    restarted = Words()
    async with SessionHost(store=store()) as host:
        session = await host.load("one")
        await fill(session, 21, 21)
        async with session.subscribe(restarted) as changes:
            assert await anext(changes) == Snapshot(session.cursor, 231)
            assert restarted.applied == [21]
            await fill(session, 22, 23)
            before = session.cursor.seq - 1
            first, second = await anext(changes), await anext(changes)
            assert (first.cursor.seq, second.cursor) == (before, session.cursor)
            assert (first, second) == (Changed(first.cursor, 22), Changed(second.cursor, 23))
            assert restarted.applied == [21, 22, 23]


@pytest.mark.feature("X-23")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) - 2], id="torn"),
        pytest.param(lambda data: data.replace(b"210", b"999"), id="changed"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"\0" * len(data), id="zeros"),
        pytest.param(lambda data: data.replace(b'"seq":20', b'"seq":21'), id="beyond"),
        pytest.param(lambda data: data.replace(b'"generation":"', b'"generation":"f'), id="foreign"),
    ],
)
async def test_a_damaged_checkpoint_is_ignored(tmp_path: Path, words: Words, damage: Callable[[bytes], bytes]) -> None:
    await save_checkpoint(FileStore(tmp_path), words)
    checkpoint = tmp_path / "one.jsonl.view-words"
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    restarted = Words()
    async with SessionHost(tmp_path) as host:
        assert await (await host.load("one")).view(restarted) == 210
        assert restarted.applied == list(range(1, 21))
        assert [row.id for row in await host.list_sessions()] == ["one"]


@pytest.mark.feature("X-23")
async def test_a_replaced_logs_checkpoint_is_ignored_and_deleted_with_its_session(tmp_path: Path, words: Words) -> None:
    await save_checkpoint(FileStore(tmp_path), words)
    log = tmp_path / "one.jsonl"
    kept = log.read_bytes().splitlines(keepends=True)
    log.unlink()
    log.write_bytes(b"".join(kept[:11]))
    async with SessionHost(tmp_path) as host:
        session = await host.load("one")
        restarted = Words()
        assert await session.view(restarted) == 55
        assert restarted.applied == list(range(1, 11))
        await host.delete("one")
    assert [name for name in os.listdir(tmp_path) if name.startswith("one")] == []


@pytest.mark.feature("X-23")
async def test_a_checkpoint_that_a_projection_cannot_load_is_ignored(store: Callable[[], Store], words: Words) -> None:
    class Renewed(Words):
        def load(self, blob: bytes) -> int:
            raise ValueError("another version wrote this")

    await save_checkpoint(store(), words)
    renewed = Renewed()
    async with SessionHost(store=store()) as host:
        assert await (await host.load("one")).view(renewed) == 210
        assert renewed.applied == list(range(1, 21))


@pytest.mark.feature("X-6")
async def test_a_projection_that_raised_stays_failed_until_rebuilt(store: Callable[[], Store], words: Words) -> None:
    async with SessionHost(store=store()) as host:
        session, other = await host.create("one"), await host.create("other")
        await fill(session, 1, 3)
        await fill(other, 1, 1)
        async with session.subscribe(words) as changes, session.subscribe("tree") as tree:
            assert await anext(changes) == Snapshot(session.cursor, 6)
            await anext(tree)
            words.poison = "poison"
            await session.append_message("user", "poison")
            with pytest.raises(ProjectionFailed, match="RuntimeError"):
                await anext(changes)
            with pytest.raises(ProjectionFailed, match="RuntimeError"):
                await session.view(words)
            with pytest.raises(ProjectionFailed, match="rebuild"):
                await session.view(words)
            await fill(session, 1, 1)
            assert (await anext(tree)).cursor.seq == 4
            assert await other.view(words) == 1
            words.poison = None
            assert await session.rebuild(words) == 8
            assert await anext(changes) == Snapshot(session.cursor, 8)
            await fill(session, 2, 2)
            assert await anext(changes) == Changed(session.cursor, 2)


async def test_a_session_can_be_passivated_although_dumping_a_projection_fails(tmp_path: Path) -> None:
    class Undumpable(Words):
        def dump(self, value: int) -> bytes:
            raise RuntimeError("it cannot be dumped")

    async with SessionHost(tmp_path) as host:
        session = await host.create("one")
        await fill(session, 1, 3)
        await session.view(Undumpable())
        assert await session.passivate()
        assert await session.view(Undumpable()) == 6


async def test_a_checkpoint_is_written_once_for_the_same_value() -> None:
    class Counted(Words):
        dumped = 0

        def dump(self, value: int) -> bytes:
            self.dumped += 1
            return super().dump(value)

    words = Counted()
    async with SessionHost() as host:
        session = await host.create("one")
        await fill(session, 1, 3)
        for _ in range(3):
            await session.reset_leaf()
            assert await session.view(words) == 6
            assert await session.passivate()
        assert (words.dumped, words.applied) == (1, [1, 2, 3])
        await fill(session, 4, 4)
        assert await session.view(words) == 6 + 4
        assert await session.passivate()
        assert (words.dumped, words.applied) == (2, [1, 2, 3, 4])


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a.jsonl", "a\0b", "x" * 65, "a b"])
async def test_a_name_that_could_be_a_path_is_refused(store: Callable[[], Store], words: Words, name: str) -> None:
    words.name = name
    async with SessionHost(store=store()) as host:
        session = await host.create("one")
        await fill(session, 1, 1)
        with pytest.raises(InvalidInput):
            await session.view(words)
        with pytest.raises(InvalidInput):
            session.subscribe(words)


@pytest.mark.parametrize("name", ["tree", "entries", "treering-usage", "treering-stats", "treering-of-a-program"])
async def test_the_names_of_the_librarys_own_views_are_reserved(words: Words, name: str) -> None:
    words.name = name
    async with SessionHost() as host:
        session = await host.create("one")
        await fill(session, 1, 1)
        with pytest.raises(InvalidInput, match=f"'{name}' is reserved for treering: choose another name"):
            session.subscribe(words)
        for fold in session.view, session.rebuild:
            with pytest.raises(InvalidInput, match=f"'{name}'"):
                await fold(words)
        with pytest.raises(InvalidInput, match="choose 'context', 'entries', 'labels', 'session_state' or 'tree'"):
            session.subscribe("nothing")


class InheritedName(UsageProjection):
    """A program's own subclass that has no name of its own."""


async def test_a_subclass_of_a_library_projection_needs_another_name() -> None:
    async with SessionHost() as host:
        session = await host.create("one")
        with pytest.raises(InvalidInput, match="choose another name"):
            await session.view(InheritedName())
        assert await session.view(UsageProjection()) == await session.rebuild(UsageProjection())


@pytest.mark.parametrize("name", ["usage", "event_count", "event-count", "stats", "state"])
async def test_a_programs_projection_alters_no_figure(store: Callable[[], Store], words: Words, name: str) -> None:
    words.name = name
    for number in range(2):
        async with SessionHost(store=store()) as host:
            session = await host.open("one")
            await fill(session, number + 1, number + 1)
            assert await session.view(words) == (1, 3)[number]
            assert await session.event_count() == number + 1
            assert await session.total_usage() == Usage()
            assert (await session.stats()).message_count == number + 1
            assert (await session.view(WorkProjection())).original_task is not None
            async with session.subscribe(words) as changes, session.subscribe(UsageProjection()) as usage:
                await anext(changes)
                await anext(usage)
            assert await session.view(words) == (1, 3)[number]


@pytest.mark.parametrize(
    ("projection", "hint"),
    [
        ("context", r"'context' is not a projection: call `await session\.context\(\)`"),
        ("tree", r"'tree' is not a projection: call `session\.tree\(\)`"),
        ("labels", r"'labels' is not a projection: call `session\.labels\(\)`"),
        ("nothing", "'nothing' is not a projection: give a projection"),
        (Words, r"give an instance, such as Words\(\)"),
        (5, "5 is not a projection"),
        (None, "None is not a projection"),
    ],
)
async def test_an_argument_that_is_not_a_projection_is_refused_with_what_to_do_instead(
    projection: Any,  # noqa: ANN401  # an invalid argument
    hint: str,
) -> None:
    async with SessionHost() as host:
        session = await host.create("one")
        if not isinstance(projection, str):  # a view may be subscribed to by its name
            with pytest.raises(InvalidInput, match=hint):
                session.subscribe(projection)
        for fold in session.view, session.rebuild:
            with pytest.raises(InvalidInput, match=hint):
                await fold(projection)

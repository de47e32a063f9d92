"""A failure of one actor, projection, subscriber or write does not affect the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from treering import Changed, Entry, Header, Session, SessionHost, Snapshot
from treering.errors import ProjectionFailed
from treering.events.disk import OsDisk
from treering.events.stores.base import Append, Outcome
from treering.testing.disks import FaultyDisk

from ..awaited_store import AwaitedStore


class Count:
    """Counts entries."""

    def __init__(self, name: str) -> None:
        self.name = name

    def initial(self, header: Header) -> int:
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        return value + 1, 1

    def dump(self, value: int) -> bytes:
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        return int(blob)


class Fragile(Count):
    """Counts entries, and raises in the method that `where` names."""

    def __init__(self, *, where: str = "apply") -> None:
        super().__init__("fragile")
        self.where = where

    def initial(self, header: Header) -> int:
        self._raise_in("initial")
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        self._raise_in("apply")
        return value + 1, 1

    def dump(self, value: int) -> bytes:
        self._raise_in("dump")
        return super().dump(value)

    def load(self, blob: bytes) -> int:
        self._raise_in("load")
        return super().load(blob)

    def _raise_in(self, where: str) -> None:
        if self.where == where:
            raise ZeroDivisionError(where)


# -- projections


@pytest.mark.feature("X-6")
@pytest.mark.parametrize("where", ["initial", "apply"])
async def test_a_projection_that_raises_does_not_affect_other_views_and_sessions(tmp_path: Path, where: str) -> None:
    fragile, sound = Fragile(where=where), Count("sound")
    async with SessionHost(tmp_path) as host:
        session, other = await host.create(), await host.create()
        first = await session.append_message("user", "one")
        await other.append_message("user", "elsewhere")
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(ProjectionFailed, match="fragile"):
                    await session.view(fragile)
        (event,) = logs
        assert (event["log_level"], event["session_id"], event["projection"]) == ("error", session.id, "fragile")

        assert await session.view(sound) == 1
        second = await session.append_message("user", "two")
        assert await session.view(sound) == 2
        assert session.path() == [first, second]
        assert [each.entry_id for each in (await session.context()).messages] == [first, second]
        assert await other.view(Count("fragile")) == 1

        with pytest.raises(ProjectionFailed):
            await session.rebuild(fragile)
        fragile.where = "nowhere"
        with pytest.raises(ProjectionFailed):  # it stays failed until it is rebuilt
            await session.view(fragile)
        assert await session.rebuild(fragile) == 2
        assert await session.view(fragile) == 2


@pytest.mark.feature("X-6")
async def test_a_subscribed_projection_that_raises_does_not_affect_other_subscriptions() -> None:
    fragile, sound = Fragile(where="nowhere"), Count("sound")
    async with SessionHost() as host:
        session, other = await host.create(), await host.create()
        async with (
            session.subscribe(fragile) as broken,
            session.subscribe(sound) as changes,
            session.subscribe("tree") as tree,
            session.subscribe() as entries,
            other.subscribe(Count("fragile")) as elsewhere,
        ):
            for subscription in (broken, changes, tree, elsewhere):
                assert isinstance(await anext(aiter(subscription)), Snapshot)
            fragile.where = "apply"
            with capture_logs() as logs:
                one = await session.append_message("user", "one")
                for _ in range(2):
                    with pytest.raises(ProjectionFailed, match="fragile"):
                        await anext(broken)
            assert [(each["log_level"], each["session_id"]) for each in logs] == [("error", session.id)]

            await session.append_message("user", "two")
            await other.append_message("user", "elsewhere")
            for subscription in (changes, changes, tree, tree, elsewhere):
                assert isinstance(await anext(aiter(subscription)), Changed)
            assert (await anext(entries)) == await session.entry(one)

            fragile.where = "nowhere"
            assert await session.rebuild(fragile) == 2
            assert await anext(broken) == Snapshot(session.cursor, 2)


@pytest.mark.feature("X-6")
@pytest.mark.parametrize("where", ["dump", "load"])
async def test_a_view_is_right_if_its_checkpoint_cannot_be_dumped_or_loaded(tmp_path: Path, where: str) -> None:
    fragile = Fragile(where=where)
    async with SessionHost(tmp_path) as host:
        session = await host.create()
        await session.append_message("user", "one")
        assert await session.view(fragile) == 1
        assert await host.passivate_idle() == 1
        await session.append_message("user", "two")
        assert await session.view(fragile) == 2
        assert session.message_count == 2


# -- subscribers


# -- actors


class BrokenStore(AwaitedStore):
    """Raises an unexpected error when it appends to one log."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = ""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        if appends[0].lease.ref == self.broken:
            raise ZeroDivisionError("the store is broken")
        return await super().append(appends)


@pytest.mark.feature("X-6")
async def test_an_actor_that_fails_does_not_affect_other_sessions_and_recovers() -> None:
    store = BrokenStore()
    errors: list[Exception] = []

    async def try_to_append(session: Session) -> None:
        try:
            await session.append_message("user", "lost")
        except ZeroDivisionError as error:
            errors.append(error)

    async with SessionHost(store=store) as host:
        session, other = await host.create(), await host.create()
        first = await session.append_message("user", "one")
        store.broken = session.ref
        with capture_logs() as logs:
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(try_to_append, session)
                    tasks.start_soon(other.append_message, "user", "elsewhere")
        assert {(each["event"], each["log_level"], each["session_id"]) for each in logs} == {
            ("actor_failed", "error", session.id)
        }
        assert len(errors) == 5
        assert session.path() == [first]
        assert other.message_count == 5
        store.broken = ""
        second = await session.append_message("user", "two")
        assert session.path() == [first, second]


# -- writes


@pytest.mark.feature("G-106")
async def test_an_entry_is_shown_only_after_its_write_has_returned(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, writes="thread") as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        stall = disk.stall("position", path="*.jsonl")  # the bytes are in the file, but the write has not returned
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.append_message, "user", "two")
                assert await anyio.to_thread.run_sync(stall.wait)
                assert len((tmp_path / "s.jsonl").read_bytes().splitlines()) == 3
                assert (session.leaf_id, session.message_count) == (first, 1)
                assert [entry.id for entry in await session.entries()] == [first]
                stall.lift()
        finally:
            stall.lift()
        assert session.message_count == 2
        assert session.leaf_id != first

"""A host over a store that finds rows holds none of them: it asks for what it shows, and makes only what changed."""

from datetime import timedelta

import pytest
from tests.stores.finding_store import FindingStore, FoundInMemory

from treering import SessionHost, SessionNotFound, Settings
from treering.actors.catalog import stored
from treering.actors.catalog.rows import Rows
from treering.entries import SessionInfo
from treering.errors import AmbiguousSession
from treering.events.stores.finding import RowQuery
from treering.events.stores.shelf import Shelf
from treering.testing.clocks import ManualClock

SESSIONS = 30


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def found(shelf: Shelf, clock: ManualClock) -> FoundInMemory:
    """The rows of thirty sessions of three projects, written and kept."""
    store = FindingStore(shelf)
    async with SessionHost(store=store, clock=clock) as host:
        for number in range(SESSIONS):
            session = await host.create(f"{'abc'[number % 3]}-{number:02}", cwd=f"/src/{'abc'[number % 3]}")
            await session.append_message("user", f"Task {number}")
    return store.found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logs whose rows were made."""
    names: list[str] = []
    make = Rows.make

    async def noted(self: Rows, wanted: list[tuple[str, object, object]]) -> object:
        names.extend(ref for ref, _, _ in wanted)
        return await make(self, wanted)  # type: ignore[arg-type]  # it is handed on as it is

    monkeypatch.setattr(Rows, "make", noted)
    return names


async def test_only_the_rows_that_are_shown_are_taken_and_only_changed_ones_are_made(
    shelf: Shelf, clock: ManualClock, found: FoundInMemory, made: list[str]
) -> None:
    async with SessionHost(store=FindingStore(shelf), clock=clock) as host:
        found.taken = 0
        assert [row.id for row in await host.list_sessions(limit=3)] == ["c-29", "b-28", "a-27"]
        [*_, last] = await host.list_sessions(limit=3)
        assert [row.id for row in await host.list_sessions(limit=2, after=last)] == ["c-26", "b-25"]
        assert [row.id for row in await host.list_sessions(project="/src/b", limit=1)] == ["b-28"]
        assert (await host.resolve("a-03")).title == "Task 3"
        assert (await host.resolve("last")).id == "c-29"
        with pytest.raises(AmbiguousSession, match=r"^10 sessions match 'c-': c-29 .* and 5 more"):
            await host.resolve("c-")
        with pytest.raises(SessionNotFound):
            await host.resolve("zzz")
        assert (found.taken, made) == (3 + 3 + 2 + 1 + 2 + 1 + 10 + 1, [])
        session = await host.load("b-04")
        await session.append(SessionInfo(name="Renamed"))
        assert [row.name for row in await host.list_sessions(limit=1)] == ["Renamed"]
        assert made == ["b-04.jsonl"]
        again = await host.find_recent(cwd="/src/a")
        assert again is not None
        assert again.id == "a-27"
        assert [row.id for row in await host.list_sessions(limit=2)] == ["a-27", "b-04"]  # that it was loaded counts
        await host.delete("a-27")
        assert [row.id for row in await host.list_sessions(limit=1)] == ["b-04"]
        assert made == ["b-04.jsonl"]
    assert "a-27.jsonl" not in {row.ref for row in (found.rows() or pytest.fail("no rows")).rows.values()}


async def test_hosts_see_each_others_rows(shelf: Shelf, clock: ManualClock, found: FoundInMemory) -> None:
    async with (
        SessionHost(store=FindingStore(shelf), clock=clock) as one,
        SessionHost(store=FindingStore(shelf), clock=clock) as other,
    ):
        await other.list_sessions(limit=1)
        await (await one.load("a-00")).append_message("user", "More")
        assert [row.id for row in await other.list_sessions(limit=1)] == ["a-00"]
        await one.delete("a-00")
        assert (await other.list_sessions(limit=1))[0].id == "c-29"


async def test_a_sweep_goes_page_by_page(
    shelf: Shelf, clock: ManualClock, found: FoundInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PAGE", 7)
    clock.now += timedelta(days=31)
    settings = Settings(max_sessions_per_project=4, auto_archive_after_days=60)
    async with SessionHost(store=FindingStore(shelf), clock=clock, settings=settings) as host:
        await (await host.load("a-00")).append_message("user", "Still in use")
        found.asked.clear()
        report = await host.apply_retention(dry_run=True)
        assert {query.limit for query in found.asked if query.order == "last_entry"} == {7, stored.LOGS_AT_ONCE}
        assert [each.reason for each in report.archived] == ["too_many"] * 18
        assert [each.session_id for each in report.archived[:3]] == ["b-01", "c-02", "a-03"]
        assert len([row async for page in (await host.catalog.listing.now()).pages(RowQuery()) for row in page]) == 30

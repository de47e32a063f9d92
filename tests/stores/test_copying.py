"""Copies of all logs from one store to another, killed at every step and continued."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treering import SessionHost
from treering.errors import SessionLocked
from treering.events.stores.shelf import Shelf
from treering.stores import CopyReport, FileStore, Lease, MemoryStore, Ref, Store, copy_logs

from .copies import content, fill, killed_at_every_step


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[Store]:
    """A store of files with sessions."""
    await fill(tmp_path / "from")
    async with SessionHost(tmp_path / "from") as host:
        for number in range(3):
            await (await host.get_or_create(f"telegram:{number}")).append_message("user", "Hello" * 100)
        await (await host.create("archived")).append_message("user", "Goodbye")
        await host.archive("archived")
    store = FileStore(tmp_path / "from")
    yield store
    await store.aclose()


@pytest.mark.feature("C-14")
@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_a_copy_is_the_same_and_a_second_one_adds_nothing(filled: Store, tmp_path: Path, kind: str) -> None:
    shelf = Shelf()

    def opened() -> Store:
        return MemoryStore(shelf) if kind == "memory" else FileStore(tmp_path / "to", durability="file")

    target = opened()
    noted: list[Ref] = []
    report = await copy_logs(filled, target, note=noted.append)
    expected = await content(filled)
    assert await content(target) == expected
    assert len(expected) == 6
    assert [name for name, (_, _, leaf) in expected.items() if leaf] == ["one.jsonl"]
    assert sorted(noted) == sorted(expected)
    assert (report.logs, report.added, report.failed) == (6, 6, [])
    assert report.lines == sum(len(lines) for _, lines, _ in expected.values())
    assert await copy_logs(filled, target) == CopyReport(logs=6)
    await target.aclose()
    async with SessionHost(store=opened()) as host:
        assert {row.id for row in await host.list_sessions()} >= {"one", "pi"}
        assert [row.id for row in await host.list_sessions(status="archived")] == ["archived"]
        session = await host.load("one")
        assert session.path() == [(await session.entries())[0].id]


@pytest.mark.feature("C-14")
async def test_a_copy_that_is_killed_at_any_step_goes_on_and_is_the_same(tmp_path: Path) -> None:
    await fill(tmp_path / "from")
    source = FileStore(tmp_path / "from")
    await killed_at_every_step(source, lambda number: lambda: FileStore(tmp_path / str(number), durability="file"))
    await source.aclose()


async def test_what_differs_in_the_target_is_left_as_it_is_and_reported(filled: Store, tmp_path: Path) -> None:
    shelf = Shelf()
    await copy_logs(filled, MemoryStore(shelf))
    async with SessionHost(store=MemoryStore(shelf)) as host:
        await (await host.get_or_create("telegram:0")).append_message("user", "there")
        await (await host.get_or_create("telegram:1")).append_message("user", "only there")
    async with SessionHost(tmp_path / "from") as host:
        await (await host.load("one")).append_message("user", "one more")
        await (await host.get_or_create("telegram:0")).append_message("user", "here")
    target = MemoryStore(shelf)
    before = await content(target)
    (lease,) = await target.acquire(["archived.jsonl"], "another")
    assert isinstance(lease, Lease)
    report = await copy_logs(filled, target)
    said = sorted(str(each.error) for each in report.failed)
    assert len(said) == 3
    assert "has 2 lines in the target, and 1 in the source: it was continued there, so nothing was copied" in said[2]
    assert "holds another line 2 in the target than in the source: remove it there" in said[1]
    assert [each.ref for each in report.failed if isinstance(each.error, SessionLocked)] == ["archived.jsonl"]
    after, expected = await content(target), await content(filled)
    for each in report.failed:
        assert after[each.ref] == before[each.ref]
    assert after["one.jsonl"] == expected["one.jsonl"]
    assert (report.logs, report.added, report.lines) == (3, 1, 1)

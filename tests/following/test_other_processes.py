"""Following a session that another process writes, with real processes and real files, and without taking the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering import Changed, Context, Cursor, Entry, Reset, SessionHost, SessionLocked, SessionNotFound, Snapshot

from .other_process import AnotherProcess, seq_and_text


@pytest.mark.feature("X-22")
async def test_a_follower_receives_what_another_process_appends_and_takes_no_lock(
    tmp_path: Path, another_process: AnotherProcess
) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        first = await writer.run("append", "one")
        with pytest.raises(SessionLocked):
            await host.load("shared")
        session = await host.load("shared", read_only=True)
        assert session.leaf_id == first
        async with session.subscribe() as entries, session.subscribe("context") as contexts:
            assert seq_and_text(await anext(entries)) == (1, "one")
            held = await anext(contexts)
            assert isinstance(held, Snapshot)
            second = await writer.run("append", "two")
            assert seq_and_text(await anext(entries)) == (2, "two")
            changed = await anext(contexts)
            assert isinstance(changed, Changed)
            assert changed.change.leaf_id == second
            assert await writer.run("passivate")
            await writer.run("append", "three")  # the follower does not hold the lock
            assert seq_and_text(await anext(entries)) == (3, "three")
            assert (await anext(contexts)).cursor.seq == 3
            await writer.run("batch", "four", "five")
            assert [seq_and_text(await anext(entries)) for _ in range(2)] == [(4, "four"), (5, "five")]
            assert [(await anext(contexts)).cursor.seq for _ in range(2)] == [4, 5]
            await writer.run("branch", first)
            moved = await anext(contexts)
            assert isinstance(moved, Changed)
            assert moved.change.leaf_id == first
        assert isinstance(await session.context(), Context)
        assert session.leaf_id == first


@pytest.mark.feature("X-22")
async def test_a_follower_never_sees_a_torn_tail(tmp_path: Path, another_process: AnotherProcess) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.run("append", "one")
        await writer.run("append", "two")
        await writer.run("passivate")
        line = (tmp_path / "shared.jsonl").read_text().splitlines()[-1]
        line = line.replace('"two"', '"three"').replace('"seq":2', '"seq":3')
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert [seq_and_text(await anext(entries)) for _ in range(2)] == [(1, "one"), (2, "two")]
            for end in range(0, len(line) - 1, 25):
                await writer.run("raw", line[end : min(end + 25, len(line) - 1)])
                await session.refresh()
                assert session.cursor.seq == 2
                assert len(await session.entries()) == 2
            await writer.run("raw", line[-1] + "\n")
            assert seq_and_text(await anext(entries)) == (3, "three")


@pytest.mark.feature("X-22")
@pytest.mark.parametrize("how", ["replace", "cut"])
async def test_a_replaced_or_shortened_file_is_a_reset(
    tmp_path: Path, another_process: AnotherProcess, how: str
) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        for text in "one", "two", "three":
            await writer.run("append", text)
        await writer.run("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            assert [seq_and_text(await anext(entries)) for _ in range(3)] == [(1, "one"), (2, "two"), (3, "three")]
            before = (await anext(trees)).cursor
            await writer.run(how, 2)
            reset = await anext(entries)
            assert reset == Reset(Cursor(session.cursor.generation, 0))
            assert session.cursor.generation != before.generation
            assert seq_and_text(await anext(entries)) == (1, "one")
            snapshot = await anext(trees)
            assert isinstance(snapshot, Snapshot)
            assert snapshot.value == session.tree()
            assert snapshot.cursor == session.cursor
            await writer.run("append", "goes on")
            assert seq_and_text(await anext(entries)) == (2, "goes on")
            assert (await anext(trees)).cursor.seq == 2


async def test_a_subscription_survives_the_deletion_and_recreation_of_the_file(
    tmp_path: Path, another_process: AnotherProcess
) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.run("append", "one")
        await writer.run("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert seq_and_text(await anext(entries)) == (1, "one")
            await writer.run("unlink")
            with pytest.raises(SessionNotFound):
                await session.refresh()
            await writer.run("append", "another history")
            assert isinstance(await anext(entries), Reset)
            found = await anext(entries)
            assert isinstance(found, Entry)
            assert seq_and_text(found) == (1, "another history")

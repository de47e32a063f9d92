"""Entries that are appended aside, below any entry, leave the leaf of the session where it is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Literal

import anyio
import pytest

from treering import DialectCannot, InvalidEntry, Session, SessionHost

AGENTS = 8
TURNS = 12


def log_bytes(session: Session) -> bytes:
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


async def append_turns(session: Session, agent: int, start: str, chains: dict[int, list[str]]) -> None:
    """Append the turns of one agent aside, each below the previous one."""
    chain = chains[agent] = [start]
    for turn in range(TURNS):
        if turn % 4 == 3:
            data = {"agent": agent, "turn": turn}
            chain.append(await session.append_custom_entry("progress", data, below=chain[-1], aside=True))
        else:
            chain.append(await session.append_message("user", f"{agent}-{turn}", below=chain[-1], aside=True))


async def assert_chains_beside_the_path(
    session: Session, main: list[str], leaf: str, chains: dict[int, list[str]]
) -> None:
    assert session.leaf_id == leaf
    assert session.path() == main
    assert len(await session.entries()) == len(main) + AGENTS * TURNS
    for chain in chains.values():
        assert session.path(chain[-1]) == [*main[: main.index(chain[0]) + 1], *chain[1:]]
        for parent, child in pairwise(chain):
            entry = await session.entry(child)
            assert entry is not None
            assert (entry.parent_id, entry.aside) == (parent, True)
    assert [each.entry_id for each in (await session.context()).messages] == main


@pytest.mark.feature("X-10")
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_eight_agents_append_chains_aside_and_the_leaf_does_not_move(
    tmp_path: Path, writes: Literal["inline", "thread"]
) -> None:
    chains: dict[int, list[str]] = {}
    async with SessionHost(tmp_path, writes=writes) as host:
        session = await host.create("s")
        main = [await session.append_message("user", f"main {number}") for number in range(4)]
        leaf = main[-1]
        async with anyio.create_task_group() as tasks:
            for agent in range(AGENTS):
                tasks.start_soon(append_turns, session, agent, main[agent % 4], chains)
        await assert_chains_beside_the_path(session, main, leaf, chains)
        assert await session.passivate()
        await assert_chains_beside_the_path(session, main, leaf, chains)
    async with SessionHost(tmp_path) as host:
        session = await host.load("s")
        await assert_chains_beside_the_path(session, main, leaf, chains)
        assert session.path(await session.append_message("user", "on")) == [*main, session.leaf_id]


@pytest.mark.feature("X-10")
@pytest.mark.parametrize("dialect", ["pi", "omp"])
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_dialect_without_entries_aside_refuses_one_and_writes_nothing(
    tmp_path: Path, dialect: Literal["pi", "omp"], writes: Literal["inline", "thread"]
) -> None:
    async with SessionHost(tmp_path, dialect=dialect, writes=writes) as host:
        session = await host.create()
        first = await session.append_message("user", "one")
        lines = log_bytes(session)
        with pytest.raises(DialectCannot, match=dialect):
            await session.append_message("user", "two", below=first, aside=True)
        assert log_bytes(session) == lines
        assert session.path() == [first]


async def test_an_entry_aside_is_refused_unless_its_parent_is_given() -> None:
    async with SessionHost() as host:
        session = await host.create()
        with pytest.raises(InvalidEntry):
            await session.append_message("user", "one", aside=True)
        await session.append_message("user", "one", below=None, aside=True)
        assert (session.leaf_id, session.message_count) == (None, 1)
        await session.passivate()
        await session.refresh()
        assert (session.leaf_id, session.message_count) == (None, 1)

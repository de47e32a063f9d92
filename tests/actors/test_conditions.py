"""Where an append goes: aside, below an entry, or only if the leaf is the expected one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from treering import EntryNotFound, Message, Session, SessionHost, SessionSummary, message, text, tool_result
from treering.entries import BashExecution, ContextEdit, Custom, CustomMessage, Payload, SessionInfo
from treering.errors import DialectCannot, InvalidEntry, LeafMoved

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


OUTDATED: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "another leaf": lambda ids: {"expected_leaf": ids[0]},
    "no leaf": lambda _: {"expected_leaf": None},
    "an unknown leaf": lambda _: {"expected_leaf": "nothing"},
    "an earlier seq": lambda _: {"expected_seq": 1},
    "a later seq": lambda _: {"expected_seq": 3},
    "the right leaf and a wrong seq": lambda ids: {"expected_leaf": ids[1], "expected_seq": 1},
    "a wrong leaf and the right seq": lambda ids: {"expected_leaf": ids[0], "expected_seq": 2},
    "a wrong leaf beside a place of its own": lambda ids: {"expected_leaf": ids[0], "below": ids[0], "aside": True},
}


@pytest.fixture(params=["inline", "thread"])
def writes(request: pytest.FixtureRequest) -> Literal["inline", "thread"]:
    chosen: Literal["inline", "thread"] = request.param
    return chosen


@pytest.mark.feature("X-9")
@pytest.mark.parametrize("name", OUTDATED)
async def test_an_append_with_an_expectation_that_does_not_hold_is_refused(
    tmp_path: Path, writes: Literal["inline", "thread"], name: str
) -> None:
    async with SessionHost(tmp_path, writes=writes) as host:
        session = await host.create("s")
        ids = [await session.append_message("user", "one"), await session.append_message("assistant", "two")]
        log = tmp_path / "s.jsonl"
        lines, cursor = log.read_bytes(), session.cursor
        with pytest.raises(LeafMoved):
            await session.append_message("user", "three", **OUTDATED[name](ids))
        with pytest.raises(LeafMoved):
            await session.append_many([Custom("a", None), Custom("b", None)], **OUTDATED[name](ids))
        with pytest.raises(LeafMoved):
            await session.set_label(ids[0], "kept", **OUTDATED[name](ids))
        assert log.read_bytes() == lines
        assert (session.cursor, session.leaf_id, session.labels()) == (cursor, ids[1], [])


@pytest.mark.feature("X-9")
async def test_an_append_with_an_expectation_that_holds_is_accepted(
    tmp_path: Path, writes: Literal["inline", "thread"]
) -> None:
    async with SessionHost(tmp_path, writes=writes) as host:
        session = await host.create()
        first = await session.append_message("user", "one", expected_leaf=None, expected_seq=0)
        second = await session.append_message("user", "two", expected_leaf=first, expected_seq=1)
        await session.branch(first)
        with pytest.raises(LeafMoved):  # a move of the leaf counts as well
            await session.append_message("user", "three", expected_leaf=second)
        third = await session.append_message("user", "three", expected_leaf=first, expected_seq=2)
        assert session.path() == [first, third]


@pytest.mark.feature("X-9")
async def test_of_ten_appends_that_expect_the_same_leaf_one_is_accepted(
    tmp_path: Path, writes: Literal["inline", "thread"]
) -> None:
    done: list[str] = []
    refused: list[LeafMoved] = []

    async def try_append(session: Session, leaf: str) -> None:
        try:
            done.append(await session.append_message("user", "mine", expected_leaf=leaf))
        except LeafMoved as error:
            refused.append(error)

    async with SessionHost(tmp_path, writes=writes) as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(try_append, session, first)
        assert (len(done), len(refused)) == (1, 9)
        assert session.path() == [first, *done]
        assert len((tmp_path / "s.jsonl").read_bytes().splitlines()) == 3


async def test_an_unknown_entry_as_parent_or_leaf_is_refused() -> None:
    async with SessionHost() as host:
        session = await host.create()
        with pytest.raises(EntryNotFound):
            await session.append_message("user", "one", below="nothing")
        with pytest.raises(EntryNotFound):
            await session.branch("nothing")
        rows: list[SessionSummary] = await host.list_sessions()
        assert rows == []


EDITABLE: list[tuple[Payload, bool]] = [
    (message("user", "text"), True),
    (message("assistant", "text"), True),
    (Message("tool", (tool_result("call", "text"),)), True),
    (CustomMessage("mine", (text("text"),)), True),
    (message("system", "text"), False),
    (Message("bashExecution", bash=BashExecution("ls", "text", 0)), False),
    (Custom("mine", None), False),
    (SessionInfo("text"), False),
]


@pytest.mark.parametrize(("payload", "editable"), EDITABLE)
async def test_only_what_a_model_is_sent_and_no_instruction_can_be_edited(
    writes: Literal["inline", "thread"], tmp_path: Path, payload: Payload, editable: bool
) -> None:
    async with SessionHost(tmp_path, writes=writes) as host:
        session = await host.create()
        entry_id = await session.append(payload)
        await session.append_message("user", "hello")
        lines = log_bytes(session)
        for replacement in ("edited", None):
            if editable:
                await session.append_context_edit(entry_id, replacement)
                continue
            with pytest.raises(InvalidEntry, match="cannot be edited"):
                await session.append_context_edit(entry_id, replacement)
            with pytest.raises(InvalidEntry, match="cannot be edited"):
                await session.append_many([message("user", "more"), ContextEdit(entry_id)])
            assert log_bytes(session) == lines


PARENTS: dict[str, Callable[[list[str]], str | None]] = {
    "the last one": lambda ids: ids[-1] if ids else None,
    "none": lambda _: None,
    "the first": lambda ids: ids[0] if ids else None,
    "the one before the last": lambda ids: ids[-2] if len(ids) > 1 else None,
    "one chain of five after another": lambda ids: ids[-1] if len(ids) % 5 else None,
    "five of one, the rest of another": lambda ids: None if len(ids) < 2 else ids[-1 if len(ids) < 7 else 1],
}


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("parent", PARENTS.values(), ids=[*PARENTS])
async def test_entries_have_the_same_parents_when_the_log_is_read_again(
    tmp_path: Path, dialect: Literal["native", "pi"], parent: Callable[[list[str]], str | None]
) -> None:
    ids: list[str] = []
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create()
        for number in range(20):
            ids.append(await session.append_message("user", str(number), below=parent(ids)))
        expected, paths = (await session.log()).index, [session.path(entry_id) for entry_id in ids]
        path = session.file_path
        assert path is not None
    parents = [parent(ids[:number]) for number in range(len(ids))]
    assert [entry_path[-2:-1] for entry_path in paths] == [[each] if each else [] for each in parents]
    async with SessionHost(tmp_path) as host:
        again = await host.load(path)
        assert [again.path(entry_id) for entry_id in ids] == paths
        assert (await again.log()).index == expected

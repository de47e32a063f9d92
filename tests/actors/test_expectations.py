"""A caller can state the leaf and the seq that it relies on, and is refused if the session has moved on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from treering import Custom, EntryNotFound, LeafMoved, Session, SessionHost, SessionSummary

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

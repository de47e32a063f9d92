"""A message without options is appended in fewer steps than other commands, and stored exactly alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Entry, Message, Session, SessionHost, TreeringError, text
from treering.testing import strategies
from treering.testing.clocks import ManualClock

AppendOne: TypeAlias = Callable[[Session, Message], Awaitable[object]]
Stored: TypeAlias = tuple[bytes, bytes, list[Entry], list[tuple[type[TreeringError], str]]]


async def plainly(session: Session, message: Message) -> None:
    await session.append(message)


async def as_list(session: Session, message: Message) -> None:
    await session.append_many([message])


async def with_an_expected_leaf(session: Session, message: Message) -> None:
    await session.append(message, expected_leaf=session.leaf_id)


async def stored_by(append: AppendOne, dialect: Literal["native", "pi", "omp"], messages: list[Message]) -> Stored:
    """Append messages, and return the file, the snapshot, the entries and the errors."""
    ids = (f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 1000))
    clock = ManualClock(step=timedelta(milliseconds=7))
    errors: list[tuple[type[TreeringError], str]] = []
    with TemporaryDirectory() as folder:
        async with SessionHost(folder, dialect=dialect, clock=clock, new_id=lambda: next(ids)) as host:
            session = await host.create(cwd="/work")
            for message in messages:
                try:
                    await append(session, message)
                except TreeringError as error:
                    errors.append((type(error), error.message))
            entries, index = await session.entries(), (await session.log()).index.dump()
        return _file(Path(folder, session.ref)), index, entries, errors


def _file(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
@given(messages=st.lists(strategies.messages(), max_size=6))
def test_a_message_is_stored_alike_whichever_way_it_is_appended(
    dialect: Literal["native", "pi", "omp"], messages: list[Message]
) -> None:
    expected = anyio.run(stored_by, as_list, dialect, messages)
    assert anyio.run(stored_by, plainly, dialect, messages) == expected
    assert anyio.run(stored_by, with_an_expected_leaf, dialect, messages) == expected


@pytest.mark.parametrize("append", [plainly, as_list, with_an_expected_leaf])
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_times_do_not_go_back_when_the_clock_does(
    tmp_path: Path, append: AppendOne, writes: Literal["inline", "thread"]
) -> None:
    clock = ManualClock()
    start = clock.now
    async with SessionHost(tmp_path, clock=clock, writes=writes) as host:
        session = await host.create("main")
        for hours in (0, -1, -24, 1, 0, -1):
            clock.now = start + timedelta(hours=hours)
            await append(session, Message("user", (text(str(hours)),)))
        await session.passivate()
        for hours in (-2, -3, 2):
            clock.now = start + timedelta(hours=hours)
            await append(session, Message("user", (text(str(hours)),)))
        hours_stored = [(entry.timestamp - start) / timedelta(hours=1) for entry in await session.entries()]
    assert hours_stored == [0, 0, 0, 1, 1, 1, 1, 1, 2]
    async with SessionHost(tmp_path) as host:
        entries = await (await host.load("main", read_only=True)).entries()
    assert [(entry.timestamp - start) / timedelta(hours=1) for entry in entries] == hours_stored

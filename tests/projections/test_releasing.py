"""Values of projections are released with their session, and each failure raises a new error."""

import gc
import traceback
from pathlib import Path
from weakref import WeakSet

import pytest

from treering import Entry, Header, Session, SessionHost
from treering.errors import ProjectionFailed


class Value:
    """A value whose release can be observed."""

    def __init__(self, count: int) -> None:
        self.count = count


class Counting:
    """A projection that counts entries until it is broken."""

    name = "counting"

    def __init__(self) -> None:
        self.broken = False
        self.kept: WeakSet[Value] = WeakSet()

    def _new_value(self, count: int) -> Value:
        value = Value(count)
        self.kept.add(value)
        return value

    def initial(self, header: Header) -> Value:
        return self._new_value(0)

    def apply(self, value: Value, entry: Entry) -> tuple[Value, int]:
        if self.broken:
            raise ValueError("broken")
        return self._new_value(value.count + 1), 1

    def dump(self, value: Value) -> bytes:
        return str(value.count).encode()

    def load(self, blob: bytes) -> Value:
        return self._new_value(int(blob))


async def create_filled(host: SessionHost) -> Session:
    session = await host.create("s")
    for number in range(3):
        await session.append_custom_entry("note", number)
    return session


async def test_the_values_of_a_read_only_session_are_released_with_its_last_handle(tmp_path: Path) -> None:
    counting = Counting()
    async with SessionHost(tmp_path) as writing, SessionHost(tmp_path) as host:
        await create_filled(writing)
        first, second = [await host.load("s", read_only=True) for _ in range(2)]
        assert (await first.view(counting)).count == 3
        assert await second.view(counting) is await first.view(counting)
        gc.collect()
        assert len(counting.kept) == 1
        await first.close()
        gc.collect()
        assert len(counting.kept) == 1
        await second.close()
        gc.collect()
        assert not counting.kept


async def test_the_values_of_a_passivated_session_are_released(tmp_path: Path) -> None:
    counting = Counting()
    async with SessionHost(tmp_path) as host:
        session = await create_filled(host)
        assert (await session.view(counting)).count == 3
        assert await session.passivate()
        gc.collect()
        assert not counting.kept
        assert (await session.view(counting)).count == 3


async def test_a_failed_projection_is_tried_again_after_its_session_was_passivated() -> None:
    counting = Counting()
    async with SessionHost() as host:
        session = await create_filled(host)
        counting.broken = True
        with pytest.raises(ProjectionFailed):
            await session.view(counting)
        counting.broken = False
        with pytest.raises(ProjectionFailed):
            await session.view(counting)
        assert await session.passivate()
        assert (await session.view(counting)).count == 3


@pytest.mark.parametrize("followed", [False, True])
async def test_each_request_for_a_failed_projection_raises_a_new_error(followed: bool) -> None:
    counting = Counting()
    errors: list[ProjectionFailed] = []
    async with SessionHost() as host:
        session = await create_filled(host)
        async with session.subscribe(counting) as changes:
            await anext(changes)
            counting.broken = True
            await session.append_custom_entry("note", 4)
            for _ in range(5):
                with pytest.raises(ProjectionFailed, match="raised ValueError") as caught:
                    await (anext(changes) if followed else session.view(counting))
                errors.append(caught.value)
    assert len(set(map(id, errors))) == len(errors)
    assert {id(error.__cause__) for error in errors} == {id(errors[0].__cause__)}
    assert isinstance(errors[0].__cause__, ValueError)
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors[1:]}) == 1

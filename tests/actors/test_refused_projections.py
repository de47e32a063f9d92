"""What is not a projection is refused before anything of it is called."""

from __future__ import annotations

import pytest

from treering import InvalidInput, SessionHost
from treering.projections.stats import EventCount


class Count(EventCount):
    name = "count"


def with_attribute(name: str, value: object) -> Count:
    projection = Count()
    setattr(projection, name, value)
    return projection


@pytest.mark.parametrize("name", ["initial", "apply", "dump", "load"])
async def test_a_projection_that_lacks_a_method_is_refused(name: str) -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", "hello")
        for call in (session.view, session.rebuild):
            with pytest.raises(InvalidInput, match="it needs a `name` and the methods initial, apply, dump, load"):
                await call(with_attribute(name, None))
        assert await session.view(Count()) == 1


@pytest.mark.parametrize("name", [None, 5, "treering-mine", "context", "a/b", ""])
async def test_a_projection_without_a_name_of_its_own_is_refused(name: object) -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", "hello")
        for call in (session.view, session.rebuild):
            with pytest.raises(InvalidInput):
                await call(with_attribute("name", name))
        assert await session.view(Count()) == 1

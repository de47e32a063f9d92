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


METHODS = [(method, None) for method in ("initial", "apply", "dump", "load")]
NAMES = [("name", name) for name in (None, 5, "treering-mine", "context", "a/b", "")]


@pytest.mark.parametrize(("attribute", "value"), [*METHODS, *NAMES])
async def test_a_projection_without_a_method_or_a_name_of_its_own_is_refused(attribute: str, value: object) -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", "hello")
        lacks = None if attribute == "name" else "it needs a `name` and the methods initial, apply, dump, load"
        for call in (session.view, session.rebuild):
            with pytest.raises(InvalidInput, match=lacks):
                await call(with_attribute(attribute, value))
        assert await session.view(Count()) == 1

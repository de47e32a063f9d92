"""The walks that a program takes without a change to the library: a view, a strategy for contexts, a store."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from treering import Changed, Entry, Header, MemoryStore, MessageEntry, SessionHost, Snapshot, plain_text
from treering.contexts import ContextBuilder
from treering.events.errors import Where
from treering.events.stores.base import Ref
from treering.events.stores.capabilities import NamesPlaces, offered
from treering.projections.building.budget import calculate_budget
from treering.projections.building.pairing import safe_start
from treering.projections.building.strategy import ContextSource, StrategyResult
from treering.projections.tokens import Tokenizer
from treering.testing.stores.capabilities import Declaring, NamingPlaces

from .page import code_of

T = TypeVar("T")
NAMES: dict[str, object] = {
    "Callable": Callable,
    "ContextSource": ContextSource,
    "Entry": Entry,
    "Header": Header,
    "MemoryStore": MemoryStore,
    "MessageEntry": MessageEntry,
    "NamesPlaces": NamesPlaces,
    "Ref": Ref,
    "Sequence": Sequence,
    "StrategyResult": StrategyResult,
    "T": T,
    "Tokenizer": Tokenizer,
    "Where": Where,
    "offered": offered,
    "plain_text": plain_text,
    "safe_start": safe_start,
}


def made_by(walk: str, name: str) -> Any:  # noqa: ANN401  # what the page defines
    """Run the code of a walk, and return the class that it defines."""
    names = dict(NAMES)
    exec(code_of(walk), names)  # noqa: S102  # the project's own page
    return names[name]


async def test_a_view_of_a_program() -> None:
    words = made_by("Add a view", "Words")
    async with SessionHost(store=MemoryStore()) as host:
        session = await host.create()
        await session.append_message("user", "one two")
        assert await session.view(words()) == 2
        async with session.subscribe(words()) as changes:
            first = await anext(changes)
            await session.append_message("assistant", "three")
            assert isinstance(first, Snapshot)
            assert first.value == 2
            second = await anext(changes)
            assert isinstance(second, Changed)
            assert second.change == 1


async def test_a_strategy_of_a_program() -> None:
    latest = made_by("Add a strategy for contexts", "Latest")
    async with SessionHost(store=MemoryStore()) as host:
        session = await host.create()
        for number in range(20):
            await session.append_message("user", f"question {number} " * 50)
            await session.append_message("assistant", "answer " * 50)
        built = ContextBuilder(strategies=[latest()]).build(await session.context(), calculate_budget(1000))
    assert built.strategy == "latest"
    assert [plain_text(each.content).split()[:2] for each in built.messages] == [
        ["question", "19"],
        ["answer", "answer"],
    ]


async def test_a_capability_of_a_store() -> None:
    store = made_by("Add a capability of a store", "NumberedMemory")()
    assert store.capability(NamesPlaces) is store
    assert str(store.places("a", [1])[1]) == str(Where("memory:a", 2, 0))


@pytest.mark.parametrize("name", [name for name in dir(Declaring) if name.startswith("test_")])
async def test_a_store_does_what_it_declares(name: str) -> None:
    await getattr(Declaring(), name)(made_by("Add a capability of a store", "NumberedMemory")())


async def test_each_line_has_the_place_that_the_store_declares() -> None:
    await NamingPlaces().test_each_line_has_a_place_of_its_own(
        made_by("Add a capability of a store", "NumberedMemory")()
    )

"""Commands that waited and are decided together give what they give one after another."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Entry, MemoryStore, Session, SessionHost, TreeringError, message
from treering.actors.commands import AppendOptions
from treering.entries import BranchSummary, Compaction, ContextEdit, Custom, Label, Payload, SessionInfo, ToolExecution
from treering.events.stores.base import Append, Outcome
from treering.testing.clocks import ManualClock

LENGTH = 40


class GatedStore(MemoryStore):
    """Holds an append while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: anyio.Event | None = None

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return super().try_append(append) if self.gate is None else None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        if self.gate is not None:
            await self.gate.wait()
        return [super(GatedStore, self).try_append(append) for append in appends]


Make: TypeAlias = Callable[[Callable[[int], str]], list[Payload]]
"""Makes the payloads of a command, given what finds the ids of entries."""


class Step(NamedTuple):
    """A command: what is appended, or None for a move of the leaf, and its options.

    A number in place of an id means the last entry up to the command of this number, -2 an unknown entry.
    """

    make: Make | None
    options: dict[str, Any]


def any_step(chance: random.Random, number: int, steps: list[Step]) -> Step:
    """Return a command about earlier ones, mostly about the latest."""
    text, target = f"text {number}", max(-2, number - 1 - int(chance.expovariate(0.4)))
    from_id, role = chance.choice(["", "root"]), chance.choice(["user", "user", "assistant", "tool"])
    makes: list[Make] = [
        lambda found: [message("user" if role == "tool" else role, text)],
        lambda found: [message("user", text), Label(found(target), text), message("assistant", text)],
        lambda found: [Label(found(target), text)],
        lambda found: [Custom("note", None)],
        lambda found: [Compaction(text, found(target), 5)],
        lambda found: [message("user", text), Compaction(text, found(target), 5)],
        lambda found: [Compaction("" if number % 2 else text, None, 5)],
        lambda found: [message("system", text)],
        lambda found: [ContextEdit(found(target))],
        lambda found: [BranchSummary(text, from_id)],
        lambda found: [ToolExecution("call", "read", message_id=found(target))],
        lambda found: [SessionInfo(name=text)],
    ]
    chosen = chance.randrange(len(makes) + 4)
    appends = [step for step in steps if step.make is not None]
    if appends and chosen >= len(makes) + 2:  # the same command again, or another one of that name
        step = chance.choice(appends)
        return step if chosen % 2 else Step(makes[chance.randrange(4)], step.options)
    if chosen >= len(makes):
        return Step(None, {"to": target if chosen % 2 else None})
    options: dict[str, Any] = {"command_id": f"c{number}"}
    if chance.random() < 0.3:
        options["below"] = chance.choice([None, target, target])
        options["aside"] = chance.random() < 0.5
    if chance.random() < 0.1:
        options["expected_leaf"] = target
    if chance.random() < 0.1:
        options["expected_seq"] = number
    return Step(makes[chosen], options)


class Run:
    """One session to which commands are given, and what each of them got."""

    def __init__(self, session: Session, ids: dict[int, str]) -> None:
        self.session = session
        self.ids = ids
        self.got: dict[int, object] = {}

    async def perform(self, number: int, step: Step) -> None:
        try:
            self.got[number] = await self._call(step)
        except TreeringError as error:
            self.got[number] = (type(error), str(error))

    async def _call(self, step: Step) -> list[str]:
        def found(of: int) -> str:
            earlier = (self.ids[number] for number in range(of, -2, -1) if number in self.ids)
            return next(earlier) if of > -2 else "nothing"

        options = {
            name: found(value) if name in ("to", "below", "expected_leaf") and value is not None else value
            for name, value in step.options.items()
        }
        if step.make is not None:
            return await self.session.append_many(step.make(found), **cast(AppendOptions, options))
        await (self.session.reset_leaf() if options["to"] is None else self.session.branch(options["to"]))
        return []

    async def state(self) -> tuple[list[Entry], object]:
        session = self.session
        return await session.entries(), (session.leaf_id, session.labels(), session.name, await session.context())


async def in_sequence(steps: Sequence[Step]) -> tuple[Run, tuple[list[Entry], object]]:
    async with SessionHost(clock=ManualClock()) as host:
        run = Run(await host.create("s"), {})
        run.ids[-1] = await run.session.append_message("user", "first", command_id="first")
        for number, step in enumerate(steps):
            await run.perform(number, step)
            got = run.got[number]
            if isinstance(got, list) and got:
                run.ids[number] = got[-1]
        after = await run.state()
    return run, after


async def together(steps: Sequence[Step], ids: dict[int, str]) -> tuple[Run, tuple[list[Entry], object]]:
    store = GatedStore()
    async with SessionHost(store=store, clock=ManualClock()) as host, anyio.create_task_group() as tasks:
        run = Run(await host.create("s"), ids)
        store.gate = anyio.Event()
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            partial(run.session.append_message, "user", "first", command_id="first"),
            *(partial(run.perform, number, step) for number, step in enumerate(steps)),
        ]
        for call in calls:
            tasks.start_soon(call)
            for _ in range(3):
                await checkpoint()
        assert run.got == {}
        store.gate.set()
        while len(run.got) < len(steps):
            await checkpoint()
        after = await run.state()
        assert await run.session.passivate()
        assert await run.state() == after
    return run, after


@pytest.mark.parametrize("seed", range(20))
async def test_commands_that_wait_get_and_leave_what_they_would_one_after_another(seed: int) -> None:
    chance = random.Random(seed)
    steps: list[Step] = []
    for number in range(LENGTH):
        steps.append(any_step(chance, number, steps))
    one, expected = await in_sequence(steps)
    other, found = await together(steps, one.ids)
    assert other.got == one.got
    assert found == expected

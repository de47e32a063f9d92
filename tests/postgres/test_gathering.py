"""What many callers ask at the same moment goes to the database together, and each gets what it would get alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel
import pytest

from treering import SessionHost
from treering.entries import plain_text
from treering.errors import LogReplaced
from treering.events.errors import StoreUnavailable, TreeringError
from treering.events.offload import run_inline
from treering.stores import Lease, Page
from treering.stores.postgres import PostgresStore, gathering
from treering.stores.postgres.gathering import Gatherer
from treering.stores.postgres.local_server import LocalServer
from treering.testing.stores.case import Writer, line

from .counting import counted

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MANY = 100


@pytest.mark.feature("C-7")
async def test_sessions_that_are_loaded_together_are_read_by_few_statements(
    server: LocalServer, schema: str, url: str
) -> None:
    url += "&lease_s=600"
    ids = [f"s{number}" for number in range(MANY)]
    firsts: dict[str, str] = {}
    async with SessionHost(url) as host:
        for each in ids:
            session = await host.create(each)
            firsts[each] = await session.append_message("user", f"I am {each}")
            await session.append_message("user", "not on the path")
            await session.branch(firsts[each])
    async with SessionHost(url) as host:
        await host.load(ids[0])
        leaves: dict[str, str | None] = {}

        async def load(session_id: str) -> None:
            leaves[session_id] = (await host.load(session_id)).leaf_id

        with counted(server.url()) as counts:
            async with anyio.create_task_group() as tasks:
                for each in ids:
                    tasks.start_soon(load, each)
        assert leaves == firsts
        assert counts.of(f'"{schema}".') < MANY / 4
        last = await host.load(ids[-1])
        assert [plain_text(each.content) for each in await last.messages()] == [f"I am {ids[-1]}"]


async def test_pages_that_are_read_together_are_those_that_each_would_be_alone(url: str) -> None:
    store = PostgresStore(url)
    refs = [f"log{number}.jsonl" for number in range(5)]
    writers = [Writer(store, each) for each in await store.acquire(refs, "host") if isinstance(each, Lease)]
    for count, writer in enumerate(writers, 1):
        await writer.append(*(line(seq, "x" * 300_000) for seq in range(1, count + 1)))
    heads = [writer.head for writer in writers]
    await store.remove(writers[2].lease)
    found: dict[str, list[bytes]] = {}
    missing: list[str] = []

    async def read(number: int, through: int | None) -> None:
        ref, head = refs[number], heads[number]
        lines: list[bytes] = []
        page = Page(1, [], True)
        try:
            while page.more:
                page = await store.read(ref, head.generation, len(lines), through=through)
                assert page.first == len(lines) + 1
                lines += page.lines
        except LogReplaced:
            missing.append(ref)
        else:
            found[f"{ref} {through}"] = lines

    async with anyio.create_task_group() as tasks:
        for number in range(len(refs)):
            for through in (None, 2):
                tasks.start_soon(read, number, through)
    assert missing == [refs[2]] * 2
    for number in (0, 1, 3, 4):
        lines = [line(seq, "x" * 300_000)[:-1] for seq in range(1, number + 2)]
        assert found[f"{refs[number]} None"] == lines
        assert found[f"{refs[number]} 2"] == lines[:2]
    await store.aclose()


# -- who asks, and who is told


class Held:
    """An offload whose calls wait until they are let go, and which counts them."""

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = anyio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.asked += 1
        await self.let_go.wait()
        return fn(*args)


async def test_a_caller_that_is_cancelled_while_it_asks_for_others_leaves_none_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "AT_ONCE", 1)
    offload, batches, answers = Held(), list[list[int]](), dict[int, int]()

    def double(questions: Sequence[int]) -> list[int]:
        batches.append([*questions])
        return [2 * each for each in questions]

    gatherer = Gatherer(double, offload, 3)
    scopes = [anyio.CancelScope() for _ in range(7)]

    async def ask(number: int) -> None:
        with scopes[number]:
            answers[number] = await gatherer.ask(number)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for number in range(7):
            tasks.start_soon(ask, number)
        await anyio.wait_all_tasks_blocked()
        for number in (0, 1, 4):  # who leads, who is asked for, and who waits for a place
            scopes[number].cancel()
        await anyio.wait_all_tasks_blocked()
        assert (offload.asked, answers) == (1, {})
        offload.let_go.set()
    assert answers == {number: 2 * number for number in range(7)}
    assert [len(each) for each in batches] == [3, 3, 1]
    assert all(scopes[number].cancelled_caught for number in (0, 1, 4))


async def test_an_error_reaches_those_whom_it_concerns() -> None:
    def answer(questions: Sequence[int]) -> list[int | TreeringError]:
        if 9 in questions:
            raise StoreUnavailable("the server is down")
        return [LogReplaced(f"{each}") if each % 2 else each for each in questions]

    gatherer, said = Gatherer(answer, run_inline, 4), dict[int, str]()

    async def ask(number: int) -> None:
        try:
            said[number] = f"got {await gatherer.ask(number)}"
        except TreeringError as error:
            said[number] = str(error)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, number)
    assert said == {0: "got 0", 1: "1", 2: "got 2", 3: "3"}
    await ask(9)
    assert said[9] == "the server is down"

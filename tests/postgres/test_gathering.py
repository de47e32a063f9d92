"""What many callers ask at the same moment goes to the database together, and each gets what it would get alone."""

from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel
import pytest

from treering import SessionHost
from treering.entries import plain_text
from treering.errors import LogReplaced
from treering.events.errors import SessionLocked, StoreUnavailable, TreeringError
from treering.events.offload import run_inline
from treering.events.stores.base import Cursor
from treering.stores import Lease, Page
from treering.stores.postgres import PostgresStore, acquiring
from treering.stores.postgres.gathering import Gatherer, up_to
from treering.stores.postgres.local_server import LocalServer
from treering.stores.postgres.owning import Holdings
from treering.testing.stores.case import Writer, line

from .counting import counted

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MANY = 100


@pytest.mark.feature("C-7")
async def test_sessions_loaded_together_are_read_by_few_statements(server: LocalServer, schema: str, url: str) -> None:
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
        assert [plain_text(each.content) for each in await (await host.load(ids[-1])).messages()] == [f"I am {ids[-1]}"]


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


class Held:
    """An offload whose calls wait until they are let go, and which counts them."""

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = anyio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.asked += 1
        await self.let_go.wait()
        return fn(*args)


async def test_a_caller_that_is_cancelled_while_it_asks_for_others_leaves_none_without_an_answer() -> None:
    offload, batches, answers = Held(), list[list[int]](), dict[int, int]()

    def double(questions: Sequence[int]) -> list[int]:
        batches.append([*questions])
        return [2 * each for each in questions]

    gatherer = Gatherer(double, offload, up_to(3), 1)
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

    gatherer, said = Gatherer(answer, run_inline, up_to(4), 4), dict[int, str]()

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


async def test_a_thread_that_cannot_be_started_is_told_to_those_it_was_for_and_the_others_are_asked() -> None:
    begun, batches, said = list[int](), list[list[int]](), dict[int, object]()

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        begun.append(1)
        if len(begun) == 1:
            raise RuntimeError("can't start new thread")
        return fn(*args)

    def answer(questions: Sequence[int]) -> Sequence[int]:
        batches.append([*questions])
        return questions

    gatherer = Gatherer(answer, offload, up_to(2), 1)

    async def ask(number: int) -> None:
        try:
            said[number] = await gatherer.ask(number)
        except RuntimeError as error:
            said[number] = str(error)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, number)
    assert said == {0: "can't start new thread", 1: "can't start new thread", 2: 2, 3: 3}
    assert batches == [[2, 3]]


async def test_a_caller_that_is_cancelled_already_asks_nothing_but_has_carried_out_what_must_be() -> None:
    asked: list[int] = []

    def answer(questions: Sequence[int]) -> Sequence[int]:
        asked.extend(questions)
        return questions

    gatherer = Gatherer(answer, run_inline, up_to(4), 4)
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await gatherer.carry_out(1) == 1
        await gatherer.ask(2)
    assert scope.cancelled_caught
    assert asked == [1]


async def test_leases_are_acquired_and_released_also_for_a_caller_that_is_cancelled(url: str) -> None:
    store, other = PostgresStore(url), PostgresStore(url)
    taken: list[Lease | SessionLocked] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        taken += await store.acquire(["log"], "host")
    assert [type(each) for each in taken] == [Lease]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.release([each for each in taken if isinstance(each, Lease)])
    (lease,) = await other.acquire(["log"], "host")
    assert isinstance(lease, Lease)
    await store.aclose()
    await other.aclose()


class Granting:
    """What a store holds, which grants everything, and notes what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: TreeringError | None = None) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.outcomes: dict[int, list[Lease | SessionLocked] | TreeringError] = {}
        self._store = PostgresStore("postgresql://nowhere/none", offload=run_inline)

        def acquire(_: Holdings, refs: list[str], owner: str) -> list[Lease]:
            self.calls.append((owner, refs))
            if error is not None:
                raise error
            return [Lease(ref, owner, len(self.calls), Cursor("", 0)) for ref in refs]

        monkeypatch.setattr(Holdings, "acquire", acquire)

    async def acquire_together(self, *wanted: tuple[str, list[str]]) -> None:
        """Let each of some callers acquire at the same moment, and note the outcome of each."""

        async def acquire(number: int, owner: str, refs: list[str]) -> None:
            try:
                self.outcomes[number] = await self._store.acquire(refs, owner)
            except TreeringError as error:
                self.outcomes[number] = error

        async with anyio.create_task_group() as tasks:
            for number, (owner, refs) in enumerate(wanted):
                tasks.start_soon(acquire, number, owner, refs)


async def test_no_statement_acquires_for_two_owners_or_a_log_twice_or_more_logs_than_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acquiring, "BATCH_REFS_MAX", 4)
    holdings = Granting(monkeypatch)
    wanted = [("x", [*refs]) for refs in ("a", "bc", "a", "ef")]
    wanted[3:3] = [("y", ["d"]), ("y", [*"ghijk"])]
    await holdings.acquire_together(*wanted)
    assert holdings.calls == [("x", [*"abc"]), ("x", [*"aef"]), ("y", ["d"]), ("y", [*"ghijk"])]
    for number, (owner, refs) in enumerate(wanted):
        outcome = holdings.outcomes[number]
        assert isinstance(outcome, list)
        assert [(each.owner, each.ref) for each in outcome if isinstance(each, Lease)] == [(owner, ref) for ref in refs]


async def test_a_server_that_is_down_is_asked_once_for_all_that_acquire(monkeypatch: pytest.MonkeyPatch) -> None:
    holdings = Granting(monkeypatch, down := StoreUnavailable("the server is down"))
    await holdings.acquire_together(*(("x", [ref]) for ref in "abc"))
    assert holdings.calls == [("x", ["a", "b", "c"])]
    assert holdings.outcomes == dict.fromkeys(range(3), down)

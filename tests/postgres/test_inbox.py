"""Commands for sessions that another host owns, where hosts have nothing in common but the database."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest
from tests.lateness import waited_s, waits

from treering import CommandConflict, EntryNotFound, Message, MessageEntry, SessionHost, SessionLocked, TreeringError
from treering.actors.host import elsewhere
from treering.entries import text, tool_use
from treering.errors import AppendInDoubt, DialectCannot, InvalidInput, LeafMoved, TooLarge, TooMany, UnsafeCut
from treering.events.errors import StoreUnavailable
from treering.events.stores.hosts import Letter
from treering.stores import MemoryStore
from treering.stores.postgres import PostgresStore, mailing, watching
from treering.subscriptions import EntrySubscription, Reset

from .load import texts

pytestmark = pytest.mark.feature("C-10")

LEASE = "&lease_s=1"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.1)
    monkeypatch.setattr(mailing, "LOOK_S", 0.1)
    monkeypatch.setattr(elsewhere, "ANSWER_FOR_S", 10.0)


class Worker:
    """A process with a host."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    async def line(self) -> list[str]:
        """Return the words of the next line that it prints; none when it has ended."""
        assert self.process.stdout is not None
        return (await anyio.to_thread.run_sync(self.process.stdout.readline)).split()

    async def lines(self) -> list[list[str]]:
        """Return all lines until it ends."""
        found: list[list[str]] = []
        while line := await self.line():
            found.append(line)
        return found

    async def ended(self) -> int:
        """Let it end, and return its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await anyio.to_thread.run_sync(self.process.wait)


@contextmanager
def worker(url: str, *args: str) -> Generator[Worker]:
    """Run `inbox_worker` with these arguments."""
    command = [sys.executable, "-m", "tests.postgres.inbox_worker", url, *args]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield Worker(process)
        finally:
            process.kill()


@asynccontextmanager
async def two_hosts(
    url: str, owner: PostgresStore | None = None, sender: PostgresStore | None = None
) -> AsyncGenerator[tuple[SessionHost, SessionHost]]:
    """Open two hosts, the first of which owns the session "shared", with one message."""
    async with (
        SessionHost(store=owner or PostgresStore(url), placement="inbox") as first,
        SessionHost(store=sender or PostgresStore(url), placement="inbox") as second,
    ):
        session = await first.create("shared")
        await session.append_message("user", "first")
        yield first, second


def count(url: str, table: str) -> int:
    """Return how many rows a table has."""
    schema = url.partition("schema=")[2].partition("&")[0]
    with psycopg.connect(url.partition("?")[0] + "?" + url.partition("?")[2].replace(f"schema={schema}", "")) as found:
        row = found.execute(f'SELECT count(*) FROM "{schema}".{table}'.encode()).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_command_reaches_the_owner_once_from_any_process(url: str) -> None:
    with worker(url, "own", "shared") as owner:
        assert await owner.line() == ["ready"]
        with worker(url, "send", "shared", "0", "5") as one, worker(url, "send", "shared", "5", "5") as two:
            replies = [*await one.lines(), *await two.lines()]
        with worker(url, "send", "shared", "0", "5") as again:
            repeated = await again.lines()
        assert await owner.ended() == 0
    assert len(replies) == 12
    assert repeated[1:] == [each for each in replies if len(each) > 1 and int(each[1]) < 5]
    found = await texts(url, "shared")
    assert sorted(found) == sorted(["first", *(f"say {number}" for number in range(10))])


async def test_a_command_whose_sender_dies_is_carried_out_once_when_another_repeats_it(url: str) -> None:
    with worker(url, "own", "shared") as owner:
        assert await owner.line() == ["ready"]
        with worker(url, "send", "shared", "0", "1", "posted") as sender:
            assert await sender.lines() == [["ready"]]
            assert await sender.ended() == -9
        with worker(url, "send", "shared", "0", "1") as again:
            assert len(await again.lines()) == 2
    assert await texts(url, "shared") == ["first", "say 0"]


async def test_a_command_whose_owner_dies_before_it_answers_is_carried_out_once(url: str) -> None:
    with worker(url + LEASE, "own", "shared", "carried-out") as owner:
        assert await owner.line() == ["ready"]
        async with SessionHost(url + LEASE, placement="inbox") as host:
            session = await host.load("shared")
            entry_id = await session.append_message("user", "say 0", command_id="say 0")
            assert await owner.ended() == -9
            await session.append_message("user", "say 1")
            assert [each.id for each in await session.entries()][1] == entry_id
    assert await texts(url, "shared") == ["first", "say 0", "say 1"]


async def test_a_move_of_the_leaf_whose_owner_dies_with_it_is_in_doubt(url: str) -> None:
    with worker(url + LEASE, "own", "shared", "carried-out") as owner:
        assert await owner.line() == ["ready"]
        async with SessionHost(url + LEASE, placement="inbox") as host:
            session = await host.load("shared")
            with pytest.raises(AppendInDoubt, match="look where the leaf is"):
                await session.reset_leaf()
            assert await owner.ended() == -9


class LosesOneLetter(PostgresStore):
    """Loses the first letter that it posts."""

    lost = 0

    def post(self, letter: Letter, keep_s: float) -> bool:
        self.lost += 1
        return True if self.lost == 1 else super().post(letter, keep_s)


async def test_a_lost_letter_is_written_again(url: str) -> None:
    sender = LosesOneLetter(url)
    async with two_hosts(url, sender=sender) as (_, host):
        session = await host.load("shared")
        await session.append_message("user", "second")
        assert sender.lost == 2
        assert count(url, "inbox") == 0
    assert await texts(url, "shared") == ["first", "second"]


async def test_a_lost_notification_costs_a_look(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = PostgresStore(url)
    monkeypatch.setattr(vars(sender)["_mailing"], "_channel", "nobody_")  # where nobody listens
    async with two_hosts(url, sender=sender) as (owner, host):
        owned, session = await owner.load("shared"), await host.load("shared")
        entry_id = await session.append_message("user", "second")
        assert owned.leaf_id == entry_id


async def test_a_repeated_letter_gets_the_same_reply(url: str) -> None:
    async with two_hosts(url) as (owner, host):
        owned, session = await owner.load("shared"), await host.load("shared")
        first = await session.append_message("user", "second", command_id="once")
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(_again, session, first)
        assert owned.cursor.seq == 2
        assert await owned.append_message("user", "second", command_id="once") == first


async def _again(session: Any, first: str) -> None:  # noqa: ANN401
    assert await session.append_message("user", "second", command_id="once") == first


class Deaf(PostgresStore):
    """Owns sessions, and takes no letters."""

    def take(self, most: int) -> list[Letter]:
        return []


class Mute(PostgresStore):
    """Takes letters, and cannot answer."""

    def answer(self, answers: Mapping[str, bytes]) -> None:
        raise StoreUnavailable("the answers cannot be written")


@pytest.mark.parametrize(("owner", "told"), [(Deaf, SessionLocked), (Mute, AppendInDoubt)])
async def test_a_sender_waits_no_longer_than_it_says_and_is_told_what_is_known(
    url: str, monkeypatch: pytest.MonkeyPatch, owner: Callable[[str], PostgresStore], told: type[TreeringError]
) -> None:
    monkeypatch.setattr(elsewhere, "ANSWER_FOR_S", 0.2)
    monkeypatch.setattr(elsewhere, "_LEAVE_FOR_S", 0.0)
    hurried = url + "&lease_s=0.5&wait_s=0"
    async with two_hosts(url, owner(hurried), PostgresStore(hurried)) as (_, host):
        session = await host.load("shared")
        began, before = monotonic(), waits()
        with pytest.raises(told):
            await session.append_message("user", "second", command_id="second")
        assert monotonic() - began < 5 + waited_s(before)
    assert await texts(url, "shared") == (["first"] if owner is Deaf else ["first", "second"])


async def test_a_refusal_comes_back_as_its_own_class(url: str) -> None:
    async with two_hosts(url) as (_, host):
        session = await host.load("shared")
        await session.append_message("user", "second", command_id="used")
        with pytest.raises(EntryNotFound) as missing:
            await session.set_label("missing", "name")
        assert missing.value.entry_id == "missing"
        with pytest.raises(EntryNotFound):
            await session.branch("missing")
        with pytest.raises(LeafMoved):
            await session.append_message("user", "third", expected_leaf="other")
        with pytest.raises(LeafMoved):
            await session.append_message("user", "third", expected_seq=1)
        with pytest.raises(CommandConflict):
            await session.append_message("user", "another", command_id="used")
        await session.append_message("assistant", [tool_use("call", "look", {})])
        result, _ = await session.append_tool_execution("call", "look", {}, "seen")
        with pytest.raises(UnsafeCut):
            await session.append_compaction("short", result, 10)
        with pytest.raises(EntryNotFound):
            await session.append_message("user", "third", below=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            await session.append_message("user", "third", expected_seq="two")  # type: ignore[arg-type]
        assert session.cursor.seq == 5


async def test_a_dialect_that_cannot_say_it_refuses_it_by_name(url: str) -> None:
    async with SessionHost(url, dialect="pi", placement="inbox") as owner, SessionHost(url, placement="inbox") as host:
        owned = await owner.create("shared")
        first = await owned.append_message("user", "first")
        session = await host.load("shared")
        with pytest.raises(DialectCannot):
            await session.append_message("user", "aside", below=first, aside=True)
        await session.append_message("user", "second")
        assert owned.message_count == 2


@pytest.mark.parametrize("root", [None, "memory:", "folder"])
def test_a_store_without_an_inbox_is_refused_by_name(tmp_path: Path, root: str | None) -> None:
    with pytest.raises(InvalidInput, match="has no inbox"):
        SessionHost(str(tmp_path) if root == "folder" else root, placement="inbox")
    with pytest.raises(InvalidInput, match="has no inbox"):
        SessionHost(store=MemoryStore(), placement="inbox")
    with pytest.raises(InvalidInput, match="placement"):
        SessionHost(placement="somewhere")  # type: ignore[arg-type]


async def test_a_command_that_is_too_large_is_refused_unsent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailing, "LETTER_BYTES_MAX", 1000)
    async with two_hosts(url) as (_, host):
        session = await host.load("shared")
        with pytest.raises(TooLarge, match="1000 bytes"):
            await session.append_message("user", "x" * 1000)
        await session.append_message("user", "x" * 500)
        assert session.cursor.seq == 2


async def test_as_many_letters_wait_as_may_and_are_taken_in_parts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailing, "LETTERS_MAX", 3)
    monkeypatch.setattr(mailing, "TAKEN_BYTES_MAX", 10)
    owner, sender = PostgresStore(url), PostgresStore(url)
    try:
        await owner.acquire(["log", "other"], "owner")
        for number in range(3):
            assert sender.post(Letter(f"{number}", "log", b"12345678"), 60)
        with pytest.raises(TooMany, match="3 letters"):
            sender.post(Letter("3", "log", b"12345678"), 60)
        assert sender.post(Letter("2", "log", b"12345678"), 60)
        assert sender.post(Letter("3", "other", b"12345678"), 60)
        assert [each.id for each in owner.take(9)] == ["0", "1"]
        assert [each.id for each in owner.take(9)] == ["2", "3"]
    finally:
        await owner.aclose()
        await sender.aclose()


async def test_a_host_carries_out_no_more_letters_at_once_than_may(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "RUNNING_MAX", 2)
    taken: list[int] = []

    class Counting(PostgresStore):
        def take(self, most: int) -> list[Letter]:
            letters = super().take(most)
            taken.append(len(letters))
            return letters

    async with two_hosts(url, Counting(url)) as (owner, host):
        session = await host.load("shared")
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(session.append_message, "user", f"say {number}")
        assert (await owner.load("shared")).message_count == 21
    assert max(taken) <= 2


async def next_entry(entries: EntrySubscription) -> tuple[int, str | None]:
    """Return the seq and the id of the next entry."""
    entry = await anext(entries)
    assert not isinstance(entry, Reset)
    return entry.seq, entry.id


async def test_a_sender_sees_what_it_appended_and_follows_the_owner(url: str) -> None:
    async with two_hosts(url) as (owner, host):
        owned, session = await owner.load("shared"), await host.load("shared")
        async with session.subscribe() as entries:
            assert await next_entry(entries) == (1, owned.leaf_id)
            ids = await session.append_many([Message("user", (text("a"),)), Message("assistant", (text("b"),))])
            assert [await next_entry(entries) for _ in ids] == [(2, ids[0]), (3, ids[1])]
            assert session.leaf_id == ids[-1] == owned.leaf_id
            last = await owned.append_message("user", "by the owner")
            assert await next_entry(entries) == (4, last)
        await session.branch(ids[0])
        assert session.leaf_id == ids[0] == owned.leaf_id
        await session.reset_leaf()
        assert session.leaf_id is None is owned.leaf_id
        found = await host.get_or_create("key:1")
        await found.append_message("user", "hello")
        also = await owner.get_or_create("key:1")
        await also.append_message("user", "hello again")
        assert found.message_count == 2


async def test_a_session_that_its_owner_let_go_is_taken_up_by_who_writes_next(url: str) -> None:
    async with two_hosts(url) as (owner, host):
        session = await host.load("shared")
        await session.append_message("user", "second")
        await owner.aclose()
        await session.append_message("user", "third")
        assert [each.session_id for each in host.statistics().sessions] == [session.id]


async def test_a_host_that_closes_answers_what_it_took_and_tells_who_waits(url: str) -> None:
    began, go_on = anyio.Event(), anyio.Event()

    class Slow(PostgresStore):
        async def append(self, appends: Sequence[Any]) -> list[Any]:
            if any(b"second" in line for each in appends for line in each.lines):
                began.set()
                await go_on.wait()
            return await super().append(appends)

    replies: list[str] = []
    async with two_hosts(url, Slow(url)) as (owner, host):
        session = await host.load("shared")

        async def send() -> None:
            replies.append(await session.append_message("user", "second"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await began.wait()
            tasks.start_soon(owner.aclose)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert [each.id for each in await session.entries()][1:] == replies
        assert [entry.seq for entry in await session.entries() if isinstance(entry, MessageEntry)] == [1, 2]

"""One writer at a time: what was taken from a host is written by its heir alone, wherever the host was paused."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.to_thread
import psycopg
import pytest

from treering import Limits, MessageEntry, Session, SessionHost
from treering.entries import plain_text
from treering.errors import LeaseLost, SessionLocked, SessionNotFound
from treering.events.dialects.native import NativeDialect
from treering.events.stores.base import Append, Committed, Cursor, Lease, Outcome
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.connections import ANSWER_S, CONNECTIONS_MAX
from treering.stores.postgres.local_server import LocalServer
from treering.subscriptions import EntrySubscription

from .host_child import HostChild
from .load import texts
from .network import Network, Side, network

STEPS: list[tuple[Side, str]] = [
    ("server", "Parse"),
    ("server", "Bind"),
    ("server", "Describe"),
    ("server", "Execute"),
    ("server", "Sync"),
    ("client", "ParseComplete"),
    ("client", "BindComplete"),
    ("client", "RowDescription"),
    ("client", "DataRow"),
    ("client", "CommandComplete"),
    ("client", "ReadyForQuery"),
]
"""The messages of an append, after each of which its host is paused."""


@pytest.fixture
def net(server: LocalServer) -> Iterator[Network]:
    with network(server) as made:
        yield made


def end_leases(server: LocalServer, schema: str) -> None:
    """Let all leases end now, as if no host had renewed its own for long."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.hosts SET until = now()".encode())


@pytest.mark.feature("C-5")
async def test_a_host_paused_at_any_step_of_an_append_writes_nothing_that_was_taken_from_it(
    server: LocalServer, net: Network, url: str, schema: str
) -> None:
    with HostChild(net.url(schema=schema, lease_s="600", wait_s="0")) as paused:
        for n, (toward, step) in enumerate(STEPS):
            name = f"{n}-{step}"
            assert paused.ask(f"say {name} first") == ""
            fault = net.fault(toward, step, deed="hold")
            paused.send(f"say {name} {toward}")
            assert fault.happened.wait(60)
            paused.signal(signal.SIGSTOP)
            end_leases(server, schema)
            async with SessionHost(url + "&lease_s=600&wait_s=30") as heir:
                session = await heir.load(name)
                await session.append_message("user", "taken")
                fault.release()
                paused.signal(signal.SIGCONT)
                told = paused.answer().split(" ")
                lost = {"LeaseLost", *(["AppendInDoubt"] if step == "Sync" else [])}  # it looked again, or not yet
                assert told[3:] == [] if toward == "client" else told[3] in lost
                assert paused.ask(f"say {name} after") == (
                    "SessionLocked" if told[3:] == ["LeaseLost"] else "LeaseLost"
                )
            committed = ["first"] if toward == "server" else ["first", "client"]
            assert await texts(url, name) == [*committed, "taken"], step


def append_to(lease: Lease, text: str, head: Cursor) -> Append:
    line = b'{"type":"custom","id":"%s","custom":{"custom_type":"%s"}}\n' % (text.encode(), text.encode())
    header = b'{"type":"session","version":1,"id":"%s","timestamp":"2026-01-01T00:00:00.000Z","cwd":""}\n'
    return Append(lease, head, (line,), False, None if head.seq else header % lease.ref.encode(), NativeDialect())


async def race(server: LocalServer, url: str, schema: str, races: int) -> None:
    """Let two hosts take logs from a third one, which goes on writing; of those who take a log, one gets it."""
    late, *heirs = [PostgresStore(url + "&lease_s=600") for _ in range(3)]
    refs = [f"{n}.jsonl" for n in range(races)]
    for heir in heirs:
        await heir.acquire(["other"], "heir")
    leases = [lease for lease in await late.acquire(refs, "late") if isinstance(lease, Lease)]
    first = await late.append([append_to(lease, "first", lease.head) for lease in leases])
    with psycopg.connect(server.url(), autocommit=True) as connection:
        owner = f"(SELECT owner FROM {schema}.logs WHERE ref = '0.jsonl')"
        connection.execute(f"UPDATE {schema}.hosts SET until = now() WHERE id = {owner}".encode())
    written: dict[str, list[str]] = {ref: ["first"] for ref in refs}

    async def write_on(lease: Lease, outcome: Outcome) -> None:
        assert isinstance(outcome, Committed)
        (outcome,) = await late.append([append_to(lease, "late", outcome.head)])
        if isinstance(outcome, Committed):
            written[lease.ref].insert(1, "late")  # it may hear of that after its heir has written

    async def take(heir: PostgresStore, name: str, ref: str) -> None:
        (lease,) = await heir.acquire([ref], name)
        if isinstance(lease, Lease):
            (outcome,) = await heir.append([append_to(lease, name, lease.head)])
            assert isinstance(outcome, Committed)
            written[ref].append(name)

    for lease, outcome in zip(leases, first, strict=True):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_on, lease, outcome)
            for n, heir in enumerate(heirs):
                tasks.start_soon(take, heir, f"heir {n}", lease.ref)
        if not written[lease.ref][-1].startswith("heir"):  # a slow statement of the late one kept it from both
            await take(heirs[0], "heir 0", lease.ref)
    with psycopg.connect(server.url()) as connection:
        rows = connection.execute(f"SELECT session, id FROM {schema}.entries ORDER BY session, seq".encode()).fetchall()
    for ref in refs:
        assert written[ref] == [text for session, text in rows if session == ref]
        assert sum(text.startswith("heir") for text in written[ref]) == 1, written[ref]
    assert len({tuple(each) for each in written.values()}) > 1, "the races had all the same end"
    for store in (late, *heirs):
        await store.aclose()


@pytest.mark.feature("C-5")
async def test_sixty_races_have_one_winner_each(server: LocalServer, url: str, schema: str) -> None:
    await race(server, url, schema, 60)


@pytest.mark.soak
@pytest.mark.feature("C-5")
async def test_a_thousand_races_have_one_winner_each(server: LocalServer, url: str, schema: str) -> None:
    await race(server, url, schema, 1000)


async def received(subscription: EntrySubscription, count: int) -> list[str]:
    """Return the messages that a subscriber gets next; a `Reset` would not be one."""
    texts: list[str] = []
    while len(texts) < count:
        entry = await anext(subscription)
        assert isinstance(entry, MessageEntry)
        texts.append(plain_text(entry.message.content))
    return texts


@pytest.mark.feature("C-5")
async def test_a_live_session_that_was_taken_is_left_at_once_and_opened_anew_by_the_next_command(
    server: LocalServer, url: str, schema: str
) -> None:
    limits = Limits(snapshot_after_lines=1)
    async with (
        SessionHost(url + "&lease_s=600&wait_s=0", limits=limits) as host,
        SessionHost(url + "&lease_s=600") as heir,
    ):
        sessions = [await host.open(name) for name in ("appended", "moved", "passivated")]
        for session in sessions:
            await session.append_message("user", "first")
        appended, moved, passivated = sessions
        async with appended.subscribe() as following:
            assert await received(following, 1) == ["first"]
            end_leases(server, schema)
            for session in sessions:
                await (await heir.load(session.id)).append_message("user", "taken")
            assert await passivated.passivate()
            with pytest.raises(LeaseLost):
                await moved.branch(moved.path()[0])

            async def append(text: str) -> None:
                with pytest.raises((LeaseLost, SessionLocked)):
                    await appended.append_message("user", text)

            async with anyio.create_task_group() as tasks:
                for n in range(10):
                    tasks.start_soon(append, f"refused {n}")
            for session in sessions:  # none is live here any more, so that the owner is asked for by name
                with pytest.raises(SessionLocked, match="is owned by the host"):
                    await session.append_message("user", "refused")
            assert await received(following, 1) == ["taken"]
            await heir.passivate_idle()
            for session in sessions:
                await session.append_message("user", "back")
                assert await texts(url, session.id) == ["first", "taken", "back"]
            assert await received(following, 1) == ["back"]


@pytest.mark.feature("C-5")
async def test_a_quiet_session_that_was_taken_is_left_at_a_renewal(server: LocalServer, url: str, schema: str) -> None:
    async with SessionHost(url + "&lease_s=0.5") as host, SessionHost(url + "&lease_s=600") as heir:
        session = await host.open("quiet")
        await session.append_message("user", "first")
        async with session.subscribe() as following:
            assert await received(following, 1) == ["first"]
            taken = await heir_session(server, schema, heir, "quiet")
            await taken.append_message("user", "taken")
            assert await received(following, 1) == ["taken"]
        assert host.statistics().live == 0


async def heir_session(server: LocalServer, schema: str, heir: SessionHost, name: str) -> Session:
    """Take a session from a host that is well and renews its lease, as if it had been gone for a moment."""
    while True:
        end_leases(server, schema)
        try:
            return await heir.load(name)
        except SessionLocked:  # it was quicker
            continue


async def test_tasks_cancelled_while_sessions_are_acquired_hold_nothing(net: Network, url: str, schema: str) -> None:
    async with SessionHost(net.url(schema=schema, lease_s="600")) as host:
        sessions = [await host.create(name) for name in ("acquired", "next", "after that")]
        fault = net.fault("server", "Parse", containing=b"skip locked", deed="hold")
        tasks = [asyncio.create_task(session.append_message("user", "cancelled")) for session in sessions[:1]]
        assert await asyncio.to_thread(fault.happened.wait, 60)
        tasks += [asyncio.create_task(session.append_message("user", "cancelled")) for session in sessions[1:]]
        await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        fault.release()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError, asyncio.CancelledError, str]
        for session in sessions:
            await session.append_message("user", "said")
    for session, expected in zip(sessions, (["said"], ["said"], ["cancelled", "said"]), strict=True):
        assert await texts(url, session.id) == expected


async def test_a_lease_is_renewed_while_all_other_statements_wait(net: Network, url: str, schema: str) -> None:
    assert url
    store = PostgresStore(net.url(schema=schema, lease_s="600"))
    (lease,) = await store.acquire(["mine"], "owner")
    assert isinstance(lease, Lease)
    faults = [net.fault("server", "Bind", containing=b"held", deed="hold") for _ in range(CONNECTIONS_MAX)]

    async def look() -> None:
        with suppress(SessionNotFound):
            await store.header_block("held")

    async with anyio.create_task_group() as tasks:
        for _ in range(2 * CONNECTIONS_MAX):
            tasks.start_soon(look)
        for fault in faults:
            assert await anyio.to_thread.run_sync(fault.happened.wait, 60)
        began = anyio.current_time()
        assert await store.renew([lease]) == [True]
        assert anyio.current_time() - began < ANSWER_S / 2  # otherwise it waited for one of the others to give up
        for fault in faults:
            fault.release()
    await store.aclose()


async def test_a_lease_is_renewed_although_the_connections_that_were_kept_have_died_silently(
    net: Network, url: str, schema: str
) -> None:
    assert url
    store = PostgresStore(net.url(schema=schema, lease_s="3"))
    (lease,) = await store.acquire(["mine"], "owner")
    assert isinstance(lease, Lease)
    net.fault("server", deed="lose")
    assert await store.renew([lease]) == [True]
    await store.aclose()

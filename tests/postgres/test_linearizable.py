"""Histories of random clients on several hosts under faults: each session is as one log that answers one by one."""

import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import permutations
from time import perf_counter

import anyio
import anyio.to_thread
import pytest

from treering import MessageEntry, Session, SessionHost
from treering.entries import plain_text
from treering.errors import SessionLocked
from treering.events.errors import LeaseLost, StoreUnavailable
from treering.stores.postgres import connections, watching
from treering.stores.postgres.local_server import LocalServer

from .conftest import HOSTS
from .linearizable import Call, State, is_linearizable
from .load import PASSING, PAUSE_S
from .network import Network

SESSIONS = 4
CLIENTS = 4
"""Clients of each session."""

LEASE_S = 1.0
AFTER_S = 0.2
"""How long clients go on after a fault."""

THINKS_S = 0.03
"""How long a client waits between its calls at most. So many clients without a break would measure the machine."""

ANSWER_S = 0.4
FAULTS_OF_ROUND = 4
ROUNDS_OF_SOAK = 100
TOLD = (*PASSING, SessionLocked, LeaseLost)
"""What a client may be told while something fails, or while another host has the session."""


def by_trying_all(calls: Sequence[Call]) -> bool:
    """What `is_linearizable` says, in the slowest way."""
    doubtful = [call for call in calls if call.ended == math.inf]
    for dropped in range(1 << len(doubtful)):
        gone = [call for n, call in enumerate(doubtful) if dropped >> n & 1]
        kept = [call for call in calls if call not in gone]
        for order in permutations(kept):
            if any(order[b].ended < order[a].begun for b in range(len(order)) for a in range(b)):
                continue
            state: State | None = ()
            for call in order:
                state = None if state is None else call.after(state)
            if state is not None:
                return True
    return False


def drawn(chance: random.Random) -> list[Call]:
    """Draw a short history, of which about half are linearizable."""
    calls: list[Call] = []
    state: State = ()
    for number in range(chance.randrange(1, 6)):
        begun = chance.randrange(8) + number / 10
        ended = begun + chance.randrange(1, 6)
        if chance.random() < 0.5:
            calls.append(Call(str(number), begun, ended if chance.random() < 0.7 else math.inf))
            state = (*state, str(number)) if chance.random() < 0.8 else state
        else:
            calls.append(Call(None, begun, ended, state))
    return calls


def test_the_checker_says_what_trying_all_orders_says() -> None:
    said = {True: 0, False: 0}
    for seed in range(600):
        calls = drawn(random.Random(seed))
        expected = by_trying_all(calls)
        assert is_linearizable(calls) == expected, calls
        said[expected] += 1
    assert min(said.values()) > 80, said


STALE = [Call("a", 0, 1), Call("b", 2, 3), Call(None, 4, 5, ("a",))]
DOUBLE = [Call("a", 0, 1), Call(None, 2, 3, ("a", "a"))]
LOST = [Call("a", 0, 1), Call(None, 2, 3, ())]
BACK = [Call("a", 0, 9), Call(None, 1, 2, ("a",)), Call(None, 3, 4, ())]
IN_DOUBT = [Call("a", 0), Call(None, 1, 2, ()), Call(None, 3, 4, ("a",))]
NEVER = [Call("a", 0), Call(None, 1, 2, ())]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [(STALE, False), (DOUBLE, False), (LOST, False), (BACK, False), (IN_DOUBT, True), (NEVER, True)],
)
def test_the_checker_finds_what_no_log_would_answer(calls: list[Call], *, expected: bool) -> None:
    assert is_linearizable(calls) is expected


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", ANSWER_S)
    monkeypatch.setattr(watching, "LOOK_S", 0.3)


class History:
    """Random clients of some sessions on several hosts, and what they saw.

    Args:
        hosts: The hosts.
        sessions: The sessions, which the hosts know by their ids.
        chance: Decides what they do.

    Attributes:
        calls: The calls, by session.
        reads: How a session is read on a host.
        repeats: Whether some appends are repeated by another command, as if their answer had been lost.
        avoided: A host to which nobody sends an append; it is still read.
    """

    def __init__(self, hosts: Sequence[SessionHost], sessions: Sequence[Session], chance: random.Random) -> None:
        self.hosts = hosts
        self.calls: dict[str, list[Call]] = {session.id: [] for session in sessions}
        self.chance = chance
        self.reads: Callable[[Session], Awaitable[State]] = read
        self.repeats = False
        self.avoided: int | None = None
        self._readers: dict[tuple[int, str], Session] = {}
        self._texts = 0

    async def client(self, session_id: str) -> None:
        """Append and read until cancelled, now on this host, now on that one."""
        while True:
            host = self.chance.randrange(len(self.hosts))
            if self.chance.random() < 0.4:
                await self.append(host, session_id)
            else:
                await self.read(host, session_id)
            await anyio.sleep(self.chance.random() * THINKS_S)

    async def append(self, host: int, session_id: str) -> None:
        """Append on one host, or on another one if it says no, until it is acknowledged."""
        self._texts += 1
        text = command_id = str(self._texts)
        begun, place = perf_counter(), len(self.calls[session_id])
        self.calls[session_id].append(Call(text, begun))
        while True:
            if host == self.avoided:
                host = (host + 1) % len(self.hosts)
            try:
                session = await self.hosts[host].load(session_id)
                await session.append_message("user", text, command_id=command_id)
                if self.repeats and self.chance.random() < 0.5:
                    await session.append_message("user", text, command_id=f"{command_id} again")
            except TOLD:
                host = self.chance.randrange(len(self.hosts))
                await anyio.sleep(PAUSE_S)
            else:
                self.calls[session_id][place] = Call(text, begun, perf_counter())
                return

    async def read(self, host: int, session_id: str) -> None:
        """Read on one host."""
        try:
            session = self._readers.get((host, session_id)) or await self.hosts[host].load(session_id, read_only=True)
            self._readers[host, session_id] = session
            begun = perf_counter()
            seen = await self.reads(session)
        except TOLD:
            return
        self.calls[session_id].append(Call(None, begun, perf_counter(), seen))


async def read(session: Session) -> State:
    """Return the texts of a session."""
    entries = await session.entries()
    return tuple(plain_text(entry.message.content) for entry in entries if isinstance(entry, MessageEntry))


FAULTS = 9


async def strike(server: LocalServer, nets: Sequence[Network], history: History, fault: int) -> None:
    """Let something fail for a while: one host's network, the server, or who owns what."""
    host = history.chance.randrange(HOSTS)
    net = nets[host]

    def server_ends() -> None:
        server.restart("immediate")

    match fault:
        case 0:
            net.cut()
        case 1:
            net.silence()  # for longer than a lease: its sessions are taken
            await anyio.sleep(1.5 * LEASE_S)
        case 8:
            history.avoided = host
            await anyio.sleep(ANSWER_S)  # what was sent to it is answered
            net.silence()
            await anyio.sleep(1.5 * LEASE_S)
            history.avoided = None
        case 2:
            net.piece, net.delay_s = 97, 0.0005
            await anyio.sleep(0.3)
        case 3:
            for name in ("CommandComplete", "BindComplete", "ReadyForQuery"):
                net.fault("client", name, deed="lose")
            await anyio.sleep(0.3)
        case 4:
            await anyio.to_thread.run_sync(server_ends)
        case 5:
            await anyio.to_thread.run_sync(server.pause)
            await anyio.sleep(0.3)
            await anyio.to_thread.run_sync(server.resume)
        case 6:
            net.unheard = b""
            net.cut_after(500, "client")
            await anyio.sleep(0.2)
        case _:
            with suppress(StoreUnavailable):
                await history.hosts[host].passivate_idle()
    net.resume()


async def begin(session: Session) -> None:
    """Append the first message, however often a busy machine is late with an answer."""
    while True:
        try:
            await session.append_message("user", "0", command_id="0")
        except TOLD:
            await anyio.sleep(PAUSE_S)
        else:
            return


async def record(
    server: LocalServer,
    nets: Sequence[Network],
    schema: str,
    seed: int,
    faults: Sequence[int],
    prepare: Callable[[History], None] = lambda _: None,
) -> History:
    """Run random clients while one fault after the other strikes; return what they saw."""
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(SessionHost(net.url(schema=schema, lease_s=str(LEASE_S), wait_s="0")))
            for net in nets
        ]
        sessions = [await hosts[number % HOSTS].create() for number in range(SESSIONS)]
        for session in sessions:
            await begin(session)
        history = History(hosts, sessions, chance)
        prepare(history)
        for calls in history.calls.values():
            calls.append(Call("0", 0, 0))
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                for _ in range(CLIENTS):
                    tasks.start_soon(history.client, session.id)
            for fault in faults:
                await strike(server, nets, history, fault)
                await anyio.sleep(AFTER_S)
            await anyio.sleep(AFTER_S)
            tasks.cancel_scope.cancel()
        for number, session in enumerate(sessions):  # what is found at the end, by a host that did nothing
            async with SessionHost(server.url(schema=schema)) as other:
                reader = await other.load(session.id, read_only=True)
                begun = perf_counter()
                history.calls[session.id].append(Call(None, begun, begun + number, await read(reader)))
    return history


async def check(server: LocalServer, nets: Sequence[Network], schema: str, seed: int, faults: Sequence[int]) -> None:
    """Assert that what clients saw is what one log for each session could have answered."""
    history = await record(server, nets, schema, seed, faults)
    for calls in history.calls.values():
        assert len(calls) > CLIENTS
        assert is_linearizable(calls), (seed, faults, sorted(calls, key=lambda call: call.begun))


@pytest.mark.feature("C-21")
async def test_histories_under_faults_are_linearizable(
    server: LocalServer, nets: list[Network], schema: str, url: str
) -> None:
    assert url
    await check(server, nets, schema, 0, (8, 3))
    await check(server, nets, schema, 1, (5, 6, 4, 7))


@pytest.mark.feature("C-21")
@pytest.mark.parametrize("fault", ["stale reads", "double writes"])
async def test_a_planted_fault_is_found(
    server: LocalServer, nets: list[Network], schema: str, url: str, fault: str
) -> None:
    assert url
    cached: dict[str, State] = {}

    async def read_from_cache(session: Session) -> State:
        seen, cached[session.id] = cached.get(session.id), await read(session)
        return cached[session.id] if seen is None else seen

    def plant(history: History) -> None:
        history.repeats = fault == "double writes"
        history.reads = read_from_cache if fault == "stale reads" else read

    for seed in range(10):  # on a busy machine little may be appended while a history is recorded
        history = await record(server, nets, schema, seed, (2,), plant)
        if not all(map(is_linearizable, history.calls.values())):
            return
    pytest.fail(f"in none of ten histories were the {fault} noticed")


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.feature("C-21")
async def test_many_histories_under_faults_are_linearizable(
    server: LocalServer, nets: list[Network], schema: str, url: str, scale: float
) -> None:
    assert url
    for seed in range(2, 2 + max(2, round(ROUNDS_OF_SOAK * scale))):
        faults = random.Random(seed).sample(range(FAULTS), FAULTS_OF_ROUND)
        await check(server, nets, schema, seed, faults)

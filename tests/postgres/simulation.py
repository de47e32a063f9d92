"""Hosts of the library over a model of the database, in virtual time: a seed decides what fails, and when.

Statements and answers are lost, late or slow; hosts are paused, killed and closed; their clocks are wrong by hours.
The code under test is the library's own, from the session down to each statement.
"""

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import partial
from random import Random
from typing import Any, TypeVar, TypeVarTuple, cast
from unittest.mock import patch

import anyio
import psycopg
from anyio.abc import TaskGroup
from msgspec import Struct
from structlog.testing import capture_logs

from treering import Limits, SessionHost
from treering.entries import plain_text
from treering.errors import AppendFailed, AppendInDoubt, LeaseLost, SessionLocked, StoreUnavailable
from treering.events.dialects.native import NativeDialect
from treering.events.entries import MessageEntry
from treering.events.stores.capabilities import Leases
from treering.stores.postgres import PostgresStore, store
from treering.stores.postgres.address import Address
from treering.stores.postgres.connections import ANSWER_S, Connections
from treering.stores.postgres.schema import Connection
from treering.testing.simulation import Broken, run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

from .model import Database, Fault, Row

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LEASE_S = 6.0
LASTS_S = 60.0
HOSTS = 3

FAILURES = ("actor_failed", "background_failed", "host_failed")
"""What is never logged, whatever the database and the network do."""


class Steps:
    """An offload whose threads run one at a time, and let the event loop go on whenever they wait for the network."""

    def __init__(self) -> None:
        self._running = threading.local()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)`."""
        step = _Step(self._running, partial(fn, *args))
        step.thread.start()
        failure: BaseException | None = None
        while (waiting := step.go_on(failure)) is not None:
            try:
                step.answer, failure = await waiting(), None
            except BaseException as error:  # noqa: BLE001  # the thread gets it, and ends
                failure = error
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        return cast("T", step.outcome())

    def wait(self, waiting: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401  # what was waited for
        """Await something from within such a thread."""
        step: _Step = self._running.step
        return step.wait(waiting)


class _Step:
    """One call in its thread."""

    def __init__(self, running: threading.local, call: Callable[[], object]) -> None:
        self._call = call
        self._here, self._there = threading.Semaphore(0), threading.Semaphore(0)
        self._waiting: Callable[[], Awaitable[Any]] | None = None
        self._failure: BaseException | None = None
        self._error: BaseException | None = None
        self._result: object = None
        self.answer: object = None
        self.thread = threading.Thread(target=self._run, args=(running,), daemon=True)

    def _run(self, running: threading.local) -> None:
        running.step = self
        self._there.acquire()
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001  # `outcome` raises it
            self._error = error
        self._waiting = None
        self._here.release()

    def go_on(self, failure: BaseException | None) -> Callable[[], Awaitable[Any]] | None:
        """Let the thread run until it waits again, and return for what; None if it has ended."""
        self._failure = failure
        self._there.release()
        self._here.acquire()
        return self._waiting

    def wait(self, waiting: Callable[[], Awaitable[Any]]) -> object:
        self._waiting = waiting
        self._here.release()
        self._there.acquire()
        if self._failure is not None:
            raise self._failure if isinstance(self._failure, Exception) else psycopg.OperationalError("cancelled")
        return self.answer

    def outcome(self) -> object:
        self.thread.join()
        if self._error is not None:
            raise self._error
        return self._result


class _Lock:
    """A lock between such threads."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._steps.wait(partial(anyio.sleep, 0.1))
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False


class Machine:
    """What a host runs on: its network and its clock, and whether it runs at all."""

    def __init__(self, database: Database, random: Random, background: TaskGroup) -> None:
        self.database, self.random, self.background = database, random, background
        self.steps = Steps()
        self.dead = False
        self.trouble = 0.0
        self.wrong_by_s = random.uniform(-3600, 3600)
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        """Stop the host for a while."""
        self._until = anyio.current_time() + seconds

    async def awake(self) -> None:
        """Wait until the host runs; one that is dead only gets errors."""
        while anyio.current_time() < self._until and not self.dead:  # noqa: ASYNC110  # time is virtual
            await anyio.sleep(0.2)
        if self.dead:
            raise psycopg.OperationalError("the host is dead")

    async def carry(self, query: object, wanted: dict[str, Any], answer_s: float) -> list[Row]:
        """Carry a statement to the database, and its answer back, or lose one of them, or be late."""
        random, fate = self.random, self.random.random() / (self.trouble or 1e-9)
        await self.awake()
        execute = partial(self.database.execute, query, wanted, self.wrong_by_s)
        if fate < 0.3:
            self.background.start_soon(self._late, execute)
        if fate < 0.5:
            await anyio.sleep(random.choice((0.0, answer_s)))
            raise psycopg.OperationalError("the statement is lost, or late")
        await anyio.sleep(random.uniform(0.001, answer_s if fate < 0.8 else 0.02))
        rows = execute()
        await anyio.sleep(random.uniform(0.001, 0.02))
        if fate < 1:
            await anyio.sleep(random.choice((0.0, answer_s)))
            raise psycopg.OperationalError("the answer is lost")
        await self.awake()
        return rows

    async def _late(self, execute: Callable[[], list[Row]]) -> None:
        await anyio.sleep(self.random.uniform(0, 2 * LEASE_S))
        execute()


class _Answer(list[Row]):
    def fetchall(self) -> list[Row]:
        return self

    def fetchone(self) -> Row | None:
        return self[0] if self else None


class _ModelConnection:
    """A connection to the model, as far as the library uses one."""

    def __init__(self, machine: Machine, answer_s: float) -> None:
        self._machine, self._answer_s = machine, answer_s

    def execute(self, query: object, wanted: dict[str, Any], *, binary: bool = False) -> _Answer:
        """Carry out a statement."""
        machine = self._machine
        return _Answer(machine.steps.wait(partial(machine.carry, query, wanted, min(self._answer_s, ANSWER_S))))

    @staticmethod
    def pipeline() -> nullcontext[None]:
        """Send several statements, one after the other."""
        return nullcontext()


class _ModelConnections(Connections):
    """The connections of a host to the model."""

    def __init__(self, machine: Machine, address: Address) -> None:
        super().__init__(address)
        self._machine = machine

    @contextmanager
    def lent(self, answer_s: float = float("inf"), *, reserved: bool = False) -> Generator[Connection]:
        """See `Connections.lent`."""
        yield cast("Connection", _ModelConnection(self._machine, answer_s))


class ModelStore(PostgresStore):
    """The library's store, whose statements go to the model."""

    def __init__(self, machine: Machine) -> None:
        with patch.object(store, "Connections", partial(_ModelConnections, machine)):
            super().__init__(f"postgresql:///model?lease_s={LEASE_S}", offload=machine.steps)
        self._holdings._lock = cast("threading.Lock", _Lock(machine.steps))

    def capability(self, kind: Callable[..., T]) -> T | None:
        """See `Store.capability`: what the simulation is about."""
        return cast("T", self) if kind is Leases else None


class Said(Struct):
    """A message, and what its author was told.

    Attributes:
        began: When it was said first, by the time of the simulation.
        acknowledged: When it was acknowledged.
        doubts: How many tries are under way, or had an end that leaves open what became of them.
    """

    session: str
    began: float
    acknowledged: float | None = None
    doubts: int = 0


class World:
    """A simulation."""

    def __init__(self, seed: int, fault: Fault | None) -> None:
        self.random = Random(seed)
        self.database = Database(fault)
        self.names = [f"s{n}" for n in range(self.random.randint(1, 3))]
        self.said: dict[str, Said] = {}
        self.tally: Counter[str] = Counter()
        self.ending = False

    async def play(self) -> None:
        """Run the hosts, and check what they have left."""
        async with anyio.create_task_group() as background:
            async with anyio.create_task_group() as hosts:
                for _ in range(HOSTS):
                    hosts.start_soon(self._lives, background)
                await anyio.sleep(LASTS_S)
                self.ending = True
            await anyio.sleep(2 * LEASE_S)
        self.check()

    async def _lives(self, background: TaskGroup) -> None:
        """Run one host after another in the same place."""
        while not self.ending:
            machine = Machine(self.database, self.random, background)
            with anyio.CancelScope() as scope:
                inline_for_s = self.random.choice(
                    (0.0, 1e9)
                )  # always or never, since it is compared with the real clock
                limits = Limits(idle_after_s=self.random.choice((1.0, 60.0)), inline_for_s=inline_for_s)
                async with SessionHost(
                    store=ModelStore(machine),
                    clock=VirtualClock(self.random),
                    new_id=SeededIds(self.random),
                    offload=AtOnce(self.random),
                    limits=limits,
                ) as host:
                    async with anyio.create_task_group() as tasks:
                        for _ in range(self.random.randint(1, 3)):
                            tasks.start_soon(self._write, host, machine)
                        await self._disturb(machine)
                        tasks.cancel_scope.cancel()
                    if self.random.random() < 0.5 and not self.ending:
                        machine.dead = True
                        self.tally["killed"] += 1
                        scope.cancel()

    async def _disturb(self, machine: Machine) -> None:
        """Let happen to a host what may happen, until its end."""
        for _ in range(self.random.randint(2, 8)):
            await anyio.sleep(self.random.uniform(0.5, LEASE_S))
            if self.ending:
                break
            machine.trouble = self.random.choice((0.0, 0.0, 0.1, 0.5))
            if self.random.random() < 0.4:
                self.tally["paused"] += 1
                machine.pause(self.random.uniform(0.1, 2 * LEASE_S))
        machine.trouble = 0.0

    async def _write(self, host: SessionHost, machine: Machine) -> None:
        while not self.ending:
            await anyio.sleep(self.random.uniform(0, 1))
            doubtful = [text for text, said in self.said.items() if said.doubts and said.acknowledged is None]
            if doubtful and self.random.random() < 0.3:
                text = self.random.choice(doubtful)  # of another host, perhaps, which may be gone
            else:
                text = f"t{len(self.said)}"
                self.said[text] = Said(self.random.choice(self.names), anyio.current_time())
            await self._say(host, machine, text, self.said[text])

    async def _say(self, host: SessionHost, machine: Machine, text: str, said: Said) -> None:
        said.doubts += 1  # if the host is closed or killed meanwhile
        is_doubtful = False
        for _ in range(self.random.randint(1, 4)):
            try:
                session = await host.open(said.session)
                await session.append_message("user", text, command_id=text)
            except AppendInDoubt:
                is_doubtful = True
            except (AppendFailed, StoreUnavailable):
                pass
            except (LeaseLost, SessionLocked) as error:
                self.tally[type(error).__name__] += 1
                break
            else:
                if not machine.dead and said.acknowledged is None:
                    said.acknowledged = anyio.current_time()
                return
            await anyio.sleep(self.random.uniform(0, 2))
        said.doubts -= not is_doubtful

    def check(self) -> None:
        """Compare the logs with what the authors were told."""
        if self.database.broken:
            raise Broken(self.database.broken[0])
        places: dict[str, int] = {}
        for ref, log in self.database.logs.items():
            entries = [NativeDialect().decode(line, seq) for seq, line in enumerate(log.lines, 1)]
            texts = [plain_text(each.message.content) for each in entries if isinstance(each, MessageEntry)]
            if len(texts) != log.head or len(set(texts)) != len(texts):
                raise Broken(f"{ref} holds something twice, or something else: {texts}")
            places.update({text: seq for seq, text in enumerate(texts, 1)})
        for text, said in self.said.items():
            if said.acknowledged is not None and text not in places:
                raise Broken(f"{text} was acknowledged, and is lost")
            if said.acknowledged is None and not said.doubts and text in places:
                raise Broken(f"{text} was refused, and is there")
        acknowledged = sorted(
            (said.acknowledged, text) for text, said in self.said.items() if said.acknowledged is not None
        )
        for at, earlier in acknowledged:
            for text, said in self.said.items():
                if (
                    said.session == self.said[earlier].session
                    and said.began > at
                    and places.get(text, 1e9) < places[earlier]
                ):
                    raise Broken(f"{text} was said after {earlier} was acknowledged, and stands before it")
        self.tally["acknowledged"] += len(acknowledged)
        self.tally["taken"] += self.database.taken
        self.tally["fenced"] += self.database.fenced
        self.tally["statements"] += self.database.statements


def simulate(seed: int, fault: Fault | None = None) -> Counter[str]:
    """Run a seed, and return what happened in it.

    Raises:
        Broken: A rule was broken.
    """

    async def play() -> Counter[str]:
        world = World(seed, fault)
        await world.play()
        return world.tally

    try:
        with capture_logs() as logged:
            tally = run(seed, play)
        for event in logged:
            if event["event"] in FAILURES:
                raise Broken(f"something failed: {event}")
    except Broken as error:
        raise Broken(f"{error}\n\nto reproduce it: simulate({seed}, {fault!r})") from error
    return tally

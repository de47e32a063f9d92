"""Deterministic simulation of a whole host: a seed decides the clock, the task order, the disk faults and the crashes.

    from treering.testing.simulation import simulate

    result = simulate(seed=17)

Writers and subscribers run on a host whose disk fails and loses data: they append, branch, archive, copy, follow and
cancel. The host is closed, killed or loses power, and another one opens what is left. After each step the state must
equal a replay of the file, and after each host every acknowledged entry must be stored exactly once. A seed always
produces the same run. A failing run prints the command that reproduces it::

    python -m treering.testing.simulation --seed 17

This needs trio, which `pip install 'treering[test]'` installs. Disks are simulated down to each operation, processes
are not: operating system locks and threads are not covered.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import cast

import anyio
from msgspec import Struct
from structlog.testing import capture_logs

from ...actors.host.host import SessionHost
from ...events.stores.files import Durability
from .agents import Disturber, Subscriber, Writer
from .checks import Broken, Replay, check_file, check_session, replayed
from .determinism import durabilities, run
from .world import PATIENCE_S, World

__all__ = ["Broken", "Replay", "Told", "check_file", "check_session", "durabilities", "replayed", "run", "simulate"]

LIVES = 4
"""How many hosts run one after another on the same disk."""


class Told(Struct, frozen=True):
    """The result of a simulation.

    Attributes:
        seed: Its seed.
        trace: The events, one per line.
        files: The final content of the disk, by path.
        acknowledged: The number of acknowledged entries.
        crashes: The number of hosts that were killed or lost power.
        checks: How often a log was compared with its file or with the outcomes that callers know.
    """

    seed: int
    trace: list[str]
    files: dict[str, bytes]
    acknowledged: int
    crashes: int
    checks: int

    @property
    def digest(self) -> str:
        """A checksum of the trace and the logs, equal for two identical runs."""
        digest = blake2b("\n".join(self.trace).encode(), digest_size=16)
        for path, data in self.files.items():
            if path.endswith(".jsonl"):
                digest.update(b"%s %d\n%s" % (path.encode(), len(data), data))
        return digest.hexdigest()


def simulate(seed: int, durability: Durability | None = None) -> Told:
    """Run the simulation of a seed, and check the invariants.

    Args:
        seed: Decides everything.
        durability: What appends survive; by default the seed decides.

    Raises:
        Broken: An invariant was violated; the message contains the command that reproduces the run.
    """
    chosen = durability or durabilities()[seed % len(durabilities())]
    trace: list[str] = []
    try:
        with capture_logs() as logged:
            world = run(seed, _play, seed, chosen, trace)
        for event in logged:
            if event["event"] == "actor_failed":
                raise Broken(f"an actor failed: {event}")
    except Exception as error:
        command = f"python -m treering.testing.simulation --seed {seed} --durability {chosen}"
        broken = Broken(f"{_root_error(error)!r}\n\nto reproduce it: {command}")
        broken.trace = trace
        raise broken from error
    acknowledged = sum(ledger.acknowledged for ledger in world.ledgers.values())
    return Told(seed, trace, world.memory.files(), acknowledged, world.crashes, world.checks)


def _is_unexpected(error: BaseException) -> bool:
    """Return whether an error is neither a failed check nor a group."""
    return not isinstance(error, (Broken, BaseExceptionGroup))


def _root_error(error: BaseException) -> BaseException:
    """Return one error out of nested groups, preferring a failed check."""
    while isinstance(error, BaseExceptionGroup):
        members = cast("list[BaseException]", [*error.exceptions])
        error = min(members, key=_is_unexpected)
    return error


async def _play(seed: int, durability: Durability, trace: list[str]) -> World:
    world = World(seed, durability, trace)
    followers = [Subscriber(world, world.random.choice(world.names)) for _ in range(world.random.randrange(4))]
    may_lose_lines = durability == "os"
    for _ in range(LIVES):

        async def life(host: SessionHost) -> None:
            await _live(world, host, followers)

        await world.live(life)
        await world.check_all()
        may_lose_lines = may_lose_lines or world.end == "killed"
        if world.end == "power cut":
            for follower in followers:
                if may_lose_lines or follower.read_only:  # it may have seen lines that were never flushed
                    follower.seen.clear()
                    follower.cursor = 0
            may_lose_lines = durability == "os"
    return world


async def _live(world: World, host: SessionHost, followers: list[Subscriber]) -> None:
    """Run writers and subscribers on a disk that fails at times, and check that everything works once it recovers."""
    async with anyio.create_task_group() as background:
        for follower in followers:
            background.start_soon(follower.run)
        async with anyio.create_task_group() as disturbance:
            disturbance.start_soon(Disturber(world, host).run)
            with anyio.fail_after(PATIENCE_S * 10):
                async with anyio.create_task_group() as writers:
                    for number in range(world.random.randint(1, 4)):
                        writers.start_soon(Writer(world, number, writers).run)
            disturbance.cancel_scope.cancel()
        world.disk.heal()
        world.tell("the disk is well at the end")
        await _check_recovery(world, followers)
        background.cancel_scope.cancel()


async def _check_recovery(world: World, followers: list[Subscriber]) -> None:
    """Check that on a healthy disk every session accepts an append, and every subscriber reaches the end."""
    for name in world.names:
        session = await world.session(name)
        token = world.token()
        record = world.ledgers[name].note_command([token])
        ids = [await session.append_message("user", token)]
        if world.gone:
            return
        world.ledgers[name].answer(record, ids)
        world.check_live(name)
    for follower in followers:
        ids = [entry.id or "" for entry in await (await world.session(follower.name)).entries()]
        with anyio.move_on_after(PATIENCE_S):
            while not follower.has_received(ids) and not world.gone:  # noqa: ASYNC110  # time is virtual
                await anyio.sleep(1)
        if not follower.has_received(ids) and not world.gone:
            raise Broken(f"{follower.name}: a subscriber has {follower.seen}, but the log has {ids}")

"""The course of a simulation: several hosts, one after the other, on one disk."""

from __future__ import annotations

from hashlib import blake2b
from typing import cast

import anyio
from msgspec import Struct
from structlog.testing import capture_logs

from ...actors.host import SessionHost
from ...events.stores.files import Durability
from .agents import Disturber, Subscriber, Writer
from .checks import Broken
from .determinism import durabilities, run
from .world import PATIENCE_S, World

LIVES = 4


class Told(Struct, frozen=True):
    """What came of a simulation.

    Attributes:
        seed: Its seed.
        trace: What happened, line by line.
        files: What the disk holds in the end, by path.
        acknowledged: How many entries were acknowledged.
        crashes: How many hosts were killed or lost their power.
        checks: How often a log was held against its file or its callers.
    """

    seed: int
    trace: list[str]
    files: dict[str, bytes]
    acknowledged: int
    crashes: int
    checks: int

    @property
    def digest(self) -> str:
        """What tells two runs apart: a checksum of the trace and the logs."""
        digest = blake2b("\n".join(self.trace).encode(), digest_size=16)
        for path, data in self.files.items():
            if path.endswith(".jsonl"):
                digest.update(b"%s %d\n%s" % (path.encode(), len(data), data))
        return digest.hexdigest()


def simulate(seed: int, durability: Durability | None = None) -> Told:
    """Play out what a seed decides, and check what has to hold.

    Args:
        seed: Decides everything.
        durability: What appends survive; by default the seed decides that, too.

    Raises:
        Broken: Something did not hold; the message names the command that plays the seed again.
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
        again = f"python -m treering.testing.simulation --seed {seed} --durability {chosen}"
        broken = Broken(f"{_first(error)!r}\n\nto see it again: {again}")
        broken.trace = trace
        raise broken from error
    acknowledged = sum(ledger.acknowledged for ledger in world.ledgers.values())
    return Told(seed, trace, world.memory.files(), acknowledged, world.crashes, world.checks)


def _is_strange(error: BaseException) -> bool:
    """Tell whether an error is not one that the checks raise."""
    return not isinstance(error, (Broken, BaseExceptionGroup))


def _first(error: BaseException) -> BaseException:
    """Return what went wrong first, out of however many groups."""
    while isinstance(error, BaseExceptionGroup):
        within = cast("list[BaseException]", [*error.exceptions])
        error = min(within, key=_is_strange)
    return error


async def _play(seed: int, durability: Durability, trace: list[str]) -> World:
    world = World(seed, durability, trace)
    followers = [Subscriber(world, world.random.choice(world.names)) for _ in range(world.random.randrange(4))]
    held_back = durability == "os"
    for _ in range(LIVES):

        async def life(host: SessionHost) -> None:
            await _live(world, host, followers)

        await world.live(life)
        await world.check_all()
        held_back = held_back or world.end == "killed"
        if world.end == "power cut" and held_back:
            held_back = durability == "os"
            for follower in followers:  # they may have seen what was written and never flushed, and is gone
                follower.seen.clear()
                follower.cursor = 0
    return world


async def _live(world: World, host: SessionHost, followers: list[Subscriber]) -> None:
    """Let writers write and subscribers follow, on a disk that is ill at times; in the end, all is well."""
    async with anyio.create_task_group() as background:
        for follower in followers:
            background.start_soon(follower.run)
        async with anyio.create_task_group() as disturbance:
            disturbance.start_soon(Disturber(world, host).run)
            with anyio.fail_after(PATIENCE_S * 10):
                async with anyio.create_task_group() as writers:
                    for number in range(world.random.randint(1, 4)):
                        writers.start_soon(Writer(world, number).run)
            disturbance.cancel_scope.cancel()
        world.disk.heal()
        world.tell("the disk is well in the end")
        await _end_well(world, followers)
        background.cancel_scope.cancel()


async def _end_well(world: World, followers: list[Subscriber]) -> None:
    """On a disk that is well, every session takes an append at once, and every subscriber comes to the end."""
    for name in world.names:
        session = await world.session(name)
        token = world.token()
        asked = world.ledgers[name].ask([token])
        ids = [await session.append_message("user", token)]
        if world.gone:
            return
        world.ledgers[name].answer(asked, ids)
        world.check_live(name)
    for follower in followers:
        shown = [entry.id or "" for entry in await (await world.session(follower.name)).entries()]
        with anyio.move_on_after(PATIENCE_S):
            while not follower.has(shown) and not world.gone:  # noqa: ASYNC110 - time is virtual
                await anyio.sleep(1)
        if not follower.has(shown) and not world.gone:
            raise Broken(f"{follower.name}: a subscriber has {follower.seen} and the log {shown}")

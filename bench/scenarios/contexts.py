"""The context of an open session: of long paths, of one that was compacted, and what fits a window, turn after turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import anyio

from treering import ContextBudget, ContextBuilder, Message, Session, SessionHost, message, tool_result, tool_use
from treering.projections.tokens import count_messages

from ..jobs import Contexts
from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, peer_sides
from ..timing import Sample
from ..workspace import Workspace

TURNS = 20


def _compacted(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return [
        side
        for suffix, again in (("", False), (" again", True))
        for side in peer_sides(peers, Contexts(scale.entries, compacted=True, again=again), suffix=suffix)
    ]


def _whole(entries: int) -> Scenario:
    return Scenario(
        f"context-{entries}",
        f"context of a path of {entries:,} messages, for the first time",
        "ms",
        millis,
        lambda peers, scale: peer_sides(peers, Contexts(min(entries, scale.entries))),
        (),
        "pi 1.5.2",
        rounds_max=3,
        note="pi holds every message in memory once the session is open; treering reads the bodies at this point.",
        full_only=entries != 10_000,
    )


def _turn(number: int) -> list[Message]:
    return [
        message("user", "Look at the next file and say what it does, please. " * 2),
        message("assistant", tool_use(f"call-{number}", "bash", {"command": f"cat part-{number}"})),
        message("tool", tool_result(f"call-{number}", "one line of a file\n" * 50)),
        message("assistant", "It reads what the one before it has written. " * 3),
    ]


async def _turns(messages: int, share: float) -> Sample:
    async with SessionHost() as host:
        session = await host.create()
        for number in range(messages // 4):
            await session.append_many(_turn(number))
        window = int(count_messages(await session.messages()) * share)
        budget, builder = ContextBudget(window, 0, 0, 0, window), ContextBuilder()
        await session.build_context(budget, builder)
        return await _timed(session, budget, builder, messages // 4)


async def _timed(session: Session, budget: ContextBudget, builder: ContextBuilder, done: int) -> Sample:
    sample = Sample(TURNS)
    for number in range(done, done + TURNS):
        await session.append_many(_turn(number))
        wall, cpu = time.perf_counter(), time.process_time()
        await session.build_context(budget, builder)
        sample.wall_s += time.perf_counter() - wall
        sample.cpu_s += time.process_time() - cpu
    return sample


def _cpu_millis(sample: Sample) -> float:
    return sample.cpu_us / 1000


def _fitting(messages: int, share: float, _: Workspace) -> Sample:
    return anyio.run(_turns, messages, share)


SCENARIOS = [
    Scenario(
        "context-turns",
        "fit the context of a session into a window, in each of 20 turns",
        "ms of processor time",
        _cpu_millis,
        lambda _, scale: [
            Side(f"{messages:,} messages, {words}", partial(_fitting, messages, share))
            for words, share in (("old results cleared", 0.7), ("a tenth fits: the state of the work", 0.1))
            for messages in (400, 4_000)
        ],
        (
            Goal("4,000 messages, old results cleared", "figure", 2.0),
            Goal("4,000 messages, a tenth fits: the state of the work", "figure", 2.0),
        ),
        "400 messages, old results cleared",
        note="The window is 0.7 or 0.1 of what all messages take. No model is called, so no summary is made.",
    ),
    Scenario(
        "context-compacted",
        "context of a long compacted session that was just loaded",
        "ms",
        millis,
        _compacted,
        (Goal("treering/uvloop", "figure", 5.0),),
        rounds_max=5,
        note="The first context reads its messages from the file, and the second finds the first one kept. "
        "pi holds all in memory.",
    ),
    *map(_whole, (1_000, 10_000, 100_000)),
]

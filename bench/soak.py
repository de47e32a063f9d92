"""A day of a host with many agents, in less than a day: does memory stay, does the loop run, is every entry there?

Agents think most of the time, and that is what is shortened: a day at 144 times the speed takes ten minutes, with all the
turns of that day. What an agent does takes as long as it takes; where the machine does not keep up, there are fewer
turns. In the end every log is read line by line and held against what was acknowledged, and some are replayed.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from .report import Machine, machine
from .soak_agents import Agent, VirtualTime, follow
from .soak_check import Checked, checked
from .watching import Histogram, Memory, Pauses, memory, pauses, tick, tracked
from .workspace import Workspace

if TYPE_CHECKING:
    from treering import HostStatistics, SessionHost

FULL_PAUSE_MAX_MS = 50.0
"""What no full collection may exceed."""

_SAMPLES = 120
_TYPES = 12
_IDLE_AFTER_S = 300.0


class SoakOptions(Struct, frozen=True, kw_only=True):
    """How a soak is run.

    Attributes:
        agents: How many agents there are, each with a session of its own; a tenth as many follow.
        hours: How long it lasts, in virtual hours.
        speed: How many virtual seconds are one of the machine's.
        think_s: How long an agent thinks between two turns, on average, in virtual seconds.
        seed: What the agents do follows from it.
        trace: Trace allocations, which makes everything slower and larger.
    """

    agents: int = 1_000
    hours: float = 24.0
    speed: float = 144.0
    think_s: float = 600.0
    seed: int = 1
    trace: bool = False


class SoakSample(Struct, frozen=True):
    """How things were at one time. `live` sessions hold their index; `resting` ones have been appended to and were let go."""

    at_hours: float
    memory: Memory
    live: int
    resting: int
    passivations: int
    subscribers: int
    entries: int


class SoakResult(Struct, frozen=True):
    """What came of a soak.

    Attributes:
        real_s: How long it took.
        cpu_s: The processor time of it.
        did: How often the agents and followers did what they do.
        entries: How many entries were acknowledged.
        bytes: The size of their lines.
        full_pauses: How often full collections stopped everything, and for how long.
        young_pauses: The same of the others.
        late_p50_ms: How late a ticker of 5 ms was.
        late_p99_ms: What one tick of a hundred exceeded.
        late_max_ms: The latest.
        commit_p99_ms: What one commit of a hundred exceeded.
        tracked: How many objects a full collection went through in the end.
        tracked_types: The most frequent of them.
        checked: What was looked for in the end, and not found.
    """

    machine: Machine
    options: SoakOptions
    real_s: float
    cpu_s: float
    did: dict[str, int]
    entries: int
    bytes: int
    full_pauses: Pauses
    young_pauses: Pauses
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    commit_p99_ms: float
    tracked: int
    tracked_types: dict[str, int]
    checked: Checked
    samples: list[SoakSample]


def soaked(options: SoakOptions, space: Workspace, step: Callable[[SoakSample], None]) -> SoakResult:
    """Run a soak on asyncio, with uvloop where it is there.

    Args:
        options: How.
        space: Where the sessions go.
        step: Called with each sample.
    """
    run = _Soak(options, space.fresh(), step)
    if options.trace:
        tracemalloc.start()
    try:
        return anyio.run(run.run, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    finally:
        tracemalloc.stop()


class _Soak:
    def __init__(self, options: SoakOptions, root: Path, step: Callable[[SoakSample], None]) -> None:
        self._options = options
        self._root = root
        self._step = step
        self._did: Counter[str] = Counter()
        self._samples: list[SoakSample] = []
        self._agents: list[Agent] = []

    async def run(self) -> SoakResult:
        from treering import Limits, SessionHost

        options = self._options
        clock = VirtualTime(options.speed, options.hours * 3600)
        limits = Limits(idle_after_s=_IDLE_AFTER_S / options.speed, live_max=max(1, options.agents * 3 // 4))
        late = Histogram()
        gc.collect()
        gc.freeze()  # as a host does that runs for days: what is imported by now need not be looked at again
        began, cpu = time.perf_counter(), time.process_time()
        with pauses() as found:
            async with SessionHost(self._root, limits=limits, clock=clock) as host:
                await self._live(host, clock, late)
                real_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
                figures = host.statistics()
                count, types = tracked(_TYPES)
        acknowledged = {each.session.ref: each.acknowledged for each in self._agents if each.acknowledged.count}
        return SoakResult(
            machine=machine(),
            options=options,
            real_s=real_s,
            cpu_s=cpu_s,
            did=dict(self._did),
            entries=figures.appends,
            bytes=figures.bytes,
            full_pauses=found[-1],
            young_pauses=_together(found[:-1]),
            late_p50_ms=late.quantile(0.5) * 1000,
            late_p99_ms=late.quantile(0.99) * 1000,
            late_max_ms=late.max_s * 1000,
            commit_p99_ms=figures.commit.p99_s * 1000,
            tracked=count,
            tracked_types=types,
            checked=await checked(self._root, acknowledged),
            samples=self._samples,
        )

    async def _live(self, host: SessionHost, clock: VirtualTime, late: Histogram) -> None:
        options = self._options
        for number in range(options.agents):
            seed = options.seed * 1_000_003 + number
            self._agents.append(Agent(await host.create(), seed, options.think_s, self._did))
        async with anyio.create_task_group() as watchers:
            watchers.start_soon(tick, late)
            watchers.start_soon(self._sample, host, clock)
            async with anyio.create_task_group() as group:
                for agent in self._agents:
                    group.start_soon(agent.live, host, clock)
                for number in range(max(1, options.agents // 10)):
                    group.start_soon(follow, host, self._agents, options.seed + number, clock, self._did)
            watchers.cancel_scope.cancel()
        self._look(host.statistics(), clock)

    async def _sample(self, host: SessionHost, clock: VirtualTime) -> None:
        while True:
            self._look(host.statistics(), clock)
            await anyio.sleep(self._options.hours * 3600 / self._options.speed / _SAMPLES)

    def _look(self, figures: HostStatistics, clock: VirtualTime) -> None:
        begun = sum(agent.acknowledged.count > 0 for agent in self._agents)
        sample = SoakSample(
            clock.passed_s / 3600,
            memory(),
            figures.live,
            max(0, begun - figures.live),
            figures.passivated,
            figures.subscribers,
            figures.appends,
        )
        self._samples.append(sample)
        self._step(sample)


def _together(found: Sequence[Pauses]) -> Pauses:
    total = Pauses()
    for each in found:
        total.count += each.count
        total.total_ms += each.total_ms
        total.max_ms = max(total.max_ms, each.max_ms)
        total.cpu_max_ms = max(total.cpu_max_ms, each.cpu_max_ms)
    return total

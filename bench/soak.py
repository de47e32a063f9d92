"""The soak: a virtual day of a host with many agents. Is memory stable, the loop responsive, every entry stored?

Agents spend most of their time thinking, and only that is shortened: at 144 times the speed, a day takes ten minutes
and has all of its turns. Everything else runs in real time; if the machine does not keep up, there are fewer turns. At
the end every log is read line by line and compared with what was acknowledged, and some sessions are replayed.
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
import anyio.lowlevel
from msgspec import Struct

from .report import Machine, describe_machine
from .soak_agents import ACTIONS, Agent, VirtualTime, follow
from .soak_check import Checked, check_logs
from .watching import Histogram, Memory, Pauses, count_tracked_objects, memory, pauses, tick
from .workspace import Workspace

if TYPE_CHECKING:
    from treering import SessionHost
    from treering.sessions import HostStatistics

FULL_PAUSE_MAX_MS = 50.0
"""The longest pause that a full collection may take."""

_SAMPLES = 120
_TYPES = 12
_IDLE_AFTER_S = 300.0


class SoakOptions(Struct, frozen=True, kw_only=True):
    """The options of a soak.

    Attributes:
        agents: The number of agents, each with its own session; there are a tenth as many followers.
        hours: The length of the run, in virtual hours.
        speed: Virtual seconds per real second.
        think_s: How long an agent thinks between two turns, on average, in virtual seconds.
        seed: Determines what the agents do.
        least: How often each kind of action is performed at least, however long that takes a busy machine.
        trace: Trace allocations, which costs time and memory.
    """

    agents: int = 1_000
    hours: float = 24.0
    speed: float = 144.0
    think_s: float = 600.0
    seed: int = 1
    least: int = 0
    trace: bool = False


class SoakSample(Struct, frozen=True):
    """The state at one moment. `live` sessions hold their index; `resting` ones have entries and were passivated."""

    at_hours: float
    memory: Memory
    live: int
    resting: int
    passivations: int
    subscribers: int
    entries: int


class SoakResult(Struct, frozen=True):
    """The result of a soak.

    Attributes:
        machine: The machine and versions.
        options: The options of the run.
        real_s: How long it took.
        cpu_s: Its processor time.
        did: How often agents and followers performed each of their actions.
        entries: The number of acknowledged entries.
        bytes: The size of their lines.
        full_pauses: The pauses for full collections.
        young_pauses: The pauses for all other collections.
        late_p50_ms: The median delay of a 5 ms ticker.
        late_p99_ms: The delay that one tick in a hundred exceeded.
        late_max_ms: The longest delay.
        commit_p99_ms: The duration that one commit in a hundred exceeded.
        tracked: The number of objects that a full collection traversed at the end.
        tracked_types: The most frequent types among them.
        checked: The result of the final check.
        samples: The state over time.
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


def run_soak(options: SoakOptions, space: Workspace, step: Callable[[SoakSample], None]) -> SoakResult:
    """Run a soak on asyncio, with uvloop if it is installed.

    Args:
        options: The options.
        space: Where the sessions go.
        step: Called with each sample.
    """
    run = _Soak(options, space.new_folder(), step)
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
        clock = VirtualTime(options.speed, options.hours * 3600, self._is_done)
        limits = Limits(idle_after_s=_IDLE_AFTER_S / options.speed, live_max=max(1, options.agents * 3 // 4))
        delays = Histogram()
        _exclude_from_collection()  # the imported modules
        began, cpu = time.perf_counter(), time.process_time()
        with pauses() as pauses_by_generation:
            async with SessionHost(self._root, limits=limits, clock=clock) as host:
                await self._run_agents(host, clock, delays)
                real_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
                figures = host.statistics()
                count, types = count_tracked_objects(_TYPES)
        acknowledged = {each.session.ref: each.acknowledged for each in self._agents if each.acknowledged.count}
        return SoakResult(
            machine=describe_machine(),
            options=options,
            real_s=real_s,
            cpu_s=cpu_s,
            did=dict(self._did),
            entries=figures.appends,
            bytes=figures.bytes,
            full_pauses=pauses_by_generation[-1],
            young_pauses=_sum_pauses(pauses_by_generation[:-1]),
            late_p50_ms=delays.quantile(0.5) * 1000,
            late_p99_ms=delays.quantile(0.99) * 1000,
            late_max_ms=delays.max_s * 1000,
            commit_p99_ms=figures.commit.p99_s * 1000,
            tracked=count,
            tracked_types=types,
            checked=await check_logs(self._root, acknowledged),
            samples=self._samples,
        )

    def _is_done(self) -> bool:
        return all(self._did[action] >= self._options.least for action in ACTIONS)

    async def _run_agents(self, host: SessionHost, clock: VirtualTime, delays: Histogram) -> None:
        options = self._options
        for number in range(options.agents):
            seed = options.seed * 1_000_003 + number
            self._agents.append(Agent(await host.create(), seed, options.think_s, self._did))
        async with anyio.create_task_group() as watchers:
            watchers.start_soon(tick, delays.add)
            watchers.start_soon(self._sample_repeatedly, host, clock)
            async with anyio.create_task_group() as group:
                for agent in self._agents:
                    group.start_soon(agent.live, host, clock)
                for number in range(max(1, options.agents // 10)):
                    group.start_soon(follow, host, self._agents, options.seed + number, clock, self._did)
                await anyio.lowlevel.checkpoint()
                _exclude_from_collection()  # the agents' tasks
            watchers.cancel_scope.cancel()
        self._record_sample(host.statistics(), clock)

    async def _sample_repeatedly(self, host: SessionHost, clock: VirtualTime) -> None:
        while True:
            self._record_sample(host.statistics(), clock)
            await anyio.sleep(self._options.hours * 3600 / self._options.speed / _SAMPLES)

    def _record_sample(self, figures: HostStatistics, clock: VirtualTime) -> None:
        started = sum(agent.acknowledged.count > 0 for agent in self._agents)
        sample = SoakSample(
            clock.passed_s / 3600,
            memory(),
            figures.live,
            max(0, started - figures.live),
            figures.passivated,
            figures.subscribers,
            figures.appends,
        )
        self._samples.append(sample)
        self._step(sample)


def _exclude_from_collection() -> None:
    """Exclude what exists from garbage collection, as a host that runs for days does with what it keeps to the end."""
    gc.collect()
    gc.freeze()


def _sum_pauses(pauses: Sequence[Pauses]) -> Pauses:
    total = Pauses()
    for each in pauses:
        total.count += each.count
        total.total_ms += each.total_ms
        total.max_ms = max(total.max_ms, each.max_ms)
        total.cpu_max_ms = max(total.cpu_max_ms, each.cpu_max_ms)
    return total

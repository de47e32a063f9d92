"""The agents of a soak, which think, ask, call tools, branch and compact, and followers that come and go."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from .soak_check import Acknowledged

if TYPE_CHECKING:
    from treering import Session, SessionHost
    from treering.contexts import SummaryRequest

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_TEXT = (
    "The reader opens a file, finds what it was looking for, changes a line, and checks that nothing else moved. " * 50
)
_SUMMARY = "Files were read and changed one after the other, and each was checked. "
_COMPACT_EVERY = 8
_KEEP_TOKENS = 2_000
_STAY_S = 1_800.0
_MORE_S = 60.0

ACTIONS = ("turns", "tools", "branches", "compactions", "loads", "subscriptions", "deliveries")
"""What agents and followers do."""


class VirtualTime:
    """A clock that runs faster than real time.

    Args:
        speed: Virtual seconds per real second.
        seconds: The length of the run, in virtual seconds.
        is_done: Whether the run may end; it goes on until it may.
    """

    def __init__(self, speed: float, seconds: float, is_done: Callable[[], bool]) -> None:
        self._speed = speed
        self._seconds = seconds
        self._is_done = is_done
        self._began = monotonic()

    def __call__(self) -> datetime:
        """Return the time, as the clock of a host; it goes on after the end of the run."""
        return _BEGIN + timedelta(seconds=self.passed_s)

    @property
    def passed_s(self) -> float:
        """The virtual seconds since the beginning."""
        return (monotonic() - self._began) * self._speed

    @property
    def remaining_s(self) -> float:
        """The virtual seconds until the end of the run, as far as it is known."""
        return max(0.0 if self._is_done() else _MORE_S, self._seconds - self.passed_s)

    def to_real(self, seconds: float) -> float:
        """Convert virtual seconds to real ones; at most up to the end of the run."""
        return min(seconds, self.remaining_s) / self._speed

    async def sleep(self, seconds: float) -> None:
        """Sleep for some virtual seconds, at most until the end of the run."""
        await anyio.sleep(self.to_real(seconds))


class Agent:
    """An agent with its session.

    Args:
        session: Its session, still empty.
        seed: Determines what it does; when it does it also depends on the machine.
        think_s: How long it thinks between two turns, on average, in virtual seconds.
        did: Counts its actions.
    """

    def __init__(self, session: Session, seed: int, think_s: float, did: Counter[str]) -> None:
        self.session = session
        self.acknowledged = Acknowledged()
        self._random = Random(seed)
        self._think_s = think_s
        self._did = did
        self._turns = 0
        self._ends: deque[str] = deque(maxlen=8)

    async def live(self, host: SessionHost, time: VirtualTime) -> None:
        """Think and take turns until the run ends; the last turn is completed."""
        await time.sleep(self._random.uniform(0, min(self._think_s, time.remaining_s / 2)))
        while time.remaining_s:
            await self._turn(host)
            await time.sleep(self._random.expovariate(1 / self._think_s))

    async def _turn(self, host: SessionHost) -> None:
        self._turns += 1
        self._did["turns"] += 1
        if self._random.random() < 0.05:
            await self._reload(host)
        if self._ends and self._random.random() < 0.05:
            await self._go_back()
        await self._say("user", self._words(100, 1_000))
        for number in range(self._random.randint(1, 3)):
            await self._use_tool(f"call-{self._turns}-{number}")
        self._ends.append(await self._say("assistant", self._words(200, 1_500)))
        if self._turns % _COMPACT_EVERY == 0:
            await self._compact()

    async def _reload(self, host: SessionHost) -> None:
        """Close the handle and load the session again, as the next request to a server would."""
        if self.acknowledged.count:
            await self.session.close()
            self.session = await host.load(self.session.id)
            self._did["loads"] += 1

    async def _go_back(self) -> None:
        """Branch from the end of an earlier turn, sometimes with a summary of the abandoned branch."""
        end = self._random.choice(self._ends)
        if self._random.random() < 0.3:
            self._note_acknowledged(
                await self.session.branch_with_summary(end, "Another approach was tried and abandoned.")
            )
        else:
            await self.session.branch(end)
        self._did["branches"] += 1

    async def _use_tool(self, call: str) -> None:
        from treering import text, tool_use

        await self.session.context()  # what a model would be sent
        arguments = {"path": f"src/{self._random.randrange(1_000)}.py"}
        call_id = await self.session.append_message(
            "assistant", [text("I read it."), tool_use(call, "read", arguments)]
        )
        self._note_acknowledged(call_id)
        result = self._words(3_000, 5_000) if self._random.random() < 0.05 else self._words(100, 1_500)
        entry_ids = await self.session.append_tool_execution(
            call, "read", arguments, result, duration_ms=12.5, message_id=call_id
        )
        self._note_acknowledged(*entry_ids)
        self._did["tools"] += 1

    async def _compact(self) -> None:
        report = await self.session.compact(_summarize, keep_tokens=_KEEP_TOKENS)
        if report.entry_id is not None:
            self._note_acknowledged(report.entry_id)
            self._did["compactions"] += 1

    async def _say(self, role: str, content: str) -> str:
        await self.session.context()
        entry_id = await self.session.append_message(role, content)
        self._note_acknowledged(entry_id)
        return entry_id

    def _note_acknowledged(self, *ids: str) -> None:
        for each in ids:
            self.acknowledged.add(each)

    def _words(self, length_min: int, length_max: int) -> str:
        at = self._random.randrange(100)
        return _TEXT[at : at + self._random.randint(length_min, length_max)]


async def follow(host: SessionHost, agents: Sequence[Agent], seed: int, time: VirtualTime, did: Counter[str]) -> None:
    """Follow one session after another for a while, some from the beginning, and check that no entry is skipped.

    Raises:
        OutOfOrder: A subscriber got an entry that was not the next one.
    """
    random = Random(-seed - 1)
    while time.remaining_s:
        agent = random.choice(agents)
        if not agent.acknowledged.count:
            await time.sleep(random.expovariate(1 / 60))
            continue
        session = await host.load(agent.session.id)
        seq = 0 if random.random() < 0.2 else agent.acknowledged.count
        did["subscriptions"] += 1
        with anyio.move_on_after(time.to_real(random.expovariate(1 / _STAY_S))):
            await _receive(session, seq, did)
        await session.close()


async def _receive(session: Session, seq: int, did: Counter[str]) -> None:
    """Receive the entries of a session after a seq until cancelled."""
    from treering import Entry

    async with session.subscribe(after=seq) as entries:
        async for entry in entries:
            if not isinstance(entry, Entry) or entry.seq != seq + 1:
                raise OutOfOrder(f"session {session.id}: expected entry {seq + 1}, got {entry!r}")
            seq += 1
            did["deliveries"] += 1


async def _summarize(request: SummaryRequest) -> str:
    return _SUMMARY * 3


class OutOfOrder(Exception):
    """A subscriber got an entry that was not the next one."""

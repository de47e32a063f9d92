"""One side of a comparison: a store of a framework, in which conversations are appended to and then read again."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio

from ..driving import on_loop
from ..jobs import Conversations
from ..peer import Peer
from ..process import open_descriptors
from ..timing import Sample, timed
from ..watching import TICK_S, tick
from ..workspace import Workspace

APPEND = "append"
APPEND_CPU = "append_cpu"
LOAD = "load"
LOAD_CPU = "load_cpu"
STALL = "stall"
STALL_PACED = "stall_paced"
DESCRIPTORS = "descriptors"
DISK = "disk"
"""The names of the figures."""

PACE_S = 0.01
"""How long after one append the next one begins, while the delay of a loop is measured that is not saturated."""


class Store(Protocol):
    """A store that is open, with conversations that are told apart by a number."""

    async def append(self, number: int) -> object:
        """Append one message of 1 KB to a conversation, which exists from its first one on."""

    async def load(self, number: int) -> int:
        """Read a whole conversation, and return how many messages there are."""
        ...


class Side(Peer):
    """A store of a framework, or an adapter in its place.

    Attributes:
        framework: The framework's name.
        at_once_max: In how many conversations it appends at once, where more would fail.
    """

    framework: str
    at_once_max: int | None = None
    with_treering = True

    @abstractmethod
    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        """Return the store in a folder, open as long as the block runs; another one may be opened there afterwards."""

    def converse(self, job: Conversations, space: Workspace) -> Sample:
        """Append to all conversations at once, then open the store anew and read them all at once."""
        folder = space.new_folder()
        return on_loop(lambda: _converse(self, job, folder))


async def _converse(side: Side, job: Conversations, folder: Path) -> Sample:
    conversations = range(job.sessions)
    appended, loaded = Sample(job.sessions * job.messages), Sample(job.sessions)
    in_turn = anyio.CapacityLimiter(side.at_once_max or job.sessions)

    locks = [anyio.Lock() for _ in conversations]

    async def append(number: int, count: int) -> None:
        async with locks[number]:  # a conversation goes on when what was said before is kept
            for _ in range(count):
                async with in_turn:
                    await store.append(number)

    before = open_descriptors()
    async with side.opened(folder) as store:
        for number in conversations:
            await store.append(number)
        async with _ticker() as delays_s:
            with timed(appended):
                await asyncio.gather(*(append(number, job.messages) for number in conversations))
        async with _ticker() as paced_s, anyio.create_task_group() as group:
            for at in range(job.paced):
                group.start_soon(append, at % job.sessions, 1)
                await asyncio.sleep(PACE_S)
        descriptors = open_descriptors() - before
    messages = [1 + job.messages + len(range(number, job.paced, job.sessions)) for number in conversations]
    disk = _allocated_bytes(folder) / sum(messages)

    async def load(number: int) -> int:
        async with in_turn:
            return await store.load(number)

    async with side.opened(folder) as store:
        with timed(loaded):
            found = await asyncio.gather(*map(load, conversations))
    assert found == messages, f"{sum(found)} of {sum(messages)} messages were read"
    figures = {
        APPEND: appended.wall_us,
        APPEND_CPU: appended.cpu_us,
        LOAD: loaded.wall_us,
        LOAD_CPU: loaded.cpu_us,
        STALL: _p99_ms(delays_s),
        STALL_PACED: _p99_ms(paced_s),
        DESCRIPTORS: float(descriptors),
        DISK: disk,
    }
    return Sample(appended.operations, appended.wall_s, appended.cpu_s, figures=figures)


@asynccontextmanager
async def _ticker() -> AsyncGenerator[list[float]]:
    """Wake every few milliseconds while the block runs, and note each delay, in seconds."""
    delays_s: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(tick, delays_s.append)
        await asyncio.sleep(TICK_S)  # the ticker is on its way
        yield delays_s
        await asyncio.sleep(2 * TICK_S)  # and wakes once more if it is late
        group.cancel_scope.cancel()


def _p99_ms(delays_s: list[float]) -> float:
    return sorted(delays_s)[len(delays_s) * 99 // 100] * 1000


def _allocated_bytes(folder: Path) -> int:
    """Return the size of the files in a folder; a sparse file counts with the blocks that it has."""
    files = [each.stat() for each in folder.rglob("*") if each.is_file()]
    return sum(min(each.st_size, each.st_blocks * 512) for each in files)

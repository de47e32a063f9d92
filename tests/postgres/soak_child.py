"""A host of the cluster soak, in a process of its own: it appends to random sessions of many until it is told to end.

    python -m tests.postgres.soak_child URL NAME SEED SESSIONS

It prints `ack SESSION TEXT` for each append that was acknowledged. The next line of its input makes it stop writing,
and print `stopped`; the one after that makes it print `views` with a digest of all views of each session, and the last
one makes it close its host.
"""

import hashlib
import json
import random
import sys

import anyio
import anyio.to_thread

from treering import SessionHost
from treering.errors import SessionLocked
from treering.events.errors import LeaseLost

from .load import PASSING, PAUSE_S

CLIENTS = 12
TOLD = (*PASSING, SessionLocked, LeaseLost)


def sessions_of(count: int) -> list[str]:
    """Return the ids of the sessions."""
    return [f"soak-{number:03}" for number in range(count)]


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Worker:
    """Clients of one host.

    Args:
        host: The host.
        name: A name that no other process of the soak has had, for the texts.
        chance: Decides what they do.
        sessions: The ids of the sessions.
    """

    def __init__(self, host: SessionHost, name: str, chance: random.Random, sessions: list[str]) -> None:
        self._host = host
        self._name = name
        self._chance = chance
        self._sessions = sessions
        self._texts = 0

    async def begin(self, session_id: str) -> None:
        """Write the first entry of a session, unless another host does."""
        while True:
            try:
                session = await self._host.open(session_id)
                await session.append_message("user", "begun", command_id=f"begin {session_id}")
            except SessionLocked:
                return
            except TOLD:
                await anyio.sleep(PAUSE_S)
            else:
                return

    async def write(self) -> None:
        """Append to random sessions until cancelled, each command again until it is acknowledged or refused."""
        while True:
            session_id = self._chance.choice(self._sessions)
            self._texts += 1
            text = f"{self._name}-{self._texts}"
            with anyio.move_on_after(20):
                while True:
                    try:
                        session = await self._host.open(session_id)
                        await session.append_message("user", text, command_id=text)
                    except TOLD:
                        await anyio.sleep(self._chance.random() * 10 * PAUSE_S)
                    else:
                        report(f"ack {session_id} {text}")
                        break

    async def let_go(self) -> None:
        """Give up idle sessions now and then, so that they move."""
        while True:
            await anyio.sleep(self._chance.random())
            try:
                await self._host.passivate_idle()
            except TOLD:
                continue

    async def views(self) -> dict[str, str]:
        """Return a digest of what this host shows of each session."""
        return {session_id: await digest(self._host, session_id) for session_id in self._sessions}


async def digest(host: SessionHost, session_id: str) -> str:
    """Return a digest of every view of a session on a host."""
    session = await host.load(session_id, read_only=True)
    entries = await session.entries()
    shown = (entries, await session.context(), await session.state(), session.tree(), session.labels(), session.path())
    return hashlib.sha256(repr(shown).encode()).hexdigest()


async def work(url: str, name: str, seed: int, count: int) -> None:
    """Be one host of the soak."""
    async with SessionHost(url) as host:
        worker = Worker(host, name, random.Random(seed), sessions_of(count))
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(worker.begin, sessions_of(count)[number])
        report("begun")
        async with anyio.create_task_group() as tasks:
            for _ in range(CLIENTS):
                tasks.start_soon(worker.write)
            tasks.start_soon(worker.let_go)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            tasks.cancel_scope.cancel()
        await host.flush()
        report("stopped")
        await anyio.to_thread.run_sync(sys.stdin.readline)
        report(f"views {json.dumps(await worker.views())}")
        await anyio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

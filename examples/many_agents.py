"""Many agents at once, one of them watched live: `python examples/many_agents.py`."""

from __future__ import annotations

import tempfile

import anyio

from treering import MessageEntry, Session, SessionHost, plain_text
from treering.subscriptions import EntrySubscription

AGENTS = 100
TURNS = 5


async def work(session: Session, name: str) -> None:
    """Act as an agent: append a few prompts and answers."""
    for turn in range(TURNS):
        await session.append_message("user", f"{name}, step {turn}?")
        await session.append_message("assistant", f"step {turn} is done")


async def watch(entries: EntrySubscription) -> None:
    """Print the messages of one session as they are appended."""
    seen = 0
    async for entry in entries:
        if isinstance(entry, MessageEntry):
            print(f"{entry.message.role}: {plain_text(entry.message.content)}")
            seen += 1
        if seen == 2 * TURNS:
            return


async def main() -> None:
    """Run the agents in one process, each in its own session."""
    with tempfile.TemporaryDirectory() as folder:
        async with SessionHost(folder) as host:
            sessions = [await host.create(f"agent-{number}") for number in range(AGENTS)]
            async with sessions[0].subscribe() as entries, anyio.create_task_group() as tasks:
                tasks.start_soon(watch, entries)
                for session in sessions:
                    tasks.start_soon(work, session, session.id)
            figures = host.statistics()
            print(f"{figures.appends} entries in {figures.live} sessions, {figures.bytes:,} bytes")


if __name__ == "__main__":
    anyio.run(main)

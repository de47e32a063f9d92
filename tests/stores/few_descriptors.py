"""A process that may have 64 descriptors: it writes 100 sessions at once, lists, searches and follows them.

Its arguments are the root, the durability, and the backend.
"""

import resource
import sys
from typing import cast

import anyio

from treering import Session, SessionHost
from treering.events.stores.files import Durability

COUNT = 100


async def main(root: str, durability: Durability) -> None:
    sessions: list[Session] = []

    async def converse(session: Session) -> None:
        for turn in range(3):
            await session.append_message("user", f"turn{turn} of {session.id}")

    async with SessionHost(root, durability=durability) as host:
        sessions += [await host.create(f"s{number}") for number in range(COUNT)]
        async with anyio.create_task_group() as callers:
            for session in sessions:
                callers.start_soon(converse, session)
        counts = [
            host.statistics().live,
            len(await host.list_sessions(limit=COUNT + 1)),
            len([hit async for hit in host.search("turn1", limit=COUNT + 1)]),
        ]
        reader = await host.load("s3", read_only=True)
        async with reader.subscribe() as events:
            await events.__anext__()
            await sessions[3].append_message("user", "followed")
            with anyio.fail_after(30):
                async for event in events:
                    if "followed" in repr(event):
                        break
        sys.stdout.write(f"{counts} followed")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    anyio.run(main, sys.argv[1], cast("Durability", sys.argv[2]), backend=sys.argv[3])

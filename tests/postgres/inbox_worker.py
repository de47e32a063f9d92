"""A host in a process of its own, which has no way to other hosts but the database; the tests start it.

    python -m tests.postgres.inbox_worker URL own SESSION [MISHAP]     owns a session until its input ends
    python -m tests.postgres.inbox_worker URL send SESSION FIRST COUNT [MISHAP]   appends messages by command ids

It prints a line when it is ready, and one for each command that was acknowledged: its text and the id of the entry. A
mishap is where it kills itself: "posted" after its first letter was posted, "carried-out" before it writes an answer.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread

from treering import SessionHost
from treering.stores.postgres import PostgresStore


def _die(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def die(*args: object) -> None:
        if before is not None:
            before(*args)
        os.kill(os.getpid(), signal.SIGKILL)

    return die


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _own(url: str, session_id: str) -> None:
    async with SessionHost(url, placement="inbox") as host:
        session = await host.open(session_id)
        await session.append_message("user", "first", command_id="first")
        _say("ready")
        await anyio.to_thread.run_sync(sys.stdin.read)


async def _send(url: str, session_id: str, first: int, count: int) -> None:
    async with SessionHost(url, placement="inbox") as host:
        session = await host.load(session_id)
        _say("ready")
        for number in range(first, first + count):
            entry_id = await session.append_message("user", f"say {number}", command_id=f"say {number}")
            _say(f"say {number} {entry_id}")


def main(url: str, role: str, session_id: str, *rest: str) -> None:
    """Do what the arguments say."""
    if "carried-out" in rest:
        PostgresStore.answer = _die(None)  # type: ignore[method-assign]
    if "posted" in rest:
        PostgresStore.post = _die(PostgresStore.post)  # type: ignore[method-assign]
    if role == "own":
        anyio.run(_own, url, session_id)
    else:
        anyio.run(_send, url, session_id, int(rest[0]), int(rest[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The worker of the demo, a separate process that `demo` starts and kills, and what both share.

Both have a clock and ids that repeat on every run. The worker prints the id of each entry to stdout once the append is
acknowledged. Then it writes half a line to its file, reports that, and waits to be killed.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio

from ...actors.host.host import SessionHost

SESSION = "worker"
"""The id of the worker's session."""
TORN = "torn"
"""What the worker prints once half a line is in its file."""


def story_clock(minute: int) -> Callable[[], datetime]:
    """Return a clock that advances by one second per call, starting at 10:`minute`."""
    start, calls = datetime(2026, 1, 1, 10, minute, tzinfo=UTC), 0

    def now() -> datetime:
        nonlocal calls
        calls += 1
        return start + timedelta(seconds=calls)

    return now


def story_ids(seed: int) -> Callable[[], str]:
    """Return an id source that gives the same ids on every run."""
    random_source = random.Random(seed)
    return lambda: str(UUID(int=random_source.getrandbits(128), version=4))


_STEPS = ("Read the old importer.", "Wrote the first half of the new one.", "Ran its tests: 40 of 41 pass.")


async def _work(folder: str) -> None:
    async with SessionHost(folder, clock=story_clock(30), new_id=story_ids(30)) as host:
        session = await host.create(SESSION)
        for step in _STEPS:
            _say(await session.append_message("assistant", step))
        _tear(os.path.join(folder, session.ref))
        _say(TORN)
        await anyio.sleep_forever()


def _tear(path: str) -> None:
    """Append the fragment that a process leaves behind when it is killed during a write."""
    with open(path, "ab") as file:
        file.write(b'{"type":"message","id":"0f')


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(_work, sys.argv[1])

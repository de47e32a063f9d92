"""Work that goes on beside a host's callers: the index, the sweep of idle sessions, retention.

Nobody waits for it, so nobody can be told of its errors: they are logged. None of them ends the host, which has work to do
that matters more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ..events.telemetry import failure_of, logger

WAIT_S = 1.0
"""How many seconds to wait after a failure; twice as many after each that follows soon."""

WAIT_MAX_S = 60.0
"""How many seconds to wait at most. What went well for that long begins with `WAIT_S` again."""


async def attempted(work: str, run: Callable[[], Awaitable[object]]) -> bool:
    """Do something once, and tell whether it went well; an error is logged.

    Args:
        work: What the log calls it.
        run: Does it.
    """
    try:
        await run()
    except Exception as error:  # noqa: BLE001 - a bug in what runs beside must not end the program
        logger().error("background_failed", work=work, **failure_of(error))
        return False
    return True


async def kept_up(work: str, run: Callable[[], Awaitable[object]]) -> None:
    """Do something until it ends by itself, and begin it again, after a while, whenever it fails.

    Args:
        work: What the log calls it.
        run: Does it.
    """
    wait_s = WAIT_S
    while True:
        began = anyio.current_time()
        if await attempted(work, run):
            return
        if anyio.current_time() - began > WAIT_MAX_S:
            wait_s = WAIT_S
        await anyio.sleep(wait_s)
        wait_s = min(2 * wait_s, WAIT_MAX_S)

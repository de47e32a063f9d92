"""Background work of a host: the index, the sweep of idle sessions, retention.

No caller waits for it, so its errors are logged. None of them ends the host, whose other work goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ...events.telemetry import failure_of, logger

WAIT_S = 1.0
"""How many seconds to wait after a failure, doubled after each further failure that follows soon."""

WAIT_MAX_S = 60.0
"""The longest wait in seconds. Work that ran this long before it failed starts over with `WAIT_S`."""


async def attempt(work: str, run: Callable[[], Awaitable[object]]) -> bool:
    """Run something once, and return whether it succeeded; an error is logged.

    Args:
        work: Its name in the log.
        run: The work.
    """
    try:
        await run()
    except Exception as error:  # noqa: BLE001  # a bug in background work must not end the program
        logger().error("background_failed", work=work, **failure_of(error))
        return False
    return True


async def keep_running(work: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run something until it returns by itself, and restart it after a wait whenever it fails.

    Args:
        work: Its name in the log.
        run: The work.
    """
    wait_s = WAIT_S
    while True:
        began = anyio.current_time()
        if await attempt(work, run):
            return
        if anyio.current_time() - began > WAIT_MAX_S:
            wait_s = WAIT_S
        await anyio.sleep(wait_s)
        wait_s = min(2 * wait_s, WAIT_MAX_S)

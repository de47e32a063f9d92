"""A bound for tests of things that must end: a host that can never be closed hangs whatever scope its caller is in."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest


def run_within(seconds: float, backend: tuple[str, dict[str, Any]], main: Callable[[], Awaitable[None]]) -> None:
    """Run an async function in a thread of its own, and fail if it has not ended in time; the thread is then left."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            anyio.run(main, backend=backend[0], backend_options=backend[1])
        except BaseException as error:  # noqa: BLE001  # the test raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        pytest.fail(f"it has not ended after {seconds} seconds")
    if errors:
        raise errors[0]

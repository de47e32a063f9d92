"""Bounds for what must end: a host that can never be closed hangs whatever scope its caller is in, or its thread."""

import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

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


@contextmanager
def interrupted_after(seconds: float) -> Generator[None]:
    """Let a blocking test fail where the main thread still waits after so long, and where it cleans up after that."""

    def fail(*_: object) -> NoReturn:
        pytest.fail(f"still waiting after {seconds:g} seconds")

    def interrupt() -> None:
        within = seconds
        while not ended.wait(within):
            signal.pthread_kill(main, signal.SIGUSR2)
            within = 1.0

    main, ended = threading.get_ident(), threading.Event()
    before = signal.signal(signal.SIGUSR2, fail)
    watching = threading.Thread(target=interrupt, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        signal.signal(signal.SIGUSR2, before)

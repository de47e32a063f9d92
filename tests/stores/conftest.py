"""A bound for tests of the stores: what hangs in a shielded scope, or loops without end, fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.conftest import WAITS_AT_MOST_S


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """Interrupt a test that runs on although its waiting was to end; then its loop, if that cannot be closed."""

    def interrupt(*_: object) -> None:
        raise AssertionError("the test does not end")

    handler = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, WAITS_AT_MOST_S + 5, 2)
    yield
    signal.setitimer(signal.ITIMER_REAL, *timer)
    signal.signal(signal.SIGALRM, handler)

"""What the tests of the catalog share: a root, and sessions in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from treering import Session, SessionHost

BEGINNING = datetime(2026, 1, 1, 10, tzinfo=UTC)


class TickingClock:
    """A second passes with each look at it."""

    def __init__(self) -> None:
        self.now = BEGINNING

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def index_path(root: Path) -> Path:
    """Where the index of the root is."""
    return root / ".treering" / "index.jsonl"


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def made() -> Callable[..., Awaitable[Session]]:
    """Make a session that somebody has spoken in."""

    async def make(host: SessionHost, session_id: str, said: str = "Hello", cwd: Path | str | None = None) -> Session:
        session = await host.create(session_id, cwd=cwd)
        await session.append_message("user", said)
        return session

    return make

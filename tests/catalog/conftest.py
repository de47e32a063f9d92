"""What the tests of the catalog share: a root, and sessions in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from treering import Session, SessionHost
from treering.testing.clocks import ManualClock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def index_path(root: Path) -> Path:
    """Where the index of the root is."""
    return root / ".treering" / "index.jsonl"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(step=timedelta(seconds=1))


@pytest.fixture
def made() -> Callable[..., Awaitable[Session]]:
    """Make a session that somebody has spoken in."""

    async def make(host: SessionHost, session_id: str, said: str = "Hello", cwd: Path | str | None = None) -> Session:
        session = await host.create(session_id, cwd=cwd)
        await session.append_message("user", said)
        return session

    return make

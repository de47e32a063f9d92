"""Fixtures for tests of the catalog: a root, a clock, sessions with a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from treering import Session, SessionHost
from treering.testing.clocks import ManualClock


@pytest.fixture
def index_path(root: Path) -> Path:
    """The path of the index of the root."""
    return root / ".treering" / "index.jsonl"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(step=timedelta(seconds=1))


@pytest.fixture
def create_session() -> Callable[..., Awaitable[Session]]:
    """Create a session with one user message."""

    async def create(host: SessionHost, session_id: str, text: str = "Hello", cwd: Path | str | None = None) -> Session:
        session = await host.create(session_id, cwd=cwd)
        await session.append_message("user", text)
        return session

    return create

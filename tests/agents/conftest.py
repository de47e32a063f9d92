"""Fixtures for tests of agents: host, sessions, tool, messages as lines, validator of calls and results."""

from __future__ import annotations

import pytest

from treering import Session, SessionHost, Tool, tool


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main", cwd="/work/project")


@pytest.fixture
def add() -> Tool:
    @tool
    async def add(a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    return add

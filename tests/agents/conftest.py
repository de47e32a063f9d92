"""Fixtures for tests of agents: a session, and a tool."""

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

"""Fixtures for tests of building contexts: a session on disk."""

import pytest

from treering import Session, SessionHost


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main", cwd="/work/project")

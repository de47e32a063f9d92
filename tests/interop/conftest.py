"""Fixtures for the tests of pi's and oh-my-pi's formats: a host that writes one of them, and a session."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treering import Session, SessionHost
from treering.events.dialects.detect import DialectName


@pytest.fixture(params=["pi", "omp"])
def dialect(request: pytest.FixtureRequest) -> DialectName:
    chosen: DialectName = request.param
    return chosen


@pytest.fixture
async def host(dialect: DialectName, tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "root", dialect=dialect) as host:
        yield host


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create(cwd="/work/rings")

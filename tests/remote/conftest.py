"""A server on a real socket, and remote hosts of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.conftest import Client, served

from treering import SessionHost
from treering.remote import RemoteHost


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[SessionHost]:
    """The host that is served."""
    async with SessionHost(tmp_path / "root") as host:
        yield host


@pytest.fixture
async def server(local: SessionHost) -> AsyncIterator[Client]:
    """Its server."""
    async with served(local) as client:
        yield client


@pytest.fixture
def url(server: Client) -> str:
    """The address of the server."""
    return f"http://{server.address[0]}:{server.address[1]}"


@pytest.fixture
async def remote(url: str) -> AsyncIterator[RemoteHost]:
    """A remote host of the server."""
    async with RemoteHost(url) as host:
        yield host

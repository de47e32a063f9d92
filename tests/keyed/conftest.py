"""Fixtures for the tests of keyed sessions: a root, a disk that counts its calls, a host and its keyed sessions."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from treering import KeyedSessions, Message, SessionHost, plain_text
from treering.events.disk import OsDisk
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "sessions"


@pytest.fixture
def disk() -> FaultyDisk:
    """The real disk, which counts calls and fails when a test says so."""
    return FaultyDisk(OsDisk())


@pytest.fixture
async def host(root: Path, disk: FaultyDisk) -> AsyncIterator[SessionHost]:
    async with SessionHost(root, disk=disk, clock=ManualClock(step=timedelta(seconds=1)), writes="inline") as host:
        yield host


@pytest.fixture
def sessions(host: SessionHost) -> KeyedSessions:
    return KeyedSessions(host)


def transcript(messages: Sequence[Message]) -> list[str]:
    """List messages as "role: text", for comparison."""
    return [f"{message.role}: {plain_text(message.content)}" for message in messages]


@pytest.fixture
def files(root: Path) -> Callable[[], list[str]]:
    """List the names of the session files under the root, sorted."""

    def names() -> list[str]:
        return sorted(path.name for path in root.glob("*.jsonl"))

    return names

"""Fixtures for the tests of sessions: a root, a host whose clock ticks at each call, and functions that read files."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from treering import Message, Session, SessionHost, plain_text
from treering.errors import CorruptTree
from treering.testing.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(step=timedelta(seconds=1))


@pytest.fixture
async def host(root: Path, clock: ManualClock) -> AsyncIterator[SessionHost]:
    async with SessionHost(root, clock=clock) as host:
        yield host


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main")


def file_bytes(session: Session) -> bytes:
    """Read the bytes of a session's file."""
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


def file_lines(session: Session) -> list[dict[str, Any]]:
    """Read the lines of a session's file after the header, as plain JSON."""
    return [json.loads(line) for line in file_bytes(session).splitlines()[1:]]


def header(session: Session) -> dict[str, Any]:
    """Read the first line of a session's file, as plain JSON."""
    found: dict[str, Any] = json.loads(file_bytes(session).splitlines()[0])
    return found


def texts(messages: Sequence[Message]) -> list[str]:
    """Return the text of each message."""
    return [plain_text(each.content) for each in messages]


async def state_of(session: Session) -> dict[str, Any]:
    """Return everything that a session knows."""
    entries = await session.entries()
    ids = [entry.id for entry in entries if entry.id]
    return {
        "header": session.header,
        "entries": entries,
        "leaf": session.leaf_id,
        "path": session.path(),
        "tree": session.tree(),
        "labels": session.labels(),
        "label": {entry_id: session.label(entry_id) for entry_id in ids},
        "name": session.name,
        "message_count": session.message_count,
        "cursor": session.cursor,
        "children": {entry_id: session.children(entry_id) for entry_id in ids},
        "roots": session.children(None),
        "context": {entry_id: await _context(session, entry_id) for entry_id in ids},
        "now": await session.context(),
    }


async def _context(session: Session, entry_id: str) -> object:
    try:
        return await session.context(entry_id)
    except CorruptTree as error:
        return str(error)


@pytest.fixture
def file_of(root: Path) -> Callable[..., Path]:
    """Write a session file with the given lines: bytes as they are, objects as JSON."""

    def write(*lines: dict[str, Any] | bytes, name: str = "given.jsonl") -> Path:
        root.mkdir(exist_ok=True, mode=0o700)
        path = root / name
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path.write_bytes(b"".join(line + b"\n" for line in encoded))
        return path

    return write


@pytest.fixture
def files(root: Path) -> Callable[[], list[str]]:
    """List the names of the session files directly under the root, sorted."""

    def names() -> list[str]:
        return sorted(path.name for path in root.glob("*.jsonl"))

    return names

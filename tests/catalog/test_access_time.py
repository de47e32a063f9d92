"""The time of the last access of a session: only loading it and appending to it set it."""

import gc
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from treering import SessionHost, SessionSummary
from treering.actors.host.runtime import Clock
from treering.testing.clocks import ManualClock

from .sessions import create_session

PATIENCE_S = 60


async def row_of(host: SessionHost, session_id: str) -> SessionSummary:
    row = await host.get_session(session_id)
    assert row is not None
    return row


async def accessed(host: SessionHost, session_id: str) -> datetime:
    row = await row_of(host, session_id)
    assert row.last_accessed is not None
    return row.last_accessed


@pytest.mark.feature("N-24")
@pytest.mark.parametrize("in_memory", [False, True])
async def test_only_loading_and_appending_set_the_time_of_access(root: Path, clock: Clock, in_memory: bool) -> None:
    async with SessionHost(None if in_memory else root, clock=clock) as host:
        session = await create_session(host, "s")
        await create_session(host, "other")
        created, first = (await row_of(host, "s")).created, await accessed(host, "s")
        assert first > created
        await host.list_sessions()
        await host.resolve("s")
        await host.find_recent()  # the other session
        await host.set_current_session("/work", "s")
        await host.current_session("/work")
        await session.context()
        await session.entries()
        await session.stats()
        assert session.metadata.id == "s"
        await session.passivate()
        await session.refresh()
        if not in_memory:
            await (await host.load("s", read_only=True)).messages()
        assert await accessed(host, "s") == first
        await session.append_message("assistant", "Hi")
        second = await accessed(host, "s")
        await host.load("s")
        assert first < second < await accessed(host, "s")
        row = await row_of(host, "s")
        assert (row.created, row.modified) == (created, second)


@pytest.mark.feature("N-24")
async def test_the_time_of_a_load_is_in_the_index_and_no_entry(root: Path, index_path: Path, clock: Clock) -> None:
    async with SessionHost(root, clock=clock) as host:
        await create_session(host, "s")
    before = (root / "s.jsonl").read_bytes()
    async with SessionHost(root, clock=clock) as host:
        await host.load("s")
        loaded = await accessed(host, "s")
    assert (root / "s.jsonl").read_bytes() == before
    async with SessionHost(root, clock=clock) as host:
        row = await row_of(host, "s")
        assert row.last_accessed == loaded > row.modified
    os.remove(index_path)
    async with SessionHost(root, clock=clock) as host:
        assert await accessed(host, "s") == row.modified  # the log still has the time of its last entry


class Moment(datetime):
    """A time that can be told from others in memory."""


async def test_no_time_of_access_is_kept_of_sessions_that_were_never_appended_to(root: Path) -> None:
    clock = ManualClock(Moment(2026, 1, 1, tzinfo=UTC), step=timedelta(seconds=1))
    async with SessionHost(root, clock=clock) as host:
        for number in range(10):
            await (await host.get_or_create(f"key:{number}")).close()
        await host.passivate_idle()
        await host.flush()
        gc.collect()
        assert sum(isinstance(each, Moment) for each in gc.get_objects()) < 10


CHILD = """
import sys, anyio
from datetime import UTC, datetime, timedelta
from treering import SessionHost, Settings
from treering.testing.clocks import ManualClock

async def main():
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    settings = Settings(debounce_ms=3_600_000)
    async with SessionHost(sys.argv[1], signals=True, clock=clock, settings=settings) as host:
        session = await host.create("s")
        await session.append_message("user", "hello")
        clock.now += timedelta(days=1)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.feature("N-134", "N-135")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_writes_the_time_of_access_to_the_index_and_ends_the_program(
    root: Path, index_path: Path, backend: str, number: signal.Signals
) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(root), backend], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        assert not index_path.exists()
        os.kill(child.pid, number)
        assert child.wait(PATIENCE_S) == 128 + number
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    row = json.loads(index_path.read_text().splitlines()[1])["session"]
    assert {name: row[name] for name in ("id", "message_count", "modified", "last_accessed")} == {
        "id": "s",
        "message_count": 1,
        "modified": "2026-01-01T00:00:00Z",
        "last_accessed": "2026-01-02T00:00:00Z",
    }
    assert len((root / "s.jsonl").read_bytes().splitlines()) == 2

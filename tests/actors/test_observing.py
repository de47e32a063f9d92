"""Statistics and log lines: what a host tells about itself, and that it tells no content."""

from __future__ import annotations

import errno
import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from treering import (
    AppendFailed,
    Entry,
    Header,
    Limits,
    LogReplaced,
    Message,
    Projection,
    SessionHost,
    TreeringError,
    text,
)
from treering.actors.host.runtime import Latency
from treering.entries import Custom
from treering.errors import ProjectionFailed
from treering.events.disk import OsDisk
from treering.events.stores.base import Append, Outcome
from treering.sessions import HostStatistics, SessionStatistics
from treering.testing.disks import FaultyDisk

from ..awaited_store import AwaitedStore


def size_of_entries(root: Path) -> int:
    """How many bytes the logs have after their headers."""
    return sum(len(log.read_bytes().partition(b"\n")[2]) for log in root.glob("*.jsonl"))


@pytest.mark.feature("X-15")
async def test_the_statistics_of_a_new_host_are_zero_and_typed() -> None:
    async with SessionHost() as host:
        nothing = HostStatistics(
            live=0,
            activated=0,
            passivated=0,
            appends=0,
            batches=0,
            bytes=0,
            failures=0,
            commit=Latency(0.0, 0.0),
            subscribers=0,
            sessions=(),
        )
        assert host.statistics() == nothing
        kinds = get_type_hints(HostStatistics)
        for name in ("live", "activated", "passivated", "appends", "batches", "bytes", "failures", "subscribers"):
            assert kinds[name] is int
        assert kinds["commit"] is Latency
        assert kinds["sessions"] == tuple[SessionStatistics, ...]
        assert get_type_hints(Latency) == {"p50_s": float, "p99_s": float}
        assert {*get_type_hints(SessionStatistics)} >= {"session_id", "mailbox_depth", "head", "subscribers", "lag_max"}


@pytest.mark.feature("X-15")
async def test_sessions_appends_batches_and_bytes_are_counted(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        one, two = await host.create(), await host.create()
        assert host.statistics().live == 0
        for number in range(10):
            await one.append_message("user", f"é {number}")
        await two.append_message("user", "hello")
        await two.save_turn([(await two.messages())[0]] * 3)
        found = host.statistics()
        assert (found.live, found.activated, found.passivated) == (2, 2, 0)
        assert (found.appends, found.batches, found.failures) == (15, 12, 0)
        assert found.bytes == size_of_entries(tmp_path)
        assert {each.session_id: each.head for each in found.sessions} == {one.id: 10, two.id: 5}
        assert 0 < found.commit.p50_s <= found.commit.p99_s < 60

        await one.passivate()
        found = host.statistics()
        assert (found.live, found.activated, found.passivated) == (1, 2, 1)
        assert [each.session_id for each in found.sessions] == [two.id]
        await one.append_message("user", "again")
        assert (host.statistics().live, host.statistics().activated) == (2, 3)


@pytest.mark.feature("X-15")
async def test_mailboxes_batches_and_commit_latency_are_measured(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, writes="thread", limits=Limits(mailbox_max=8)) as host:
        session = await host.create()
        await session.append_custom_entry("note", 0)
        stall = disk.stall("write", path="*.jsonl")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.append_custom_entry, "note", 1)
                assert await anyio.to_thread.run_sync(stall.wait)
                for number in range(2, 7):
                    tasks.start_soon(session.append_custom_entry, "note", number)
                await anyio.wait_all_tasks_blocked()
                (found,) = host.statistics().sessions
                assert (found.mailbox_depth, found.head) == (5, 1)
                stall.lift()
        finally:
            stall.lift()
        assert host.statistics().sessions[0].mailbox_depth == 0
        assert (host.statistics().appends, host.statistics().batches) == (7, 3)  # the five waiting ones were one batch

        disk.fail("write", 5, path="*.jsonl")
        with pytest.raises(AppendFailed):
            await session.append_custom_entry("note", 7)
        assert (host.statistics().appends, host.statistics().failures) == (7, 1)


@pytest.mark.feature("X-15")
async def test_subscribers_and_their_lag_are_shown() -> None:
    async with SessionHost() as host:
        session, other = await host.create(), await host.create()
        await session.append_custom_entry("note", 0)
        await other.append_custom_entry("note", 0)
        async with session.subscribe(after=session.cursor) as slow, session.subscribe(after=session.cursor) as quick:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anext, quick)
                tasks.start_soon(anext, slow)
                await anyio.wait_all_tasks_blocked()
                await session.append_custom_entry("note", 1)
            for number in range(2, 6):
                await session.append_custom_entry("note", number)
            for _ in range(4):
                await anext(quick)
            found = {each.session_id: each for each in host.statistics().sessions}
            assert (found[session.id].subscribers, found[session.id].lag_max) == (2, 4)
            assert (found[other.id].subscribers, found[other.id].lag_max) == (0, 0)
            assert host.statistics().subscribers == 2
            await session.passivate()
            assert host.statistics().subscribers == 2  # subscribers of a passivated session count too
            await slow.receive_many()
        assert host.statistics().subscribers == 0


SECRET = "the-secret-content"


class Raises:
    """A projection that raises errors with the entries in their text."""

    def __init__(self, where: str) -> None:
        self.name = f"raises-{where}"
        self._where = where

    def initial(self, header: Header) -> list[Entry]:
        return []

    def apply(self, value: list[Entry], entry: Entry) -> tuple[list[Entry], None]:
        content = str(entry)
        if self._where == "apply":
            raise ValueError(content)
        return [*value, entry], None

    def dump(self, value: list[Entry]) -> bytes:
        if self._where == "load":
            return SECRET.encode()
        raise ValueError(str(value))

    def load(self, blob: bytes) -> list[Entry]:
        raise ValueError(str(blob))


class BrokenStore(AwaitedStore):
    """Raises an error with the entries in its text."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        content = str(appends)
        raise ValueError(content)


async def cause_every_event(tmp_path: Path) -> None:
    """Cause every event that is known to be logged, with a secret wherever an entry can hold one."""
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.create("s", cwd="/work")
        first = await session.append_message("user", SECRET, metadata={"a": SECRET})
        await session.append_custom_entry("mine", {"a": SECRET})
        await session.append_compaction(SECRET, first, 10, details=SECRET)
        await session.append_tool_execution("call", "run", {"a": SECRET}, SECRET, error=SECRET)
        await session.set_label(first, SECRET)
        for where in ("apply", "dump", "load"):
            with suppress(ProjectionFailed):
                await session.rebuild(Raises(where))
        with suppress(ProjectionFailed):
            projection: Projection[list[Entry], None] = Raises("apply")
            async with session.subscribe(projection) as changes:
                await anext(changes)
        for number in (errno.EIO, errno.ENOSPC):
            disk.fail("write", number, path="*.jsonl")
            with suppress(TreeringError):
                await session.append_message("user", SECRET)
        with suppress(TreeringError):
            await session.append_many([Custom("mine", None), Message("", (text(SECRET),))])
        await session.passivate()
        with (tmp_path / "s.jsonl").open("ab") as file:
            file.write(b'{"damaged": "%s"\n{"torn": "%s' % (SECRET.encode(), SECRET.encode()))
        await session.refresh()
        assert await session.view(Raises("load")) == await session.entries()
        disk.fail("open", errno.EIO, path="*.index*", times=None)
        await session.append_message("user", SECRET)
        await session.passivate()
        disk.heal()
        await session.refresh()
        with (tmp_path / "s.jsonl").open("r+b") as file:
            file.truncate(300)
        with suppress(LogReplaced):
            await session.append_message("user", SECRET)
        await session.append_message("user", SECRET)
    async with SessionHost(store=BrokenStore()) as host:
        with suppress(ValueError):
            await (await host.create()).append_message("user", SECRET)


@pytest.mark.feature("X-16")
async def test_every_event_names_its_session(tmp_path: Path) -> None:
    with capture_logs() as logs:
        await cause_every_event(tmp_path)
    expected = {"projection_failed", "line_damaged", "actor_failed", "checkpoint_not_saved", "checkpoint_ignored"}
    assert {each["event"] for each in logs} >= expected
    assert [each for each in logs if not each.get("session_id")] == []
    assert {each["session_id"] for each in logs if each["event"] != "actor_failed"} == {"s"}


@pytest.fixture
def restored_structlog() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.feature("X-16")
@pytest.mark.parametrize("renderer", ["console", "plain", "json"])
@pytest.mark.usefixtures("restored_structlog")
async def test_no_renderer_shows_content_at_any_level(tmp_path: Path, renderer: str) -> None:
    written = io.StringIO()
    before: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    renderers: dict[str, list[Any]] = {
        "console": [structlog.dev.set_exc_info, structlog.dev.ConsoleRenderer()],
        "plain": [
            structlog.dev.set_exc_info,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ],
        "json": [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=repr)],
    }
    structlog.configure(
        processors=[*before, *renderers[renderer]],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.PrintLoggerFactory(written),
    )
    await cause_every_event(tmp_path)
    shown = written.getvalue()
    assert "projection_failed" in shown
    assert "line_damaged" in shown
    assert SECRET not in shown

"""Log events carry the session's id, and never the content of entries."""

from __future__ import annotations

import errno
import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from treering import (
    Custom,
    Entry,
    Header,
    LogReplaced,
    Message,
    Projection,
    ProjectionFailed,
    SessionHost,
    TreeringError,
    text,
)
from treering.events.disk import OsDisk
from treering.events.stores.base import Append, Outcome
from treering.events.stores.memory import MemoryStore
from treering.testing.disks import FaultyDisk

SECRET = "the-secret-content"


class Raises:
    """A projection that raises errors with the entries in their text."""

    name = "raises"

    def __init__(self, where: str) -> None:
        self._where = where

    def initial(self, header: Header) -> list[Entry]:
        return []

    def apply(self, value: list[Entry], entry: Entry) -> tuple[list[Entry], None]:
        content = str(entry)
        if self._where == "apply":
            raise ValueError(content)
        return [*value, entry], None

    def dump(self, value: list[Entry]) -> bytes:
        raise ValueError(str(value))

    def load(self, blob: bytes) -> list[Entry]:
        raise ValueError(str(blob))


class BrokenStore(MemoryStore):
    """Raises an error with the entries in its text."""

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return None

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
        for where in ("apply", "nowhere"):
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
    assert {each["event"] for each in logs} >= {"projection_failed", "line_damaged", "actor_failed"}
    assert [each for each in logs if not each.get("session_id")] == []
    assert {each["session_id"] for each in logs if each["event"] != "actor_failed"} == {"s"}


@pytest.fixture
def restored_structlog() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.feature("X-16")
async def test_records_of_the_standard_logging_hold_no_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    structlog.reset_defaults()
    await cause_every_event(tmp_path)
    records = [record for record in caplog.records if record.name == "treering"]
    assert {record.getMessage().split()[0] for record in records} >= {
        "projection_failed",
        "line_damaged",
        "actor_failed",
    }
    assert SECRET not in caplog.text
    assert SECRET not in repr([vars(record) for record in records])


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

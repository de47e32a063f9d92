"""Fixtures for the tests of exports: a host whose clock ticks, and a session with an entry of every type."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from treering import Message, Session, SessionHost, Usage, image, text, thinking, tool_result, tool_use
from treering.entries import BashExecution, Content, ToolExecution
from treering.sessions import ExportFormat
from treering.testing.clocks import ManualClock

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one pixel."""


@pytest.fixture
async def host(root: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(root, clock=ManualClock(step=timedelta(seconds=1))) as host:
        yield host


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[SessionHost]:
    """A host of another machine."""
    async with SessionHost(tmp_path / "elsewhere") as host:
        yield host


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Paths for exports."""
    (tmp_path / "out").mkdir()
    return (tmp_path / "out" / str(number) for number in count())


Carry: TypeAlias = Callable[[Session, ExportFormat], Awaitable[Session]]
"""Exports a session to the next path of `out`, and takes that to the other machine."""


@pytest.fixture
def read_there(elsewhere: SessionHost, out: Iterator[Path]) -> Carry:
    """Open the exported file."""

    async def read(session: Session, format: ExportFormat) -> Session:
        return await elsewhere.load(await session.export(format, next(out)), read_only=True)

    return read


@pytest.fixture
def import_there(elsewhere: SessionHost, out: Iterator[Path]) -> Carry:
    """Import the exported files."""

    async def carry(session: Session, format: ExportFormat) -> Session:
        [report] = await elsewhere.import_sessions(await session.export(format, next(out)))
        assert report.findings == ()
        return await elsewhere.load(report.id)

    return carry


BASE = {"timestamp": "2026-01-01T10:00:00Z"}
HEADER = {"type": "session", "id": "odd", "version": 1, **BASE}
LoadOdd: TypeAlias = Callable[..., Awaitable[Session]]


@pytest.fixture
def load_odd(host: SessionHost, root: Path) -> LoadOdd:
    """Open a session of given lines, read-only."""

    def load(*lines: dict[str, object] | str) -> Awaitable[Session]:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        root.mkdir(exist_ok=True)
        (root / "odd.jsonl").write_text("".join(line + "\n" for line in texts))
        return host.load("odd", read_only=True)

    return load


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main", cwd="/work/orchard")


@pytest.fixture
async def full_session(session: Session) -> Session:
    """A session with entries of all types, an abandoned branch, a compaction and a label."""
    await session.append_message("system", "Be brief.")
    await session.append_model_change("maker", "m-1")
    await session.append_thinking_level_change("high")
    asked = await session.append_message("user", ["Which tree is the *oldest*?", image(DOT, "image/png")])
    await session.append_message(
        "assistant",
        [thinking("Count the rings.", signature="sig"), text("I count."), tool_use("c1", "count", {"tree": "oak"})],
        provider="maker",
        model="m-1",
        usage=Usage(1000, 20),
    )
    await session.append_tool_execution("c1", "count", {"tree": "oak"}, "112 rings\nand bark", duration_ms=1500)
    left = await session.append_message("assistant", "The oak: **112** rings.")
    await session.append_message("user", "Felling it?")
    await session.branch_with_summary(left, "Felling was considered.", details={"why": "wood"})
    await session.append(Message("bashExecution", bash=BashExecution("ls", "oak\npine", exit_code=2)))
    await session.append_custom_entry("ext", {"n": [1, None, "ü"]})
    await session.append_custom_message("ext", "seen by the model")
    kept = await session.append_message("user", "And the pine?")
    await session.append_compaction("The oak has 112 rings.", kept, 4321)
    await session.append(ToolExecution("c9", "count", success=False, error="no such tree"))
    await session.append_usage("summary", Usage(10, 2), provider="maker", model="m-1")
    await session.set_label(asked, "the question")
    await session.append_session_info("Old trees")
    await session.append_message("user", "Thanks.")
    return session


@pytest.fixture
async def parallel_calls(session: Session) -> Session:
    """A session in which one message answers two calls, and a user's message holds a tool result."""
    await session.append_message("user", "Count both.")
    calls = [tool_use("a", "count", {"tree": "oak"}), tool_use("b", "measure", {"tree": "pine"})]
    await session.append_message("assistant", calls)
    await session.append_message("tool", [tool_result("a", "112"), tool_result("b", "9 m")])
    await session.append_message("assistant", tool_use("c", "count", {"tree": "elm"}))
    await session.append_message("user", [tool_result("c", "7"), "Enough."])
    await session.append_message("assistant", "The oak is the oldest.")
    return session


async def append_everywhere(session: Session, content: str) -> str:
    """Append entries that hold a text wherever they can, and return the id of the first, where a new branch begins."""
    first = await session.append_message("user", content, metadata={content: content}, provider=content, model=content)
    parts: list[Content] = [thinking(content), text(content), tool_use(content, content, {content: [content]})]
    await session.append_message("assistant", parts)
    await session.append_message("tool", tool_result(content, content, is_error=True), tool_name=content)
    await session.append_custom_entry(content, {content: content})
    await session.append_custom_message(content, content)
    await session.set_label(first, content)
    await session.append_session_info(content)
    await session.append_message(content, content, stop_reason=content)
    await session.append_compaction(content, None, 1)
    await session.branch_with_summary(first, content)
    return first

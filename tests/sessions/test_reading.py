"""Reading: a replayed log equals the live session, and reading an entry reads one line."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from treering import Limits, MessageEntry, Session, SessionHost, ThinkingLevel, UnsafeCut, Usage, tool_result, tool_use
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk

ENTRIES = 100_000

StateOf = Callable[[Session], Awaitable[dict[str, Any]]]


async def act(session: Session, rng: random.Random, ids: list[str]) -> None:
    """Perform one random operation on a session."""
    chosen = rng.choice(ids) if ids else None
    match rng.randrange(12):
        case 0 if chosen:
            await session.branch(chosen)
        case 1 if chosen:
            ids.append(await session.branch_with_summary(chosen, "left it"))
        case 2 if chosen:
            ids.append(await session.set_label(chosen, rng.choice(["one", "two", ""])))
        case 3 if session.path():
            try:
                ids.append(await session.append_compaction("so far", rng.choice(session.path()), 100))
            except UnsafeCut:
                return
        case 4:
            await session.append_message("assistant", tool_use("call", "read", {"path": "a"}))
            ids.extend(await session.append_tool_execution("call", "read", {"path": "a"}, "text"))
        case 5:
            ids.append(await session.append_model_change("maker", rng.choice("abc")))
        case 6:
            ids.append(await session.append(ThinkingLevel(rng.choice(["low", "high"]))))
        case 7:
            ids.append(await session.append_session_info(rng.choice(["a name", "another", ""])))
        case 8:
            ids.append(await session.append_custom_entry("mine", {"n": rng.random()}))
        case 9:
            ids.append(await session.append_usage("summary", Usage(3, 4)))
        case 10 if rng.random() < 0.2:
            await session.reset_leaf()
        case _:
            ids.append(await session.append_message(rng.choice(["user", "assistant"]), f"words {rng.random()}"))


@pytest.mark.feature("G-10")
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_replayed_log_equals_the_live_session(
    root: Path, state_of: StateOf, clock: Callable[[], Any], dialect: Literal["native", "pi"], seed: int
) -> None:
    rng = random.Random(seed)
    ids: list[str] = []
    async with SessionHost(root, dialect=dialect, clock=clock) as host:
        session = await host.create("main")
        path = session.file_path
        assert path is not None
        for _ in range(60):
            await act(session, rng, ids)
        await session.append_message("user", "last")
        live = await state_of(session)
        follower = await host.load(path, read_only=True)
        assert await state_of(follower) == live
        await session.passivate()
        assert await state_of(await host.load(path)) == live
    async with SessionHost(root) as other:
        assert await state_of(await other.load(path)) == live


@pytest.mark.feature("G-75")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"], indirect=True)
async def test_looking_up_an_entry_reads_no_other_line(file_of: Callable[..., Path], root: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.load(file_of(*big_log()))
        assert session.cursor.seq == ENTRIES
        for number in (1, ENTRIES // 2, ENTRIES - 1, ENTRIES):
            disk.reset_counts()
            entry = await session.entry(f"e{number}")
            assert isinstance(entry, MessageEntry)
            assert entry.seq == number
            assert disk.counts["pread"] == 1
            assert disk.bytes_read <= len(line_of(number)) + 1
        disk.reset_counts()
        assert await session.entry("nowhere") is None
        assert session.leaf_id == f"e{ENTRIES}"
        assert disk.bytes_read == 0


def big_log() -> list[bytes]:
    header = json.dumps({"type": "session", "id": "big", "version": 1, "timestamp": "2026-01-01T10:00:00Z"})
    return [header.encode(), *(line_of(number) for number in range(1, ENTRIES + 1))]


def line_of(number: int) -> bytes:
    parent = f'"e{number - 1}"' if number > 1 else "null"
    return (
        f'{{"type":"message","id":"e{number}","parent_id":{parent},"timestamp":"2026-01-01T10:00:00Z","seq":{number},'
        f'"message":{{"role":"user","content":[{{"type":"text","text":{{"content":"message {number}"}}}}]}}}}'
    ).encode()


async def test_a_tool_execution_adds_a_result_and_a_record_that_is_in_no_context(session: Session) -> None:
    await session.append_message("assistant", tool_use("call", "read", {}))
    result, record = await session.append_tool_execution("call", "read", {}, "text")
    shown = await session.context()
    assert [each.entry_id for each in shown.messages][1:] == [result]
    assert shown.messages[-1].content == (tool_result("call", "text"),)
    assert session.leaf_id == record

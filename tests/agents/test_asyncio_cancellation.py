"""A turn that asyncio cancels, without a cancel scope, while its answer is flushed: the next turn closes its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import AgentSession, MessageEntry, SessionHost, Tool, tool_use
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk
from treering.testing.models import ScriptedModel, answer

pytestmark = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio")])


async def test_the_next_turn_closes_the_calls_of_an_answer_whose_flush_was_cancelled(
    anyio_backend: tuple[str, dict[str, Any]], tmp_path: Path, add: Tool
) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        session = await host.create("main")
        await session.append_message("system", "Be brief.")
        model = ScriptedModel([answer([tool_use("1", "add", {"a": 1})]), "not asked for"])
        # The flush of the answer; that of the question is the first.
        stall = disk.stall("datasync", path="*main.jsonl", nth=2)
        turn = asyncio.ensure_future(AgentSession(model, session=session, tools=[add]).respond("go"))
        try:
            assert await anyio.to_thread.run_sync(stall.wait)
            turn.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not turn.done(), "the flush was begun, so the turn ends with it"
            stall.lift()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await AgentSession(ScriptedModel(["done"]), session=session, tools=[add]).respond("go on")
        finally:
            stall.lift()
        roles = [entry.message.role for entry in await session.entries() if isinstance(entry, MessageEntry)]
        assert roles == ["system", "user", "assistant", "tool", "user", "assistant"]

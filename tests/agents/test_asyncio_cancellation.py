"""Turns that asyncio cancels, without a cancel scope: their calls are closed, and failed attempts leave the path."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import AgentOptions, AgentSession, AnswerCutOff, Limits, MessageEntry, SessionHost, Tool, tool_use
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk
from treering.testing.models import Broken, ScriptedModel, answer

from ..pauses import PAUSES_MAX, cancelled_by_asyncio

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


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_failed_attempt_is_not_on_the_path_of_a_turn_that_was_cancelled(
    anyio_backend: tuple[str, dict[str, Any]], tmp_path: Path, times: int
) -> None:
    async def retry_at_once(_: float) -> None:
        pass

    failed = 0
    async with SessionHost(tmp_path, limits=Limits(inline_for_s=0)) as host:  # so that commands pause before they begin
        for nth in range(1, PAUSES_MAX):
            session = await host.create(str(nth))
            model = ScriptedModel([Broken("I was", AnswerCutOff("cut")), "Hi!"])
            agent = AgentSession(model, session=session, options=AgentOptions(sleep=retry_at_once))
            cancelled, _ = await cancelled_by_asyncio(agent.respond("Hello"), nth, times=times)
            await session.flush()
            entries = [entry for entry in await session.entries() if isinstance(entry, MessageEntry)]
            attempts = {entry.id for entry in entries if entry.message.stop_reason == "error"}
            failed += cancelled and len(attempts)
            assert attempts.isdisjoint(session.path())
            if not cancelled:
                break
    assert failed > 1

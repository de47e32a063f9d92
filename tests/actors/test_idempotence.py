"""A command that is repeated with its command id gets the same answer, and is not carried out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import msgspec
import pytest

from treering import (
    CommandConflict,
    Limits,
    Message,
    Session,
    SessionHost,
    Usage,
    text,
    thinking,
    tool_result,
    tool_use,
)
from treering.entries import (
    BashExecution,
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Label,
    ModelChange,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ToolExecution,
    UsageRecord,
)
from treering.events.stores.files import Durability
from treering.testing.disks import MemoryDisk

from ..loops import THREE

Name: TypeAlias = Literal["native", "pi", "omp"]
DIALECTS: list[Name] = ["native", "pi", "omp"]

RAW = msgspec.Raw(b'{ "b" : 1.0,\n "a":[1e3, "\\u00e9"] }')
USAGE = Usage(10, 20, 3, 4, 37, 0.5)
PAYLOADS: dict[str, Callable[[str], Payload]] = {
    "user": lambda _: Message("user", (text("hello"),)),
    "assistant": lambda _: Message(
        "assistant",
        (thinking("hm"), text("well"), tool_use("call-1", "read", {"path": "a.py", "n": 1.0})),
        model="m",
        provider="p",
        usage=USAGE,
        stop_reason="toolUse",
    ),
    "tool": lambda _: Message("tool", (tool_result("call-1", "done", is_error=True),), tool_name="read"),
    "system": lambda _: Message("system", (text("be brief"),)),
    "bash": lambda _: Message("bashExecution", bash=BashExecution("ls", "a\nb", 0)),
    "metadata": lambda _: Message("user", (text("x"),), raw_metadata=RAW),
    "model_change": lambda _: ModelChange("p", "m"),
    "thinking_level": lambda _: ThinkingLevel("high"),
    "label": lambda first: Label(first, "here"),
    "no label": lambda first: Label(first),
    "session_info": lambda _: SessionInfo("name", summary="s", raw_metadata=RAW),
    "compaction": lambda first: Compaction("short", first, 100, raw_details=RAW, usage=USAGE),
    "compaction of all": lambda _: Compaction("short", None, 100),
    "branch_summary": lambda first: BranchSummary("left", first, RAW, USAGE, from_hook=True),
    "branch_summary of the leaf": lambda _: BranchSummary("left", ""),
    "custom": lambda _: Custom("mine", RAW),
    "custom without data": lambda _: Custom("mine", None),
    "custom_message": lambda _: CustomMessage("mine", (text("see"),), False, RAW),
    "tool_execution": lambda first: ToolExecution(
        "call-1", "read", RAW, success=False, error="e", exit_code=1, duration_ms=2.5, tokens=7, message_id=first
    ),
    "usage": lambda _: UsageRecord("turn", USAGE, "p", "m", messages=2, raw_metadata=RAW),
    "context_edit": lambda first: ContextEdit(first, (text("edited"),)),
    "context_edit away": lambda first: ContextEdit(first, None),
}


def log_bytes(session: Session) -> bytes:
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


@pytest.mark.feature("X-8")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_repeated_command_returns_its_id_and_appends_nothing(tmp_path: Path, dialect: Name, name: str) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create()
        first = await session.append_message("user", "first")
        payload = PAYLOADS[name](first)
        appended = await session.append(payload, command_id="request-1")
        lines = log_bytes(session)
        assert await session.append(payload, command_id="request-1") == appended
        await session.passivate()
        assert await session.append(payload, command_id="request-1") == appended
        path = session.file_path
        assert path is not None
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        assert await session.append(payload, command_id="request-1") == appended
        with pytest.raises(CommandConflict):
            await session.append(Custom("another", None), command_id="request-1")
        with pytest.raises(CommandConflict):
            await session.append_many([payload, payload], command_id="request-1")
        assert log_bytes(session) == lines
        assert session.leaf_id == appended
        assert await session.append(payload, command_id="request-2") != appended


@pytest.mark.feature("X-8")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_repeated_batch_returns_its_ids_and_appends_nothing(tmp_path: Path, dialect: Name) -> None:
    turn = [Message("user", (text("one"),)), Message("assistant", (text("two"),))]
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create()
        appended = await session.save_turn(turn, USAGE, command_id="turn-1")
        assert len(set(appended)) == 3
        lines = log_bytes(session)
        path = session.file_path
        assert path is not None
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        assert await session.save_turn(turn, USAGE, command_id="turn-1") == appended
        for other in (turn[:1], turn, [*turn, *turn], turn[::-1]):
            with pytest.raises(CommandConflict):
                await session.append_many(other, command_id="turn-1")
        assert log_bytes(session) == lines


@pytest.mark.feature("X-8")
@pytest.mark.parametrize("anyio_backend", THREE, indirect=True)
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_command_that_many_tasks_send_at_once_is_carried_out_once(
    tmp_path: Path, writes: Literal["inline", "thread"]
) -> None:
    answers: list[str] = []
    conflicts: list[CommandConflict] = []
    async with SessionHost(tmp_path, writes=writes, limits=Limits(mailbox_max=4)) as host:
        session = await host.create()

        async def try_append(number: int) -> None:
            try:
                answers.append(await session.append_custom_entry("note", number % 2, command_id="request"))
            except CommandConflict as conflict:
                conflicts.append(conflict)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(try_append, number)
        assert len(set(answers)) == 1
        assert (len(answers), len(conflicts)) == (10, 10)
        assert len(log_bytes(session).splitlines()) == 2


async def test_a_command_whose_batch_was_torn_is_carried_out_again(tmp_path: Path) -> None:
    payloads = [Custom("note", msgspec.Raw(str(number).encode())) for number in range(3)]
    async with SessionHost(tmp_path) as host:
        session = await host.create("s")
        await session.append_message("user", "before")
        before = len(log_bytes(session))
        appended = await session.append_many(payloads, command_id="batch")
    whole = (tmp_path / "s.jsonl").read_bytes()
    torn = before + whole[before:].index(b"\n") + 1  # one line of the three
    for between in (False, True):
        (tmp_path / "s.jsonl").write_bytes(whole[:torn])
        async with SessionHost(tmp_path) as host:
            session = await host.load("s")
            assert session.message_count == 1
            assert len(session.path()) == 1
            if between:
                await session.append_message("user", "between")
            assert await session.append_many(payloads, command_id="batch") == appended
            assert await session.append_many(payloads, command_id="batch") == appended
            notes = await session.entries(custom_type="note")
            assert [entry.id for entry in notes] == appended
            assert session.path()[-3:] == appended


# -- an earlier process that did not flush


@pytest.mark.parametrize("durability", ["file", "group"])
async def test_a_repeated_command_is_durable_though_its_first_writer_did_not_flush_it(durability: Durability) -> None:
    disk = MemoryDisk()
    async with SessionHost("/sessions", disk=disk) as earlier:  # durability "os" flushes nothing
        session = await earlier.create("talk")
        entry_id = await session.append_message("user", "hello", command_id="once")
    async with SessionHost("/sessions", disk=disk, durability=durability) as host:
        session = await host.load("talk")
        assert await session.append_message("user", "hello", command_id="once") == entry_id
        left = disk.crash()
    async with SessionHost("/sessions", disk=left) as after:
        assert (await after.load("talk")).path() == [entry_id]

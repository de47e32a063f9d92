"""Appending: an entry of any kind goes below the leaf, becomes the leaf, and is in the file or nowhere."""

import errno
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from uuid import UUID

import anyio
import pytest
from anyio import to_thread

from treering import AppendFailed, Message, MessageEntry, Session, SessionHost, plain_text, text, tool_use
from treering.actors.sync import SyncHost
from treering.contexts import ModelRef
from treering.entries import BashExecution, Custom, CustomEntry, Label, ModelChange, Payload, SessionInfo, ThinkingLevel
from treering.errors import InvalidEntry
from treering.events.disk import OsDisk
from treering.events.entries.contextual import Compaction
from treering.testing.disks import FaultyDisk

from .conftest import file_bytes, file_lines, state_of

APPENDS = 1000
CONCURRENT = 32


@pytest.mark.feature("G-76", "G-86", "G-105", "G-107")
async def test_a_payload_of_any_kind_goes_below_the_leaf_and_becomes_the_leaf(session: Session) -> None:
    chance = random.Random(1)
    ids = [await session.append_message("user", "first")]
    payloads: list[Payload] = [
        Message("user", (text("question"),)),
        Message("assistant", (text("answer"),), model="m"),
        ModelChange("maker", "m"),
        ThinkingLevel("high"),
        Label(ids[0], "begin"),
        SessionInfo("name"),
        Compaction("all of it", ids[0], 10),
        Custom("mine"),
    ]
    for number in range(200):
        leaf = ids[-1]
        if number % 10 == 9:
            leaf = chance.choice(ids)
            await session.branch(leaf)
        assert session.leaf_id == leaf
        payload = chance.choice(payloads)
        ids.append(await session.append(payload))
        assert session.leaf_id == ids[-1]
        entry = await session.entry(ids[-1])
        assert entry is not None
        assert entry.parent_id == leaf
        assert getattr(entry, entry.type) == payload
        assert file_lines(session)[-1]["parent_id"] == leaf
    assert [line["id"] for line in file_lines(session)] == ids


@pytest.mark.feature("G-13")
async def test_the_first_entry_has_no_parent_and_a_second_root_is_possible(host: SessionHost, session: Session) -> None:
    first = await session.append_message("user", "one tree")
    await session.reset_leaf()
    second = await session.append_message("user", "another")
    await session.append_message("assistant", "yes")
    assert [line["parent_id"] for line in file_lines(session)] == [None, None, second]
    await session.passivate()
    again = await host.load("main")
    assert again.children(None) == [first, second]
    assert [node.id for node in again.tree().roots] == [first, second]
    assert [plain_text(message.content) for message in await again.messages()] == ["another", "yes"]


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.feature("G-12")
async def test_ids_are_unique_in_both_forms_kept(host: SessionHost, file_of: Callable[..., Path], dialect: str) -> None:
    ids = ["0b3c2f6e-6a55-4a2e-9d2c-3d3c6c9f0b61", "1a2b3c4d", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "deadbeef"]
    parent = "parent_id" if dialect == "native" else "parentId"
    header = {"type": "session", "version": 1 if dialect == "native" else 3, "id": "s", "cwd": "/w"}
    path = file_of(
        {**header, "timestamp": "2026-01-01T10:00:00.000Z"},
        *(
            {
                "type": "message",
                "id": entry_id,
                parent: above,
                "timestamp": "2026-01-01T10:00:00.000Z",
                "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1767261600000},
            }
            for above, entry_id in zip([None, *ids], ids, strict=False)
        ),
    )
    before = path.read_bytes()
    session = await host.load(path)
    assert session.path() == ids
    added = [await session.append_message("user", "more") for _ in range(300)]
    assert file_bytes(session).startswith(before)
    assert session.path() == ids + added
    assert len({*ids, *added}) == 304
    for each in added:
        if dialect == "native":
            assert UUID(each).version == 4
        else:
            assert len(each) == 8
            int(each, 16)


async def test_an_id_that_the_id_source_repeats_is_refused(root: Path) -> None:
    same = iter(["owner", "s", *["twin"] * 2, *["other"] * 3])
    async with SessionHost(root, new_id=lambda: next(same)) as host:
        session = await host.create()
        assert await session.append_message("user", "one") == "twin"
        with pytest.raises(InvalidEntry, match="twice"):
            await session.append_message("user", "two")
        with pytest.raises(InvalidEntry, match="the same id twice: it must return a fresh id each time"):
            await session.append_many([ThinkingLevel("low"), ThinkingLevel("high")])
        assert await session.append(ThinkingLevel("low")) == "other"
        assert session.path() == ["twin", "other"]


@pytest.mark.feature("G-104")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"], indirect=True)
async def test_ids_stay_unique_over_very_many_appends(root: Path) -> None:
    await append_often(root, 100_000)


def prove_seed(_: int, tally: Counter[str]) -> None:
    """Append a million entries to one session."""
    with TemporaryDirectory() as folder:
        anyio.run(append_often, Path(folder), 1_000_000)
    tally["appends to one session"] += 1_000_000


async def append_often(root: Path, count: int) -> None:
    async with SessionHost(root) as host:
        session = await host.create()
        ids = {await session.append(ThinkingLevel("off")) for _ in range(count)}
        assert len(ids) == count
        assert session.cursor.seq == count
        assert set(session.path()) == ids
        assert session.file_path is not None
        lines = await anyio.Path(session.file_path).read_bytes()
    assert {json.loads(line)["id"] for line in lines.splitlines()[1:]} == ids


@pytest.mark.feature("G-5")
async def test_concurrent_tasks_and_threads_lose_no_line(root: Path) -> None:
    ids: list[str] = []

    async def append(session: Session, numbers: range) -> None:
        ids.extend([await session.append_message("user", f"message {number}") for number in numbers])

    async with SessionHost(root) as host:
        session = await host.create("tasks")
        async with anyio.create_task_group() as tasks:
            for task in range(CONCURRENT):
                tasks.start_soon(append, session, range(task, APPENDS, CONCURRENT))
        check_chain(root / "tasks.jsonl", ids)
        assert set(session.path()) == set(ids)

    def from_threads() -> None:
        with SyncHost(root) as host, ThreadPoolExecutor(CONCURRENT) as pool:
            session = host.create("threads")
            pooled = pool.map(lambda number: session.append_message("user", f"message {number}"), range(APPENDS))
            check_chain(root / "threads.jsonl", list(pooled))

    await to_thread.run_sync(from_threads)


def check_chain(path: Path, ids: list[str]) -> None:
    """Check that the file has each id exactly once, each line below the one before, and nothing else."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    assert len(set(ids)) == APPENDS
    assert {line["id"] for line in lines} == set(ids)
    assert [line["parent_id"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]
    contents = sorted(line["message"]["content"][0]["text"]["content"] for line in lines)
    assert contents == sorted(f"message {number}" for number in range(APPENDS))


@pytest.mark.feature("G-6")
@pytest.mark.parametrize(
    "payload",
    [
        Message(""),
        Message("user", ("not a part",)),  # type: ignore[arg-type]
        Message("user", None),  # type: ignore[arg-type]
        Message("user", (text(7),)),  # type: ignore[arg-type]
        Message("assistant", (tool_use(None, "read"),)),  # type: ignore[arg-type]
        ModelChange("", "m"),
        ModelChange("maker", None),  # type: ignore[arg-type]
        ThinkingLevel(3),  # type: ignore[arg-type]
        Compaction("s", None, -1),
        Compaction(None, None, 1),  # type: ignore[arg-type]
        Custom(""),
        SessionInfo(7),  # type: ignore[arg-type]
    ],
)
async def test_an_entry_with_a_missing_or_mistyped_field_is_refused_before_a_byte_is_written(
    session: Session, payload: Payload
) -> None:
    await session.append_message("user", "Hello")
    bytes_before, known_before = file_bytes(session), await state_of(session)
    with pytest.raises(InvalidEntry):
        await session.append(payload)
    with pytest.raises(InvalidEntry):
        await session.append_many([Message("user", (text("fine"),)), payload])
    assert file_bytes(session) == bytes_before
    assert await state_of(session) == known_before


@pytest.mark.feature("G-106")
@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_failed_write_changes_neither_index_nor_leaf(root: Path, writes: Literal["inline", "thread"]) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk, writes=writes) as host:
        session = await host.create("main")
        disk.fail("write", errno.EIO, path="*/main.jsonl")
        with pytest.raises(AppendFailed):
            await session.append_message("user", "never")
        assert session.leaf_id is None
        assert session.tree().nodes == ()

        kept = await session.append_message("user", "kept")
        before, bytes_before = await state_of(session), file_bytes(session)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: session.append_message("user", "lost"),
            lambda: session.set_label(kept, "lost"),
            lambda: session.branch_with_summary(kept, "lost"),
            lambda: session.append_many([ThinkingLevel("low"), ThinkingLevel("high")]),
            lambda: session.append_message("user", "lost", below=kept),
            lambda: session.save_turn([Message("user", (text("lost"),))]),
        ]
        breaks: list[Callable[[], object]] = [
            lambda: disk.fail("write", errno.ENOSPC, path="*/main.jsonl"),
            lambda: disk.fail("write", errno.EIO, path="*/main.jsonl"),
            lambda: disk.shorten(10, path="*/main.jsonl"),
        ]
        for break_it in breaks:
            for call in calls:
                break_it()
                with pytest.raises(AppendFailed) as caught:
                    await call()
                assert isinstance(caught.value.__cause__, OSError)
                assert session.leaf_id == kept
                assert await state_of(session) == before
                assert file_bytes(session) == bytes_before
        async with session.subscribe(after=session.cursor) as entries:
            last = await session.append_message("user", "there is room again")
            assert await anext(entries) == await session.entry(last)
        assert session.path() == [kept, last]
        known = await state_of(session)
    async with SessionHost(root) as host:
        reopened = await state_of(await host.load("main"))
    assert reopened == known


@pytest.mark.feature("G-24", "G-25", "G-87")
@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_append_message_has_the_role_and_a_new_id(session: Session, role: str) -> None:
    before = await session.append_message("user", "first")
    entry_id = await session.append_message(role, [text("one"), "two"])
    assert entry_id not in {before, None}
    assert session.leaf_id == entry_id
    entry = await session.entry(entry_id)
    assert isinstance(entry, MessageEntry)
    assert entry.message == Message(role, (text("one"), text("two")))
    assert file_lines(session)[-1]["id"] == entry_id
    assert (await session.context()).messages[-1].role == role


@pytest.mark.feature("G-27")
async def test_a_command_that_a_person_ran_is_stored_and_shown_as_text(host: SessionHost, session: Session) -> None:
    run = BashExecution("make test", "2 failed", 1)
    await session.append(Message("bashExecution", bash=run))
    stored = file_lines(session)[0]["message"]
    assert stored["role"] == "bashExecution"
    assert stored["bash"] == {"command": "make test", "output": "2 failed", "exit_code": 1}
    await session.passivate()
    again = await host.load("main")
    entry = (await again.entries())[0]
    assert isinstance(entry, MessageEntry)
    assert entry.message.bash == run
    [shown] = (await again.context()).messages
    assert shown.role == "bashExecution"
    assert plain_text(shown.content) == "Ran `make test`\n```\n2 failed\n```\n\nCommand exited with code 1"


@pytest.mark.feature("G-28")
async def test_an_extension_can_append_a_message_with_the_role_custom(host: SessionHost, session: Session) -> None:
    injected = Message("custom", (text("the time is noon"),), custom_type="clock", display=False)
    entry_id = await session.append(injected)
    assert file_lines(session)[0]["message"] == {
        "role": "custom",
        "content": [{"type": "text", "text": {"content": "the time is noon"}}],
        "custom_type": "clock",
        "display": False,
    }
    await session.passivate()
    again = await host.load("main")
    entry = await again.entry(entry_id)
    assert isinstance(entry, MessageEntry)
    assert entry.message == injected
    assert await again.messages() == [injected]


@pytest.mark.feature("G-17", "G-88", "G-89")
async def test_a_change_of_model_or_level_is_an_entry_of_the_context(host: SessionHost, session: Session) -> None:
    for level in ("high", "low", "off", "as its maker calls it"):
        changed = await session.entry(await session.append_thinking_level_change(level))
        assert changed is not None
        assert getattr(changed, changed.type) == ThinkingLevel(level)
        assert (await session.context()).thinking_level == level
    assert (await session.context()).model is None
    entry_id = await session.append_model_change("openai", "gpt-4o")
    assert (await session.context()).model == ModelRef("openai", "gpt-4o")
    await session.append_model_change("anthropic", "opus")
    assert (await session.context()).model == ModelRef("anthropic", "opus")
    await session.passivate()
    again = await host.load("main")
    entry = await again.entry(entry_id)
    assert entry is not None
    assert getattr(entry, entry.type) == ModelChange("openai", "gpt-4o")
    assert (await again.context()).model == ModelRef("anthropic", "opus")
    assert (await again.context(entry_id)).model == ModelRef("openai", "gpt-4o")


@pytest.mark.feature("G-20", "G-47", "G-91")
async def test_the_latest_session_info_names_the_session_and_its_row(host: SessionHost, session: Session) -> None:
    assert session.name is None
    entry_id = await session.append_session_info("first name")
    await session.append_session_info("second name")
    entry = await session.entry(entry_id)
    assert entry is not None
    assert getattr(entry, entry.type) == SessionInfo("first name")
    assert session.name == "second name"
    assert [row.name for row in await host.list_sessions()] == ["second name"]
    await session.passivate()
    assert [row.name for row in await host.list_sessions()] == ["second name"]
    assert (await host.load("main")).name == "second name"
    await session.append_session_info("")
    assert session.name is None


@pytest.mark.feature("G-23", "G-92", "G-128")
async def test_an_extensions_data_persists_and_is_in_no_context(host: SessionHost, session: Session) -> None:
    data = {"xyzzy": [1, {"deep": None, "ünï": "✓"}], "big": 2**70}
    await session.append_message("user", "Hello")
    entry_id = await session.append_custom_entry("mine", data)
    shown = await session.context()
    await session.append_message("assistant", "Hi")
    await session.passivate()
    again = await host.load("main")
    entry = await again.entry(entry_id)
    assert isinstance(entry, CustomEntry)
    assert (entry.custom.custom_type, entry.custom.data) == ("mine", data)
    assert await again.entries(custom_type="mine") == [entry]
    for context in (shown, await again.context(), await again.context(entry_id)):
        assert "xyzzy" not in repr(context)
        assert entry_id not in {each.entry_id for each in context.messages}

"""Compaction: a summary stands for what came before the first kept entry, and no tool call loses its result."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from treering import (
    CompactionEntry,
    EntryNotFound,
    Message,
    Session,
    SessionHost,
    ToolResultPart,
    ToolUsePart,
    UnsafeCut,
    plain_text,
    text,
    tool_result,
    tool_use,
)

Content = Callable[[Session], bytes]


async def said(session: Session) -> list[str]:
    return [plain_text(message.content) for message in await session.messages()]


@pytest.mark.feature("G-3", "G-21", "G-30")
async def test_a_context_is_the_summary_and_the_entries_from_the_first_kept_one_on_in_order_of_the_path(
    host: SessionHost, session: Session
) -> None:
    ids = [await session.append_message("user", f"message {number}") for number in range(6)]
    await session.branch(ids[2])
    await session.append_message("user", "a side branch")
    await session.branch(ids[5])
    made = await session.append_compaction("the beginning", ids[4], 1500, details={"by": "me"})
    after = await session.append_message("assistant", "and on")
    for _ in range(2):
        context = await session.context()
        assert [each.entry_id for each in context.messages] == [made, ids[4], ids[5], after]
        assert [each.role for each in context.messages] == ["compactionSummary", "user", "user", "assistant"]
        assert await said(session) == ["the beginning", "message 4", "message 5", "and on"]
        entry = await session.entry(made)
        assert isinstance(entry, CompactionEntry)
        assert entry.compaction.details == {"by": "me"}
        await session.passivate()
        session = await host.load("main")
    assert [plain_text(message.content) for message in await session.all_messages()][:4] == [
        "message 0",
        "message 1",
        "message 2",
        "message 3",
    ]


@pytest.mark.feature("G-49")
async def test_the_first_kept_entry_must_be_on_the_path(session: Session, content: Content) -> None:
    root = await session.append_message("user", "root")
    left = await session.append_message("user", "left")
    below_left = await session.append_message("user", "below left")
    await session.branch(root)
    right = await session.append_message("user", "right")
    before = content(session)
    for elsewhere in (left, below_left):
        with pytest.raises(UnsafeCut, match="not on the path"):
            await session.append_compaction("s", elsewhere, 10)
    with pytest.raises(EntryNotFound):
        await session.append_compaction("s", "nowhere", 10)
    await session.branch(root)
    with pytest.raises(UnsafeCut, match="not on the path"):
        await session.append_compaction("s", right, 10)
    assert content(session) == before
    assert session.leaf_id == root
    await session.branch(right)
    for ancestor in (right, root):
        await session.append_compaction("s", ancestor, 10)


@pytest.mark.feature("G-109")
async def test_what_each_compaction_saved_is_told_by_its_entry_and_the_context_after_it(session: Session) -> None:
    async def size(leaf_id: str) -> int:
        return sum(len(plain_text(each.content)) for each in (await session.context(leaf_id)).messages)

    for _ in range(3):
        for _ in range(5):
            kept = await session.append_message("user", "x" * 100)
        await session.append_compaction("summary", kept, await size(kept))
    compactions = [entry for entry in await session.entries() if isinstance(entry, CompactionEntry)]
    report = {entry.id: entry.compaction.tokens_before - await size(entry.id) for entry in compactions}
    assert [entry.compaction.tokens_before for entry in compactions] == [500, 607, 607]
    assert list(report.values()) == [500 - 107, 607 - 107, 607 - 107]
    assert sum(report.values()) == 1393


@pytest.mark.feature("G-114")
async def test_the_store_takes_what_find_safe_cut_finds_and_refuses_what_is_unsafe(
    host: SessionHost, content: Content
) -> None:
    rng = random.Random(7)
    refused = 0
    for number in range(15):
        session = await host.create(f"s{number}")
        assert await session.find_safe_cut(10) is None
        unsafe = await talk(session, rng)
        before = content(session)
        for entry_id in unsafe:
            with pytest.raises(UnsafeCut):
                await session.append_compaction("s", entry_id, 10)
            refused += 1
        assert content(session) == before
        leaf = session.leaf_id
        assert leaf is not None
        found = {await session.find_safe_cut(keep) for keep in (0, 10, 40, 100, 300)}
        assert await session.find_safe_cut(10**9) is None
        for cut in found - {None}:
            assert cut in session.path()
            assert cut not in unsafe
            await session.branch(leaf)
            await session.append_compaction("s", cut, 10)
            check_pairs(await session.messages())
    assert refused > 20


def check_pairs(messages: list[Message]) -> None:
    """Find each call answered and each result after its call."""
    waiting: set[str] = set()
    for part in [part for message in messages for part in message.content]:
        if isinstance(part, ToolUsePart):
            waiting.add(part.tool_use.id)
        elif isinstance(part, ToolResultPart):
            waiting.remove(part.tool_result.tool_use_id)
    assert not waiting


async def talk(session: Session, rng: random.Random) -> list[str]:
    """Hold a conversation with tools, and return the entries that must not be the first to be kept."""
    unsafe: list[str] = []
    for turn in range(8):
        await session.append_message("user", "question " * rng.randint(1, 20))
        calls = [f"call_{turn}_{number}" for number in range(rng.randint(0, 3))]
        if calls:
            await session.append_message("assistant", [text("let me see"), *(tool_use(each, "read") for each in calls)])
            rng.shuffle(calls)
            unsafe.extend([await session.append_message("tool", tool_result(each, "found")) for each in calls])
        await session.append_message("assistant", "answer")
    return unsafe

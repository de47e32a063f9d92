"""Compaction: a summary replaces what came before the first kept entry, and no call loses its result."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from treering import EntryNotFound, Message, Session, SessionHost, message, plain_text, text, tool_result, tool_use
from treering.actors.decide import command_entry_id
from treering.entries import Compaction, CompactionEntry, ToolResultPart, ToolUsePart
from treering.errors import UnsafeCut

from .conftest import file_bytes, texts


@pytest.mark.feature("G-3", "G-21", "G-30", "G-90")
async def test_a_context_is_the_summary_and_what_is_kept_in_path_order(host: SessionHost, session: Session) -> None:
    ids = [await session.append_message("user", f"message {number}") for number in range(6)]
    await session.branch(ids[2])
    await session.append_message("user", "a side branch")
    await session.branch(ids[5])
    compaction_id = await session.append_compaction("the beginning", ids[4], 1500, details={"by": "me"})
    after = await session.append_message("assistant", "and on")
    for _ in range(2):
        context = await session.context()
        assert [each.entry_id for each in context.messages] == [compaction_id, ids[4], ids[5], after]
        assert [each.role for each in context.messages] == ["compactionSummary", "user", "user", "assistant"]
        assert texts(await session.messages()) == ["the beginning", "message 4", "message 5", "and on"]
        entry = await session.entry(compaction_id)
        assert isinstance(entry, CompactionEntry)
        stored = entry.compaction
        assert (stored.summary, stored.first_kept_entry_id, stored.tokens_before) == ("the beginning", ids[4], 1500)
        assert stored.details == {"by": "me"}
        await session.passivate()
        session = await host.load("main")
    assert [plain_text(each.content) for each in await session.all_messages()][:4] == [
        "message 0",
        "message 1",
        "message 2",
        "message 3",
    ]


@pytest.mark.feature("G-49")
async def test_the_first_kept_entry_must_be_on_the_path(session: Session) -> None:
    root = await session.append_message("user", "root")
    left = await session.append_message("user", "left")
    below_left = await session.append_message("user", "below left")
    await session.branch(root)
    right = await session.append_message("user", "right")
    before = file_bytes(session)
    for elsewhere in (left, below_left):
        with pytest.raises(UnsafeCut, match="not on the path"):
            await session.append_compaction("s", elsewhere, 10)
    with pytest.raises(EntryNotFound):
        await session.append_compaction("s", "nowhere", 10)
    await session.branch(root)
    with pytest.raises(UnsafeCut, match="not on the path"):
        await session.append_compaction("s", right, 10)
    assert file_bytes(session) == before
    assert session.leaf_id == root
    await session.branch(right)
    for ancestor in (right, root):
        await session.append_compaction("s", ancestor, 10)


@pytest.mark.feature("G-109")
async def test_the_saving_of_each_compaction_follows_from_its_entry_and_the_context_after_it(session: Session) -> None:
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


@pytest.mark.feature("G-90", "G-114", "U-9")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_cuts_from_find_safe_cut_are_accepted_and_unsafe_ones_refused(
    root: Path, dialect: Literal["native", "pi", "omp"]
) -> None:
    rng = random.Random(7)
    refused = 0
    async with SessionHost(root, dialect=dialect) as host:
        for number in range(8):
            session = await host.create(f"s{number}")
            assert await session.find_safe_cut(10) is None
            unsafe = await append_conversation(session, rng)
            before = file_bytes(session)
            for entry_id in unsafe:
                with pytest.raises(UnsafeCut):
                    await session.append_compaction("s", entry_id, 10)
                refused += 1
            assert file_bytes(session) == before
            leaf = session.leaf_id
            assert leaf is not None
            found = {await session.find_safe_cut(keep) for keep in range(0, 400, 20)}
            assert await session.find_safe_cut(10**9) is None
            for cut in found - {None}:
                assert cut in session.path()
                assert cut not in unsafe
                await session.branch(leaf)
                await session.append_compaction("s", cut, 10)
                check_pairs(await session.messages())
                await session.branch(leaf)
    assert refused > 20


async def test_find_safe_cut_keeps_nothing_that_was_compacted_away(session: Session) -> None:
    ids = [await session.append_message("user", f"message {number} " + "word " * 10) for number in range(8)]
    await session.append_compaction("the beginning", ids[5], 100)
    ids.append(await session.append_message("user", "and on"))
    found = [await session.find_safe_cut(keep) for keep in range(0, 300, 10)]
    assert set(found) == {None, ids[6], ids[7], ids[8]}
    assert found[-1] is None
    await session.append_compaction("more of it", found[0], 100)
    assert await session.find_safe_cut(10**6) is None
    await session.truncate_history(0)
    assert await session.find_safe_cut(0) is None


async def test_a_compaction_takes_calls_of_the_same_batch_into_account(session: Session) -> None:
    first = await session.append_message("user", "go on")
    before = file_bytes(session)
    call, result = message("assistant", tool_use("c", "read")), message("tool", tool_result("c", "found"))
    for kept in (None, first):
        with pytest.raises(UnsafeCut, match="call 'c' of entry"):
            await session.append_many([call, Compaction("s", kept, 10)])
    assert file_bytes(session) == before
    *_, called = await session.append_many([call])
    with pytest.raises(UnsafeCut, match="still waits"):
        await session.append_compaction("s", first, 10)
    await session.append_many([result, Compaction("s", called, 10)])
    check_pairs(await session.messages())
    await session.append_many([call, result, Compaction("s", None, 10)])
    assert texts(await session.messages()) == ["s"]


async def test_a_compaction_can_keep_entries_of_the_same_batch(session: Session) -> None:
    first = await session.append_message("user", "go on")
    payloads = [message("user", "and on"), message("assistant", tool_use("c", "read"))]
    answer = message("tool", tool_result("c", "found"))
    kept = [command_entry_id("main", name, place) for name, place in (("one", 0), ("two", 2))]
    ids = await session.append_many([*payloads, answer, Compaction("s", kept[0], 10)], command_id="one")
    assert [each.entry_id for each in (await session.context()).messages] == [ids[3], *ids[:3]]
    await session.branch(first)
    with pytest.raises(UnsafeCut, match="without the call"):
        await session.append_many([*payloads, answer, Compaction("s", kept[1], 10)], command_id="two")


def check_pairs(messages: list[Message]) -> None:
    """Check that each call has a result, and each result comes after its call."""
    waiting: set[str] = set()
    for part in [part for each in messages for part in each.content]:
        if isinstance(part, ToolUsePart):
            waiting.add(part.tool_use.id)
        elif isinstance(part, ToolResultPart):
            waiting.remove(part.tool_result.tool_use_id)
    assert not waiting


async def append_conversation(session: Session, rng: random.Random) -> list[str]:
    """Append a conversation with tool calls, and return the entries that must not be the first kept ones."""
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


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_compactions_store_system_messages_before(root: Path, dialect: Literal["native", "pi", "omp"]) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create(cwd="/work/rings")
        system = await session.append_message("system", "Be a tree.")
        first = await session.append_message("user", "one")
        for kept in (system, first):  # a kept system message is not repeated
            await session.append_compaction("so far", kept, 10)
            assert texts(await session.messages()) == ["Be a tree.", "so far", "one"]
        await session.append_message("system", "Be tall.")
        await session.append_compaction("later", None, 10, command_id="c")
        assert await session.append_compaction("later", None, 10, command_id="c") == session.leaf_id
        assert texts(await session.messages()) == ["Be a tree.\n\nBe tall.", "later"]
        await session.append_many([message("system", "Be green."), Compaction("at once", None, 10)])
        assert texts(await session.messages()) == ["Be a tree.\n\nBe tall.\n\nBe green.", "at once"]
        await session.branch(first)
        await session.append_compaction("elsewhere", first, 10)
        assert texts(await session.messages()) == ["Be a tree.", "elsewhere", "one"]
        await session.append_compaction("", None, 10)  # an empty summary clears the context
        assert texts(await session.messages()) == []
        await session.append_compaction("after it", None, 10)
        assert texts(await session.messages()) == ["after it"]


def line(kind: str, own: str, parent: str | None, **body: object) -> dict[str, object]:
    return {"type": kind, "id": own, "parentId": parent, "timestamp": "2026-01-01T10:00:00.000Z", **body}


async def test_a_system_message_kept_by_an_earlier_compaction_is_kept_by_the_next(
    host: SessionHost, file_of: Callable[..., Path]
) -> None:
    # As pi 0.73 writes it, without a system message.
    compaction = {"summary": "so far", "firstKeptEntryId": "00000002", "tokensBefore": 1}
    path = file_of(
        line("session", "older", None, version=3, cwd="/work/rings"),
        line("message", "00000001", None, message={"role": "system", "content": "Be a bush."}),
        line("message", "00000002", "00000001", message={"role": "user", "content": "one"}),
        line("message", "00000003", "00000002", message={"role": "system", "content": "Be a tree."}),
        line("compaction", "00000004", "00000003", **compaction),
        line("message", "00000005", "00000004", message={"role": "user", "content": "two"}),
    )
    session = await host.load(path)
    assert texts(await session.messages()) == ["so far", "one", "Be a tree.", "two"]
    await session.append_compaction("now", "00000005", 1)
    assert texts(await session.messages()) == ["Be a tree.", "now", "two"]

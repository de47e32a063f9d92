"""Truncating: the last messages stay in the context, all of them in the file, and no result loses its call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import Changed, CommandConflict, InvalidInput, KeyedSessions, Limits, Message, SessionHost, Snapshot
from treering.actors.commands import AppendOptions
from treering.contexts import SummaryRequest
from treering.entries import ToolResultPart, ToolUsePart, message, tool_result, tool_use
from treering.errors import LeafMoved, UnsafeCut
from treering.events.stores.base import Ref
from treering.events.stores.memory import MemoryStore
from treering.projections.context_changes import apply_change

from ..sampling import examples
from .conftest import transcript

KEY = "telegram:123456"


def call(*call_ids: str) -> Message:
    return Message("assistant", tuple(tool_use(call_id, "read", {}) for call_id in call_ids))


def result(call_id: str) -> Message:
    return Message("tool", (tool_result(call_id, f"of {call_id}"),))


EXCHANGE = [message("user", "Read it."), call("c1"), result("c1"), message("assistant", "It says so.")]


@pytest.mark.feature("P-20", "P-21")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_the_context_shows_the_last_and_the_file_all(root: Path, dialect: Literal["native", "pi", "omp"]) -> None:
    texts = [f"user: {number}" for number in range(10)]
    async with SessionHost(root, dialect=dialect) as host:
        sessions = KeyedSessions(host)
        for number in range(10):
            await sessions.add_message(KEY, "user", str(number))
        before = (root / "telegram_123456.jsonl").read_bytes()
        assert await sessions.truncate_history(KEY, 4) is not None
        assert transcript(await sessions.history(KEY)) == texts[6:]
        assert (root / "telegram_123456.jsonl").read_bytes().startswith(before)
        await sessions.add_message(KEY, "user", "10")
        assert await sessions.truncate_history(KEY, 3) is not None
        assert transcript(await sessions.history(KEY)) == [*texts[8:], "user: 10"]
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.get_or_create(KEY)
        assert transcript(await session.history()) == [*texts[8:], "user: 10"]
        assert await session.truncate_history(0) is not None
        assert await session.history() == []
        assert transcript(await session.all_messages()) == [*texts, "user: 10"]
        assert (root / "telegram_123456.jsonl").read_bytes().startswith(before)
        await session.append_message("user", "on")
        assert transcript(await session.history()) == ["user: on"]


@pytest.mark.feature("P-22")
@pytest.mark.parametrize(
    ("messages", "keep", "kept"),
    [
        (EXCHANGE, 1, 1),
        (EXCHANGE, 2, 3),
        (EXCHANGE, 3, 3),
        ([message("user", "a"), call("c1", "c2"), result("c2"), result("c1"), message("user", "b")], 2, 4),
        ([message("user", "a"), call("c1"), result("c1")], 1, 2),
    ],
)
async def test_a_call_keeps_its_results(sessions: KeyedSessions, messages: list[Message], keep: int, kept: int) -> None:
    for each in messages:
        await sessions.add_full_message(KEY, each)
    await sessions.truncate_history(KEY, keep)
    assert await sessions.history(KEY) == messages[-kept:]


async def test_a_history_within_the_limit_is_not_truncated(
    sessions: KeyedSessions, root: Path, files: Callable[[], list[str]]
) -> None:
    assert await sessions.truncate_history(KEY, 0) is None
    assert files() == []
    for each in EXCHANGE:
        await sessions.add_full_message(KEY, each)
    before = (root / "telegram_123456.jsonl").read_bytes()
    for keep in (4, 5, 100):
        assert await sessions.truncate_history(KEY, keep) is None
    assert (root / "telegram_123456.jsonl").read_bytes() == before
    with pytest.raises(InvalidInput, match="keep_last is -1"):
        await sessions.truncate_history(KEY, -1)


async def test_system_messages_are_not_truncated(sessions: KeyedSessions) -> None:
    session = await sessions.get_or_create(KEY)
    await session.append_message("system", "Be a tree.")
    for number in range(4):
        await session.append_message("user", str(number))
    assert await session.truncate_history(4) is None
    for keep in (3, 2):
        assert await session.truncate_history(keep, command_id=f"keep {keep}") is not None
        assert await session.truncate_history(keep, command_id=f"keep {keep}") == session.leaf_id
        assert await session.truncate_history(keep) is None
        assert transcript(await session.history()) == [
            "system: Be a tree.",
            *(f"user: {each}" for each in range(4 - keep, 4)),
        ]
    await session.truncate_history(0)
    assert await session.history() == []
    assert await session.truncate_history(0) is None


async def test_truncating_to_nothing_also_removes_the_summary_of_a_compaction(sessions: KeyedSessions) -> None:
    session = await sessions.get_or_create(KEY)
    await session.append_message("user", "old")
    await session.append_compaction("It was long ago.", None, 10)
    assert [each.role for each in await session.history()] == ["compactionSummary"]
    await session.truncate_history(0)
    assert await session.history() == []
    assert await session.truncate_history(0) is None


@pytest.mark.parametrize("keep", [0, 1, 2])
async def test_an_open_call_prevents_truncating_and_the_history_can_be_set(sessions: KeyedSessions, keep: int) -> None:
    await sessions.add_message(KEY, "user", "old")
    await sessions.add_message(KEY, "user", "Read it.")
    await sessions.add_full_message(KEY, call("c1"))
    with pytest.raises(UnsafeCut, match="append that first, or start over"):
        await sessions.truncate_history(KEY, keep, summary="not set either")
    assert len(await sessions.history(KEY)) == 3
    assert await sessions.summary(KEY) == ""
    await sessions.set_history(KEY, [])
    assert await sessions.history(KEY) == []


async def test_a_summary_is_set_with_the_truncation_unless_the_leaf_or_the_head_moved(sessions: KeyedSessions) -> None:
    for number in range(6):
        await sessions.add_message(KEY, "user", str(number))
    session = await sessions.get_or_create(KEY)
    leaf = session.leaf_id
    await sessions.add_message(KEY, "user", "added meanwhile")
    moved: list[AppendOptions] = [{"expected_leaf": leaf}, {"expected_leaf": None}, {"expected_seq": 6}]
    for options in moved:
        with pytest.raises(LeafMoved):
            await sessions.truncate_history(KEY, 2, summary="of 0 to 3", **options)
    assert await sessions.summary(KEY) == ""
    assert len(await sessions.history(KEY)) == 7
    await sessions.truncate_history(KEY, 2, summary="of 0 to 4", expected_seq=7, expected_leaf=session.leaf_id)
    assert await sessions.summary(KEY) == "of 0 to 4"
    assert transcript(await sessions.history(KEY)) == ["user: 5", "user: added meanwhile"]
    await sessions.truncate_history(KEY, 2, summary="nothing to cut")
    assert await sessions.summary(KEY) == "nothing to cut"


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Make exchanges of questions, answers, and calls with all of their results."""
    messages: list[Message] = []
    for number in range(draw(st.integers(1, 6))):
        messages.append(message("user", f"question {number}"))
        for step in range(draw(st.integers(0, 2))):
            ids = [f"c{number}-{step}-{each}" for each in range(draw(st.integers(1, 3)))]
            messages.append(call(*ids))
            messages.extend(result(each) for each in draw(st.permutations(ids)))
        messages.append(message("assistant", "answer"))
    return messages


@pytest.mark.feature("P-22")
@settings(max_examples=examples(25))
@given(conversations(), st.lists(st.integers(0, 12), min_size=1, max_size=3))
async def test_a_truncated_history_never_separates_a_result_from_its_call(
    messages: list[Message], cuts: list[int]
) -> None:
    async with SessionHost() as host:
        session = await host.get_or_create(KEY)
        await session.append_many(messages)
        shown = messages
        for keep in cuts:
            await session.truncate_history(keep)
            history = await session.history()
            assert len(history) <= len(shown)
            assert shown[len(shown) - len(history) :] == history
            assert len(history) >= min(keep, len(shown))
            assert keep or not history
            parts = [part for each in history for part in each.content]
            calls = {part.tool_use.id for part in parts if isinstance(part, ToolUsePart)}
            results = {part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart)}
            assert calls == results
            assert not history or history[0].role != "tool"
            shown = history
        assert await session.all_messages() == messages


async def test_a_subscriber_to_the_context_gets_what_a_reader_gets(sessions: KeyedSessions) -> None:
    session = await sessions.get_or_create(KEY)
    for each in EXCHANGE:
        await session.append(each)
    async with session.subscribe("context") as changes:
        first = await anext(changes)
        assert isinstance(first, Snapshot)
        held = first.value
        for change in (
            lambda: session.truncate_history(2, summary="so far"),
            lambda: session.append_message("user", "on"),
            lambda: session.truncate_history(0),
            lambda: session.set_history([message("user", "anew")]),
            lambda: session.set_history([]),
        ):
            await change()
            now = await session.context()
            while held != now:
                changed = await anext(changes)
                assert isinstance(changed, Changed)
                held = apply_change(held, changed.change)
        assert held.messages == ()


async def test_a_truncated_history_can_be_compacted_and_a_compacted_one_truncated(sessions: KeyedSessions) -> None:
    async def shorter(request: SummaryRequest) -> str:
        return "in short"

    session = await sessions.get_or_create(KEY)
    for number in range(10):
        await session.append_message("user", f"{number} {'long ' * 50}")
    await session.truncate_history(6)
    assert (await session.compact(shorter, keep_tokens=200)).applied
    compacted = await session.history()
    assert transcript(compacted[:1]) == ["compactionSummary: in short"]
    assert 2 <= len(compacted) < 6
    await session.truncate_history(1)
    assert await session.history() == compacted[-1:]
    assert session.message_count == 10


@pytest.mark.parametrize("summary", [None, "The first three."])
async def test_a_repeated_command_gets_the_same_reply(summary: str | None) -> None:
    async with SessionHost() as host:
        session = await host.create()
        for number in range(5):
            await session.append_message("user", str(number))
        done = await session.truncate_history(2, summary=summary, command_id="cut")
        count = len(await session.entries())
        assert done is not None
        assert await session.truncate_history(2, summary=summary, command_id="cut") == done
        await session.append_message("user", "5")
        assert await session.truncate_history(2, summary=summary, command_id="cut") == done
        assert len(await session.entries()) == count + 1
        with pytest.raises(CommandConflict):
            await session.truncate_history(2, summary="Another.", command_id="cut")


async def test_a_repeated_command_that_only_set_the_summary_gets_the_same_reply() -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", "0")
        assert await session.truncate_history(1, summary="Short.", command_id="cut") is None
        await session.append_message("user", "1")
        assert await session.truncate_history(1, summary="Short.", command_id="cut") is None
        assert [each.type for each in await session.entries()] == ["message", "session_info", "message"]


UNCACHED = Limits(cache_bytes_max=0)
"""The bounds of a host that reads each entry whenever it is needed."""


class RunsDuringRead(MemoryStore):
    """A store that runs a function once, while lines are read."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        do, self.meanwhile = self.meanwhile, None
        if do is not None:
            await do()
        return await super().bodies(ref, generation, seqs)


@pytest.mark.parametrize("keep", [0, 2, 6], ids=["none", "some", "all"])
@pytest.mark.parametrize("place", [1, 4])
@pytest.mark.parametrize("expected", [False, True])
async def test_truncating_fails_if_another_branch_is_selected_meanwhile(keep: int, place: int, expected: bool) -> None:
    store = RunsDuringRead()
    async with SessionHost(store=store, limits=UNCACHED) as host:
        session = await host.create()
        ids = [await session.append_message("user", str(number)) for number in range(6)]
        await session.passivate()
        store.meanwhile = lambda: session.branch(ids[place])
        options: AppendOptions = {"expected_leaf": ids[-1]} if expected else {}
        with pytest.raises(LeafMoved):
            await session.truncate_history(keep, summary="of those", **options)
        assert store.meanwhile is None
        assert (session.leaf_id, session.summary) == (ids[place], "")
        assert len(await session.entries()) == 6
        assert len(await session.history()) == place + 1


@pytest.mark.parametrize("expected", [False, True])
async def test_a_truncation_computed_for_another_leaf_is_not_appended(expected: bool) -> None:
    store = RunsDuringRead()
    async with SessionHost(store=store, limits=UNCACHED) as host:
        session = await host.create()
        ids = [await session.append_message("user", str(number)) for number in range(6)]
        options: AppendOptions = {"expected_leaf": ids[-1]} if expected else {}
        await session.branch(ids[1])
        await session.passivate()
        store.meanwhile = lambda: session.branch(ids[-1])
        with pytest.raises(LeafMoved):
            await session.truncate_history(0, **options)
        assert len(await session.history()) == 6


@pytest.mark.parametrize("expected", [False, True])
async def test_a_message_added_during_truncating_is_kept(expected: bool) -> None:
    store = RunsDuringRead()
    async with SessionHost(store=store, limits=UNCACHED) as host:
        session = await host.create()
        ids = [await session.append_message("user", str(number)) for number in range(6)]
        await session.passivate()
        store.meanwhile = lambda: session.append_message("user", "meanwhile")
        if expected:
            with pytest.raises(LeafMoved):
                await session.truncate_history(2, expected_leaf=ids[-1])
            assert len(await session.history()) == 7
        else:
            assert await session.truncate_history(2) == session.leaf_id
            assert transcript(await session.history()) == ["user: 5", "user: meanwhile"]


@pytest.mark.parametrize("turns", range(6))
async def test_a_first_message_added_while_nothing_is_truncated_is_kept(turns: int) -> None:
    async with SessionHost(limits=Limits(inline_for_s=0)) as host, anyio.create_task_group() as tasks:
        session = await host.create()
        tasks.start_soon(partial(session.truncate_history, 2, summary="of nothing"))
        for _ in range(turns):
            await checkpoint()
        await session.append_message("user", "meanwhile")
        await anyio.wait_all_tasks_blocked()
        assert (len(await session.history()), session.summary) == (1, "of nothing")

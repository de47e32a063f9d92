"""For any tree, window and strategies, a context fits or overflows, pairs are whole, the last user message is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import Context, Entry, Header, Message, image, message, text, tool_result, tool_use
from treering.contexts import ContextMessage
from treering.entries import Compaction, CompactionEntry, Payload, ToolResultPart, ToolUsePart
from treering.errors import CorruptTree
from treering.events.entries import entry_of
from treering.events.errors import ContextOverflow
from treering.events.index import LogIndex
from treering.projections.building.budget import ContextBudget
from treering.projections.building.builder import ContextBuilder, ContextBuildResult, default_strategies
from treering.projections.building.masking import MaskedTools
from treering.projections.building.strategies import MinimalState, PrunedTools, RecentPlusSummary
from treering.projections.building.strategy import ContextSource, ContextStrategy
from treering.projections.building.summaries import StoredSummary
from treering.projections.context import boundary, build, plan
from treering.projections.tokens import ByteEstimator, count_messages
from treering.testing import strategies

from ..sampling import examples
from .making import START

HEADER = Header(id="s", version=1, timestamp=START)
LADDERS: dict[str, Callable[[], list[ContextStrategy]]] = {
    "all": default_strategies,
    "none": list,
    "masked": lambda: [MaskedTools(keep_last=1, min_gain=0.0)],
    "pruned": lambda: [PrunedTools()],
    "summary": lambda: [RecentPlusSummary()],
    "minimal": lambda: [MinimalState()],
}


def strictly_paired(messages: Sequence[Message]) -> bool:
    """Check messages as the strictest provider does: results directly follow the messages with their calls."""
    place = 0
    while place < len(messages):
        calls: list[str] = []
        while place < len(messages) and messages[place].role == "assistant":
            for part in messages[place].content:
                if isinstance(part, ToolResultPart):
                    return False
                if isinstance(part, ToolUsePart):
                    calls.append(part.tool_use.id)
            place += 1
        answers: list[str] = []
        while place < len(messages) and messages[place].role != "assistant":
            found = [part for part in messages[place].content if isinstance(part, ToolResultPart)]
            if found and len(answers) == len(calls):
                return False
            if not found and len(answers) < len(calls):
                return False
            if any(isinstance(part, ToolUsePart) for part in messages[place].content):
                return False
            answers += [part.tool_result.tool_use_id for part in found]
            place += 1
        if sorted(calls) != sorted(answers) or len(set(calls)) < len(calls):
            return False
    return True


def user_messages(messages: Sequence[ContextMessage]) -> list[ContextMessage]:
    return [
        each
        for each in messages
        if each.role == "user" and any(not isinstance(part, ToolResultPart) for part in each.content)
    ]


def check_context(source: ContextSource, context: Context, ladder: str, window: int) -> ContextBuildResult | None:
    builder = ContextBuilder(strategies=LADDERS[ladder]())
    budget = ContextBudget(window, 0, 0, 0, window)
    smallest = [*source.messages[: source.opening], *user_messages(source.messages)[-1:]]
    if count_messages([each.message for each in smallest]) > window:
        with pytest.raises(ContextOverflow):
            builder.build(source, budget)
        return None
    result = builder.build(source, budget)
    assert result.tokens_used == count_messages(result.to_messages(), ByteEstimator()) <= window
    assert strictly_paired(result.to_messages())
    wanted = user_messages(source.messages)[-1:] or user_messages(context.messages)[-1:]
    assert not wanted or user_messages(result.messages)[-1].entry_id == wanted[0].entry_id
    counts = (result.included_message_count, result.summarized_message_count, result.dropped_message_count)
    assert min(counts) >= 0
    assert sum(counts) == len(context.messages)
    again = ContextBuilder(strategies=LADDERS[ladder]()).build(source, budget)
    assert msgspec.json.encode(again) == msgspec.json.encode(result)
    return result


def contexts(entries: Sequence[Entry]) -> list[tuple[Context, list[Entry]]]:
    """The context and the path of every leaf of a log."""
    index = LogIndex(HEADER)
    for entry in entries:
        index.fold(entry)
    by_seq = dict(enumerate(entries, 1))
    leaves = set(by_seq) - {index.parents[seq] for seq in by_seq}
    found: list[tuple[Context, list[Entry]]] = []
    for leaf in sorted(leaves):
        try:
            path = [by_seq[seq] for seq in index.path(leaf)]
        except CorruptTree:
            continue
        first = boundary(index, leaf)
        found.append((build(index, plan(index, leaf, by_seq.get(first)), by_seq), path))
    return found


def random_tree(seed: int, turns: int) -> list[Entry]:
    """A random tree of an agent's work: parallel calls, aborted turns, late results, compactions, branches, images."""
    chance = random.Random(seed)
    entries: list[Entry] = []
    leaf: str | None = None

    def add(payload: Payload) -> str:
        nonlocal leaf
        seq = len(entries) + 1
        entries.append(entry_of(payload, id=f"e{seq}", parent_id=leaf, timestamp=START, seq=seq))
        leaf = f"e{seq}"
        return leaf

    def words(most: int) -> str:
        return "word " * int(most ** chance.random())

    for turn in range(turns):
        if entries and chance.random() < 0.05:
            leaf = chance.choice(entries).id
        add(message("user", [text(f"question {turn} {words(400)}"), *([image("QQ", "image/png")] * (turn % 7 == 6))]))
        for step in range(chance.choice((0, 1, 1, 2, 5))):
            ids = [f"c{turn}.{step}.{each}" for each in range(chance.choice((1, 1, 2, 4)))]
            names = ["read_file", "Bash", "search", "edit"]
            add(message("assistant", [tool_use(each, chance.choice(names), {"path": words(20)}) for each in ids]))
            fate = chance.random()
            if fate < 0.1:
                ids = ids[: len(ids) // 2]  # the turn was aborted
            elif fate < 0.15:
                add(message("user", "meanwhile"))
            elif fate < 0.2:
                chance.shuffle(ids)
            for each in ids:
                role = "tool" if chance.random() < 0.9 else "user"
                add(message(role, tool_result(each, words(3000), is_error=chance.random() < 0.1)))
        if chance.random() < 0.9:
            add(message("assistant", words(300) or "ok", stop_reason=chance.choice(("stop", "aborted"))))
        if chance.random() < 0.08:
            kept = chance.choice([None, *[entry.id for entry in entries[-8:]]])
            add(Compaction(chance.choice(("", "So far they worked.")), kept, 1000))
    return entries


def with_summary(context: Context, path: list[Entry], window: int) -> ContextSource:
    """A source that has the summary that the builder needs."""
    source = ContextSource.of(context, path)
    builder = ContextBuilder(strategies=[RecentPlusSummary()])
    try:
        needed = builder.build(source, ContextBudget(window, 0, 0, 0, window)).needs_summary
    except ContextOverflow:
        return source
    if needed is None:
        return source
    stored = StoredSummary(needed.key, needed.start_id, needed.end_id, needed.message_count, "They worked.", 3, "me")
    return ContextSource.of(context, path, summaries=[stored])


@settings(max_examples=examples(25))
@given(strategies.trees(max_size=14), st.integers(400, 200_000), st.sampled_from(sorted(LADDERS)))
def test_contexts_of_any_session_fit_the_window(entries: list[Entry], window: int, ladder: str) -> None:
    for context, path in contexts(entries):
        check_context(ContextSource.of(context, path), context, ladder, window)


WINDOWS = st.integers(400, 4_000) | st.integers(400, 200_000)


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32), st.integers(1, 40), WINDOWS, st.sampled_from(sorted(LADDERS)))
def test_contexts_of_any_work_of_an_agent_fit_the_window(seed: int, turns: int, window: int, ladder: str) -> None:
    for context, path in contexts(random_tree(seed, turns)):
        check_context(ContextSource.of(context, path), context, ladder, window)
        check_context(with_summary(context, path, window), context, ladder, window)


@pytest.mark.parametrize("ladder", sorted(LADDERS))
def test_the_random_trees_make_each_strategy_be_used(ladder: str) -> None:
    used: set[str] = set()
    for seed in range(12):
        for context, path in contexts(random_tree(seed, 20)):
            for window in (400, 2_000, 8_000, 40_000):
                result = check_context(with_summary(context, path, window), context, ladder, window)
                used.add(result.strategy if result is not None else "overflow")
    expected = {
        "all": {"full-history", "masked-tools", "recent-plus-summary", "minimal-state"},
        "none": {"full-history", "minimal"},
        "masked": {"full-history", "masked-tools", "minimal"},
        "pruned": {"full-history", "pruned-tools", "minimal"},
        "summary": {"full-history", "recent-plus-summary", "minimal"},
        "minimal": {"full-history", "minimal-state"},
    }
    assert expected[ladder] <= used


def test_the_random_trees_hold_compactions_and_broken_pairs() -> None:
    trees = [random_tree(seed, 20) for seed in range(20)]
    assert any(isinstance(entry, CompactionEntry) for tree in trees for entry in tree)
    shown = [[each.message for each in context.messages] for tree in trees for context, _ in contexts(tree)]
    assert not all(map(strictly_paired, shown))

"""A summary of the older messages, then the last messages: stored summaries are used, a missing one is requested."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from treering import Message, SessionHost, SummaryRequest, message, tool_result, tool_use
from treering.events.errors import ContextOverflow
from treering.projections.building.budget import ContextBudget
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.recent_plus_summary import RecentPlusSummary, summary_budget, summary_message
from treering.projections.building.source import ContextSource
from treering.projections.building.strategy import NeededSummary, StrategyResult
from treering.projections.building.summary_cache import (
    SUMMARY_TYPE,
    StoredSummary,
    longest_summary,
    range_key,
    summarizer_id,
)
from treering.projections.tokens import ByteEstimator, count_messages

from .making import budget, context_of, source_of

TOKENS = ByteEstimator()


def conversation(count: int, words: int = 50) -> list[Message]:
    return [message("user" if place % 2 == 0 else "assistant", f"{place} " + "word " * words) for place in range(count)]


def stored(needed: NeededSummary, content: str = "They talked.") -> StoredSummary:
    return StoredSummary(
        needed.key, needed.start_id, needed.end_id, needed.message_count, content, TOKENS.count(content), "me"
    )


def needed(result: StrategyResult | NeededSummary) -> NeededSummary:
    assert isinstance(result, NeededSummary)
    return result


def built(result: StrategyResult | NeededSummary) -> StrategyResult:
    assert isinstance(result, StrategyResult)
    return result


def summarized(source: ContextSource, window: int) -> tuple[NeededSummary, StrategyResult]:
    """Return the summary that is missing, and what is built once it is there."""
    missing = needed(RecentPlusSummary().build(source, window, TOKENS))
    with_it = replace(source, summaries=(stored(missing),))
    return missing, built(RecentPlusSummary().build(with_it, window, TOKENS))


@pytest.mark.feature("N-86", "N-92")
def test_the_last_six_messages_follow_a_summary_of_the_others() -> None:
    strategy = RecentPlusSummary()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("recent-plus-summary", 3, 1500)
    source = source_of(*conversation(21))
    missing, result = summarized(source, 2000)
    assert (missing.start_id, missing.end_id, missing.message_count) == ("e0", "e14", 15)
    assert missing.messages == source.messages[:15]
    shown = "## Prior Conversation Summary\n\nThey talked.\n\n---\n\n## Recent Messages Follow"
    assert result.messages[0].message == message("system", shown)
    assert result.messages[1:] == source.messages[15:]
    assert (result.included_count, result.summarized_count) == (6, 15)
    assert built(strategy.build(replace(source, summaries=(stored(missing),)), 800, TOKENS)) == result


@pytest.mark.feature("N-89")
@pytest.mark.parametrize("count", [0, 1, 6])
def test_six_messages_or_fewer_are_all_sent(count: int) -> None:
    source = source_of(*conversation(count))
    result = built(RecentPlusSummary().build(source, 10, TOKENS))
    assert (result.messages, result.included_count, result.summarized_count) == (source.messages, count, 0)


@pytest.mark.feature("N-87")
def test_the_summary_ends_before_a_batch_of_calls_and_results() -> None:
    calls = message("assistant", [tool_use(f"c{n}", "read") for n in range(4)])
    results = [message("tool", tool_result(f"c{n}", "x")) for n in range(4)]
    after = [message("assistant", "so"), message("user", "and?"), message("assistant", "!")]
    source = source_of(*conversation(5), calls, *results, *after)
    assert len(source.messages) - 6 == 7  # in the middle of the batch
    missing, result = summarized(source, 2000)
    assert missing.end_id == "e4"
    assert result.messages[1:] == source.messages[5:]
    assert pairing_fault(result.messages) is None


@pytest.mark.feature("N-88")
@pytest.mark.parametrize(
    ("strategy", "target"), [(RecentPlusSummary(), 600), (RecentPlusSummary(target_ratio=0.1), 200)]
)
async def test_the_target_size_of_a_summary_is_a_documented_setting(strategy: RecentPlusSummary, target: int) -> None:
    requested: list[int] = []

    async def summarizer(request: SummaryRequest) -> str:
        requested.append(request.target_tokens)
        return "They talked."

    async with SessionHost() as host:
        session = await host.create()
        await session.append_many(conversation(40))
        builder = ContextBuilder(TOKENS)
        builder.register_strategy(strategy)
        await session.build_context(ContextBudget(2000, 0, 0, 0, 2000), builder, summarizer=summarizer)
    assert requested == [target]
    page = (Path(__file__).parents[2] / "docs" / "contexts.md").read_text()
    assert "`target_ratio`" in page
    assert "0.3 by default" in page


@pytest.mark.feature("N-90")
def test_a_summary_gets_nine_tenths_of_the_tokens_that_the_last_messages_leave() -> None:
    assert [summary_budget(*each) for each in ((1000, 400), (1001, 400), (400, 400), (100, 400))] == [540, 540, 0, 0]
    source = source_of(*conversation(21))
    frame = count_messages([summary_message(""), *(each.message for each in source.messages[15:])])
    missing = needed(RecentPlusSummary().build(source, 2000, TOKENS))
    assert missing.budget_tokens == summary_budget(2000, frame)
    with pytest.raises(ContextOverflow, match="no room"):
        RecentPlusSummary().build(source, 10, TOKENS)


def test_fewer_than_six_messages_are_kept_if_six_leave_no_room() -> None:
    source = source_of(*conversation(21))
    frames = [count_messages([summary_message(""), *(each.message for each in source.messages[-n:])]) for n in (6, 5)]
    for window, end, room in (
        (frames[0] + 72, "e14", 64),
        (frames[0] + 71, "e15", int((frames[0] - frames[1] + 71) * 0.9)),
    ):
        missing = needed(RecentPlusSummary().build(source, window, TOKENS))
        assert (missing.end_id, missing.budget_tokens) == (end, room)
    missing, result = summarized(source, 350)
    assert missing.end_id == "e17"
    assert count_messages([each.message for each in result.messages]) <= 350


def test_system_messages_at_the_beginning_are_kept() -> None:
    missing, result = summarized(source_of(message("system", "Be brief."), *conversation(20)), 2000)
    assert missing.start_id == "e1"
    assert [each.role for each in result.messages[:3]] == ["system", "system", "user"]
    assert result.messages[0].entry_id == "e0"


def test_a_stored_summary_is_used_while_the_messages_after_it_fit() -> None:
    builder = ContextBuilder(strategies=[RecentPlusSummary()])
    talk = conversation(60)
    summaries: list[StoredSummary] = []
    before: list[bytes] = []
    kept = 0
    for end in range(1, 61, 2):
        source = ContextSource.of(context_of(*talk[:end]), summaries=summaries)
        result = builder.build(source, budget(1500))
        if result.needs_summary is not None:
            summaries.append(stored(result.needs_summary))
            result = builder.build(replace(source, summaries=tuple(summaries)), budget(1500))
            assert result.needs_summary is None
        assert result.tokens_used <= 1500
        sent = [msgspec.json.encode(each) for each in result.messages]
        kept += sent[: len(before)] == before
        before = sent
    assert len(summaries) <= 4
    assert kept == 30 - len(summaries)


def test_the_next_summary_is_built_from_the_stored_one_and_later_messages() -> None:
    first = needed(RecentPlusSummary().build(source_of(*conversation(21)), 2000, TOKENS))
    source = replace(source_of(*conversation(41)), summaries=(stored(first, "Once."),))
    missing = needed(RecentPlusSummary().build(source, 1000, TOKENS))
    assert (missing.start_id, missing.end_id, missing.message_count) == ("e0", "e34", 35)
    assert missing.messages[0].message == message("compactionSummary", "Once.")
    assert missing.messages[1:] == source.messages[15:35]


def test_a_summary_of_messages_that_were_edited_later_is_not_used() -> None:
    source = source_of(*conversation(21))
    summary = stored(needed(RecentPlusSummary().build(source, 2000, TOKENS)))
    assert longest_summary((summary,), source.messages, 0, 15) == (summary, 15)
    later = replace(summary, content="Later.")
    shorter = replace(summary, key=range_key(source.messages[:9]), end_id="e8", message_count=9)
    assert longest_summary((summary, later, shorter), source.messages, 0, 15) == (later, 15)
    assert longest_summary((summary, later, shorter), source.messages, 0, 14) == (shorter, 9)
    assert longest_summary((summary,), source.messages, 21, 21) is None
    assert longest_summary((summary,), source.messages, 0, 14) is None
    assert longest_summary((summary,), source.messages, 1, 15) is None
    edited = source_of(message("user", "another beginning"), *conversation(21)[1:])
    assert longest_summary((summary,), edited.messages, 0, 15) is None
    assert range_key(source.messages[:15]) != range_key(edited.messages[:15])
    talk = context_of(message("user", "hi"), message("assistant", "ho")).messages
    assert range_key(talk) == "a9a15b79185e45f4dfe767c8fdb4a551c6800cbc6f253264808743f0330299a7", (
        "summaries that were stored stay valid"
    )


def test_a_summarizer_is_identified_by_its_id_or_its_qualified_name() -> None:
    async def summarizer() -> None: ...

    class Client:
        summarizer_id = "ollama/qwen3:8b"

    assert summarizer_id(Client()) == "ollama/qwen3:8b"
    assert summarizer_id(summarizer).endswith("its_qualified_name.<locals>.summarizer")
    assert summarizer_id(object()) == "builtins.object"
    assert SUMMARY_TYPE == "treering.summary"

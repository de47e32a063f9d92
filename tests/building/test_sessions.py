"""Building contexts of sessions: budgets, stored summaries and their usage, compactions."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from treering import EntryNotFound, Session, SessionHost, Usage, message, text, tool_result, tool_use
from treering.entries import ContextEdit, CustomEntry
from treering.events.errors import InvalidEntry, InvalidInput, SummaryRefused
from treering.projections.building.budget import calculate_budget
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.strategy import ContextSource, StrategyResult
from treering.projections.building.summaries import SummaryRequest
from treering.projections.tokens import ByteEstimator, Tokenizer, count_messages

from .making import append_call, budget, content, conversation
from .scripted import ScriptedSummarizer


@pytest.mark.feature("N-6", "N-8")
async def test_building_gives_the_same_result_again_and_writes_nothing(session: Session) -> None:
    await session.append_many(conversation(41, 100))
    before = content(session)
    for available in (150, 500, 2000, 10**6):
        results = [await session.build_context(budget(available)) for _ in range(2)]
        assert msgspec.json.encode(results[0]) == msgspec.json.encode(results[1])
        assert (results[0].needs_summary is not None) == (available == 2000)
    assert content(session) == before


class EntriesOfThePath:
    """A strategy that does not say what it needs beside the messages."""

    name, priority, min_tokens = "path", 1, 0

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        kept = source.messages[-1:] if source.entries else ()
        return StrategyResult(kept, source.originals(kept))


async def test_a_strategy_gets_the_path_unless_it_says_that_it_needs_none(session: Session) -> None:
    await session.append_many(conversation(3, 100))
    result = await session.build_context(budget(200), ContextBuilder(strategies=[EntriesOfThePath()]))
    assert (result.strategy, len(result.messages)) == ("path", 1)


async def test_a_missing_summary_is_requested_once_and_stored(session: Session, host: SessionHost) -> None:
    await session.append_many(conversation(41, 100))
    summarizer = ScriptedSummarizer()
    first = await session.build_context(budget(2000), summarizer=summarizer)
    assert (first.strategy, first.needs_summary) == ("recent-plus-summary", None)
    assert len(summarizer.requests) == 1
    (stored,) = await session.entries(custom_type="treering.summary")
    assert isinstance(stored, CustomEntry)
    for invalid in (None, {"key": 1}, [stored.custom.data]):
        await session.append_custom_entry("treering.summary", invalid)
    written = content(session)
    await session.passivate()
    again = await (await host.load("main")).build_context(budget(2000), summarizer=summarizer)
    assert again.messages == first.messages
    assert (len(summarizer.requests), content(session)) == (1, written)
    assert (await session.context()).messages[-1].entry_id != stored.id


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_usage_of_a_stored_summary_is_in_totals(tmp_path: Path, dialect: Literal["native", "pi", "omp"]) -> None:
    async with SessionHost(tmp_path / dialect, dialect=dialect) as host:
        session = await host.create("main")
        ids = await session.append_many(conversation(41, 100))
        summarizer = ScriptedSummarizer(message("assistant", "They talked.", usage=Usage(900, 100, cost=0.5)))
        for _ in range(2):
            await session.build_context(budget(2000), summarizer=summarizer)
            usage = Usage(900, 100, cost=0.5)
            assert await session.total_usage() == await session.total_usage(session.leaf_id) == usage
        await session.summary_for_range(ids[0], ids[9], 100, summarizer)
        await session.passivate()
        session = await host.load("main")
        assert await session.total_usage() == Usage(1800, 200, cost=1.0)
        assert len(summarizer.requests) == 2


async def test_a_summary_not_shorter_is_refused_and_one_that_does_not_fit_is_requested_once(session: Session) -> None:
    await session.append_many(conversation(41, 100))
    before = content(session)
    with pytest.raises(SummaryRefused):
        await session.build_context(budget(2000), summarizer=ScriptedSummarizer("word " * 10_000))
    assert content(session) == before
    summarizer = ScriptedSummarizer("word " * 2_000)
    for _ in range(2):
        result = await session.build_context(budget(2000), summarizer=summarizer)
        assert (result.strategy, result.needs_summary) == ("minimal-state", None)
    assert len(summarizer.requests) == 1


@pytest.mark.feature("N-18", "N-91", "N-107", "N-156", "N-157", "N-158", "N-159")
async def test_a_ranges_summary_is_asked_once_per_summarizer_and_content(session: Session, host: SessionHost) -> None:
    ids = await session.append_many(conversation(12, 100))
    summarizer = ScriptedSummarizer()
    first = await session.summary_for_range(ids[0], ids[5], 200, summarizer)
    assert (first.content, first.start_id, first.end_id, first.message_count) == ("They talked.", ids[0], ids[5], 6)
    assert (first.start_seq, first.end_seq, first.tokens) == (1, 6, ByteEstimator().count(first.content))
    assert first.summarizer.endswith(".ScriptedSummarizer")
    entry = await session.entry(first.id)
    assert entry is not None
    assert (entry.type, entry.timestamp) == ("custom", first.created)
    assert summarizer.requests[0].max_tokens == 300
    assert 0 < first.compression_ratio == first.tokens / first.original_tokens < 1
    await session.append(msgspec.structs.replace(first.payload(), custom_type="note"))  # no summary, though like one
    await session.passivate()
    session = await host.load("main")
    assert await session.summary_for_range(ids[0], ids[5], 200, summarizer) == first
    assert len(summarizer.requests) == 1
    await session.summary_for_range(ids[0], ids[6], 200, summarizer)
    assert len(summarizer.requests) == 2

    async def another(request: SummaryRequest) -> str:
        return "Another one."

    assert (await session.summary_for_range(ids[0], ids[5], 200, another)).content == "Another one."
    await session.append_context_edit(ids[2], "edited")
    await session.summary_for_range(ids[0], ids[5], 200, summarizer)
    assert len(summarizer.requests) == 3
    with pytest.raises(EntryNotFound):
        await session.summary_for_range(ids[0], "nowhere", 200, summarizer)
    with pytest.raises(InvalidEntry, match="comes before"):
        await session.summary_for_range(ids[5], ids[0], 200, summarizer)
    label = await session.set_label(ids[0], "here")
    for ends in ((label, ids[5]), (ids[0], label)):
        with pytest.raises(InvalidInput, match=f"'{label}' is not a message of the context"):
            await session.summary_for_range(*ends, 200, summarizer)


async def test_the_last_user_message_is_sent_after_a_compaction_that_keeps_none(session: Session) -> None:
    request = await session.append_message("user", "do all of it")
    for step in range(3):
        last = await append_call(session, f"c{step}")
    kept = session.path()[-2]
    await session.append_compaction("They began.", kept, 100)
    result = await session.build_context(budget(1000))
    assert [each.role for each in result.messages] == ["compactionSummary", "user", "assistant", "tool"]
    assert [each.entry_id for each in result.messages[1:]] == [request, kept, last]
    assert (result.original_message_count, result.included_message_count) == (3, 3)
    await session.append_compaction("", None, 100)
    assert (await session.build_context(budget(1000))).messages == ()


@pytest.mark.parametrize("keeps_answer", [False, True])
async def test_the_provider_s_count_is_used_until_a_compaction(session: Session, keeps_answer: bool) -> None:
    await session.append_message("user", "word " * 100)
    assert (await session.used_tokens(overhead=50)).total == 50 + 4 + 125
    answer = await session.append_message("assistant", "ok", usage=Usage(input_tokens=900, output_tokens=100))
    last = await session.append_message("user", "word " * 100)
    used = await session.used_tokens(overhead=50)
    assert (used.measured, used.estimated, used.total) == (1000, 129, 1129)
    await session.append_compaction("They talked.", answer if keeps_answer else last, 1129)
    used = await session.used_tokens(overhead=50)
    assert (used.measured, used.total) == (0, 50 + count_messages(await session.messages()))


async def test_the_provider_s_count_is_used_until_a_message_before_it_is_edited(session: Session) -> None:
    question = await session.append_message("user", "word " * 100)
    await session.append_message("assistant", "ok", usage=Usage(input_tokens=900, output_tokens=100))
    assert (await session.used_tokens()).total == 1000
    await session.append(ContextEdit(question, (text("shorter"),)))
    assert (await session.used_tokens()).total == count_messages(await session.messages())
    await session.append_message("assistant", "ok", usage=Usage(input_tokens=10, output_tokens=5))
    await session.append_message("user", "word " * 100)
    assert (await session.used_tokens()).total == 15 + 129


@pytest.mark.feature("D-52")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_files_of_any_dialect_are_compacted_and_keep_system_messages(
    tmp_path: Path, dialect: Literal["native", "pi", "omp"]
) -> None:
    async with SessionHost(tmp_path / dialect, dialect=dialect) as host:
        session = await host.create("theirs")
        await session.append_message("system", "Be brief.")
        ids = await session.append_many(conversation(41, 100))
        summary = await session.summary_for_range(ids[0], ids[9], 100, ScriptedSummarizer())
        assert await session.summary_for_range(ids[0], ids[9], 100, ScriptedSummarizer()) == summary
        built = await session.build_context(budget(2000), summarizer=ScriptedSummarizer())
        assert built.strategy == "recent-plus-summary"
        for _ in range(2):
            await session.append_many(conversation(10, 100))
            report = await session.compact(ScriptedSummarizer(), keep_tokens=500)
            context = await session.context()
            assert [each.role for each in context.messages[:2]] == ["system", "compactionSummary"]
            assert context.messages[0].content == (text("Be brief."),)
            assert context.messages[2].entry_id == report.first_kept_entry_id
        await session.passivate()
        assert await (await host.load("theirs")).context() == context


async def test_a_context_can_be_built_for_any_leaf(session: Session) -> None:
    ids = await session.append_many(conversation(4, 100))
    assert [each.entry_id for each in (await session.build_context(budget(10_000), leaf_id=ids[1])).messages] == ids[:2]
    with pytest.raises(EntryNotFound):
        await session.build_context(budget(10_000), leaf_id="nowhere")


async def test_the_minimal_state_comes_from_the_whole_path(session: Session) -> None:
    await session.append_message("user", "the very first task")
    await session.append_many(conversation(6, 100))
    await session.append_compaction("They talked.", session.path()[-1], 100)
    await session.append_many(conversation(11, 200))
    result = await session.build_context(budget(450))
    assert result.strategy == "minimal-state"
    state = repr(result.messages[0])
    assert "the very first task" in state
    assert "/work/project" in state


@pytest.mark.feature("N-2", "N-4", "P-52")
async def test_a_thousand_turns_never_exceed_the_budget(host: SessionHost) -> None:
    session = await host.create("long")
    window = calculate_budget(4096, "You help.", "", ByteEstimator())
    builder, summarizer = ContextBuilder(), ScriptedSummarizer("So far they worked on it.")
    strategies: set[str] = set()
    for turn in range(1000):
        call = f"c{turn}"
        await session.append_many(
            [
                message("user", f"question {turn} " + "word " * (turn % 50)),
                message("assistant", tool_use(call, "read_file", {"path": f"{turn}.py"})),
                message("tool", tool_result(call, "line\n" * (turn % 300))),
            ]
        )
        result = await session.build_context(window, builder)
        if result.needs_summary is not None:
            await session.compact(summarizer, budget=window)
            result = await session.build_context(window, builder)
        assert result.tokens_used <= window.available_tokens
        assert pairing_fault(result.messages) is None
        assert f"question {turn} " in repr(result.messages)
        strategies.add(result.strategy)
        await session.append_message("assistant", f"answer {turn}")
    assert {"full-history", "masked-tools"} <= strategies <= {"full-history", "masked-tools", "recent-plus-summary"}
    assert 0 < len(summarizer.requests) < 100
    assert count_messages(await session.all_messages()) > 100_000


async def test_an_edit_at_the_root_has_nothing_to_edit(session: Session) -> None:
    first = await session.append_message("user", "one")
    with pytest.raises(InvalidEntry, match="is not on the path"):
        await session.append(ContextEdit(first, (text("changed"),)), below=None)

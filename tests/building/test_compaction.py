"""Compacting a session: a safe cut, a summary that is shorter, and one appended entry; or no change at all."""

import json
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from treering import Session, SessionHost, TreeringError, message, plain_text, tool_use
from treering.entries import CompactionEntry
from treering.errors import LeafMoved
from treering.events.errors import CompactionLoop, ContextOverflow, SummaryRefused
from treering.projections.building.budget import calculate_budget
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.summaries import SummarizerOptions, SummaryRequest
from treering.projections.tokens import ByteEstimator, count_messages

from .making import append_call, budget, content
from .scripted import ScriptedSummarizer


async def talk(session: Session, turns: int, words: int = 60) -> list[str]:
    ids: list[str] = []
    for turn in range(turns):
        ids.append(await session.append_message("user", f"question {turn}"))
        result = await append_call(session, f"c{turn}", "word " * words, "read_file", f"{turn}.py")
        ids += [session.path(result)[-2], result, await session.append_message("assistant", f"answer {turn}")]
    return ids


async def last_entry(session: Session) -> CompactionEntry:
    entry = (await session.entries())[-1]
    assert isinstance(entry, CompactionEntry)
    assert entry.id == session.leaf_id
    return entry


@pytest.mark.feature("N-118", "N-5", "D-50")
async def test_a_compaction_replaces_the_older_messages_of_the_context_by_a_summary(session: Session) -> None:
    await talk(session, 10)
    before, originals = content(session), await session.all_messages()
    summarizer = ScriptedSummarizer()
    report = await session.compact(summarizer, keep_tokens=300)
    assert content(session).startswith(before)
    assert await session.all_messages() == originals
    assert len(summarizer.requests) == 1
    assert report.applied
    assert session.leaf_id == report.entry_id
    written = (await last_entry(session)).compaction
    assert (written.summary, written.first_kept_entry_id) == ("They talked.", report.first_kept_entry_id)
    assert written.tokens_before == report.tokens_before
    context = await session.context()
    assert context.messages[0].role == "compactionSummary"
    assert context.messages[1].entry_id == report.first_kept_entry_id
    assert len(context.messages) == 1 + report.kept_count
    assert report.summarized_count + report.kept_count == 40
    assert report.tokens_after == count_messages([each.message for each in context.messages]) < report.tokens_before
    assert pairing_fault(context.messages) is None


@pytest.mark.feature("N-117", "G-133")
async def test_a_dry_run_writes_nothing_and_reports_what_compactions_of_equal_sessions_do(host: SessionHost) -> None:
    reports: list[list[object]] = []
    for name in ("one", "two"):
        session = await host.create(name)
        await talk(session, 10)
        before = content(session)
        dry = await session.dry_compact(keep_tokens=300)
        assert (content(session), dry.applied) == (before, False)
        assert dry.tokens_before == count_messages(await session.messages())
        assert dry.tokens_after < dry.tokens_before
        report = await session.compact(ScriptedSummarizer(), keep_tokens=300)
        assert session.path().index(report.first_kept_entry_id or "") == report.summarized_count
        for field in ("first_kept_entry_id", "summarized_count", "kept_count", "tokens_before"):
            assert getattr(dry, field) == getattr(report, field)
        reports.append([report.summarized_count, report.kept_count, report.tokens_before, report.tokens_after])
    assert reports[0] == reports[1]


async def test_a_session_that_cannot_be_compacted_gets_a_reason_and_no_summary(session: Session) -> None:
    summarizer = ScriptedSummarizer()
    assert (await session.compact(summarizer)).reason
    await talk(session, 1)
    before = content(session)
    assert "kept" in (await session.compact(summarizer, keep_tokens=10_000)).reason
    assert content(session) == before
    await session.append_message("assistant", tool_use("open", "read"))
    assert "waits" in (await session.compact(summarizer, keep_tokens=10)).reason
    assert summarizer.requests == []


@pytest.mark.feature("D-27")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (OSError("no network"), OSError),
        (ContextOverflow("too long"), ContextOverflow),
        ("", SummaryRefused),
        ("word " * 5_000, SummaryRefused),
    ],
)
async def test_a_compaction_whose_summarizer_fails_changes_nothing(
    session: Session, answer: str | Exception, error: type[Exception]
) -> None:
    await talk(session, 10)
    before, context, leaf = content(session), await session.context(), session.leaf_id
    with pytest.raises(error):
        await session.compact(ScriptedSummarizer(answer), keep_tokens=300)
    assert (content(session), await session.context(), session.leaf_id) == (before, context, leaf)
    assert (await session.compact(ScriptedSummarizer(), keep_tokens=300)).applied


async def test_the_error_of_a_summary_that_is_too_long_names_the_summarized_messages(session: Session) -> None:
    for text in ("One", "Two"):
        await session.append_message("user", text)
    with pytest.raises(SummaryRefused, match="and the 1 message that it stands for"):
        await session.compact(ScriptedSummarizer("word " * 50), keep_tokens=1)


@pytest.mark.feature("U-10")
async def test_a_cancelled_compaction_changes_nothing(session: Session) -> None:
    await talk(session, 10)
    before, context = content(session), await session.context()
    for place in range(4):
        with anyio.CancelScope() as scope:

            async def summarizer(request: SummaryRequest, place: int = place, scope: anyio.CancelScope = scope) -> str:
                for step in range(4):
                    if step == place:
                        scope.cancel()
                    await anyio.lowlevel.checkpoint()
                raise AssertionError("it was not cancelled")

            await session.compact(summarizer, keep_tokens=300)
        assert scope.cancelled_caught
        assert (content(session), await session.context()) == (before, context)
    assert (await session.compact(ScriptedSummarizer(), keep_tokens=300)).applied


async def test_a_compaction_is_refused_if_the_leaf_moved_meanwhile(session: Session) -> None:
    await talk(session, 10)

    async def summarizer(request: SummaryRequest) -> str:
        await session.append_message("user", "meanwhile")
        return "They talked."

    with pytest.raises(LeafMoved):
        await session.compact(summarizer, keep_tokens=300)
    assert (await session.messages())[-1] == message("user", "meanwhile")


async def test_a_second_compaction_summarizes_the_first_summary(session: Session) -> None:
    await talk(session, 6)
    await session.compact(ScriptedSummarizer("First part."), keep_tokens=200)
    await talk(session, 6)
    second = ScriptedSummarizer("Both parts.")
    await session.compact(second, keep_tokens=200)
    (request,) = second.requests
    assert request.conversation[0].role == "compactionSummary"
    assert "First part." in repr(request.messages[1].content)
    assert [each.role for each in await session.messages()].count("compactionSummary") == 1


async def test_the_details_list_read_and_modified_files_across_compactions(session: Session) -> None:
    details: list[object] = []
    for path in ("a.py", "b.py"):
        await session.append_message("user", "go on")
        for name, touched in (("read_file", path), ("read_file", "c.py"), ("edit_file", path)):
            await append_call(session, f"{name} {touched}", "ok " * 40, name, touched)
        await session.append_message("user", "and then " * 20)
        await session.compact(ScriptedSummarizer(), keep_tokens=60)
        written = (await last_entry(session)).compaction.details
        assert isinstance(written, dict)
        details.append((written["readFiles"], written["modifiedFiles"]))
    assert details == [(["c.py"], ["a.py"]), (["c.py"], ["a.py", "b.py"])]


@pytest.mark.parametrize("by_hand", [False, True])
async def test_sections_and_tools_of_pi_system_messages_are_kept_by_compactions(tmp_path: Path, by_hand: bool) -> None:
    tools: list[dict[str, object]] = [{"name": name, "parameters": {}} for name in ("read", "write", "shell")]
    read, write, shell = tools
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create()
        declared = {"sections": {"tools": "Some.", "cwd": "/a", "old": "Gone."}, "toolsAdded": [read, write]}
        await session.append_message("system", "", metadata=declared)
        await talk(session, 5)
        changed = {"sections": {"cwd": "/b", "old": None}, "toolsRemoved": [{"name": "read"}], "toolsAdded": [shell]}
        assert [plain_text(each.content) for each in (await session.messages())[:1]] == ["Some.\n\n/a\n\nGone."]
        await session.append_message("system", "Be brief.", metadata=changed)
        shown = 'Be brief.\n\nUpdated system prompt section "cwd":\n\n/b\n\nRemoved system prompt section "old".'
        assert plain_text((await session.messages())[-1].content) == shown  # as pi itself sends it
        async with SessionHost(tmp_path) as other:  # which builds it at once
            assert await (await other.load(session.id, read_only=True)).messages() == await session.messages()
        for _ in range(2):
            await talk(session, 5)
            if by_hand:
                await session.append_compaction("They talked.", await session.append_message("user", "On."), 10)
            else:
                await session.compact(ScriptedSummarizer(), keep_tokens=200)
            first, *_ = await session.messages()
            assert plain_text(first.content) == "Be brief.\n\nSome.\n\n/b"
            line = json.loads((await session.export("pi")).splitlines()[-1])
            assert line["systemMessage"] == {
                "role": "system",
                "content": [{"type": "text", "text": "Be brief."}],
                "sections": {"tools": "Some.", "cwd": "/b"},
                "toolsAdded": [write, shell],
            }
        await session.set_history([first, message("user", "Again.")])
        assert plain_text((await session.messages())[0].content) == "Be brief.\n\nSome.\n\n/b"  # not twice


async def test_the_last_user_message_is_kept_unless_its_turn_is_too_long(session: Session) -> None:
    await talk(session, 5)
    last_question = await session.append_message("user", "one more thing")
    for step in range(4):
        await append_call(session, f"s{step}", "word " * 40)
    dry = await session.dry_compact(budget=budget(1000), keep_tokens=120)
    assert dry.first_kept_entry_id == last_question
    dry = await session.dry_compact(budget=budget(300), keep_tokens=120)
    assert dry.first_kept_entry_id != last_question


@pytest.mark.feature("U-12")
async def test_a_history_ten_times_the_summarizers_window_is_compacted(session: Session) -> None:
    await talk(session, 40, words=800)
    window = 4_000
    assert count_messages(await session.messages()) > 10 * window
    bounded = ScriptedSummarizer(window=window)
    options = SummarizerOptions(max_input_tokens=window // 2)
    assert (await session.compact(bounded, keep_tokens=2_000, options=options)).applied
    assert len(bounded.requests) == 1
    for turn in range(60):
        await session.append_message("user", f"{turn} " + "word " * 800)
        await session.append_message("assistant", "ok")
    assert count_messages(await session.messages()) > 10 * window
    unknown = ScriptedSummarizer(window=window)
    assert (await session.compact(unknown, keep_tokens=2_000)).applied
    assert 1 < len(unknown.requests) <= 6
    assert "word word" in repr(unknown.requests[-1].messages[1])


@pytest.mark.feature("U-11")
async def test_compactions_that_cannot_help_are_refused(session: Session) -> None:
    crowded = calculate_budget(4096, "word " * 50_000, "", ByteEstimator())
    await talk(session, 10)
    before = content(session)
    summarizer = ScriptedSummarizer()
    with pytest.raises(ContextOverflow):
        await session.compact(summarizer, budget=crowded)
    with pytest.raises(ContextOverflow):
        await session.build_context(crowded, summarizer=summarizer)
    assert (summarizer.requests, content(session)) == ([], before)

    # The last turn cannot be cut and is larger than the limit, so no summary is short enough.
    await session.append_message("user", "word " * 600)
    errors: list[TreeringError] = []
    count = 0
    while not errors:
        try:
            await session.compact(ScriptedSummarizer("They talked. " * (20 - count)), budget=budget(500))
            count += 1
        except CompactionLoop as error:
            errors.append(error)
    assert 0 < count <= 3
    written = content(session)
    with pytest.raises(CompactionLoop):
        await session.compact(summarizer, budget=budget(500))
    assert (summarizer.requests, content(session)) == ([], written)
    await session.passivate()
    with pytest.raises(CompactionLoop):
        await session.compact(summarizer, budget=budget(500))
    await session.append_message("assistant", "ok")
    await session.append_message("user", "and now?")
    assert (await session.compact(summarizer, budget=budget(500))).applied
    assert count_messages(await session.messages()) <= 500


@pytest.mark.timeout(60)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_compacting_40000_messages_does_not_take_quadratic_time(session: Session) -> None:
    count = 40_000
    await session.append_many([message("user" if each % 2 else "assistant", "so") for each in range(count)])
    report = await session.compact(ScriptedSummarizer(), keep_tokens=100)
    assert report.summarized_count + report.kept_count == count

"""Compacting a session: a safe cut, a summary that shrinks, one appended entry, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from treering import (
    CompactionEntry,
    LeafMoved,
    Message,
    Session,
    SessionHost,
    TreeringError,
    Usage,
    message,
    tool_result,
    tool_use,
)
from treering.events.errors import CompactionLoop, ContextOverflow, SummaryRefused
from treering.projections.building.budget import ContextBudget, calculate_budget
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.summaries import SummarizerOptions, SummaryRequest
from treering.projections.tokens import ByteEstimator, count_messages

from .scripted import Scripted

Bytes = Callable[[Session], bytes]
Budget = Callable[[int], ContextBudget]


async def talk(session: Session, turns: int, words: int = 60) -> list[str]:
    made: list[str] = []
    for turn in range(turns):
        call = tool_use(f"c{turn}", "read_file", {"path": f"{turn}.py"})
        made.append(await session.append_message("user", f"question {turn}"))
        made.append(await session.append_message("assistant", call))
        made.append(await session.append_message("tool", tool_result(f"c{turn}", "word " * words)))
        made.append(await session.append_message("assistant", f"answer {turn}"))
    return made


@pytest.mark.feature("N-118", "N-5", "D-50")
async def test_a_summary_takes_the_place_of_the_older_part(session: Session, content: Bytes) -> None:
    await talk(session, 10)
    before, originals = content(session), await session.all_messages()
    summarizer = Scripted()
    report = await session.compact(summarizer, keep_tokens=300)
    assert content(session).startswith(before)
    assert await session.all_messages() == originals
    assert len(summarizer.asked) == 1
    assert report.applied
    assert session.leaf_id == report.entry_id
    assert report.entry_id is not None
    entry = await session.entry(report.entry_id)
    assert isinstance(entry, CompactionEntry)
    assert (entry.compaction.summary, entry.compaction.first_kept_entry_id) == (
        "They talked.",
        report.first_kept_entry_id,
    )
    assert entry.compaction.tokens_before == report.tokens_before
    context = await session.context()
    assert context.messages[0].role == "compactionSummary"
    assert context.messages[1].entry_id == report.first_kept_entry_id
    assert len(context.messages) == 1 + report.kept_count
    assert report.summarized_count + report.kept_count == 40
    assert report.tokens_after == count_messages([each.message for each in context.messages]) < report.tokens_before
    assert pairing_fault(context.messages) is None


@pytest.mark.feature("G-133")
async def test_the_same_session_is_compacted_in_the_same_way(host: SessionHost) -> None:
    reports: list[tuple[int, int, int]] = []
    for name in ("one", "two"):
        session = await host.create(name)
        await talk(session, 8)
        report = await session.compact(Scripted(), keep_tokens=200)
        assert session.path().index(report.first_kept_entry_id or "") == report.summarized_count
        reports.append((report.summarized_count, report.tokens_before, report.tokens_after))
    assert reports[0] == reports[1]


@pytest.mark.feature("N-117")
async def test_a_dry_run_tells_and_writes_nothing(session: Session, content: Bytes) -> None:
    await talk(session, 10)
    before = content(session)
    dry = await session.dry_compact(keep_tokens=300)
    assert content(session) == before
    assert not dry.applied
    assert dry.tokens_before == count_messages(await session.messages())
    assert dry.tokens_after < dry.tokens_before
    report = await session.compact(Scripted(), keep_tokens=300)
    assert (dry.first_kept_entry_id, dry.summarized_count, dry.kept_count, dry.tokens_before) == (
        report.first_kept_entry_id,
        report.summarized_count,
        report.kept_count,
        report.tokens_before,
    )


async def test_what_cannot_be_compacted_is_told(session: Session, content: Bytes) -> None:
    summarizer = Scripted()
    assert (await session.compact(summarizer)).reason
    await talk(session, 1)
    before = content(session)
    assert "kept" in (await session.compact(summarizer, keep_tokens=10_000)).reason
    assert content(session) == before
    await session.append_message("assistant", tool_use("open", "read"))
    assert "waits" in (await session.compact(summarizer, keep_tokens=10)).reason
    assert summarizer.asked == []


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
async def test_a_summarizer_that_fails_leaves_the_session_as_it_was(
    session: Session, content: Bytes, answer: str | Exception, error: type[Exception]
) -> None:
    await talk(session, 10)
    before, context, leaf = content(session), await session.context(), session.leaf_id
    with pytest.raises(error):
        await session.compact(Scripted(answer), keep_tokens=300)
    assert (content(session), await session.context(), session.leaf_id) == (before, context, leaf)
    assert (await session.compact(Scripted(), keep_tokens=300)).applied


async def test_a_summary_that_is_too_long_is_told_with_what_it_stood_for(session: Session) -> None:
    for said in ("One", "Two"):
        await session.append_message("user", said)
    with pytest.raises(SummaryRefused, match="and the 1 message that it stands for"):
        await session.compact(Scripted("word " * 50), keep_tokens=1)


@pytest.mark.feature("U-10")
async def test_a_cancelled_compaction_leaves_the_session_as_it_was(session: Session, content: Bytes) -> None:
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
    assert (await session.compact(Scripted(), keep_tokens=300)).applied


async def test_a_leaf_that_moved_meanwhile_is_noticed(session: Session) -> None:
    await talk(session, 10)

    async def summarizer(request: SummaryRequest) -> str:
        await session.append_message("user", "meanwhile")
        return "They talked."

    with pytest.raises(LeafMoved):
        await session.compact(summarizer, keep_tokens=300)
    assert (await session.messages())[-1] == message("user", "meanwhile")


@pytest.mark.feature("D-52")
async def test_a_compaction_persists(session: Session, host: SessionHost) -> None:
    await talk(session, 10)
    await session.compact(Scripted([message("assistant", "They talked.", usage=Usage(5, 7))]), keep_tokens=300)
    context = await session.context()
    await session.passivate()
    again = await host.load("main")
    assert await again.context() == context
    entry = (await again.entries())[-1]
    assert isinstance(entry, CompactionEntry)
    assert entry.compaction.usage == Usage(5, 7)


async def test_the_next_compaction_summarizes_the_last_summary_and_no_original_twice(session: Session) -> None:
    await talk(session, 6)
    await session.compact(Scripted("First part."), keep_tokens=200)
    await talk(session, 6)
    second = Scripted("Both parts.")
    await session.compact(second, keep_tokens=200)
    (request,) = second.asked
    assert request.conversation[0].role == "compactionSummary"
    told = request.messages[1].content[0]
    assert "First part." in repr(told)
    messages = await session.messages()
    assert [each.role for each in messages].count("compactionSummary") == 1


async def test_files_are_noted_across_compactions(session: Session) -> None:
    async def touch(name: str, path: str) -> None:
        call = f"{name} {path}"
        await session.append_message("assistant", tool_use(call, name, {"path": path}))
        await session.append_message("tool", tool_result(call, "ok " * 40))

    details: list[object] = []
    for path in ("a.py", "b.py"):
        await session.append_message("user", "go on")
        await touch("read_file", path)
        await touch("read_file", "c.py")
        await touch("edit_file", path)
        await session.append_message("user", "and then " * 20)
        await session.compact(Scripted(), keep_tokens=60)
        entry = (await session.entries())[-1]
        assert isinstance(entry, CompactionEntry)
        assert isinstance(entry.compaction.details, dict)
        details.append((entry.compaction.details["readFiles"], entry.compaction.details["modifiedFiles"]))
    assert details == [(["c.py"], ["a.py"]), (["c.py"], ["a.py", "b.py"])]


async def test_stored_system_messages_outlive_compactions(session: Session) -> None:
    await session.append_message("system", "Be brief.")
    for _ in range(3):
        await talk(session, 5)
        await session.compact(Scripted(), keep_tokens=200)
        messages = await session.messages()
        assert [each.role for each in messages[:2]] == ["system", "compactionSummary"]
        assert messages[0].content == message("system", "Be brief.").content


async def test_what_system_messages_of_pi_declare_outlives_compactions(tmp_path: Path) -> None:
    tools: list[dict[str, object]] = [{"name": name, "parameters": {}} for name in ("read", "write", "shell")]
    read, write, shell = tools
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create()
        declared = {"sections": {"tools": "Some.", "cwd": "/a", "old": "Gone."}, "toolsAdded": [read, write]}
        await session.append_message("system", "", metadata=declared)
        await talk(session, 5)
        changed = {"sections": {"cwd": "/b", "old": None}, "toolsRemoved": [{"name": "read"}], "toolsAdded": [shell]}
        await session.append_message("system", "Be brief.", metadata=changed)
        for _ in range(2):
            await talk(session, 5)
            await session.compact(Scripted(), keep_tokens=200)
            line = json.loads((await session.export("pi")).splitlines()[-1])
            assert line["systemMessage"] == {
                "role": "system",
                "content": [{"type": "text", "text": "Be brief."}],
                "sections": {"tools": "Some.", "cwd": "/b"},
                "toolsAdded": [write, shell],
            }


async def test_the_last_user_message_stays_where_its_turn_is_not_too_long(session: Session, budget: Budget) -> None:
    await talk(session, 5)
    asked = await session.append_message("user", "one more thing")
    for step in range(4):
        await session.append_message("assistant", tool_use(f"s{step}", "read"))
        await session.append_message("tool", tool_result(f"s{step}", "word " * 40))
    dry = await session.dry_compact(budget=budget(1000), keep_tokens=120)
    assert dry.first_kept_entry_id == asked
    dry = await session.dry_compact(budget=budget(300), keep_tokens=120)
    assert dry.first_kept_entry_id != asked


@pytest.mark.feature("U-12")
async def test_a_history_ten_times_the_summarizers_window_is_compacted(session: Session) -> None:
    await talk(session, 40, words=800)
    window = 4_000
    assert count_messages(await session.messages()) > 10 * window
    bounded = Scripted(window=window)
    options = SummarizerOptions(max_input_tokens=window // 2)
    assert (await session.compact(bounded, keep_tokens=2_000, options=options)).applied
    assert len(bounded.asked) == 1
    for turn in range(60):
        await session.append_message("user", f"{turn} " + "word " * 800)
        await session.append_message("assistant", "ok")
    assert count_messages(await session.messages()) > 10 * window
    unknown = Scripted(window=window)
    assert (await session.compact(unknown, keep_tokens=2_000)).applied
    assert 1 < len(unknown.asked) <= 6
    assert "word word" in repr(unknown.asked[-1].messages[1])


@pytest.mark.feature("U-11")
async def test_compactions_in_vain_end_in_one_error(session: Session, content: Bytes, budget: Budget) -> None:
    crowded = calculate_budget(4096, "word " * 50_000, "", ByteEstimator())
    await talk(session, 10)
    before = content(session)
    summarizer = Scripted()
    with pytest.raises(ContextOverflow):
        await session.compact(summarizer, budget=crowded)
    with pytest.raises(ContextOverflow):
        await session.build_context(crowded, summarizer=summarizer)
    assert (summarizer.asked, content(session)) == ([], before)

    # A turn that cannot be parted, larger than the limit: summaries shrink, and never enough.
    await session.append_message("user", "word " * 600)
    errors: list[TreeringError] = []
    count = 0
    while not errors:
        try:
            await session.compact(Scripted("They talked. " * (20 - count)), budget=budget(500))
            count += 1
        except CompactionLoop as error:
            errors.append(error)
    assert 0 < count <= 3
    written = content(session)
    with pytest.raises(CompactionLoop):
        await session.compact(summarizer, budget=budget(500))
    assert (summarizer.asked, content(session)) == ([], written)
    await session.passivate()
    with pytest.raises(CompactionLoop):
        await session.compact(summarizer, budget=budget(500))
    await session.append_message("assistant", "ok")
    await session.append_message("user", "and now?")
    assert (await session.compact(summarizer, budget=budget(500))).applied
    assert count_messages(await session.messages()) <= 500


async def test_messages_are_what_they_were(session: Session) -> None:
    """The report's counts are those of the context, and a branch elsewhere is not touched."""
    made = await talk(session, 4)
    await session.compact(Scripted(), keep_tokens=100)
    await session.branch(made[3])
    assert [each.role for each in await session.messages()] == ["user", "assistant", "tool", "assistant"]
    assert Message("user", message("user", "question 0").content) == (await session.messages())[0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_hundred_times_as_many_messages_are_compacted_in_a_hundred_times_as_long(session: Session) -> None:
    count = 40_000
    await session.append_many([message("user" if each % 2 else "assistant", "so") for each in range(count)])
    report = await session.compact(Scripted(), keep_tokens=100)
    assert report.summarized_count + report.kept_count == count

"""Leaving a branch with a summary of the entries after the last one that both branches share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treering import BranchSummaryEntry, LeafMoved, Session, message, tool_result, tool_use
from treering.events.errors import SummaryRefused
from treering.projections.building.summaries import SummaryRequest

from .scripted import ScriptedSummarizer


async def append_conversation(session: Session) -> list[str]:
    return [
        await session.append_message("user", "shared question"),
        await session.append_message("assistant", "shared answer"),
        await session.append_message("user", "try the other way"),
        await session.append_message(
            "assistant",
            [tool_use("a", "read_file", {"path": "a.py"}), tool_use("b", "edit_file", {"path": "b.py"})],
        ),
        await session.append_message("tool", tool_result("a", "text")),
        await session.append_message("tool", tool_result("b", "done")),
        await session.append_message("assistant", "that went wrong"),
    ]


@pytest.mark.feature("O-20", "O-22")
async def test_the_summarizer_gets_the_messages_after_the_common_ancestor(session: Session) -> None:
    ids = await append_conversation(session)
    branch = await session.append_message("user", "another approach", below=ids[1])
    await session.branch(ids[-1])
    summarizer = ScriptedSummarizer("Tried it; it failed.")
    report = await session.summarize_branch(branch, summarizer)
    (request,) = summarizer.requests
    everything = await session.all_messages()
    assert list(request.conversation) == everything[2:7]
    assert "shared" not in repr(request.messages[1])
    assert (report.from_id, report.ancestor_id, report.message_count) == (ids[-1], ids[1], 5)
    assert report.details == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    entry = await session.entry(report.entry_id or "")
    assert isinstance(entry, BranchSummaryEntry)
    assert (entry.parent_id, entry.branch_summary.from_id) == (branch, ids[-1])
    assert entry.branch_summary.details == report.details
    assert session.leaf_id == report.entry_id
    assert (await session.messages())[-1] == message("branchSummary", "Tried it; it failed.")


async def test_going_back_on_the_path_summarizes_the_messages_after_the_target(session: Session) -> None:
    ids = await append_conversation(session)
    report = await session.summarize_branch(ids[1], ScriptedSummarizer())
    assert (report.ancestor_id, report.message_count) == (ids[1], 5)


async def test_if_no_message_is_left_behind_the_leaf_moves_and_no_summary_is_requested(session: Session) -> None:
    ids = await append_conversation(session)
    await session.branch(ids[1])
    summarizer = ScriptedSummarizer()
    report = await session.summarize_branch(ids[-1], summarizer)
    assert (report.entry_id, summarizer.requests, session.leaf_id) == (None, [], ids[-1])


async def test_a_branch_summary_that_fails_or_comes_too_late_appends_nothing(
    session: Session, content: Callable[[Session], bytes]
) -> None:
    ids = await append_conversation(session)
    before = content(session)
    with pytest.raises(SummaryRefused):
        await session.summarize_branch(ids[1], ScriptedSummarizer(""))

    async def meanwhile(request: SummaryRequest) -> str:
        assert (content(session), session.leaf_id) == (before, ids[-1])
        await session.append_message("user", "meanwhile")
        return "Tried it."

    with pytest.raises(LeafMoved):
        await session.summarize_branch(ids[1], meanwhile)

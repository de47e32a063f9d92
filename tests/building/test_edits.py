"""Context edits: whatever is built from a session shows edited content, and no removed or cleared content."""

import json
from pathlib import Path
from typing import Literal

import pytest

from treering import AgentSession, Session, SessionHost, image, text, tool_result, tool_use
from treering.agents import AgentHooks, LeftWork
from treering.contexts import ContextMessage
from treering.entries import Content, ToolResultPart
from treering.projections.building.pairing import pairing_fault
from treering.projections.context_edits import LEFT_OUT
from treering.testing.models import ScriptedModel

from .making import append_call, budget, content
from .scripted import ScriptedSummarizer


async def append_answered_call(session: Session, call_id: str = "c", *, is_error: bool = False) -> str:
    """Append a question, a call and its result, and return the entry id of the result."""
    await session.append_message("user", "look")
    await session.append_message("assistant", tool_use(call_id, "read", {"path": "a.py"}))
    return await session.append_message("tool", tool_result(call_id, "the long original", is_error=is_error))


def results(messages: tuple[ContextMessage, ...]) -> list[Content]:
    return [part for each in messages for part in each.content if isinstance(part, ToolResultPart)]


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
@pytest.mark.parametrize("is_error", [False, True])
async def test_an_edited_result_keeps_its_call_id_and_its_error_flag(
    tmp_path: Path, dialect: Literal["native", "pi", "omp"], is_error: bool
) -> None:
    async with SessionHost(tmp_path / "root", dialect=dialect) as host:
        session = await host.create("theirs")
        result = await append_answered_call(session, is_error=is_error)
        await session.append_context_edit(result, "short")
        before = content(session)
        for _ in range(2):
            (shown,) = results((await session.context()).messages)
            assert isinstance(shown, ToolResultPart)
            answer = shown.tool_result
            assert (answer.tool_use_id, answer.text, answer.is_error) == ("c", "short", is_error)
            assert results((await session.build_context(budget(10_000))).messages) == [shown]
            assert await session.open_calls() == []
            assert await session.close_open_calls() == []
            assert not await session.recover()
            assert content(session) == before
            await session.passivate()
            session = await host.load("theirs")


async def test_a_removed_result_is_replaced_by_a_note_while_its_call_is_shown(session: Session) -> None:
    result = await append_answered_call(session)
    call = session.path()[-2]
    await session.append_context_edit(result, None)
    before = content(session)
    context = await session.context()
    assert results(context.messages) == [tool_result("c", LEFT_OUT)]
    assert pairing_fault(context.messages) is None
    assert (await session.build_context(budget(10_000))).messages == context.messages
    assert (await session.open_calls(), bool(await session.recover())) == ([], False)
    assert content(session) == before
    await session.append_context_edit(call, None)
    assert [each.role for each in (await session.context()).messages] == ["user"]


async def test_an_edit_of_a_message_with_several_results_replaces_all_of_them(session: Session) -> None:
    await session.append_message("assistant", [tool_use("a", "read"), tool_use("b", "read")])
    both = await session.append_message("user", [tool_result("a", "one"), tool_result("b", "two"), "and?"])
    picture = image("aGk=", "image/png")
    await session.append_context_edit(both, [text("short"), picture])
    shown = (await session.context()).messages[-1]
    assert shown.content == (tool_result("a", [text("short"), picture]), tool_result("b", LEFT_OUT))
    await session.append_context_edit(both, [tool_result("a", "1"), tool_result("b", "2")])
    assert (await session.context()).messages[-1].content == (tool_result("a", "1"), tool_result("b", "2"))
    assert await session.open_calls() == []


async def test_an_answered_call_is_not_open_whatever_its_result_was_edited_to(session: Session) -> None:
    result = await append_answered_call(session)
    await session.append_context_edit(result, [tool_result("another", "x")])
    before = content(session)
    assert (await session.open_calls(), bool(await session.recover())) == ([], False)
    assert content(session) == before
    await AgentSession(ScriptedModel(["done"]), session=session).respond("go on")
    assert "no result" not in repr(await session.all_messages())
    await session.append_message("assistant", tool_use("d", "read"))
    assert [each.id for each in await session.open_calls()] == ["d"]


async def compact_past_the_request(session: Session, steps: int = 3) -> None:
    """Append some calls with results, and compact all but the last of them."""
    for step in range(steps):
        await append_call(session, f"c{step}")
    await session.append_compaction("They began.", session.path()[-2], 100)


async def test_the_request_kept_after_a_compaction_is_the_edited_one(session: Session) -> None:
    before = await session.append_message("user", "an older request")
    request = await session.append_message("user", "the secret request")
    await session.append_context_edit(request, "the public request")
    await compact_past_the_request(session)
    built = await session.build_context(budget(1000))
    assert [(each.role, each.entry_id) for each in built.messages[:2]] == [
        ("compactionSummary", session.path()[-1]),
        ("user", request),
    ]
    assert built.messages[1].content == (text("the public request"),)
    await session.append_context_edit(request, None)
    assert (await session.build_context(budget(1000))).messages[1].entry_id == before


@pytest.mark.parametrize("cleared", ["whole", "but for the last"])
async def test_a_cleared_request_is_not_shown_after_a_compaction(session: Session, cleared: str) -> None:
    await session.append_message("user", "the secret request")
    await session.append_message("assistant", "ok")
    await session.truncate_history(0 if cleared == "whole" else 1)
    await compact_past_the_request(session)
    built = await session.build_context(budget(1000))
    assert [each.role for each in built.messages] == ["compactionSummary", "assistant", "tool"]


def append_edit_of_pi(session: Session, target: str) -> None:
    """Remove an entry, of any type, as pi does."""
    edit = {"type": "context_edit", "id": "0000000e", "parentId": target, "targetId": target, "replacement": None}
    line = json.dumps({**edit, "timestamp": "2026-01-01T00:00:00.000Z"}).encode()
    Path(session.file_path or "").write_bytes(content(session) + line + b"\n")


async def test_a_request_under_a_removed_summary_is_not_shown(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root", dialect="pi") as host:
        session = await host.create("theirs")
        await session.append_message("user", "the secret request")
        summary = await session.append_compaction("A secret.", None, 100)
        await session.passivate()
        append_edit_of_pi(session, summary)
        session = await host.load("theirs")
        await compact_past_the_request(session)
        assert "secret" not in repr((await session.build_context(budget(1000))).messages)


async def minimal_state(session: Session) -> str:
    """Append more than fits, and return the state of the work that the context begins with."""
    for turn in range(12):
        await session.append_message("user", f"{turn} " + "word " * 200)
        await session.append_message("assistant", "yes")
    built = await session.build_context(budget(600))
    assert built.strategy == "minimal-state"
    assert "secret" not in repr(built.messages)
    return repr(built.messages[0])


async def test_the_minimal_state_holds_no_removed_or_cleared_content(session: Session) -> None:
    task = await session.append_message("user", "the secret task")
    await session.append_message("assistant", "Decision: the secret decision")
    await session.append_context_edit(task, None)
    await session.truncate_history(0)
    assert "ORIGINAL TASK: 0 word" in await minimal_state(session)


async def test_the_minimal_state_holds_edited_messages_as_contexts_show_them(session: Session) -> None:
    task = await session.append_message("user", "the secret task")
    await session.append_context_edit(task, "the public task")
    result = await append_call(session, "c", "ok", "write", "made.py")
    await session.append_context_edit(result, None)
    await session.append_compaction("They began.", None, 100)
    state = await minimal_state(session)
    assert "ORIGINAL TASK: the public task" in state
    assert "made.py (created)" in state
    assert "Waiting for" not in state


async def test_the_minimal_state_follows_a_later_compaction_that_keeps_more(session: Session) -> None:
    first = await session.append_message("user", "the first task")
    await session.append_message("assistant", "ok")
    await session.append_compaction("", None, 100)
    await session.append_compaction("", first, 100)
    assert "ORIGINAL TASK: the first task" in await minimal_state(session)


async def test_a_branch_summary_is_built_from_edited_messages(session: Session) -> None:
    root = await session.append_message("user", "shared")
    edited = await session.append_message("assistant", "the secret answer")
    hidden = await session.append_message("user", "the secret question")
    await session.append_context_edit(edited, "the public answer")
    await session.append_context_edit(hidden, None)
    summarizer = ScriptedSummarizer()
    report = await session.summarize_branch(root, summarizer)
    (request,) = summarizer.requests
    assert report.message_count == 1
    assert "the public answer" in repr(request.conversation)
    assert "secret" not in repr(request.messages)


async def test_a_cleared_branch_is_left_without_a_summary(session: Session) -> None:
    root = await session.append_message("user", "shared")
    await session.append_message("assistant", "the secret answer")
    await session.truncate_history(0)
    summarizer = ScriptedSummarizer()
    report = await session.summarize_branch(root, summarizer)
    assert (report.entry_id, summarizer.requests, session.leaf_id) == (None, [], root)


async def test_the_leaving_policy_counts_only_messages_that_contexts_show(session: Session) -> None:
    counts: list[int] = []

    async def policy(left: LeftWork) -> bool:
        counts.append(left.message_count)
        return False

    root = await session.append_message("user", "shared")
    hidden = await session.append_message("assistant", "an attempt")
    await session.append_message("user", "more")
    await session.append_context_edit(hidden, None)
    agent = AgentSession(ScriptedModel([]), session=session, hooks=AgentHooks(leaving=policy))
    await agent.switch(root)
    assert counts == [1]

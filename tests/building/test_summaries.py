"""Summaries of conversations and of branches that are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from treering import BranchSummaryEntry, LeafMoved, Message, Session, Usage, image, message, text, tool_result, tool_use
from treering.events.errors import ContextOverflow, SummaryRefused
from treering.projections.building.summaries import (
    SUMMARY_PROMPT,
    SummarizerOptions,
    Summary,
    SummaryRequest,
    format_messages_for_summary,
    generate_summary,
    tagged,
)
from treering.projections.building.transcript import bounded, transcript
from treering.projections.tokens import ByteEstimator, count_messages

from .scripted import ScriptedSummarizer

TOKENS = ByteEstimator()
TALK = [message("user", "Read main.go"), message("assistant", "I will.")]


@pytest.mark.feature("N-106")
def test_the_transcript_shows_messages_under_their_roles() -> None:
    messages = [
        *TALK,
        message("assistant", tool_use("c", "read_file", {"path": "main.go"})),
        message("tool", tool_result("c", "p" * 250), tool_name="read_file"),
        message("system", "Be brief."),
    ]
    assert format_messages_for_summary(messages) == (
        "USER: Read main.go\n\n"
        "ASSISTANT: I will.\n\n"
        "ASSISTANT: \n\n"
        f"TOOL: [Tool read_file: {'p' * 200}...]\n\n"
        "SYSTEM: Be brief."
    )


def test_the_transcript_shows_calls_images_and_summaries() -> None:
    messages = [
        message("compactionSummary", "before"),
        message("user", ["look", image("QUJD", "image/png")]),
        message("assistant", tool_use("c", "read", {"path": "x" * 300})),
        message("user", tool_result("c", "here")),
        message("custom", "an extension says", custom_type="x"),
    ]
    lines = transcript(messages, calls=True)
    assert lines[0] == "SUMMARY OF WHAT CAME BEFORE: before"
    assert lines[1] == "USER: look\n[image]"
    assert re.fullmatch(r'ASSISTANT: \[Call of read: \{"path":"x+\.\.\.\]', lines[2])
    assert lines[3] == "USER: [Tool read: here...]"
    assert lines[4] == "USER: an extension says"


@pytest.mark.feature("N-103")
async def test_the_default_prompt_holds_ten_rules_and_can_be_replaced() -> None:
    preserve, leave_out = SUMMARY_PROMPT.split("PRESERVE:")[1].split("DO NOT include:")
    assert len(re.findall(r"^- ", preserve, re.MULTILINE)) == 6
    assert len(re.findall(r"^- ", leave_out, re.MULTILINE)) == 4
    for word in ("task", "decisions", "reasons", "modified", "still to do", "Errors", "Constraints"):
        assert word in preserve
    for word in ("Greetings", "contents of files", "Tool outputs", "twice"):
        assert word in leave_out
    scripted = ScriptedSummarizer()
    await generate_summary(TALK, 100, scripted)
    await generate_summary(TALK, 100, scripted, options=SummarizerOptions(instructions="In French."))
    assert scripted.requests[0].messages[0] == message("system", SUMMARY_PROMPT)
    assert scripted.requests[1].messages[0] == message("system", "In French.")


@pytest.mark.feature("N-104", "N-105")
async def test_the_request_to_a_summarizer_has_the_target_length_and_the_conversation() -> None:
    scripted = ScriptedSummarizer()
    summary = await generate_summary(TALK, 250, scripted)
    assert (summary.content, summary.tokens, summary.usage, summary.attempts) == ("They talked.", 3, None, 1)
    (request,) = scripted.requests
    assert (request.target_tokens, request.max_tokens) == (250, 350)
    assert request.conversation == tuple(TALK)
    assert request.messages[1] == message(
        "user",
        "Target length: approximately 250 tokens.\n\nCONVERSATION TO SUMMARIZE:\n\n"
        "USER: Read main.go\n\nASSISTANT: I will.",
    )


@pytest.mark.feature("D-51")
@pytest.mark.parametrize(
    ("answer", "content", "usage"),
    [
        ("They talked.", "They talked.", None),
        ([message("assistant", "They talked.", usage=Usage(7))], "They talked.", Usage(7)),
        ([message("user", "One."), message("assistant", "Two.")], "One.\n\nTwo.", None),
        (message("assistant", [text("They"), text("talked.")]), "They\ntalked.", None),
        ("<analysis>hm</analysis>\n<summary>\nThey talked.\n</summary>", "They talked.", None),
    ],
)
async def test_a_summary_can_be_text_or_messages(
    answer: str | Message | Sequence[Message], content: str, usage: Usage | None
) -> None:
    summary = await generate_summary(TALK, 100, ScriptedSummarizer(answer))
    assert (summary.content, summary.usage) == (content, usage)


async def test_the_text_in_the_last_complete_tag_is_used_unless_the_tag_is_off() -> None:
    answer = "<summary>x</summary>"
    assert (
        await generate_summary(TALK, 9, ScriptedSummarizer(answer), options=SummarizerOptions(tag=None))
    ).content == answer
    assert tagged("a <s>b</s> <s>c</s>", "s") == "c"
    assert tagged("a <s>b", "s") == "a <s>b"


@pytest.mark.parametrize("answer", ["", "  \n", [], "<summary> </summary>"])
async def test_an_empty_answer_is_refused(answer: Summary) -> None:
    with pytest.raises(SummaryRefused, match="no text"):
        await generate_summary(TALK, 100, ScriptedSummarizer(answer))


async def test_other_errors_of_a_summarizer_are_raised_without_a_retry() -> None:
    scripted = ScriptedSummarizer(OSError("no network"))
    with pytest.raises(OSError, match="no network"):
        await generate_summary(TALK, 100, scripted)
    assert len(scripted.requests) == 1


async def test_a_request_that_is_too_long_is_repeated_with_less() -> None:
    scripted = ScriptedSummarizer(window=3_000)
    summary = await generate_summary([message("user", "word " * 10_000)] * 4, 100, scripted)
    sizes = [count_messages(each.messages) for each in scripted.requests]
    assert summary.attempts == len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 3_000
    scripted = ScriptedSummarizer(window=10)
    with pytest.raises(ContextOverflow):
        await generate_summary(TALK, 100, scripted)
    assert len(scripted.requests) == 6


def test_the_largest_parts_are_shortened_first() -> None:
    parts = ["small", "l" * 40_000, "medium " * 40, "h" * 20_000]
    shortened = bounded(parts, 2_000, TOKENS)
    assert TOKENS.count(shortened) <= 2_000
    assert TOKENS.count(shortened) > 1_800
    assert shortened.startswith("small\n\nlll")
    assert "medium " * 40 in shortened
    heads = re.findall(r"(l+|h+)\n\[\.\.\. \d+ characters left out \.\.\.\]\n(l+|h+)", shortened)
    assert [round(len(head) / len(tail)) for head, tail in heads] == [2, 2]
    assert bounded(parts, 10**6, TOKENS) == "\n\n".join(parts)


def test_if_shortening_is_not_enough_the_middle_is_left_out() -> None:
    parts = [f"{number} " + "word " * 100 for number in range(500)]
    shortened = bounded(parts, 1_000, TOKENS)
    assert TOKENS.count(shortened) <= 1_000
    assert shortened.startswith("0 word")
    assert re.search(r"\n\n\[\.\.\. \d+ messages left out \.\.\.\]\n\n", shortened)
    assert "499 word" in shortened
    assert bounded(parts, 1, TOKENS).count("word") < 100
    assert bounded([], 10, TOKENS) == ""


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

"""Asking a summarizer: what it is given, how much of it, and what is taken from its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from treering import Message, Usage, image, message, text, tool_result, tool_use
from treering.events.errors import ContextOverflow, SummaryRefused
from treering.projections.building.summaries import (
    SUMMARY_PROMPT,
    SummarizerOptions,
    Summary,
    format_messages_for_summary,
    generate_summary,
    tagged,
)
from treering.projections.building.transcript import bounded, transcript
from treering.projections.tokens import ByteEstimator, count_messages

from .scripted import Scripted

TOKENS = ByteEstimator()
TALK = [message("user", "Read main.go"), message("assistant", "I will.")]


@pytest.mark.feature("N-106")
def test_messages_are_written_down_under_their_roles() -> None:
    said = [
        *TALK,
        message("assistant", tool_use("c", "read_file", {"path": "main.go"})),
        message("tool", tool_result("c", "p" * 250), tool_name="read_file"),
        message("system", "Be brief."),
    ]
    assert format_messages_for_summary(said) == (
        "USER: Read main.go\n\n"
        "ASSISTANT: I will.\n\n"
        "ASSISTANT: \n\n"
        f"TOOL: [Tool read_file: {'p' * 200}...]\n\n"
        "SYSTEM: Be brief."
    )


def test_calls_images_and_summaries_are_written_down_too() -> None:
    said = [
        message("compactionSummary", "before"),
        message("user", ["look", image("QUJD", "image/png")]),
        message("assistant", tool_use("c", "read", {"path": "x" * 300})),
        message("user", tool_result("c", "here")),
        message("custom", "an extension says", custom_type="x"),
    ]
    told = transcript(said, calls=True)
    assert told[0] == "SUMMARY OF WHAT CAME BEFORE: before"
    assert told[1] == "USER: look\n[image]"
    assert re.fullmatch(r'ASSISTANT: \[Call of read: \{"path":"x+\.\.\.\]', told[2])
    assert told[3] == "USER: [Tool read: here...]"
    assert told[4] == "USER: an extension says"


@pytest.mark.feature("N-103")
async def test_the_default_prompt_holds_ten_rules_and_can_be_replaced() -> None:
    preserve, leave_out = SUMMARY_PROMPT.split("PRESERVE:")[1].split("DO NOT include:")
    assert len(re.findall(r"^- ", preserve, re.MULTILINE)) == 6
    assert len(re.findall(r"^- ", leave_out, re.MULTILINE)) == 4
    for word in ("task", "decisions", "reasons", "modified", "still to do", "Errors", "Constraints"):
        assert word in preserve
    for word in ("Greetings", "contents of files", "Tool outputs", "twice"):
        assert word in leave_out
    scripted = Scripted()
    await generate_summary(TALK, 100, scripted)
    await generate_summary(TALK, 100, scripted, options=SummarizerOptions(instructions="In French."))
    assert scripted.asked[0].messages[0] == message("system", SUMMARY_PROMPT)
    assert scripted.asked[1].messages[0] == message("system", "In French.")


@pytest.mark.feature("N-104", "N-105")
async def test_the_summarizer_is_the_callers_and_is_told_how_long() -> None:
    scripted = Scripted()
    made = await generate_summary(TALK, 250, scripted)
    assert (made.content, made.tokens, made.usage, made.attempts) == ("They talked.", 3, None, 1)
    (request,) = scripted.asked
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
async def test_text_and_messages_are_taken_alike(
    answer: str | Message | Sequence[Message], content: str, usage: Usage | None
) -> None:
    made = await generate_summary(TALK, 100, Scripted(answer))
    assert (made.content, made.usage) == (content, usage)


async def test_the_tag_can_be_left_alone() -> None:
    answer = "<summary>x</summary>"
    assert (await generate_summary(TALK, 9, Scripted(answer), options=SummarizerOptions(tag=None))).content == answer
    assert tagged("a <s>b</s> <s>c</s>", "s") == "c"
    assert tagged("a <s>b", "s") == "a <s>b"


@pytest.mark.parametrize("answer", ["", "  \n", [], "<summary> </summary>"])
async def test_an_empty_answer_is_refused(answer: Summary) -> None:
    with pytest.raises(SummaryRefused, match="no text"):
        await generate_summary(TALK, 100, Scripted(answer))


async def test_other_errors_are_the_callers_and_nothing_is_asked_twice() -> None:
    scripted = Scripted(OSError("no network"))
    with pytest.raises(OSError, match="no network"):
        await generate_summary(TALK, 100, scripted)
    assert len(scripted.asked) == 1


async def test_what_was_too_much_is_asked_again_with_less() -> None:
    scripted = Scripted(window=3_000)
    made = await generate_summary([message("user", "word " * 10_000)] * 4, 100, scripted)
    sizes = [count_messages(each.messages) for each in scripted.asked]
    assert made.attempts == len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 3_000
    scripted = Scripted(window=10)
    with pytest.raises(ContextOverflow):
        await generate_summary(TALK, 100, scripted)
    assert len(scripted.asked) == 6


def test_the_largest_are_shortened_first() -> None:
    parts = ["small", "l" * 40_000, "medium " * 40, "h" * 20_000]
    told = bounded(parts, 2_000, TOKENS)
    assert TOKENS.count(told) <= 2_000
    assert TOKENS.count(told) > 1_800
    assert told.startswith("small\n\nlll")
    assert "medium " * 40 in told
    heads = re.findall(r"(l+|h+)\n\[\.\.\. \d+ characters left out \.\.\.\]\n(l+|h+)", told)
    assert [round(len(head) / len(tail)) for head, tail in heads] == [2, 2]
    assert bounded(parts, 10**6, TOKENS) == "\n\n".join(parts)


def test_where_shortening_is_not_enough_the_middle_is_left_out() -> None:
    parts = [f"{number} " + "word " * 100 for number in range(500)]
    told = bounded(parts, 1_000, TOKENS)
    assert TOKENS.count(told) <= 1_000
    assert told.startswith("0 word")
    assert re.search(r"\n\n\[\.\.\. \d+ messages left out \.\.\.\]\n\n", told)
    assert "499 word" in told
    assert bounded(parts, 1, TOKENS).count("word") < 100
    assert bounded([], 10, TOKENS) == ""

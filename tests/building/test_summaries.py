"""Summaries of conversations and of branches that are left."""

import re
from collections.abc import Sequence

import pytest

from treering import Message, Session, Usage, image, message, text, tool_result, tool_use
from treering.entries import BashExecution, BranchSummaryEntry
from treering.errors import LeafMoved
from treering.events.errors import ContextOverflow, InvalidInput, SummaryRefused
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

from .making import content
from .scripted import ScriptedSummarizer

TOKENS = ByteEstimator()
TALK = [message("user", "Read main.go"), message("assistant", "I will.")]


@pytest.mark.feature("N-106")
def test_the_transcript_shows_messages_under_their_roles() -> None:
    messages = [
        *TALK,
        message("assistant", tool_use("c", "read_file", {"path": "x" * 189})),
        message("tool", tool_result("c", "p" * 250), tool_name="read_file"),
        Message("bashExecution", bash=BashExecution("pass", "SECRET", exclude_from_context=True)),
        message("system", "Be brief."),
        message("compactionSummary", "before"),
        message("branchSummary", "beside"),
        message("user", ["look", image("QUJD", "image/png")]),
        message("assistant", tool_use("d", "read", {"path": "x" * 190})),
        message("user", [tool_result("d", "here"), tool_result("nowhere", "there")]),
        message("custom", "an extension says", custom_type="x"),
    ]
    lines = [
        "USER: Read main.go",
        "ASSISTANT: I will.",
        "ASSISTANT: ",
        f"TOOL: [Tool read_file: {'p' * 200}...]",
        "SYSTEM: Be brief.",
        "SUMMARY OF WHAT CAME BEFORE: before",
        "SUMMARY OF ANOTHER BRANCH: beside",
        "USER: look\n[image]",
        "ASSISTANT: ",
        "USER: [Tool read: here...]\n[Tool : there...]",
        "USER: an extension says",
    ]
    assert format_messages_for_summary(messages) == "\n\n".join(lines)
    lines[2] = f'ASSISTANT: [Call of read_file: {{"path":"{"x" * 189}"}}]'
    lines[8] = f'ASSISTANT: [Call of read: {{"path":"{"x" * 190}"...]'
    assert transcript(messages, calls=True) == lines


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
    talk = [*TALK, message("assistant", tool_use("c", "read", {}))]
    summary = await generate_summary(talk, 250, scripted)
    assert (summary.content, summary.tokens, summary.usage, summary.attempts) == ("They talked.", 3, None, 1)
    (request,) = scripted.requests
    assert (request.target_tokens, request.max_tokens) == (250, 350)
    assert request.conversation == tuple(talk)
    assert request.messages[1] == message(
        "user",
        "Target length: approximately 250 tokens.\n\nCONVERSATION TO SUMMARIZE:\n\n"
        "USER: Read main.go\n\nASSISTANT: I will.\n\nASSISTANT: [Call of read: {}]",
    )
    for wrong, name in ((5, "int"), ([message("assistant", "a"), 5], "list"), ({message("user", "a")}, "set")):
        with pytest.raises(InvalidInput, match=f"the summarizer returned `{name}`: return text, or messages"):
            await generate_summary(TALK, 100, ScriptedSummarizer(wrong))  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidInput, match="give `SummarizerOptions"):
        await generate_summary(TALK, 100, ScriptedSummarizer("x"), options="brief")  # type: ignore[arg-type]  # refused


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
    whole, options = "<summary>x</summary>", SummarizerOptions(tag=None)
    assert (await generate_summary(TALK, 9, ScriptedSummarizer(whole), options=options)).content == whole
    assert tagged("a <s>b</s> <s>c</s>", "s") == "c"
    assert tagged("a <s>b", "s") == "a <s>b"


async def test_an_empty_answer_and_wrong_arguments_are_refused() -> None:
    empty: list[Summary] = ["", "  \n", [], "<summary> </summary>"]
    for answer in empty:
        with pytest.raises(SummaryRefused, match="no text"):
            await generate_summary(TALK, 100, ScriptedSummarizer(answer))
    with pytest.raises(InvalidInput, match="`NoneType` is not a summarizer"):
        await generate_summary(TALK, 100, None)  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidInput, match="target_tokens is -1"):
        await generate_summary(TALK, -1, ScriptedSummarizer())


async def test_a_request_that_is_too_long_is_repeated_with_half_as_much() -> None:
    scripted = ScriptedSummarizer(window=3_000)
    summary = await generate_summary([message("user", "word " * 10_000)] * 4, 100, scripted)
    sizes = [count_messages(each.messages) for each in scripted.requests]
    assert [size // 1000 for size in sizes] == [50, 23, 11, 5, 2]
    assert summary.attempts == 5
    for window, error in ((10, ContextOverflow("too long for this model")), (10**9, OSError("no network"))):
        scripted = ScriptedSummarizer(error, window=window)
        with pytest.raises(type(error), match=str(error)):
            await generate_summary(TALK, 100, scripted, options=SummarizerOptions(attempts=3))
        assert len(scripted.requests) == (3 if window == 10 else 1)


class Letters:
    """Counts letters, a bounded number of times."""

    def __init__(self, tokens: int = 1) -> None:
        self.tokens = tokens
        self.counts = 0

    def count(self, text: str) -> int:
        self.counts += 1
        assert self.counts < 5_000
        return len(text) * self.tokens


def without(count: int, of: str = "characters") -> str:
    return f"[... {count} {of} left out ...]"


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([], 10, ""),
        ([30, 30], 63, "a*30\n\nb*30"),
        ([30, 30], 62, "a*30\n\nb*30"),
        ([30, 30], 61, f"a*30\n\n{without(1, 'messages')}"),
        ([200, 200, 20], 300, f"a*69\n{without(97)}\na*34\n\nb*69\n{without(97)}\nb*34\n\nc*20"),
        ([200, 500, 100], 400, f"a*76\n{without(87)}\na*37\n\nb*76\n{without(387)}\nb*37\n\nc*100"),
        ([99, 200], 201, f"a*99\n\nb*44\n{without(135)}\nb*21"),
        ([200], 100, f"a*43\n{without(136)}\na*21"),
        ([200, 200], 80, f"a*3\n{without(196)}\na\n\nb*3\n{without(196)}\nb"),
        ([200], 39, f"a*3\n{without(196)}\na"),
        (
            [200, 200, 200, 200],
            160,
            f"a*3\n{without(196)}\na\n\n{without(1, 'messages')}\n\nc*3\n{without(196)}\nc\n\nd*3\n{without(196)}\nd",
        ),
        ([20, 200, 200, 20, 30], 130, f"a*20\n\n{without(2, 'messages')}\n\nd*20\n\ne*30"),
    ],
)
def test_the_largest_texts_are_cut_first_the_middle_left_out(lengths: list[int], limit: int, expected: str) -> None:
    parts = [letter * length for letter, length in zip("abcde", lengths, strict=False)]
    shortened = bounded(parts, limit, Letters())
    assert re.sub(r"([a-e])\1+(?![a-z])", lambda run: f"{run[1]}*{len(run[0])}", shortened) == expected
    assert len(shortened) <= limit


def test_a_text_is_not_shortened_to_a_mark_that_is_longer() -> None:
    assert bounded(["a" * 30], 5, Letters(10)) == "a" * 30
    assert bounded(["a" * 34], 5, Letters(10)) == "a" * 34
    assert bounded(["a" * 35], 5, Letters(10)) == f"\n{without(35)}\n"


async def append_conversation(session: Session) -> list[str]:
    calls = [tool_use("a", "read_file", {"path": "a.py"}), tool_use("b", "edit_file", {"path": "b.py"})]
    return await session.append_many(
        [
            *(message("user", "shared question"), message("assistant", "shared answer")),
            *(message("user", "try the other way"), message("assistant", calls)),
            *(message("tool", tool_result("a", "text")), message("tool", tool_result("b", "done"))),
            message("assistant", "that went wrong"),
        ]
    )


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
    await session.branch(ids[1])
    summarizer = ScriptedSummarizer()
    report = await session.summarize_branch(ids[-1], summarizer)
    assert (report.entry_id, summarizer.requests, session.leaf_id) == (None, [], ids[-1]), "nothing was left"
    report = await session.summarize_branch(ids[1], summarizer)
    assert (report.ancestor_id, report.message_count) == (ids[1], 5)


async def test_a_branch_summary_that_fails_or_comes_too_late_appends_nothing(session: Session) -> None:
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

"""Strategies that send less: a summary and the last messages, or the state of the work and the last request."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from treering import Entry, Message, SessionHost, message, plain_text, text, tool_result, tool_use
from treering.contexts import ContextMessage, StoredSummary
from treering.entries import ToolExecution
from treering.events.entries import entry_of
from treering.events.errors import ContextOverflow
from treering.events.json_values import raw_json
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.state_of_work import (
    CALLS_KEPT,
    SessionState,
    as_entries,
    extract_session_state,
    format_state_context,
    shortened,
)
from treering.projections.building.strategies import MinimalState, RecentPlusSummary, summary_budget, summary_message
from treering.projections.building.strategy import ContextSource, NeededSummary, StrategyResult
from treering.projections.building.summaries import SUMMARY_TYPE, longest_summary, range_key, summarizer_id
from treering.projections.state import FileTouch
from treering.projections.tokens import ByteEstimator, count_messages

from .making import START, budget, context_of, conversation, source_of
from .scripted import ScriptedSummarizer

TOKENS = ByteEstimator()


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
    summarizer = ScriptedSummarizer()
    async with SessionHost() as host:
        session = await host.create()
        await session.append_many(conversation(40))
        await session.build_context(budget(2000), ContextBuilder(TOKENS, [strategy]), summarizer=summarizer)
    assert [each.target_tokens for each in summarizer.requests] == [target]
    page = (Path(__file__).parents[2] / "docs" / "contexts.md").read_text()
    assert "`target_ratio`" in page
    assert "0.3 by default" in page


@pytest.mark.feature("N-90")
def test_a_summary_gets_nine_tenths_of_the_tokens_that_the_last_messages_leave() -> None:
    assert [summary_budget(*each) for each in ((1000, 400), (1001, 400), (400, 400), (100, 400))] == [540, 540, 0, 0]
    source = source_of(*conversation(21))
    frame = count_messages([summary_message(""), *(each.message for each in source.messages[15:])])
    assert needed(RecentPlusSummary().build(source, 2000, TOKENS)).budget_tokens == summary_budget(2000, frame)
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
    source = source_of(message("system", "Be brief."), message("user", "hello"))
    assert [each.entry_id for each in MinimalState().build(source, 400, TOKENS).messages] == ["e0", "", "e1"]


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
    first = replace(summary, key=range_key(source.messages[:1]), end_id="e0", message_count=1)
    assert longest_summary((first,), source.messages, 0, 15) == (first, 1)
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


# -- the state of the work


def entries(*payloads: Message | ToolExecution) -> list[Entry]:
    return [entry_of(each, id=f"e{place}", parent_id=None, timestamp=START) for place, each in enumerate(payloads)]


def tool_run(name: str, path: str, *, error: str = "") -> list[Message]:
    call_id = f"{name} {path}"
    return [
        message("assistant", tool_use(call_id, name, {"path": path})),
        message("tool", tool_result(call_id, error or "done", is_error=bool(error))),
    ]


WORK = entries(
    message("user", "Build the parser"),
    message("assistant", "I looked at it.\n\n**Decision:** a recursive descent parser\nWe decided to keep the lexer."),
    *tool_run("write_file", "parser.py"),
    *tool_run("edit_file", "lexer.py"),
    *tool_run("delete_file", "old.py"),
    *tool_run("read_file", "README.md"),
    *tool_run("edit_file", "ast.py", error="no such file\nat all"),
    *tool_run("edit_file", "grammar.py", error="not found"),
    *tool_run("edit_file", "grammar.py"),
    ToolExecution("x", "write_file", raw_json({"path": "tests.py"})),
    message("assistant", [text("Next come the tests."), tool_use("t", "todo_write", {"todos": []})]),
)


@pytest.mark.feature("N-95", "N-96", "N-97", "N-98", "N-99", "N-100", "N-102")
def test_the_state_is_extracted_from_entries() -> None:
    state = extract_session_state(WORK, project_path="/work/project")
    assert state == SessionState(
        "/work/project",
        "Build the parser",
        (
            FileTouch("parser.py", "created"),
            FileTouch("lexer.py", "modified"),
            FileTouch("old.py", "deleted"),
            FileTouch("grammar.py", "modified"),
            FileTouch("tests.py", "created"),
        ),
        "Waiting for todo_write. Last answer: Next come the tests.",
        ("edit_file ast.py failed: no such file at all",),
        ("a recursive descent parser", "We decided to keep the lexer."),
    )
    assert extract_session_state(WORK, project_path="/work/project") == state


def test_the_status_and_blockers_come_from_the_todo_list() -> None:
    todos = [
        {"content": "lex", "status": "completed"},
        {"content": "parse", "status": "in_progress"},
        {"content": "ship", "status": "blocked"},
    ]
    call = message("assistant", tool_use("t", "todo_write", {"todos": todos}))
    state = extract_session_state(entries(call, message("tool", tool_result("t", "ok"))))
    assert state.current_status == "1 of 3 planned steps are done. In progress: parse."
    assert state.blockers == ("ship (blocked)",)
    assert extract_session_state([]) == SessionState("", "", (), "Just started")


def calls(*names: str, stop_reason: str | None = None, start: int = 0) -> Message:
    parts = [tool_use(f"{name} {number}", name, {}) for number, name in enumerate(names, start)]
    return message("assistant", parts, stop_reason=stop_reason)


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([calls("edit")], "Waiting for edit."),
        ([calls("edit", "read", "edit", "edit")], "Waiting for 3 x edit, read."),
        ([calls("edit"), calls("read")], "Waiting for edit, read."),
        ([calls("edit"), message("user", "and?")], "Waiting for edit."),
        ([calls("edit", "read"), message("tool", tool_result("edit 0", "done"))], "Waiting for read."),
        ([calls("edit"), message("user", "go on"), message("assistant", "No.")], "Last answer: No."),
        ([calls("edit"), message("user", "go on"), calls("read", start=1)], "Waiting for read."),
        ([calls("edit", stop_reason="aborted")] * 18, "Just started"),
        ([calls("edit", stop_reason="error"), message("user", "go on")], "Just started"),
    ],
)
def test_the_status_names_calls_that_can_still_be_answered(messages: list[Message], status: str) -> None:
    assert extract_session_state(entries(message("user", "Build it"), *messages)).current_status == status


@pytest.mark.feature("N-101")
def test_the_state_is_formatted_as_fixed_sections() -> None:
    begin = (
        "You are continuing a coding session.\n\nPROJECT: /p\n\nORIGINAL TASK: Do it\n\nFILES MODIFIED THIS SESSION:\n"
    )
    end = "Continue assisting with the user's request below."
    assert format_state_context(SessionState("/p", "Do it", (), "Just started")) == (
        f"{begin}- None yet\n\nCURRENT STATUS: Just started\n\n\n\n\n\n{end}"
    )
    files = FileTouch("a", "created"), FileTouch("b", "deleted")
    assert format_state_context(SessionState("/p", "Do it", files, "ok", ("x",), ("y", "z"))) == (
        f"{begin}- a (created)\n- b (deleted)\n\nCURRENT STATUS: ok\n\n"
        f"KEY DECISIONS MADE:\n- y\n- z\n\nCURRENT BLOCKERS:\n- x\n\n{end}"
    )


@pytest.mark.feature("N-93", "N-94")
def test_the_smallest_context_is_the_state_and_the_last_user_message() -> None:
    strategy = MinimalState()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("minimal-state", 4, 400)
    source = source_of(
        message("user", "first"), *tool_run("ls", "a"), message("assistant", "ok"), message("user", "last")
    )
    result = strategy.build(source, 400, TOKENS)
    state = extract_session_state(source.entries, project_path="/work/project")
    state_message = message("system", format_state_context(state))
    assert [each.message for each in result.messages] == [state_message, message("user", "last")]
    assert (result.included_count, result.summarized_count) == (1, 4)
    assert strategy.build(source, count_messages([each.message for each in result.messages]), TOKENS) == result
    nothing = strategy.build(source_of(), 400, TOKENS)
    assert [each.role for each in nothing.messages] == ["system", "user"]
    assert nothing.messages[1].message == message("user", "")
    assert (nothing.included_count, nothing.summarized_count) == (0, 0)


def test_a_turn_that_is_not_over_keeps_the_calls_that_the_model_waits_for() -> None:
    run = [*tool_run("ls", "a"), *tool_run("ls", "b"), *tool_run("cat", "c", error="x" * 3_000)]
    source = source_of(message("user", "first"), message("assistant", "ok"), message("user", "last"), *run)
    seen: dict[tuple[int, int], int] = {}  # the messages of the turn and the characters of the last one
    for available in range(150, 1_200):
        result = MinimalState().build(source, available, TOKENS)
        seen[len(result.messages) - 2, len("".join(result.messages[-1].message.searched()))] = result.masked_count
    assert seen == {(0, 4): 0, (2, 150): 1, (2, 629): 1, (2, 3_000): 0, (4, 3_000): 0, (6, 3_000): 0}


def test_messages_that_a_program_wrote_for_the_user_are_not_the_task_or_the_request() -> None:
    environment, interruption = (
        Message("user", (text(each),), raw_metadata=raw_json({"is_meta": True})) for each in ("<environment>", "[stop]")
    )
    source = source_of(environment, message("user", "Dig"), message("user", "Deeper"), interruption)
    *_, state, request = MinimalState().build(source, 1_000, TOKENS).messages
    assert "ORIGINAL TASK: Dig\n" in plain_text(state.content)
    assert plain_text(request.content) == "Deeper"
    *_, request = MinimalState().build(source_of(environment), 1_000, TOKENS).messages
    assert plain_text(request.content) == "<environment>", "a model must be asked something"


def test_a_state_that_does_not_fit_is_shortened() -> None:
    writes = [each for n in range(200) for each in tool_run("write_file", f"some/long/path/{n}.py")]
    source = source_of(message("user", "task " * 200), *writes, message("user", "last"))
    sizes: list[int] = []
    for available in (200, 400, 800, 2_000, 10_000):
        result = MinimalState().build(source, available, TOKENS)
        sizes.append(count_messages([each.message for each in result.messages]))
        assert sizes[-1] <= available
    assert sizes == sorted(sizes)
    with pytest.raises(ContextOverflow):
        MinimalState().build(source, 50, TOKENS)


def test_the_state_can_be_extracted_from_messages_without_entries() -> None:
    source = source_of(message("user", "task"), *tool_run("write_file", "a.py"))
    assert extract_session_state(as_entries(source.messages)) == extract_session_state(source.entries)


def test_failures_without_a_call_and_long_lines_are_named_shortly() -> None:
    results = [message("tool", tool_result(each, each, is_error=True), tool_name=each or None) for each in ("grep", "")]
    failed = ("grep failed: grep", "a tool failed: no reason given")
    assert extract_session_state(entries(*results)).blockers == failed
    assert [shortened("ab  cdef", chars) for chars in (7, 6, 4, 3, 2)] == ["ab cdef", "ab ...", "a...", "...", "..."]
    named = [ContextMessage(each, message("user", "a")) for each in ("e1", "")]
    assert [each.id for each in as_entries(named)] == ["e1", "-"]


def test_a_result_long_after_its_call_is_told_without_its_target() -> None:
    calls = [message("assistant", tool_use(f"c{n}", "edit", {"path": f"{n}.py"})) for n in range(CALLS_KEPT + 1)]
    failures = [message("tool", tool_result(f"c{n}", "no", is_error=True), tool_name="edit") for n in (0, 1)]
    assert extract_session_state(entries(*calls, *failures)).blockers == ("edit failed: no", "edit 1.py failed: no")


def test_a_request_with_which_the_last_messages_begin_is_sent_once() -> None:
    calls = [
        message("assistant", tool_use("c", "ls")),
        message("tool", tool_result("c", "a")),
        message("assistant", "b"),
    ]
    more = [message("assistant", tool_use("d", "ls")), message("tool", tool_result("d", "a"))]
    missing, result = summarized(source_of(*conversation(15), message("user", "do it"), *calls, *more), 2000)
    assert (missing.end_id, [each.entry_id for each in result.messages]) == (
        "e14",
        ["", *(f"e{n}" for n in range(15, 21))],
    )

"""The state of the work, extracted from entries, and the smallest context, which consists of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from treering import (
    ContextMessage,
    Entry,
    Message,
    MessageEntry,
    ToolExecution,
    ToolExecutionEntry,
    message,
    plain_text,
    text,
    tool_result,
    tool_use,
)
from treering.events.content import raw_json
from treering.events.errors import ContextOverflow
from treering.projections.building.minimal_state import MinimalState
from treering.projections.building.state_extraction import (
    SessionState,
    as_entries,
    extract_session_state,
    format_state_context,
    shortened,
)
from treering.projections.state import FileTouch
from treering.projections.tokens import ByteEstimator, count_messages

from .making import source_of

START = datetime(2026, 1, 1, tzinfo=UTC)
TOKENS = ByteEstimator()


def entries(*payloads: Message | ToolExecution) -> list[Entry]:
    found: list[Entry] = []
    for place, each in enumerate(payloads):
        if isinstance(each, Message):
            found.append(MessageEntry(id=f"e{place}", parent_id=None, timestamp=START, message=each))
        else:
            found.append(ToolExecutionEntry(id=f"e{place}", parent_id=None, timestamp=START, tool_execution=each))
    return found


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
        message("user", "first"), message("assistant", "ok"), message("user", "last"), *tool_run("ls", "a")
    )
    result = strategy.build(source, 400, TOKENS)
    assert [each.role for each in result.messages] == ["system", "user"]
    state = extract_session_state(source.entries, project_path="/work/project")
    assert result.messages[0].message == message("system", format_state_context(state))
    assert result.messages[1] == source.messages[2]
    assert (result.included_count, result.summarized_count) == (1, 4)
    assert strategy.build(source, count_messages([each.message for each in result.messages]), TOKENS) == result
    nothing = strategy.build(source_of(), 400, TOKENS)
    assert [each.role for each in nothing.messages] == ["system", "user"]
    assert nothing.messages[1].message == message("user", "")
    assert (nothing.included_count, nothing.summarized_count) == (0, 0)


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
    shown = [shortened("ab  cdef", chars) for chars in (7, 6, 4, 3, 2)]
    assert shown == ["ab cdef", "ab ...", "a...", "...", "..."]
    named = [ContextMessage(each, message("user", "a")) for each in ("e1", "")]
    assert [each.id for each in as_entries(named)] == ["e1", "-"]


def test_a_stored_system_message_is_kept() -> None:
    source = source_of(message("system", "Be brief."), message("user", "hello"))
    result = MinimalState().build(source, 400, TOKENS)
    assert [each.entry_id for each in result.messages] == ["e0", "", "e1"]

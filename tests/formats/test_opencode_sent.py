"""opencode: what it stores but no longer sends to the model, and messages that were reverted and then deleted."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import Session, SessionHost, plain_text
from treering.events.content import ToolResultPart, ToolUsePart, tool_result
from treering.events.entries import ContextEdit, ContextEditEntry, MessageEntry, ToolExecutionEntry

from .conftest import ParsedSession, Read, reader
from .test_opencode_steps import STEP_START, Part, call, export_file, text

Import = Callable[..., Awaitable[Session]]
CLEARED = "[Old tool result content cleared]"
ABORTED: Part = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
FAILED: Part = {"name": "APIError", "data": {"message": "overloaded"}}


def record(name: str, role: str, created: int, *parts: Part, **more: object) -> Part:
    return {"info": {"id": f"msg_{name}", "role": role, "time": {"created": created}, **more}, "parts": [*parts]}


def prompt(name: str, created: int) -> Part:
    return record(name, "user", created, {**text(f"Question {name}."), "id": f"prt_{name}"})


def answer(name: str, created: int, *parts: Part, **more: object) -> Part:
    return record(name, "assistant", created, *(parts or (text(f"Answer {name}."),)), **more)


def cleared_call(call_id: str, cleared: object) -> Part:
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}
    state = {"status": "completed", "input": {}, "output": "A long result.", "attachments": [picture]}
    return {**call(call_id), "state": {**state, "time": {"start": 0, "end": 5, "compacted": cleared}}}


async def texts_in_context(session: Session) -> list[str]:
    """Return the text of each message that a model would receive."""
    shown: list[str] = []
    for message in (await session.context()).messages:
        results = [part.tool_result.text for part in message.content if isinstance(part, ToolResultPart)]
        shown.append("".join([plain_text(message.content), *results]))
    return shown


@pytest.fixture
def imported(tmp_path: Path, host: SessionHost) -> Import:
    """Import a file with these messages, and once more, which adds nothing."""

    async def written(*messages: Part, **more: object) -> Session:
        path = export_file(tmp_path, *messages, **more)
        (report,) = await host.import_sessions(path)
        assert [each.added for each in await host.import_sessions(path)] == [0]
        return await host.load(report.id)

    return written


def edits(session: ParsedSession) -> list[ContextEdit]:
    return [entry.context_edit for entry in session.entries if isinstance(entry, ContextEditEntry)]


read = reader(export_file)


async def test_a_result_that_was_cleared_is_kept_but_contexts_show_what_opencode_sends(imported: Import) -> None:
    parts = (STEP_START, cleared_call("c1", 2500), call("c2"))
    session = await imported(prompt("01", 1000), answer("02", 2000, *parts), prompt("03", 3000), answer("04", 4000))
    shown = ["Question 01.", "", CLEARED, "result of c2", "Question 03.", "Answer 04."]
    assert await texts_in_context(session) == shown
    entries = await session.entries()
    kinds = [each.type for each in entries]
    assert kinds.index("context_edit") == len(kinds) - 3, "the edit is where the result was cleared"
    results = [each.message for each in entries if isinstance(each, MessageEntry) and each.message.role == "tool"]
    assert "A long result." in repr(results[0]), "the result itself stays"


@pytest.mark.parametrize("cleared", [None, 0, "soon", -1e300])
def test_a_time_of_clearing_that_is_none_clears_nothing(read: Read, cleared: object) -> None:
    session = read(answer("01", 1000, cleared_call("c1", cleared)))
    assert not edits(session)


async def test_results_that_are_cleared_between_two_imports_are_cleared_by_the_second(imported: Import) -> None:
    before = (prompt("01", 1000), answer("02", 2000, STEP_START, cleared_call("c1", None)), prompt("03", 3000))
    after = (prompt("01", 1000), answer("02", 2000, STEP_START, cleared_call("c1", 3500)), prompt("03", 3000))
    await imported(*before)
    session = await imported(*after)
    assert await texts_in_context(session) == ["Question 01.", "", CLEARED, "Question 03."]
    for later in ((answer("04", 3200),), (answer("04", 3200), prompt("05", 5000))):  # before and after the clearing
        session = await imported(*after, *later)
        shown = await texts_in_context(session)
        assert shown[:4] == ["Question 01.", "", CLEARED, "Question 03."]
        assert len(shown) == 4 + len(later)


@pytest.mark.parametrize(
    ("error", "parts", "is_sent"),
    [
        (FAILED, (text("Well"), call("c1")), False),
        (ABORTED, (STEP_START, text("Well"), call("c1")), True),
        (ABORTED, (STEP_START, {"type": "reasoning", "text": "Hm"}), False),
        (None, (text("Well"),), True),
    ],
)
async def test_an_answer_that_failed_is_kept_but_not_sent(
    imported: Import, error: Part | None, parts: tuple[Part, ...], is_sent: bool
) -> None:
    session = await imported(
        prompt("01", 1000), answer("02", 2000, *parts, error=error), prompt("03", 3000), answer("04", 4000)
    )
    shown = await texts_in_context(session)
    assert (len(shown) > 3) is is_sent
    assert [each for each in shown if "0" in each] == ["Question 01.", "Question 03.", "Answer 04."]
    ids = [each.id for each in await session.entries()]
    assert "msg_02" in ids


def test_the_result_of_an_interrupted_call_is_the_output_that_the_tool_kept(read: Read) -> None:
    kept, lost = call("c1"), call("c2")
    state: Part = {"status": "error", "input": {}, "error": "Tool execution aborted", "time": {"start": 0, "end": 5}}
    kept["state"] = {**state, "metadata": {"interrupted": True, "output": "half"}}
    lost["state"] = {**state, "metadata": {"interrupted": True}}
    session = read(answer("01", 1000, kept, lost))
    _, first, second = session.messages
    assert first.content == (tool_result("c1", "half"),)
    assert second.content == (tool_result("c2", "Tool execution aborted", is_error=True),)
    runs = [entry.tool_execution for entry in session.entries if isinstance(entry, ToolExecutionEntry)]
    assert [(run.success, run.error) for run in runs] == [(False, "Tool execution aborted")] * 2


WHOLE = (prompt("01", 1000), answer("02", 2000), prompt("03", 3000), answer("04", 4000))


def revert(message: str, part: str | None = None) -> Part:
    return {"messageID": f"msg_{message}", **({} if part is None else {"partID": part})}


@pytest.mark.parametrize("message", ["03", "021"])
async def test_a_reverted_session_ends_before_the_point_even_if_that_is_lost(imported: Import, message: str) -> None:
    session = await imported(*WHOLE, revert=revert(message))
    assert await texts_in_context(session) == ["Question 01.", "Answer 02."]
    assert {"msg_03", "msg_04"} <= {each.id for each in await session.entries()}


@pytest.mark.parametrize("message", ["05", "9"])
def test_a_revert_to_a_point_after_the_last_message_reverts_nothing(read: Read, message: str) -> None:
    assert read(*WHOLE, revert=revert(message)).path()[-1].id == "msg_04"


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("prt_b", ["Question 01.", "Look.", "result of c1"]),
        ("prt_missing", ["Question 01.", "Look.", "result of c1", "Done."]),
    ],
)
async def test_a_revert_within_a_message_keeps_its_first_parts(imported: Import, part: str, shown: list[str]) -> None:
    first = (STEP_START, {**text("Look."), "id": "prt_0"}, {**call("c1"), "id": "prt_a"})
    second = (STEP_START, {**text("Done."), "id": "prt_b"})
    messages = (prompt("01", 1000), answer("02", 2000, *first, *second, finish="stop"), prompt("03", 3000))
    session = await imported(*messages, revert=revert("02", part))
    assert await texts_in_context(session) == shown
    assert "msg_03" in {each.id for each in await session.entries()}
    after = (prompt("01", 1000), answer("02", 2000, *first), prompt("05", 6000))
    session = await imported(*after)
    assert (await texts_in_context(session))[3:] == ["Question 05."]


@pytest.mark.parametrize("while_reverted", [False, True])
async def test_a_session_reverted_and_continued_continues_from_there(imported: Import, while_reverted: bool) -> None:
    """opencode deletes what was reverted when the next prompt comes."""
    await imported(*WHOLE)
    if while_reverted:
        await imported(*WHOLE, revert=revert("03"))
    continued = (*WHOLE[:2], prompt("05", 6000), answer("06", 7000))
    session = await imported(*continued)
    assert await texts_in_context(session) == ["Question 01.", "Answer 02.", "Question 05.", "Answer 06."]
    assert {"msg_03", "msg_04"} <= {each.id for each in await session.entries()}


async def test_a_session_that_continued_here_keeps_its_leaf_when_opencode_deletes_messages(imported: Import) -> None:
    session = await imported(*WHOLE)
    await session.append_message("user", "Mine.", command_id="mine")
    session = await imported(*WHOLE[:2], prompt("05", 6000))
    assert (await texts_in_context(session))[-1] == "Mine."
    assert "msg_05" in {each.id for each in await session.entries()}


async def test_an_older_file_does_not_move_the_leaf_back(imported: Import) -> None:
    later = (prompt("05", 6000), answer("06", 7000))
    await imported(*WHOLE, *later)
    session = await imported(*WHOLE, revert=revert("03"))
    assert (await texts_in_context(session))[-1] == "Answer 06."


async def test_a_revert_that_was_taken_back_shows_all_again(imported: Import) -> None:
    await imported(*WHOLE, revert=revert("03"))
    session = await imported(*WHOLE, time={"created": 0, "updated": 6000})
    assert (await texts_in_context(session))[-1] == "Answer 04."


async def test_a_prompt_whose_parts_are_not_written_so_far_comes_with_them(imported: Import) -> None:
    await imported(prompt("01", 1000), record("02", "user", 2000))
    session = await imported(prompt("01", 1000), prompt("02", 2000), answer("03", 3000))
    assert await texts_in_context(session) == ["Question 01.", "Question 02.", "Answer 03."]


async def test_a_call_that_was_imported_before_its_arguments_is_shown_with_them(imported: Import) -> None:
    def answered(first: Part, second: Part, *more: Part) -> Part:
        states = [{"status": "running", "input": each} for each in (first, second)]
        calls = [{**call(f"c{number}"), "state": state} for number, state in enumerate(states)]
        return answer("02", 2000, STEP_START, *calls, *more)

    known: list[tuple[Part, Part]] = [({}, {}), ({"a": 1}, {}), ({"a": 1}, {"b": 2})]
    for inputs in known:
        session = await imported(prompt("01", 1000), answered(*inputs))
        content = (await session.context()).messages[1].message.content
        assert tuple(part.tool_use.input for part in content if isinstance(part, ToolUsePart)) == inputs
    session = await imported(prompt("01", 1000), answered({"a": 1}, {"b": 2}, text("Both.")), prompt("03", 3000))
    assert (await texts_in_context(session))[-1] == "Question 03."

"""opencode's messages: steps with their usage, finished and unfinished summaries, and signatures."""

import json
from pathlib import Path

import pytest

from treering import SessionHost
from treering.events.content import TextPart, ThinkingPart, ToolResultPart, ToolUsePart, image, plain_text, tool_result
from treering.events.content import text as words
from treering.events.entries import CompactionEntry, Message, Usage

from .conftest import Read, ReadSessions, reader

Part = dict[str, object]
STEP_START: Part = {"type": "step-start"}


def text(content: str, **more: object) -> Part:
    return {"type": "text", "text": content, **more}


def call(call_id: str, start: int = 0) -> Part:
    times = {"start": start, "end": start + 5}
    state = {"status": "completed", "input": {}, "output": f"result of {call_id}", "time": times}
    return {"type": "tool", "callID": call_id, "tool": "read", "state": state}


def tokens(input: int, output: int) -> Part:
    return {"input": input, "output": output, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def finish(input: int, output: int, cost: float) -> Part:
    return {"type": "step-finish", "tokens": tokens(input, output), "cost": cost}


def record(name: str, role: str, *parts: Part, **more: object) -> Part:
    info = {"id": name, "role": role, "time": {"created": 1000}, **more}
    return {"info": info, "parts": list(parts)}


def export_file(folder: Path, *messages: Part, **more: object) -> Path:
    path = folder / "exported.json"
    info = {"id": "ses_1", "directory": "/work", "time": {"created": 0, "updated": 5000}, **more}
    path.write_text(json.dumps({"info": info, "messages": messages}))
    return path


read = reader(export_file)


def calls(message: Message) -> list[str]:
    return [part.tool_use.id for part in message.content if isinstance(part, ToolUsePart)]


def results(message: Message) -> list[str]:
    return [part.tool_result.tool_use_id for part in message.content if isinstance(part, ToolResultPart)]


def test_a_file_that_is_not_an_image_becomes_text_in_prompts_and_results(read: Read) -> None:
    page: Part = {"type": "file", "mime": "application/pdf", "url": "data:application/pdf;base64,aGk="}
    named, film = page | {"filename": "a.pdf"}, page | {"mime": "video/mp4", "url": "file:///a.mp4"}
    picture: Part = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}
    called = call("c1")
    called["state"] = {"status": "completed", "input": {}, "output": "It was read.", "attachments": [page, picture]}
    session = read(record("a", "user", page, named, film), record("b", "assistant", STEP_START, called, parentID="a"))
    prompt, _, result = session.messages
    assert prompt.content == tuple(map(words, ("[file: application/pdf]", "[file: a.pdf]", "[file: file:///a.mp4]")))
    answer, pages = words("It was read."), words("[file: application/pdf]")
    assert result.content == (tool_result("c1", [answer, pages, image("aGk=", "image/png")]),)


def test_each_step_becomes_an_answer_with_its_usage_and_results(read: Read) -> None:
    first = (STEP_START, text("Look."), call("c1"), finish(100, 10, 0.01))
    second = (STEP_START, call("c2", 2000), call("c3"), finish(200, 20, 0.02))
    third = (STEP_START, text("Done."), finish(300, 30, 0.03))
    spent = {"tokens": tokens(300, 30), "cost": 0.06}
    session = read(record("m", "assistant", *first, *second, *third, finish="stop", **spent))
    assert session.roles == ["assistant", "tool", "assistant", "tool", "tool", "assistant"]
    answers = [message for message in session.messages if message.role == "assistant"]
    assert [calls(answer) for answer in answers] == [["c1"], ["c2", "c3"], []]
    assert [results(message) for message in session.messages] == [[], ["c1"], [], ["c2"], ["c3"], []]
    assert [answer.usage for answer in answers] == [
        Usage(100, 10, 0, 0, 110, 0.01),
        Usage(200, 20, 0, 0, 220, 0.02),
        Usage(300, 30, 0, 0, 330, 0.03),
    ]
    assert [answer.stop_reason for answer in answers] == [None, None, "stop"]
    assert [entry.timestamp.timestamp() for entry in session.of("message")][2] == 2, "a step begins with its first part"


def test_steps_without_calls_become_separate_messages_with_their_usage(read: Read) -> None:
    first = (STEP_START, text("One."), finish(1, 1, 0.0))
    second = (STEP_START, text("Two."), finish(2, 2, 0.0))
    session = read(record("m", "assistant", *first, *second, STEP_START, finish(3, 0, 0.0)))
    assert [plain_text(message.content) for message in session.messages] == ["One.", "Two.", ""]
    assert [message.usage and message.usage.total_tokens for message in session.messages] == [2, 4, 3]


def test_text_after_a_call_in_the_same_step_joins_the_calls_message(read: Read) -> None:
    session = read(record("m", "assistant", STEP_START, call("c1"), text("Now."), finish(1, 1, 0.0)))
    assert session.roles == ["assistant", "tool"]
    assert plain_text(session.messages[0].content) == "Now."


def test_a_retry_record_becomes_no_message(read: Read) -> None:
    retry: Part = {"type": "retry", "attempt": 1}
    session = read(record("m", "assistant", STEP_START, retry, text("Hello."), finish(1, 1, 0.0)))
    assert [plain_text(message.content) for message in session.messages] == ["Hello."]
    assert [entry.type for entry in session.entries] == ["message", "custom"]


@pytest.mark.parametrize("missing", [{}, {"tokens": None}, {"tokens": {}}], ids=str)
def test_a_step_without_tokens_takes_those_of_its_message(read: Read, missing: Part) -> None:
    end: Part = {"type": "step-finish", **missing}
    message = record("m", "assistant", STEP_START, text("Hello."), end, tokens=tokens(40, 2), cost=0.5)
    assert read(message).messages[0].usage == Usage(40, 2, 0, 0, 42, 0.5)


QUESTION = record("m1", "user", text("Remember 42."))
ANSWER = record("m2", "assistant", text("I will."), finish="stop")
COMPACTION_REQUEST = record("m3", "user", {"type": "compaction", "auto": False})
ABORTED: Part = {"name": "MessageAbortedError", "data": {"message": "stopped"}}


@pytest.mark.parametrize(
    ("ending", "stop_reason"),
    [
        ({"finish": "tool-calls"}, "tool_use"),
        ({"finish": "content-filter"}, "refusal"),
        ({"finish": "length"}, "length"),
        ({"error": ABORTED, "finish": "stop"}, "aborted"),
        ({"error": {"name": "APIError", "data": {"message": "overloaded"}}}, "error"),
        ({}, None),
    ],
    ids=str,
)
def test_the_end_of_an_answer_has_the_name_of_treering(read: Read, ending: Part, stop_reason: str | None) -> None:
    assert read(record("m", "assistant", text("Hello."), **ending)).messages[0].stop_reason == stop_reason


@pytest.mark.parametrize("parts", [(), (STEP_START, text("They want"))], ids=["nothing", "something"])
async def test_a_failed_summary_hides_no_messages(tmp_path: Path, host: SessionHost, parts: tuple[Part, ...]) -> None:
    failed = record("m4", "assistant", *parts, summary=True, error=ABORTED, tokens=tokens(9, 1), cost=0.5)
    path = export_file(tmp_path, QUESTION, ANSWER, COMPACTION_REQUEST, failed, record("m5", "user", text("Which?")))
    (report,) = await host.import_sessions(path)
    session = await host.load(report.id)
    history = await session.history()
    assert [plain_text(message.content) for message in history] == [
        "Remember 42.",
        "I will.",
        "They want" if parts else "",
        "Which?",
    ]
    assert history[2].error == "MessageAbortedError: stopped"
    assert (await session.total_usage()).total_tokens == 10


def test_an_unfinished_summary_leaves_its_id_to_the_later_compaction(read: Read) -> None:
    unfinished = record("m4", "assistant", STEP_START, text("They want"), summary=True)
    session = read(QUESTION, ANSWER, COMPACTION_REQUEST, unfinished)
    assert [plain_text(message.content) for message in session.messages] == ["Remember 42.", "I will.", "They want"]
    assert "m4" not in {entry.id for entry in session.entries}
    finished = record(
        "m4", "assistant", STEP_START, text("They want 42."), finish(9, 1, 0.5), summary=True, finish="stop"
    )
    session = read(QUESTION, ANSWER, COMPACTION_REQUEST, finished)
    (entry,) = session.of("compaction")
    assert entry.id == "m4"


@pytest.mark.parametrize("end", [{"finish": "stop"}, {"time": {"created": 1, "completed": 2}}, {}], ids=str)
def test_a_finished_summary_becomes_a_compaction(read: Read, end: Part) -> None:
    session = read(QUESTION, ANSWER, COMPACTION_REQUEST, record("m4", "assistant", text("42."), summary=True, **end))
    (entry,) = session.of("compaction")
    assert isinstance(entry, CompactionEntry)
    assert (entry.id, entry.compaction.summary, entry.compaction.usage) == ("m4", "42.", None)


@pytest.mark.parametrize("parts", [(finish(500, 50, 0.09),), ()], ids=["step", "message"])
def test_a_compaction_has_its_usage(read: Read, parts: tuple[Part, ...]) -> None:
    spent = {"tokens": tokens(500, 50), "cost": 0.09}
    summary = record("m4", "assistant", STEP_START, text("42."), *parts, summary=True, finish="stop", **spent)
    session = read(QUESTION, ANSWER, COMPACTION_REQUEST, summary)
    (entry,) = session.of("compaction")
    assert isinstance(entry, CompactionEntry)
    assert entry.compaction.usage == Usage(500, 50, 0, 0, 550, 0.09)


def test_signatures_of_providers_are_kept(read: Read) -> None:
    thought: Part = {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "s1"}}}
    sealed: Part = {"type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "s2"}}}
    spoken = text("Look.", metadata={"google": {"thoughtSignature": "s3"}, "odd": 7})
    called = {**call("c1"), "metadata": {"google": {"thoughtSignature": "s4"}}}
    unsigned: Part = {"type": "reasoning", "text": "So.", "metadata": {"openai": {"itemId": "rs_1"}, "sure": "no"}}
    session = read(record("m", "assistant", thought, sealed, unsigned, spoken, called))
    first, second, third, words, use = session.messages[0].content
    thoughts = [part.thinking for part in (first, second, third) if isinstance(part, ThinkingPart)]
    assert [(each.content, each.signature, each.redacted) for each in thoughts] == [
        ("Hm.", "s1", False),
        ("", "s2", True),
        ("So.", None, False),
    ]
    assert isinstance(words, TextPart)
    assert words.text.signature == "s3"
    assert isinstance(use, ToolUsePart)
    assert use.tool_use.signature == "s4"


def test_a_message_without_an_id_does_not_become_the_leaf(read: Read) -> None:
    messages = [record(name, "user", text("Hello")) for name in ("a", "", "c")]
    session = read(*messages)
    assert session.path() == session.entries
    assert len(session.entries) == 3


async def test_a_fully_reverted_session_shows_nothing(read: Read, tmp_path: Path, read_sessions: ReadSessions) -> None:
    messages = [record(name, "user", text("Hello")) for name in ("a", "b")]
    path = export_file(tmp_path, *messages, revert={"messageID": "a"})
    (session,) = read_sessions(path)
    assert [entry.type for entry in session.path()] == ["custom"]
    assert [entry.timestamp.timestamp() for entry in session.path()] == [5]
    assert session.roles == ["user", "user"]
    async with SessionHost(tmp_path / "sessions") as host:
        for _ in range(2):
            (report,) = await host.import_sessions(path)
            assert (await (await host.load(report.id)).context()).messages == ()
    session = read(revert={"messageID": "a"})
    assert session.entries == []

"""What messages of opencode say: steps with their usage, summaries that came to an end and others, signatures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treering import SessionHost
from treering.events.content import TextPart, ThinkingPart, ToolResultPart, ToolUsePart, image, plain_text, tool_result
from treering.events.content import text as words
from treering.events.entries import CompactionEntry, Message, Usage

from .conftest import Take

Part = dict[str, object]
BEGIN: Part = {"type": "step-start"}


def text(said: str, **more: object) -> Part:
    return {"type": "text", "text": said, **more}


def call(call_id: str, start: int = 0) -> Part:
    times = {"start": start, "end": start + 5}
    state = {"status": "completed", "input": {}, "output": f"result of {call_id}", "time": times}
    return {"type": "tool", "callID": call_id, "tool": "read", "state": state}


def tokens(given: int, answered: int) -> Part:
    return {"input": given, "output": answered, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def finish(given: int, answered: int, cost: float) -> Part:
    return {"type": "step-finish", "tokens": tokens(given, answered), "cost": cost}


def said(name: str, role: str, *parts: Part, **more: object) -> Part:
    info = {"id": name, "role": role, "time": {"created": 1000}, **more}
    return {"info": info, "parts": list(parts)}


def exported(folder: Path, *messages: Part, **more: object) -> Path:
    path = folder / "exported.json"
    info = {"id": "ses_1", "directory": "/work", "time": {"created": 0, "updated": 5000}, **more}
    path.write_text(json.dumps({"info": info, "messages": messages}))
    return path


def calls(message: Message) -> list[str]:
    return [part.tool_use.id for part in message.content if isinstance(part, ToolUsePart)]


def results(message: Message) -> list[str]:
    return [part.tool_result.tool_use_id for part in message.content if isinstance(part, ToolResultPart)]


def test_a_file_that_is_no_image_is_named_wherever_it_stands(tmp_path: Path, take: Take) -> None:
    page: Part = {"type": "file", "mime": "application/pdf", "url": "data:application/pdf;base64,aGk="}
    named, film = page | {"filename": "a.pdf"}, page | {"mime": "video/mp4", "url": "file:///a.mp4"}
    picture: Part = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}
    read = call("c1")
    read["state"] = {"status": "completed", "input": {}, "output": "It was read.", "attachments": [page, picture]}
    path = exported(tmp_path, said("a", "user", page, named, film), said("b", "assistant", BEGIN, read, parentID="a"))
    (session,) = take(path)
    prompt, _, result = session.messages
    assert prompt.content == tuple(map(words, ("[file: application/pdf]", "[file: a.pdf]", "[file: file:///a.mp4]")))
    told, pages = words("It was read."), words("[file: application/pdf]")
    assert result.content == (tool_result("c1", [told, pages, image("aGk=", "image/png")]),)


def test_each_step_is_an_answer_with_its_usage_and_its_results(tmp_path: Path, take: Take) -> None:
    first = (BEGIN, text("Look."), call("c1"), finish(100, 10, 0.01))
    second = (BEGIN, call("c2", 2000), call("c3"), finish(200, 20, 0.02))
    third = (BEGIN, text("Done."), finish(300, 30, 0.03))
    spent = {"tokens": tokens(300, 30), "cost": 0.06}
    (session,) = take(exported(tmp_path, said("m", "assistant", *first, *second, *third, finish="stop", **spent)))
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
    begun = [entry.timestamp.timestamp() for entry in session.of("message")]
    assert begun[2] == 2, "a step begins when its first part does"


def test_steps_without_calls_are_told_apart_and_their_usage_is_kept(tmp_path: Path, take: Take) -> None:
    steps = (BEGIN, text("One."), finish(1, 1, 0.0), BEGIN, text("Two."), finish(2, 2, 0.0), BEGIN, finish(3, 0, 0.0))
    (session,) = take(exported(tmp_path, said("m", "assistant", *steps)))
    assert [plain_text(message.content) for message in session.messages] == ["One.", "Two.", ""]
    assert [message.usage and message.usage.total_tokens for message in session.messages] == [2, 4, 3]


def test_what_is_said_behind_a_call_of_the_same_step_stays_with_it(tmp_path: Path, take: Take) -> None:
    (session,) = take(exported(tmp_path, said("m", "assistant", BEGIN, call("c1"), text("Now."), finish(1, 1, 0.0))))
    assert session.roles == ["assistant", "tool"]
    assert plain_text(session.messages[0].content) == "Now."


def test_a_retry_before_a_step_makes_no_step(tmp_path: Path, take: Take) -> None:
    retry: Part = {"type": "retry", "attempt": 1}
    (session,) = take(exported(tmp_path, said("m", "assistant", BEGIN, retry, text("Hello."), finish(1, 1, 0.0))))
    assert [plain_text(message.content) for message in session.messages] == ["Hello."]
    assert [entry.type for entry in session.entries] == ["message", "custom"]


@pytest.mark.parametrize("untold", [{}, {"tokens": None}, {"tokens": {}}], ids=str)
def test_a_step_that_tells_no_tokens_leaves_those_of_the_message(tmp_path: Path, take: Take, untold: Part) -> None:
    end: Part = {"type": "step-finish", **untold}
    message = said("m", "assistant", BEGIN, text("Hello."), end, tokens=tokens(40, 2), cost=0.5)
    (session,) = take(exported(tmp_path, message))
    assert session.messages[0].usage == Usage(40, 2, 0, 0, 42, 0.5)


ASKED = said("m1", "user", text("Remember 42."))
TOLD = said("m2", "assistant", text("I will."), finish="stop")
WISH = said("m3", "user", {"type": "compaction", "auto": False})
ABORTED: Part = {"name": "MessageAbortedError", "data": {"message": "stopped"}}


@pytest.mark.parametrize("parts", [(), (BEGIN, text("They want"))], ids=["nothing", "something"])
async def test_a_summary_that_failed_hides_nothing(tmp_path: Path, parts: tuple[Part, ...]) -> None:
    failed = said("m4", "assistant", *parts, summary=True, error=ABORTED, tokens=tokens(9, 1), cost=0.5)
    path = exported(tmp_path, ASKED, TOLD, WISH, failed, said("m5", "user", text("Which?")))
    async with SessionHost(tmp_path / "sessions") as host:
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


def test_a_summary_that_is_still_written_leaves_its_id_to_the_compaction(tmp_path: Path, take: Take) -> None:
    half = said("m4", "assistant", BEGIN, text("They want"), summary=True)
    (session,) = take(exported(tmp_path, ASKED, TOLD, WISH, half))
    assert [plain_text(message.content) for message in session.messages] == ["Remember 42.", "I will.", "They want"]
    assert "m4" not in {entry.id for entry in session.entries}
    whole = said("m4", "assistant", BEGIN, text("They want 42."), finish(9, 1, 0.5), summary=True, finish="stop")
    (session,) = take(exported(tmp_path, ASKED, TOLD, WISH, whole))
    (entry,) = session.of("compaction")
    assert entry.id == "m4"


@pytest.mark.parametrize("end", [{"finish": "stop"}, {"time": {"created": 1, "completed": 2}}, {}], ids=str)
def test_a_summary_that_came_to_an_end_is_a_compaction(tmp_path: Path, take: Take, end: Part) -> None:
    (session,) = take(exported(tmp_path, ASKED, TOLD, WISH, said("m4", "assistant", text("42."), summary=True, **end)))
    (entry,) = session.of("compaction")
    assert isinstance(entry, CompactionEntry)
    assert (entry.id, entry.compaction.summary, entry.compaction.usage) == ("m4", "42.", None)


@pytest.mark.parametrize("parts", [(finish(500, 50, 0.09),), ()], ids=["step", "message"])
def test_a_compaction_tells_what_it_used(tmp_path: Path, take: Take, parts: tuple[Part, ...]) -> None:
    spent = {"tokens": tokens(500, 50), "cost": 0.09}
    summary = said("m4", "assistant", BEGIN, text("42."), *parts, summary=True, finish="stop", **spent)
    (session,) = take(exported(tmp_path, ASKED, TOLD, WISH, summary))
    (entry,) = session.of("compaction")
    assert isinstance(entry, CompactionEntry)
    assert entry.compaction.usage == Usage(500, 50, 0, 0, 550, 0.09)


def test_what_a_provider_signed_is_kept(tmp_path: Path, take: Take) -> None:
    thought: Part = {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "s1"}}}
    sealed: Part = {"type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "s2"}}}
    spoken = text("Look.", metadata={"google": {"thoughtSignature": "s3"}, "odd": 7})
    called = {**call("c1"), "metadata": {"google": {"thoughtSignature": "s4"}}}
    unsigned: Part = {"type": "reasoning", "text": "So.", "metadata": {"openai": {"itemId": "rs_1"}, "sure": "no"}}
    (session,) = take(exported(tmp_path, said("m", "assistant", thought, sealed, unsigned, spoken, called)))
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


def test_a_message_without_an_id_is_not_where_the_session_stands(tmp_path: Path, take: Take) -> None:
    messages = [said(name, "user", text("Hello")) for name in ("a", "", "c")]
    (session,) = take(exported(tmp_path, *messages))
    assert session.path() == session.entries
    assert len(session.entries) == 3


async def test_a_session_of_which_all_was_reverted_stands_before_everything(tmp_path: Path, take: Take) -> None:
    messages = [said(name, "user", text("Hello")) for name in ("a", "b")]
    path = exported(tmp_path, *messages, revert={"messageID": "a"})
    (session,) = take(path)
    assert [entry.type for entry in session.path()] == ["custom"]
    assert [entry.timestamp.timestamp() for entry in session.path()] == [5]
    assert session.roles == ["user", "user"]
    async with SessionHost(tmp_path / "sessions") as host:
        for _ in range(2):
            (report,) = await host.import_sessions(path)
            assert (await (await host.load(report.id)).context()).messages == ()
    (session,) = take(exported(tmp_path, revert={"messageID": "a"}))
    assert session.entries == []

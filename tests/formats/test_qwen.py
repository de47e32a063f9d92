"""Sessions of Qwen Code: branches, results, compressions, titles, sub-agents, and what no message stands for."""

import json
from collections import Counter
from pathlib import Path

import pytest

from treering.events.content import ThinkingPart, ToolResultPart, plain_text
from treering.events.entries import CompactionEntry, CustomEntry, MessageEntry, SessionInfoEntry, Usage, UsageEntry
from treering.events.errors import ForeignFormatError
from treering.events.findings import LeftOut

from .conftest import ParsedSession, Read, ReadSessions

TIME = "2026-03-01T09:00:00.000Z"
Value = dict[str, object]


def line(kind: str, uuid: str, parent: str | None, **fields: object) -> Value:
    place = {"uuid": uuid, "parentUuid": parent, "sessionId": "q-1", "timestamp": TIME, "type": kind}
    return {**place, "cwd": "/work/bakery", "version": "0.15.10", **fields}


def said(kind: str, uuid: str, parent: str | None, *parts: Value, **fields: object) -> Value:
    role = "model" if kind == "assistant" else "user"
    return line(kind, uuid, parent, message={"role": role, "parts": [*parts]}, **fields)


def system(uuid: str, parent: str | None, subtype: str, **payload: object) -> Value:
    return line("system", uuid, parent, subtype=subtype, systemPayload=payload)


def called(call_id: str, name: str = "run_shell_command") -> Value:
    return {"functionCall": {"id": call_id, "name": name, "args": {"command": "ls"}}}


def answered(call_id: str, **response: object) -> Value:
    return {"functionResponse": {"id": call_id, "name": "run_shell_command", "response": response}}


ASKED = said("user", "u1", None, {"text": "Plant."})
SAID = said("assistant", "a1", "u1", {"text": "Where?"}, model="qwen3")


@pytest.fixture
def read(tmp_path: Path, read_sessions: ReadSessions) -> Read:
    """Read lines as the only session of a file."""

    def read(*values: object, name: str = "q-1.jsonl") -> ParsedSession:
        path = tmp_path / name
        path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in values))
        (session,) = read_sessions(path)
        return session

    return read


def texts(session: ParsedSession, leaf: str | None = None) -> list[str]:
    return [plain_text(each.message.content) for each in session.path(leaf) if isinstance(each, MessageEntry)]


def test_what_the_program_wrote_is_read_whole(data: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "qwen" / "qwen.jsonl")
    assert (session.header.id, session.header.cwd) == ("f11b4c80-ee30-440f-8935-6ef017c91e41", "/work/bakery")
    assert Counter(session.roles) == {"user": 4, "assistant": 6, "tool": 3}
    assert session.codes() == []
    asked, answer, read, missing, *_ = session.messages
    assert asked.metadata["asked"] == [0, len("What is in the bread? See @bread.md")]
    assert asked.metadata["cwd"] == "/work/bakery"
    assert "Flour, water, salt." in plain_text(asked.content)
    assert [type(part).__name__ for part in answer.content] == [
        "ThinkingPart",
        "TextPart",
        "ToolUsePart",
        "ToolUsePart",
    ]
    assert isinstance(answer.content[0], ThinkingPart)
    assert (answer.model, answer.provider, answer.content[0].thinking.content) == (
        "qwen3-coder", None, "The recipe is in bread.md."
    )  # fmt: skip
    assert answer.usage == Usage(5000, 40, total_tokens=5040)
    results = [
        part.tool_result for each in (read, missing) for part in each.content if isinstance(part, ToolResultPart)
    ]
    assert [(each.tool_use_id, each.is_error) for each in results] == [("call_1_0", False), ("call_1_1", True)]
    assert [each.tool_name for each in (read, missing)] == ["run_shell_command", "read_file"]
    (compaction,) = session.of("compaction")
    assert isinstance(compaction, CompactionEntry)
    kept = next(each for each in session.entries if each.id == compaction.compaction.first_kept_entry_id)
    assert isinstance(kept, MessageEntry)
    assert plain_text(kept.message.content) == "Ask a helper to weigh."
    assert compaction.compaction.tokens_before == 5040
    failed = session.messages[-1]
    assert (failed.content, failed.stop_reason, failed.error) == ((), "error", "400 the oven is cold")


def test_two_processes_in_one_file_and_a_rewind_make_branches(read: Read) -> None:
    session = read(
        ASKED,
        SAID,
        system("t1", "a1", "ui_telemetry", uiEvent={}),
        said("user", "u2", "t1", {"text": "Here."}),
        said("user", "u3", "a1", {"text": "There."}),
        said("assistant", "a2", "u2", {"text": "One."}),
        said("assistant", "a3", "u3", {"text": "Two."}),
    )
    assert texts(session, "a2") == ["Plant.", "Where?", "Here.", "One."]
    assert texts(session) == ["Plant.", "Where?", "There.", "Two."]
    rewound = read(ASKED, SAID, said("user", "u2", "a1", {"text": "Here."}), system("w1", "a1", "rewind", truncated=1))
    assert texts(rewound) == ["Plant.", "Where?"]
    assert isinstance(rewound.entries[-1], CustomEntry)
    assert (rewound.entries[-1].parent_id, rewound.entries[-1].custom.custom_type) == ("a1", "qwen.rewind")
    emptied = read(ASKED, SAID, system("w1", None, "rewind"), said("user", "u2", "w1", {"text": "Anew."}))
    assert texts(emptied) == ["Anew."]


def test_a_line_without_its_parent_follows_the_line_before_and_is_reported(read: Read) -> None:
    later = [said("user", "u2", "gone", {"text": "Here."}), said("assistant", "a2", "u2", {"text": "Done."})]
    session = read(ASKED, SAID, *later)
    assert texts(session) == ["Plant.", "Where?", "Here.", "Done."]
    (finding,) = session.findings
    assert (finding.code, finding.line) == ("parent_missing", 3)
    assert read(*later).codes() == []  # nothing is lost of a file that begins in the middle


def test_a_line_glued_to_a_torn_one_is_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "q-1.jsonl"
    first, second = (json.dumps(each, separators=(",", ":")) for each in (ASKED, SAID))
    path.write_text(f'{first}\n{{"uuid":"x","parentUuid":"u1","mess{second}\n')
    (session,) = read_sessions(path)
    assert texts(session) == ["Plant.", "Where?"]
    assert session.codes() == ["damaged"]


def test_lines_with_one_id_are_parts_of_one_place(read: Read) -> None:
    session = read(
        ASKED, SAID, said("assistant", "a1", "u1", {"text": "In the bed?"}), said("user", "u2", "a1", {"text": "Yes."})
    )
    assert texts(session) == ["Plant.", "Where?", "In the bed?", "Yes."]


def test_a_failed_or_cancelled_call_is_an_error_and_results_keep_their_images(read: Read) -> None:
    picture: Value = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    told: Value = {"id": "c3", "name": "look", "response": {"output": "It"}, "parts": [picture]}
    pictured: Value = {"functionResponse": told}
    session = read(
        ASKED,
        said("assistant", "a1", "u1", called("c1"), called("c2"), called("c3", "look")),
        said("tool_result", "r1", "a1", answered("c1", error="No such bed"), toolCallResult={"callId": "c1"}),
        said("tool_result", "r2", "r1", answered("c2", output="Stopped"),
             toolCallResult={"callId": "c2", "status": "cancelled", "resultDisplay": "Stopped"}),
        said("tool_result", "r3", "r2", pictured, {"text": "And water it."}),
    )  # fmt: skip
    results = [part.tool_result for each in session.messages for part in each.content if part.type == "tool_result"]
    assert [(each.tool_use_id, each.is_error, each.text) for each in results] == [
        ("c1", True, "No such bed"), ("c2", True, "Stopped"), ("c3", False, "It")
    ]  # fmt: skip
    assert [each.type for each in results[2].content if not isinstance(each, str)] == ["text", "image"]
    assert (session.roles[-2:], texts(session)[-1]) == (["tool", "user"], "And water it.")


def test_a_compression_whose_history_is_another_is_written_below_it(read: Read) -> None:
    content = [{"role": "user", "parts": [{"text": "Sum."}]}, {"role": "model", "parts": [{"text": "I go on."}]}]
    session = read(
        ASKED,
        SAID,
        system("k1", "a1", "chat_compression", info={"originalTokenCount": 90}, compressedHistory=content),
        said("user", "u2", "k1", {"text": "Here."}),
    )
    (compaction,) = session.of("compaction")
    assert isinstance(compaction, CompactionEntry)
    assert (compaction.compaction.summary, compaction.compaction.first_kept_entry_id) == ("Sum.", None)
    assert texts(session) == ["Plant.", "Where?", "I go on.", "Here."]
    assert session.entries == read(
        ASKED, SAID, system("k1", "a1", "chat_compression", info={"originalTokenCount": 90}, compressedHistory=content),
        said("user", "u2", "k1", {"text": "Here."}),
    ).entries  # fmt: skip


def test_the_title_of_a_person_is_an_entry_and_that_of_the_program_is_in_the_header(read: Read) -> None:
    titles = [
        system("t1", "a1", "custom_title", customTitle="Beds", titleSource="auto"),
        system("t2", "t1", "custom_title", customTitle="Flower beds", titleSource="manual"),
        system("t3", "t2", "custom_title", customTitle="Flower beds", titleSource="manual"),
    ]
    assert read(ASKED, SAID, titles[0]).header.title == "Beds"
    session = read(ASKED, SAID, *titles, said("user", "u2", "t3", {"text": "Here."}))
    assert session.header.title is None
    (info,) = session.of("session_info")
    assert isinstance(info, SessionInfoEntry)
    assert (info.session_info.name, info.aside) == ("Flower beds", True)
    assert texts(session) == ["Plant.", "Where?", "Here."]


def test_a_sub_agent_is_a_session_of_its_own_that_names_its_parent(tmp_path: Path, read_sessions: ReadSessions) -> None:
    folder = tmp_path / "subagents" / "q-1"
    folder.mkdir(parents=True)
    own = {"agentId": "weigher-1", "agentName": "weigher", "isSidechain": True}
    lines = [{**ASKED, **own}, {**system("s1", "u1", "agent_launch_prompt", displayText="Weigh it."), **own}]
    (folder / "agent-weigher-1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (folder / "agent-weigher-1.meta.json").write_text(json.dumps({"description": "Weigh flour"}))
    (session,) = read_sessions(tmp_path)
    header = session.header
    assert (header.id, header.parent_session, header.title) == ("q-1.agent-weigher-1", "q-1", "Weigh flour")
    assert [each.type for each in session.entries] == ["message", "custom"]


def test_what_is_no_message_is_kept_left_out_or_counted(read: Read) -> None:
    noted = "Not in the bed."
    session = read(
        {**ASKED, "note": noted},
        system("c1", "u1", "slash_command", phase="invocation", rawCommand="/about it"),
        system("n1", "c1", "weather_report", text=noted),
        system("n2", "n1", "heartbeat", at=TIME),
        line("assistant", "a1", "n2", usageMetadata={"promptTokenCount": 9, "totalTokenCount": 9}),
        said(
            "user", "u2", "a1", {"text": "<task-notification>It is done.</task-notification>"}, subtype="notification"
        ),
        {**line("banner", "x1", "u2"), "banner": noted},
    )
    assert [each.custom.custom_type for each in session.entries if isinstance(each, CustomEntry)] == [
        "qwen.slash_command", "qwen.weather_report"
    ]  # fmt: skip
    assert [each.usage.usage.total_tokens for each in session.entries if isinstance(each, UsageEntry)] == [9]
    assert session.messages[-1].metadata == {"is_meta": True}
    left_out = {each.kind: each.count for each in session.findings if isinstance(each, LeftOut)}
    assert left_out == {
        "line field note": 1, "line field banner": 1, "line of kind weather_report": 1, "line of kind banner": 1
    }  # fmt: skip


def test_words_in_the_form_of_another_program_are_not_lost(read: Read) -> None:
    odd = line("user", "u2", "a1", message={"role": "user", "content": [{"type": "text", "text": "Here."}]})
    plain = line("user", "u3", "u2", message={"role": "user", "content": "There."})
    assert texts(read(ASKED, SAID, odd, plain)) == ["Plant.", "Where?", "Here.", "There."]


def test_thinking_that_the_output_does_not_count_is_added_to_it(read: Read) -> None:
    tokens = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}
    beside, within = (
        read(ASKED, {**SAID, "usageMetadata": {**tokens, "totalTokenCount": total}}).messages[1].usage
        for total in (18, 15)
    )
    assert beside == Usage(6, 8, cache_read_tokens=4, total_tokens=18)
    assert within == Usage(6, 5, cache_read_tokens=4, total_tokens=15)


def test_a_session_of_a_neighbour_is_refused(data: Path, read_sessions: ReadSessions) -> None:
    for neighbour in ("claude_code/work.jsonl", "gemini/gemini.jsonl", "codex/codex.jsonl"):
        with pytest.raises(ForeignFormatError, match="no lines of a Qwen Code session"):
            read_sessions(data / neighbour, "qwen")

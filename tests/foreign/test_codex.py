"""Rollouts of Codex: items become messages in turns, events what no item says, rollbacks branches."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from treering.events.content import ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, plain_text
from treering.events.entries import (
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    Usage,
)
from treering.events.errors import ExtraMissing, ForeignFormatError

from .conftest import Take

TIME = "2026-03-01T09:00:00.000Z"


def rollout(path: Path, *lines: dict[str, object]) -> Path:
    meta = {"timestamp": TIME, "type": "session_meta", "payload": {"id": "s1", "timestamp": TIME, "cwd": "/work"}}
    path.write_text("".join(json.dumps(line) + "\n" for line in (meta, *lines)))
    return path


def item(**payload: object) -> dict[str, object]:
    return {"timestamp": TIME, "type": "response_item", "payload": payload}


def said(role: str, text: str, **more: object) -> dict[str, object]:
    return item(type="message", role=role, content=[{"type": "input_text", "text": text}], **more)


def test_a_rollout_becomes_a_session(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    header = session.header
    assert (header.id, header.cwd) == ("01999999-0000-7000-8000-000000000001", "/work/bakery")
    assert header.parent_session == "01999999-0000-7000-8000-000000000000"
    assert header.timestamp.isoformat() == "2026-03-01T09:00:00+00:00"
    texts = [plain_text(message.content) for message in session.messages]
    assert texts[0] == "Work in the sandbox."
    assert session.roles == [
        *("system", "user", "user", "assistant", "tool", "tool", "assistant", "user", "assistant"),  # rolled back here
        *("user", "assistant", "user", "user"),
    ]
    assert texts[-3:] == ["Restored.", "Restore it from git.", "Thanks."]
    assert [entry.id for entry in session.entries if entry.id.startswith("msg_")] == [
        f"msg_{n}" for n in (1, 2, 3, 4, 5, 6, 7)
    ]
    assert session.codes() == []


def test_what_was_called_together_stays_together_with_its_runs_and_usage(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    answer = next(entry for entry in session.entries if isinstance(entry, MessageEntry) and entry.message.has_calls)
    thought, first, second = answer.message.content
    assert isinstance(thought, ThinkingPart)
    assert (thought.thinking.content, thought.thinking.signature) == ("Two files matter.", "sealed==")
    assert isinstance(first, ToolUsePart)
    assert isinstance(second, ToolUsePart)
    assert first.tool_use.input == {"command": ["cat", "oven.py"]}
    assert second.tool_use.input == {"input": "*** Begin Patch"}
    assert answer.message.usage == Usage(600, 200, 400, 0, 1200)
    assert (answer.message.provider, answer.message.model) == ("openai", "gpt-5")
    (run,) = (entry.tool_execution for entry in session.entries if isinstance(entry, ToolExecutionEntry))
    assert (run.tool_call_id, run.tool_name, run.exit_code, run.duration_ms) == ("call_1", "shell", 2, 1500)
    assert not run.success
    assert [message.tool_name for message in session.messages if message.role == "tool"] == ["shell", "apply_patch"]
    user = session.messages[2].content
    assert [type(part) for part in user] == [TextPart, ImagePart]


def test_models_levels_and_titles_are_entries(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    models = [entry.model_change.model_id for entry in session.entries if isinstance(entry, ModelChangeEntry)]
    levels = [entry.thinking_level.thinking_level for entry in session.entries if isinstance(entry, ThinkingLevelEntry)]
    names = [entry.session_info.name for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    assert (models, levels, names) == (["gpt-5", "gpt-5-mini"], ["medium"], ["Oven test"])


def test_what_was_rolled_back_stays_on_its_branch(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    path = [entry.id for entry in session.path()]
    assert "msg_2" in path
    assert not {"msg_3", "msg_4"} & set(path)
    assert [entry.id for entry in session.path("msg_4")][-2:] == ["msg_3", "msg_4"]


def test_a_rollback_at_the_end_is_where_the_session_stands(tmp_path: Path, take: Take) -> None:
    back: dict[str, object] = {
        "timestamp": TIME,
        "type": "event_msg",
        "payload": {"type": "thread_rolled_back", "num_turns": 2},
    }
    path = rollout(tmp_path / "r.jsonl", *(said("user", str(n), id=f"u{n}") for n in range(3)), back)
    (session,) = take(path)
    assert [entry.id for entry in session.path()][:-1] == ["u0"]
    assert isinstance(session.entries[-1], CustomEntry)


def test_a_compaction_is_followed_by_what_codex_put_in_the_place_of_the_history(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    assert entry.compaction.summary == "Summary: oven.py was restored."
    assert entry.compaction.first_kept_entry_id is None
    assert entry.compaction.tokens_before == 1200
    after = session.path()[[each.id for each in session.path()].index(entry.id) + 1 :]
    texts = [plain_text(each.message.content) for each in after if isinstance(each, MessageEntry)]
    assert texts == ["Restore it from git.", "Thanks."]


def test_what_is_left_out_is_counted_by_kind(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    told = {each.message: each.severity for each in session.findings}
    assert set(told.values()) == {"note"}
    assert any("event_msg user_message" in message and message.startswith("1 record ") for message in told)
    assert any("world_state" in message for message in told)
    assert any("token_count, repeated" in message for message in told)


def test_what_has_no_message_to_be_is_kept_beside_the_conversation(data: Path, take: Take) -> None:
    (session,) = take(data / "codex.jsonl")
    customs = [entry.custom for entry in session.entries if isinstance(entry, CustomEntry)]
    search = next(custom for custom in customs if custom.custom_type == "codex.web_search_call")
    assert isinstance(search.data, dict)
    assert search.data["action"] == {"type": "search", "query": "git restore"}


def test_a_line_that_was_written_twice_counts_once(tmp_path: Path, take: Take) -> None:
    line = {**said("user", "Hello"), "ordinal": 3}
    (session,) = take(rollout(tmp_path / "r.jsonl", line, line, said("user", "Hello"), said("user", "Hello")))
    assert session.roles == ["user"] * 3
    assert session.codes() == ["duplicate"]


def test_a_whole_line_behind_a_torn_one_is_read(tmp_path: Path, take: Take) -> None:
    path = rollout(tmp_path / "r.jsonl", said("user", "first"))
    torn, whole = json.dumps(said("user", "lost")), json.dumps(said("user", "second"))
    with path.open("a") as file:
        file.write(torn[: len(torn) // 2] + whole + "\n")
    (session,) = take(path)
    assert [plain_text(message.content) for message in session.messages] == ["first", "second"]
    (finding,) = session.findings
    assert (finding.code, finding.line) == ("damaged", 3)
    assert finding.byte is not None
    assert path.read_bytes()[finding.byte :].startswith(torn[:10].encode())


def test_a_result_that_comes_late_stands_behind_its_call(tmp_path: Path, take: Take) -> None:
    def call(n: int) -> dict[str, object]:
        return item(type="function_call", call_id=f"c{n}", name="run", arguments="{}")

    def output(n: int) -> dict[str, object]:
        return item(type="function_call_output", call_id=f"c{n}", output=str(n))

    (session,) = take(rollout(tmp_path / "r.jsonl", call(1), call(2), output(2), call(3), output(3), output(1)))
    assert session.roles == ["assistant", "tool", "tool", "tool"]


def test_the_first_versions_lines_without_envelope_are_read(tmp_path: Path, take: Take) -> None:
    path = tmp_path / "rollout-old.jsonl"
    head: dict[str, object] = {"id": "old-1", "timestamp": TIME, "instructions": None}
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    path.write_text(json.dumps(head) + "\n" + json.dumps(hello) + "\n" + '{"record_type":"state"}\n')
    (session,) = take(path)
    assert session.header.id == "old-1"
    assert session.roles == ["user"]


def test_a_cold_file_reads_like_a_warm_one(data: Path, tmp_path: Path, take: Take) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "rollout-cold.jsonl.zst"
    path.write_bytes(zstandard.compress((data / "codex.jsonl").read_bytes()))
    (warm,), (cold,) = take(data / "codex.jsonl"), take(path)
    assert (cold.header, cold.entries, cold.leaf_id) == (warm.header, warm.entries, warm.leaf_id)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ForeignFormatError):
        take(path)
    noise = said("user", Random(1).randbytes(100_000).hex())
    path.write_bytes(zstandard.compress((data / "codex.jsonl").read_bytes() + json.dumps(noise).encode()))
    assert len(take(path)[0].entries) == len(warm.entries) + 1


def test_a_cold_file_names_what_it_needs(
    data: Path, tmp_path: Path, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "rollout-cold.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(ExtraMissing, match=r"treering\[zstd\]"):
        take(path, "codex")


def test_all_rollouts_below_a_folder_are_read(data: Path, tmp_path: Path, take: Take) -> None:
    folder = tmp_path / "2026" / "03" / "01"
    folder.mkdir(parents=True)
    (folder / "rollout-1.jsonl").write_bytes((data / "codex.jsonl").read_bytes())
    rollout(folder / "rollout-2.jsonl", said("user", "Hello"))
    assert [session.header.id[:4] for session in take(tmp_path)] == ["0199", "s1"]


def test_a_session_that_went_on_keeps_the_ids_that_it_had(data: Path, tmp_path: Path, take: Take) -> None:
    path = tmp_path / "rollout.jsonl"
    lines = (data / "codex.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:17]))
    (before,) = take(path)
    path.write_bytes(b"".join(lines))
    (after,) = take(path)
    assert after.entries[: len(before.entries)] == before.entries


def test_the_record_of_a_run_stands_behind_its_result_whenever_it_came(tmp_path: Path, take: Take) -> None:
    call = item(type="function_call", call_id="c1", name="run", arguments="{}")
    output = item(type="function_call_output", call_id="c1", output={"content": "no", "success": False})
    ended: dict[str, object] = {
        "timestamp": TIME,
        "type": "event_msg",
        "payload": {
            "type": "mcp_tool_call_end",
            "call_id": "c1",
            "duration": {"secs": 2, "nanos": 0},
            "result": {"Err": "x"},
        },
    }
    for lines in ((call, ended, output), (call, output, ended)):
        (session,) = take(rollout(tmp_path / "r.jsonl", *lines))
        assert [entry.type for entry in session.entries] == ["message", "message", "tool_execution"]
        entry = session.entries[-1]
        assert isinstance(entry, ToolExecutionEntry)
        assert (entry.tool_execution.success, entry.tool_execution.duration_ms) == (False, 2000)
        (part,) = session.messages[1].content
        assert isinstance(part, ToolResultPart)
        assert (part.tool_result.content, part.tool_result.is_error) == ("no", True)


def test_a_compaction_of_older_versions_is_followed_by_the_latest_prompts(tmp_path: Path, take: Take) -> None:
    def compacted(summary: str) -> dict[str, object]:
        return {"timestamp": TIME, "type": "compacted", "payload": {"message": summary}}

    payload = {"type": "thread_rolled_back", "num_turns": 1}
    rolled_back: dict[str, object] = {"timestamp": TIME, "type": "event_msg", "payload": payload}
    path = rollout(
        tmp_path / "old.jsonl",
        said("user", "<environment_context>here</environment_context>"),
        said("user", "too long ago"),
        said("user", "é" * 40_000),
        said("assistant", "Yes."),
        said("user", "what is taken back"),
        rolled_back,
        said("user", "the latest"),
        compacted("So far."),
        said("user", "go on"),
        compacted("Further."),
        said("assistant", "Done."),
    )
    (session,) = take(path)
    first, second = session.of("compaction")
    (_, *shown) = session.path()[session.path().index(second) :]
    texts = [plain_text(entry.message.content) for entry in shown if isinstance(entry, MessageEntry)]
    assert texts == ["é" * ((80_000 - len("the latestgo on")) // 2), "the latest", "go on", "Done."]
    between = session.path()[session.path().index(first) + 1 : session.path().index(second)]
    assert len([entry for entry in between if isinstance(entry, MessageEntry)]) == 3


@pytest.mark.parametrize(
    "injected",
    [
        "<skill>\n<name>deploy</name>\n</skill>",
        " <SUBAGENT_NOTIFICATION>done",
        "<additional_context>x",
        "# AGENTS.md for /w",
    ],
)
def test_what_codex_says_in_the_users_place_is_no_turn(injected: str, tmp_path: Path, take: Take) -> None:
    path = rollout(
        tmp_path / "rollout.jsonl",
        said("user", "one"),
        said("assistant", "first"),
        said("user", "two"),
        said("user", injected),
        said("assistant", "second"),
        {"timestamp": TIME, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        said("user", "three"),
    )
    (session,) = take(path)
    by_id = {entry.id: entry for entry in session.entries}
    rolled_back = by_id[session.entries[-1].parent_id or ""]
    assert isinstance(rolled_back, CustomEntry)
    before = by_id[rolled_back.parent_id or ""]
    assert isinstance(before, MessageEntry)
    assert plain_text(before.message.content) == "first"


def test_parts_that_have_no_place_here_are_told(tmp_path: Path, take: Take) -> None:
    sound = {"type": "input_audio", "audio_url": "data:audio/wav;base64,AAAA"}
    path = rollout(
        tmp_path / "rollout.jsonl",
        item(type="message", role="user", content=[{"type": "input_text", "text": "listen"}, sound]),
        item(type="message", role="user", content=[{"type": "input_image", "file_id": "file_1"}, sound]),
        item(type="function_call", name="f", arguments="{}", call_id="c1"),
        item(
            type="function_call_output", call_id="c1", output=[{"type": "encrypted_content", "encrypted_content": "x"}]
        ),
    )
    (session,) = take(path)
    told = {each.message.split(" left out")[0] for each in session.findings if each.code == "part_left_out"}
    assert told == {"2 parts of kind input_audio", "1 part of kind input_image", "1 part of kind encrypted_content"}


def test_what_another_agent_says_is_taken_in(tmp_path: Path, take: Take) -> None:
    told = {"author": "/root", "recipient": "/root/tester", "content": "Run it again.", "trigger_turn": True}
    line: dict[str, object] = {"timestamp": TIME, "type": "inter_agent_communication", "payload": told}
    (session,) = take(rollout(tmp_path / "rollout.jsonl", line, said("assistant", "It passes.")))
    first = session.entries[0]
    assert isinstance(first, CustomMessageEntry)
    assert plain_text(first.custom_message.content) == "Run it again."
    assert first.custom_message.details == told


@pytest.mark.parametrize(
    ("more", "parent"),
    [
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}}, "p"),
        ({"source": {"subagent": "review"}}, None),
        ({"source": "cli", "parent_thread_id": "p"}, "p"),
        ({"forked_from_id": "f", "parent_thread_id": "p"}, "f"),
    ],
)
def test_a_rollout_names_its_parent(more: dict[str, object], parent: str | None, tmp_path: Path, take: Take) -> None:
    meta = {"timestamp": TIME, "type": "session_meta", "payload": {"id": "s1", "timestamp": TIME, **more}}
    path = tmp_path / "rollout.jsonl"
    path.write_text(json.dumps(meta) + "\n" + json.dumps(said("user", "Hello")) + "\n")
    (session,) = take(path)
    assert session.header.parent_session == parent


def test_a_fork_says_where_its_conversation_begins(tmp_path: Path, take: Take) -> None:
    given = {"id": "s2", "timestamp": TIME, "forked_from_id": "s1", "history_base": {"thread_id": "s1"}}
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (
        {"timestamp": TIME, "type": "session_meta", "payload": given}, said("user", "Go on.")
    )))  # fmt: skip
    (session,) = take(path)
    assert session.codes() == ["history_elsewhere"]


def test_a_rollout_of_the_first_version_needs_no_instructions(tmp_path: Path, take: Take) -> None:
    lines = [{"id": "s1", "timestamp": TIME}, {"type": "message", "role": "user", "content": [{"text": "Hello"}]}]
    path = tmp_path / "rollout-2025-05-01-s1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (session,) = take(path)
    assert (session.header.id, session.roles) == ("s1", ["user"])
    other = path.rename(tmp_path / "points.jsonl")  # such a line says too little by itself
    with pytest.raises(ForeignFormatError):
        take(other)


def test_usage_that_is_told_ahead_is_of_no_answer_before_it(tmp_path: Path, take: Take) -> None:
    def used(total: int) -> dict[str, object]:
        counted = {"input_tokens": total - 1, "output_tokens": 1, "total_tokens": total}
        info = {"last_token_usage": counted, "total_token_usage": counted}
        return {"timestamp": TIME, "type": "event_msg", "payload": {"type": "token_count", "info": info}}

    path = rollout(
        tmp_path / "rollout.jsonl",
        said("user", "Look."),
        used(10),
        item(type="function_call", name="f", arguments="{}", call_id="c1"),
        item(type="function_call_output", call_id="c1", output="o"),
        used(10),
        used(25),
        said("assistant", "Found."),
    )
    (session,) = take(path)
    assert [entry.type for entry in session.entries] == ["message", "usage", "message", "message", "usage", "message"]
    assert [each.usage for each in session.messages] == [None] * 4


def test_paginated_rollouts_tell_runs_and_usage_their_own_way(tmp_path: Path, take: Take) -> None:
    ran = {
        "type": "CommandExecution",
        "id": "c1",
        "status": "failed",
        "exit_code": 1,
        "duration": {"secs": 3, "nanos": 0},
    }
    counted = {"input_tokens": 900, "cached_input_tokens": 0, "output_tokens": 40, "total_tokens": 940}
    path = rollout(
        tmp_path / "rollout.jsonl",
        item(type="function_call", name="exec", arguments="{}", call_id="c1"),
        item(type="function_call_output", call_id="c1", output="1 failing"),
        {"timestamp": TIME, "type": "event_msg", "payload": {"type": "item_completed", "item": ran}},
        said("assistant", "One fails."),
        {"timestamp": TIME, "type": "token_usage_record", "payload": {"usage": counted}},
    )
    (session,) = take(path)
    (run,) = (entry.tool_execution for entry in session.entries if isinstance(entry, ToolExecutionEntry))
    assert (run.tool_call_id, run.exit_code, run.duration_ms, run.success) == ("c1", 1, 3000, False)
    assert [each.usage for each in session.messages] == [None, None, Usage(900, 40, 0, 0, 940)]

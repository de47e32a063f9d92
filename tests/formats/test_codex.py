"""Codex rollouts: items become messages, events supply only what no item contains, and rollbacks become branches."""

import json
import sys
from pathlib import Path
from random import Random

import pytest

from treering import SessionHost
from treering.entries import CustomMessageEntry, SessionInfoEntry, ThinkingLevelEntry, ToolExecutionEntry
from treering.events.content import ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, plain_text
from treering.events.entries import CompactionEntry, CustomEntry, MessageEntry, ModelChangeEntry, Usage
from treering.events.errors import ExtraMissing, ForeignFormatError
from treering.events.findings import LeftOut

from .conftest import ParsedSession, Read, ReadSessions, reader

TIME = "2026-03-01T09:00:00.000Z"


def write(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def rollout(path: Path, *lines: dict[str, object]) -> Path:
    return write(path, line("session_meta", id="s1", timestamp=TIME, cwd="/work"), *lines)


def line(kind: str, /, **payload: object) -> dict[str, object]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def item(**payload: object) -> dict[str, object]:
    return line("response_item", **payload)


def event(type: str, **payload: object) -> dict[str, object]:
    return line("event_msg", type=type, **payload)


def call(number: int = 1) -> dict[str, object]:
    return item(type="function_call", call_id=f"c{number}", name="run", arguments="{}")


def output(number: int = 1, content: object = "done") -> dict[str, object]:
    return item(type="function_call_output", call_id=f"c{number}", output=content)


def message_item(role: str, text: str, **more: object) -> dict[str, object]:
    return item(type="message", role=role, content=[{"type": "input_text", "text": text}], **more)


read = reader(rollout, "rollout.jsonl")


@pytest.fixture
def session(data: Path, read_sessions: ReadSessions) -> ParsedSession:
    """The session of the sample."""
    (session,) = read_sessions(data / "codex" / "codex.jsonl")
    return session


def test_a_rollout_becomes_a_session(session: ParsedSession) -> None:
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


def test_parallel_calls_become_one_message_with_their_executions_and_usage(session: ParsedSession) -> None:
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
    assert [type(part) for part in session.messages[2].content] == [TextPart, ImagePart]


def test_models_thinking_levels_and_titles_become_entries(session: ParsedSession) -> None:
    models = [entry.model_change.model_id for entry in session.entries if isinstance(entry, ModelChangeEntry)]
    levels = [entry.thinking_level.thinking_level for entry in session.entries if isinstance(entry, ThinkingLevelEntry)]
    names = [entry.session_info.name for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    assert (models, levels, names) == (["gpt-5", "gpt-5-mini"], ["medium"], ["Oven test"])


def test_rolled_back_messages_stay_on_their_own_branch(session: ParsedSession) -> None:
    path = [entry.id for entry in session.path()]
    assert "msg_2" in path
    assert not {"msg_3", "msg_4"} & set(path)
    assert [entry.id for entry in session.path("msg_4")][-2:] == ["msg_3", "msg_4"]


def test_a_rollback_at_the_end_moves_the_leaf(read: Read) -> None:
    back = event("thread_rolled_back", num_turns=2)
    session = read(*(message_item("user", str(n), id=f"u{n}") for n in range(3)), back)
    assert [entry.id for entry in session.path()][:-1] == ["u0"]
    assert isinstance(session.entries[-1], CustomEntry)


def test_a_compaction_is_followed_by_the_replacement_history(session: ParsedSession) -> None:
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    assert entry.compaction.summary == "Summary: oven.py was restored."
    assert (entry.compaction.first_kept_entry_id, entry.compaction.tokens_before) == (None, 1200)
    after = session.path()[[each.id for each in session.path()].index(entry.id) + 1 :]
    texts = [plain_text(each.message.content) for each in after if isinstance(each, MessageEntry)]
    assert texts == ["Restore it from git.", "Thanks."]


def test_skipped_records_are_counted_by_kind(session: ParsedSession) -> None:
    severities = {each.message: each.severity for each in session.findings}
    assert set(severities.values()) == {"note"}
    assert any("event_msg user_message" in message and message.startswith("1 record ") for message in severities)
    assert any("world_state" in message for message in severities)
    assert any("token_count, repeated" in message for message in severities)


def test_records_without_a_message_form_become_custom_entries(session: ParsedSession, data: Path) -> None:
    customs = [entry.custom for entry in session.entries if isinstance(entry, CustomEntry)]
    search = next(custom for custom in customs if custom.custom_type == "codex.web_search_call")
    assert isinstance(search.data, dict)
    assert search.data["action"] == {"type": "search", "query": "git restore"}


def test_a_duplicated_line_is_read_once(read: Read) -> None:
    same = {**message_item("user", "Hello"), "ordinal": 3}
    session = read(same, same, message_item("user", "Hello"), message_item("user", "Hello"))
    assert session.roles == ["user"] * 3
    assert session.codes() == ["duplicate"]


def test_a_complete_line_after_a_torn_one_is_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = rollout(tmp_path / "r.jsonl", message_item("user", "first"))
    torn, whole = json.dumps(message_item("user", "lost")), json.dumps(message_item("user", "second"))
    with path.open("a") as file:
        file.write(torn[: len(torn) // 2] + whole + "\n")
    (session,) = read_sessions(path)
    assert [plain_text(message.content) for message in session.messages] == ["first", "second"]
    (finding,) = session.findings
    assert (finding.code, finding.line) == ("damaged", 3)
    assert finding.byte is not None
    assert path.read_bytes()[finding.byte :].startswith(torn[:10].encode())


def test_a_late_result_is_placed_after_its_call(read: Read) -> None:
    session = read(call(1), call(2), output(2), call(3), output(3), output(1))
    assert session.roles == ["assistant", "tool", "tool", "tool"]


def test_lines_without_an_envelope_of_the_first_version_are_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "rollout-old.jsonl"
    head: dict[str, object] = {"id": "old-1", "timestamp": TIME, "instructions": None}
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    path.write_text(json.dumps(head) + "\n" + json.dumps(hello) + "\n" + '{"record_type":"state"}\n')
    (session,) = read_sessions(path)
    assert (session.header.id, session.roles) == ("old-1", ["user"])


def test_a_compressed_file_reads_like_a_plain_one(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "rollout-cold.jsonl.zst"
    path.write_bytes(zstandard.compress((data / "codex" / "codex.jsonl").read_bytes()))
    (plain,), (compressed,) = read_sessions(data / "codex" / "codex.jsonl"), read_sessions(path)
    assert (compressed.header, compressed.entries, compressed.leaf_id) == (plain.header, plain.entries, plain.leaf_id)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ForeignFormatError):
        read_sessions(path)
    noise = message_item("user", Random(1).randbytes(100_000).hex())
    path.write_bytes(zstandard.compress((data / "codex" / "codex.jsonl").read_bytes() + json.dumps(noise).encode()))
    assert len(read_sessions(path)[0].entries) == len(plain.entries) + 1


def test_reading_a_compressed_file_without_zstandard_names_the_missing_extra(
    data: Path, tmp_path: Path, read_sessions: ReadSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "rollout-cold.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(ExtraMissing, match=r"treering\[zstd\]"):
        read_sessions(path, "codex")


def test_all_rollouts_under_a_folder_are_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    folder = tmp_path / "2026" / "03" / "01"
    folder.mkdir(parents=True)
    (folder / "rollout-1.jsonl").write_bytes((data / "codex" / "codex.jsonl").read_bytes())
    rollout(folder / "rollout-2.jsonl", message_item("user", "Hello"))
    assert [session.header.id[:4] for session in read_sessions(tmp_path)] == ["0199", "s1"]


def test_ids_stay_the_same_when_a_session_grows(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "rollout.jsonl"
    lines = (data / "codex" / "codex.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:17]))
    (before,) = read_sessions(path)
    path.write_bytes(b"".join(lines))
    (after,) = read_sessions(path)
    assert after.entries[: len(before.entries)] == before.entries


def test_a_tool_execution_follows_its_result_in_either_order_of_the_records(read: Read) -> None:
    answered = output(1, {"content": "no", "success": False})
    duration = {"secs": 2, "nanos": 0}
    ended = event("mcp_tool_call_end", call_id="c1", duration=duration, result={"Err": "x"})
    for lines in ((call(), ended, answered), (call(), answered, ended)):
        session = read(*lines)
        assert [entry.type for entry in session.entries] == ["message", "message", "tool_execution"]
        entry = session.entries[-1]
        assert isinstance(entry, ToolExecutionEntry)
        assert (entry.tool_execution.success, entry.tool_execution.duration_ms) == (False, 2000)
        (part,) = session.messages[1].content
        assert isinstance(part, ToolResultPart)
        assert (part.tool_result.content, part.tool_result.is_error) == ("no", True)


def test_a_compaction_of_an_older_version_is_followed_by_the_latest_user_messages(read: Read) -> None:
    session = read(
        message_item("user", "<environment_context>here</environment_context>"),
        message_item("user", "too long ago"),
        message_item("user", "é" * 40_000),
        message_item("assistant", "Yes."),
        message_item("user", "what is taken back"),
        event("thread_rolled_back", num_turns=1),
        message_item("user", "the latest"),
        line("compacted", message="So far."),
        message_item("user", "go on"),
        line("compacted", message="Further."),
        message_item("assistant", "Done."),
    )
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
def test_text_that_codex_injects_as_the_user_does_not_count_as_a_turn(read: Read, injected: str) -> None:
    session = read(
        message_item("user", "one"),
        message_item("assistant", "first"),
        message_item("user", "two"),
        message_item("user", injected),
        message_item("assistant", "second"),
        event("thread_rolled_back", num_turns=1),
        message_item("user", "three"),
    )
    by_id = {entry.id: entry for entry in session.entries}
    rolled_back = by_id[session.entries[-1].parent_id or ""]
    assert isinstance(rolled_back, CustomEntry)
    before = by_id[rolled_back.parent_id or ""]
    assert isinstance(before, MessageEntry)
    assert plain_text(before.message.content) == "first"


def test_unsupported_parts_are_reported(read: Read) -> None:
    sound = {"type": "input_audio", "audio_url": "data:audio/wav;base64,AAAA"}
    session = read(
        item(type="message", role="user", content=[{"type": "input_text", "text": "listen"}, sound]),
        item(type="message", role="user", content=[{"type": "input_image", "file_id": "file_1"}, sound]),
        call(),
        output(1, [{"type": "encrypted_content", "encrypted_content": "x"}]),
    )
    left_out = {each.kind: (each.count, each.example) for each in session.findings if isinstance(each, LeftOut)}
    assert left_out == {
        "part of kind input_audio": (2, json.dumps(sound, separators=(",", ":"))),
        "part of kind input_image": (1, '{"type":"input_image","file_id":"file_1"}'),
        "part of kind encrypted_content": (1, '{"type":"encrypted_content","encrypted_content":"x"}'),
    }


def test_a_message_of_another_agent_becomes_a_custom_message(read: Read) -> None:
    payload = {"author": "/root", "recipient": "/root/tester", "content": "Run it again.", "trigger_turn": True}
    session = read(line("inter_agent_communication", **payload), message_item("assistant", "It passes."))
    first = session.entries[0]
    assert isinstance(first, CustomMessageEntry)
    assert plain_text(first.custom_message.content) == "Run it again."
    assert first.custom_message.details == payload


@pytest.mark.parametrize(
    ("more", "parent"),
    [
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}}, "p"),
        ({"source": {"subagent": "review"}}, None),
        ({"source": "cli", "parent_thread_id": "p"}, "p"),
        ({"forked_from_id": "f", "parent_thread_id": "p"}, "f"),
    ],
)
def test_a_rollout_names_its_parent(
    more: dict[str, object], parent: str | None, tmp_path: Path, read_sessions: ReadSessions
) -> None:
    meta = line("session_meta", id="s1", timestamp=TIME, **more)
    (session,) = read_sessions(write(tmp_path / "rollout.jsonl", meta, message_item("user", "Hello")))
    assert session.header.parent_session == parent


def test_a_fork_without_its_history_is_reported(tmp_path: Path, read_sessions: ReadSessions) -> None:
    meta = line("session_meta", id="s2", timestamp=TIME, forked_from_id="s1", history_base={"thread_id": "s1"})
    (session,) = read_sessions(write(tmp_path / "rollout.jsonl", meta, message_item("user", "Go on.")))
    assert session.codes() == ["history_elsewhere"]


def reverted_session(folder: Path, *after: dict[str, object]) -> tuple[Path, Path]:
    """The two files of a session whose second turn was reverted."""
    said = [message_item("user", "One"), message_item("assistant", "1"), message_item("user", "Two")]
    lines = [{**each, "ordinal": at} for at, each in enumerate([line("session_meta", id="s1"), *said])]
    first = write(folder / "rollout-s1.jsonl", *lines)
    return first, write(folder / "rollout-s1_x.jsonl", continuing("s1", 3, first, 3), *after)


def continuing(thread: str, ordinal: int, file: Path, lines: int) -> dict[str, object]:
    """The first line of a file that continues the first lines of another."""
    offset = len("".join(file.read_text().splitlines(keepends=True)[:lines]))
    base = {"thread_id": thread, "end_ordinal_exclusive": ordinal, "end_byte_offset": offset}
    return line("session_meta", id="s1", timestamp=TIME, history_base=base)


def test_reverted_turns_stay_on_their_branch(tmp_path: Path, read_sessions: ReadSessions) -> None:
    first, second = reverted_session(tmp_path, message_item("user", "Three"))
    (before,), (session,) = read_sessions(first), read_sessions(second)
    texts = [plain_text(entry.message.content) for entry in session.path() if isinstance(entry, MessageEntry)]
    assert texts == ["One", "1", "Three"]
    assert session.entries[: len(before.entries)] == before.entries
    assert session.codes() == before.codes()
    first.unlink()
    (alone,) = read_sessions(second)
    assert alone.codes() == ["history_elsewhere"]


def test_a_rollout_that_is_being_compressed_is_read_once(tmp_path: Path, read_sessions: ReadSessions) -> None:
    """Both of its files are there for a moment."""
    zstandard = pytest.importorskip("zstandard")
    _, second = reverted_session(tmp_path, message_item("user", "Three"))
    third = write(tmp_path / "rollout-s1_y.jsonl", continuing("x", 2, second, 2), message_item("user", "Four"))
    (before,) = read_sessions(third)
    second.with_name(second.name + ".zst").write_bytes(zstandard.compress(second.read_bytes()))
    (session,) = read_sessions(third)
    assert session.entries == before.entries
    texts = [plain_text(entry.message.content) for entry in session.path() if isinstance(entry, MessageEntry)]
    assert texts == ["One", "1", "Three", "Four"]


async def test_a_session_whose_last_turn_was_reverted_is_imported_as_one(tmp_path: Path) -> None:
    first, second = reverted_session(tmp_path)
    async with SessionHost(tmp_path / "root") as host:
        await host.import_sessions(first)
        for path in (second, tmp_path):
            await host.import_sessions(path)
            session = await host.load("s1")
            assert [plain_text(each.content) for each in (await session.context()).messages] == ["One", "1"]
        third = write(tmp_path / "rollout-s1_y.jsonl", continuing("s1", 2, first, 2), message_item("user", "Four"))
        await host.import_sessions(tmp_path)
        session = await host.load("s1")
        assert [plain_text(each.content) for each in (await session.context()).messages] == ["One", "Four"]
        write(tmp_path / "rollout-s1_z.jsonl", continuing("y", 2, third, 1), message_item("user", "Five"))
        await host.import_sessions(tmp_path)
        assert [plain_text(each.content) for each in (await session.context()).messages] == ["One", "Five"]
        assert len([node for node in session.tree().nodes if node.parent_id is None]) == 1


def test_a_rollout_of_the_first_version_needs_no_instructions(tmp_path: Path, read_sessions: ReadSessions) -> None:
    lines = [{"id": "s1", "timestamp": TIME}, {"type": "message", "role": "user", "content": [{"text": "Hello"}]}]
    path = tmp_path / "rollout-2025-05-01-s1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (session,) = read_sessions(path)
    assert (session.header.id, session.roles) == ("s1", ["user"])
    other = path.rename(tmp_path / "points.jsonl")  # without the file name, such a line is ambiguous
    with pytest.raises(ForeignFormatError):
        read_sessions(other)


def test_usage_recorded_before_an_answer_is_not_assigned_to_an_earlier_one(read: Read) -> None:
    def used(total: int) -> dict[str, object]:
        counted = {"input_tokens": total - 1, "output_tokens": 1, "total_tokens": total}
        info = {"last_token_usage": counted, "total_token_usage": counted}
        return event("token_count", info=info)

    session = read(
        message_item("user", "Look."),
        used(10),
        call(),
        output(),
        used(10),
        used(25),
        message_item("assistant", "Found."),
    )
    assert [entry.type for entry in session.entries] == ["message", "usage", "message", "message", "usage", "message"]
    assert [each.usage for each in session.messages] == [None] * 4


def test_executions_and_usage_of_paginated_rollouts_are_read(read: Read) -> None:
    ended = {"exit_code": 1, "duration": {"secs": 3, "nanos": 0}}
    ran = {"type": "CommandExecution", "id": "c1", "status": "failed", **ended}
    counted = {"input_tokens": 900, "cached_input_tokens": 0, "output_tokens": 40, "total_tokens": 940}
    session = read(
        call(),
        output(),
        event("item_completed", item=ran),
        message_item("assistant", "One fails."),
        line("token_usage_record", usage=counted),
    )
    (run,) = (entry.tool_execution for entry in session.entries if isinstance(entry, ToolExecutionEntry))
    assert (run.tool_call_id, run.exit_code, run.duration_ms, run.success) == ("c1", 1, 3000, False)
    assert [each.usage for each in session.messages] == [None, None, Usage(900, 40, 0, 0, 940)]


def test_an_answer_that_names_no_model_names_its_provider(read: Read) -> None:
    sealed = item(type="reasoning", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="sealed")
    session = read(message_item("user", "Hi"), sealed)
    answer = session.messages[-1]
    assert (answer.provider, answer.model) == ("openai", None), "no other provider may be sent what it sealed"


def test_an_error_becomes_an_answer_that_failed_after_the_message_that_it_follows(read: Read) -> None:
    lines: tuple[dict[str, object], ...] = (
        line("turn_context", model="gpt-5"),
        message_item("user", "Bake."),
        event("error", message="You are not logged in.", codex_error_info="unauthorized"),
        message_item("user", "Again."),
        call(),
        output(),
        event("error", codex_error_info={"response_stream_disconnected": {"http_status_code": 503}}),
        event("error"),
    )
    session = read(*lines)
    assert session.roles == ["user", "assistant", "user", "assistant", "tool", "assistant", "assistant"]
    refused, broken, unknown = (session.messages[position] for position in (1, 5, 6))
    assert (refused.stop_reason, refused.error) == ("error", "You are not logged in.")
    assert (refused.provider, refused.model) == ("openai", "gpt-5")
    assert refused.metadata == {"codex_error_info": "unauthorized"}
    assert broken.metadata == {"codex_error_info": {"response_stream_disconnected": {"http_status_code": 503}}}
    assert all(each.stop_reason == "error" and each.error and not each.content for each in (refused, broken, unknown))
    assert not session.findings


def test_messages_around_an_error_are_read_as_without_it(read: Read) -> None:
    before, after = message_item("user", "Bake."), message_item("assistant", "Baked.")
    plain, failed = read(before, after), read(before, event("error", message="overloaded"), after)
    ids = [entry.id for entry in plain.entries]
    assert [entry.id for entry in failed.entries if entry.id in ids] == ids

"""The dialect of pi: reading its lines, writing entries, and losing nothing either way."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from treering.entries import ImagePart, SessionInfoEntry, ThinkingPart, ToolUsePart, tool_result, tool_use
from treering.events.content import Content, Image, ImageSource, Text, TextPart, Thinking, ToolUse, image, text
from treering.events.dialects.base import Dialect
from treering.events.dialects.detect import detect
from treering.events.dialects.native import NativeDialect
from treering.events.dialects.omp import OmpDialect
from treering.events.dialects.pi.camel import pi_directory_name, pi_file_name
from treering.events.dialects.pi.dialect import PiDialect, PiOldDialect
from treering.events.entries import EPOCH, Batch, Entry, Header, KnownEntry, Label, OpaqueEntry, Usage, entry_class
from treering.events.entries.contextual import BranchSummary, Compaction, CompactionEntry, ContextEdit, CustomMessage
from treering.events.entries.message import BashExecution, Message, MessageEntry, Payload, message
from treering.events.entries.records import Custom, ModelChange, SessionInfo, ThinkingLevel, ToolExecution, UsageRecord
from treering.events.errors import DialectCannot, InvalidEntry, NotASession, UnsupportedVersion, Where
from treering.events.json_values import raw_json

AT = datetime(2026, 1, 1, 10, 0, 1, 250000, UTC)
AT_MS = 1767261601250
ENVELOPE = '"id":"0000000b","parentId":"0000000a","timestamp":"2026-01-01T10:00:01.250Z"'

pi = PiDialect()


def full(line: str) -> str:
    return line.replace("ENVELOPE", ENVELOPE).replace("AT_MS", str(AT_MS))


def entry(payload: Payload, **fields: Any) -> KnownEntry:  # noqa: ANN401
    kind = entry_class(payload)
    envelope: dict[str, Any] = {"id": "0000000b", "parent_id": "0000000a", "timestamp": AT, "seq": 1}
    return kind(**{**envelope, **fields, kind.type: payload})


def known(line: str | bytes, dialect: Dialect = pi, seq: int = 1) -> KnownEntry:
    found = dialect.decode(full(line).encode() if isinstance(line, str) else line, seq)
    assert found is not None
    assert not isinstance(found, OpaqueEntry), found.reason
    return found


def opaque(line: str | bytes, dialect: Dialect = pi) -> OpaqueEntry:
    found = dialect.decode(full(line).encode() if isinstance(line, str) else line, 1)
    assert isinstance(found, OpaqueEntry)
    return found


def message_in(body: str) -> Message:
    found = known(f'{{"type":"message",{ENVELOPE},"message":{body}}}')
    assert isinstance(found, MessageEntry)
    return found.message


def line_of(payload: Payload, **fields: Any) -> str:  # noqa: ANN401
    return pi.encode(entry(payload, **fields)).decode()


def as_json(found: Entry) -> Any:  # noqa: ANN401
    """An entry as JSON for comparison: the order of free JSON and empty metadata do not matter."""
    assert not isinstance(found, OpaqueEntry)
    value = json.loads(NativeDialect().encode(found))
    payload = value[found.type]
    if not payload.get("metadata", True):
        del payload["metadata"]
    if isinstance(payload.get("usage"), dict) and not payload["usage"].get("cost"):
        payload["usage"].pop("cost", None)  # a cost of 0.0 can be written or left out
    return value


# -- golden lines

MESSAGES: list[tuple[str, Message]] = [
    ('{"role":"user","content":"Hello","timestamp":AT_MS}', Message("user", (text("Hello"),))),
    (
        '{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"QQ==","mimeType":"image/png"}],"timestamp":7}',
        message("user", [text("a"), image("QQ==", "image/png")], metadata={"timestamp": 7}),
    ),
    (
        (
            '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s1","redacted":true},'
            '{"type":"text","text":"a","textSignature":"s2"},'
            '{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"x"},"thoughtSignature":"s3"}],'
            '"api":"anthropic-messages","provider":"anthropic","model":"claude-x","responseId":"r1",'
            '"usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,'
            '"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5}},'
            '"stopReason":"error","errorMessage":"no","timestamp":7}'
        ),
        message(
            "assistant",
            [
                ThinkingPart(Thinking("hm", "s1", redacted=True)),
                TextPart(Text("a", "s2")),
                ToolUsePart(ToolUse("c1", "read", raw_json({"path": "x"}), "s3")),
            ],
            model="claude-x",
            provider="anthropic",
            usage=Usage(1, 2, 3, 4, 10, 0.5),
            stop_reason="error",
            error="no",
            metadata={"api": "anthropic-messages", "responseId": "r1", "timestamp": 7},
        ),
    ),
    (
        (
            '{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"out"}],'
            '"details":{"n":1},"isError":true,"timestamp":7}'
        ),
        message(
            "tool",
            tool_result("c1", "out", is_error=True),
            tool_name="read",
            metadata={"details": {"n": 1}, "timestamp": 7},
        ),
    ),
    (
        (
            '{"role":"toolResult","toolCallId":"c1","toolName":"shot","content":[{"type":"text","text":"out"},'
            '{"type":"image","data":"QQ==","mimeType":"image/png"}],"isError":false,"timestamp":AT_MS}'
        ),
        message(
            "tool",
            tool_result("c1", [text("out"), ImagePart(Image(ImageSource("base64", "image/png", "QQ==")))]),
            tool_name="shot",
        ),
    ),
    (
        (
            '{"role":"bashExecution","command":"ls","output":"x","exitCode":1,"cancelled":false,"truncated":true,'
            '"fullOutputPath":"/tmp/o","excludeFromContext":true,"timestamp":AT_MS}'
        ),
        Message("bashExecution", bash=BashExecution("ls", "x", 1, False, True, "/tmp/o", True)),
    ),
    (
        '{"role":"custom","customType":"ext","content":"c","display":false,"details":1,"timestamp":AT_MS}',
        message("custom", "c", custom_type="ext", display=False, metadata={"details": 1}),
    ),
    (
        (
            '{"role":"system","content":"You are X","sections":{"cwd":"/p"},"toolsAdded":[{"name":"read"}],'
            '"timestamp":AT_MS}'
        ),
        message("system", "You are X", metadata={"sections": {"cwd": "/p"}, "toolsAdded": [{"name": "read"}]}),
    ),
    (
        '{"role":"bashExecution","command":"ls","output":"","cancelled":false,"truncated":false,"content":"c","timestamp":AT_MS}',
        Message("bashExecution", (text("c"),), bash=BashExecution("ls")),
    ),
    (
        '{"role":"user","content":[{"type":"text","text":"a","new":1}],"responseId":"r","isError":5,"timestamp":AT_MS}',
        message(
            "user",
            "a",
            metadata={"content": [{"type": "text", "text": "a", "new": 1}], "responseId": "r", "isError": 5},
        ),
    ),
    (
        '{"role":"user","command":"ls","summary":"s","content":[],"timestamp":AT_MS,"new":1}',
        message("user", [], metadata={"command": "ls", "summary": "s", "new": 1}),
    ),
    (
        '{"role":"compactionSummary","summary":"a\\nb","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"timestamp":AT_MS}',
        message("compactionSummary", [text("a"), text("b")], metadata={"summary": "a\nb"}),
    ),
    (
        '{"role":"branchSummary","summary":"tried","fromId":"a","timestamp":AT_MS}',
        message("branchSummary", "tried", metadata={"fromId": "a"}),
    ),
]

LINES: list[tuple[str, Payload]] = [
    (
        '{"type":"model_change",ENVELOPE,"provider":"anthropic","modelId":"claude-x"}',
        ModelChange("anthropic", "claude-x"),
    ),
    ('{"type":"thinking_level_change",ENVELOPE,"thinkingLevel":"high"}', ThinkingLevel("high")),
    (
        '{"type":"compaction",ENVELOPE,"summary":"S","firstKeptEntryId":"0000000a","tokensBefore":12}',
        Compaction("S", "0000000a", 12),
    ),
    (
        (
            '{"type":"compaction",ENVELOPE,"summary":"","firstKeptEntryId":"0000000b","tokensBefore":0,"details":{"d":1},'
            '"usage":{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":1,'
            '"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"fromHook":true,'
            '"systemMessage":{"role":"system","content":"X"}}'
        ),
        Compaction(
            "",
            "0000000b",
            0,
            raw_json({"d": 1}),
            Usage(1, total_tokens=1),
            True,
            raw_json({"role": "system", "content": "X"}),
        ),
    ),
    ('{"type":"branch_summary",ENVELOPE,"fromId":"deadbeef","summary":"S"}', BranchSummary("S", "deadbeef")),
    (
        '{"type":"branch_summary",ENVELOPE,"fromId":"root","summary":"tried","details":{"readFiles":["a"]},"fromHook":true}',
        BranchSummary("tried", "root", raw_json({"readFiles": ["a"]}), from_hook=True),
    ),
    ('{"type":"custom","customType":"ext","data":{"n":1},ENVELOPE}', Custom("ext", raw_json({"n": 1}))),
    ('{"type":"custom","customType":"ext","data":null,ENVELOPE}', Custom("ext", Raw(b"null"))),
    ('{"type":"custom","customType":"ext",ENVELOPE}', Custom("ext")),
    (
        '{"type":"custom_message","customType":"ext","content":"inj","display":false,"details":{"k":1},ENVELOPE}',
        CustomMessage("ext", (text("inj"),), False, raw_json({"k": 1})),
    ),
    ('{"type":"label",ENVELOPE,"targetId":"0000000a","label":"start"}', Label("0000000a", "start")),
    ('{"type":"label",ENVELOPE,"targetId":"0000000a"}', Label("0000000a")),
    ('{"type":"session_info",ENVELOPE,"name":"My name"}', SessionInfo("My name")),
    ('{"type":"session_info",ENVELOPE,"name":""}', SessionInfo("")),
    ('{"type":"context_edit",ENVELOPE,"targetId":"0000000a","replacement":null}', ContextEdit("0000000a")),
    (
        '{"type":"context_edit",ENVELOPE,"targetId":"0000000a","replacement":{"content":[{"type":"text","text":"e"}]}}',
        ContextEdit("0000000a", (text("e"),)),
    ),
    (
        (
            '{"type":"usage",ENVELOPE,"kind":"cache_warm","provider":"anthropic","model":"m","usage":{"input":0,"output":0,'
            '"cacheRead":5,"cacheWrite":0,"totalTokens":5,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,'
            '"total":0}},"note":"n"}'
        ),
        UsageRecord("cache_warm", Usage(cache_read_tokens=5, total_tokens=5), "anthropic", "m", "n"),
    ),
    *((f'{{"type":"message",ENVELOPE,"message":{body}}}', message) for body, message in MESSAGES),
]
LINES = [(full(line), payload) for line, payload in LINES]


@pytest.mark.feature("O-12", "O-15", "O-16", "O-17", "O-18", "O-19", "O-21", "O-23", "O-30")
@pytest.mark.parametrize(("line", "payload"), LINES)
def test_a_line_is_read_as_the_expected_entry_and_written_as_pi_writes_it(line: str, payload: Payload) -> None:
    assert known(line) == known(line + "\r") == entry(payload)
    assert line_of(payload) == line + "\n"


# -- promises about lines


@pytest.mark.feature("O-13")
def test_an_assistant_message_keeps_known_and_unknown_fields() -> None:
    usage = (
        '{"input":3,"output":191,"cacheRead":0,"cacheWrite":1684,"totalTokens":1878,'
        '"cost":{"input":0.000009,"output":0.002865,"cacheRead":0,"cacheWrite":0.006315,"total":0.009189}}'
    )
    body = (
        '{"role":"assistant","content":[{"type":"text","text":"hi"}],"api":"a","provider":"p","model":"m",'
        '"usage":USAGE,"stopReason":"stop","timestamp":5,"brandNew":{"deep":[1,null]}}'
    )
    body = body.replace("USAGE", usage)
    message = message_in(body)
    assert (message.provider, message.model, message.stop_reason) == ("p", "m", "stop")
    assert message.usage == Usage(3, 191, 0, 1684, 1878, 0.009189)
    assert message.metadata == {"api": "a", "timestamp": 5, "usage": json.loads(usage), "brandNew": {"deep": [1, None]}}
    assert body in line_of(message)


@pytest.mark.feature("O-14", "G-26")
@pytest.mark.parametrize("role", ["toolResult", "tool"])
def test_a_tool_result_names_the_id_of_its_call(role: str) -> None:
    body = (
        '{"role":"ROLE","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"out"}],"isError":false}'
    )
    message = message_in(body.replace("ROLE", role))
    call = message_in('{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"read","arguments":{}}]}')
    (answer,) = message.content
    (call_part,) = call.content
    assert (message.role, message.tool_name) == ("tool", "read")
    assert answer == tool_result("c1", "out")
    assert isinstance(call_part, ToolUsePart)
    assert call_part.tool_use.id == "c1"


@pytest.mark.feature("O-8", "G-18")
def test_native_and_omp_write_their_own_names_of_the_thinking_level() -> None:
    level = entry(ThinkingLevel("high"))
    native, omp = NativeDialect().encode(level), OmpDialect().encode(level)
    assert json.loads(native)["type"] == "thinking_level"
    assert json.loads(omp)["type"] == "thinking_level_change"
    assert {"parentId", "thinkingLevel"} <= json.loads(omp).keys()
    assert "parent_id" in json.loads(native)
    assert "parentId" not in json.loads(native)
    assert NativeDialect().decode(native[:-1], 1) == OmpDialect().decode(omp[:-1], 1) == level


@pytest.mark.feature("O-3")
def test_the_folder_and_the_file_are_named_as_pi_names_them() -> None:
    header = Header(
        id="01a1ffe4-e7b6-761f-804f-fd94109d518e", version=3, timestamp=datetime(2026, 11, 21, 20, 55, 54, 39000, UTC)
    )
    path = f"/root/{pi_directory_name('/tmp/research')}/{pi_file_name(header)}"
    assert path == "/root/--tmp-research--/2026-11-21T20-55-54-039Z_01a1ffe4-e7b6-761f-804f-fd94109d518e.jsonl"


def test_one_leading_separator_is_left_out_of_a_folder_name() -> None:
    assert pi_directory_name("//a/b.c d") == "---a-b.c d--"
    assert pi_directory_name("C:\\Users\\me") == "--C--Users-me--"
    assert pi_directory_name("é") == "--é--"


# -- ids


@pytest.mark.feature("O-7")
def test_a_new_id_is_8_hex_digits_and_not_taken() -> None:
    taken: set[str] = set()
    for number in range(2000):
        uuid = f"{number % 7:08x}{str(uuid4())[8:]}"  # most of them begin like an earlier one
        new = pi.new_id(uuid, taken.__contains__)
        assert new not in taken
        assert re.fullmatch("[0-9a-f]{8}", new)
        taken.add(new)


def test_if_a_short_id_is_taken_other_parts_of_the_uuid_are_used_and_then_all_of_it() -> None:
    uuid = "11111111-2222-4333-8444-555566667777"
    assert pi.new_id(uuid, set[str]().__contains__) == "11111111"
    assert pi.new_id(uuid, {"11111111"}.__contains__) == "22224333"
    short = {"11111111", "22224333", "84445555", "66667777"}
    assert pi.new_id(uuid, short.__contains__) == uuid
    with pytest.raises(InvalidEntry, match="twice"):
        pi.new_id(uuid, (short | {uuid}).__contains__)


# -- reading incomplete and odd lines


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"role":"user"}', Message("user")),
        ('{"role":"user","content":null}', Message("user")),
        ('{"role":"user","content":""}', Message("user", (text(""),))),
        ('{"role":"assistant","content":null,"usage":null}', Message("assistant")),
        ('{"role":"developer","content":"d"}', Message("developer", (text("d"),))),
        ('{"role":"toolResult","toolCallId":"c","content":null}', Message("tool", (tool_result("c", []),))),
        ('{"role":"user","content":"a","odd":[1]}', message("user", "a", metadata={"odd": [1]})),
        (
            '{"role":"user","content":[{"type":"novel","x":1},{"type":"text","text":"a"}]}',
            message("user", "a", metadata={"content": [{"type": "novel", "x": 1}, {"type": "text", "text": "a"}]}),
        ),
        (
            '{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":null,"index":2}]}',
            message(
                "assistant",
                tool_use("c", "n"),
                metadata={"content": [{"type": "toolCall", "id": "c", "name": "n", "arguments": None, "index": 2}]},
            ),
        ),
        (
            '{"role":"assistant","content":[],"provider":5,"usage":{"input":2,"output":1.0,"cost":0.25}}',
            message(
                "assistant",
                [],
                usage=Usage(2, 1, 0, 0, 3, 0.25),
                metadata={"provider": 5, "usage": {"input": 2, "output": 1.0, "cost": 0.25}},
            ),
        ),
        ('{"role":"user","summary":"s"}', message("user", [], metadata={"summary": "s"})),
        ('{"role":"user","content":"a","timestamp":AT_MS.0}', Message("user", (text("a"),))),
        (
            '{"role":"user","content":[5,{"type":"text","text":7}]}',
            message("user", [], metadata={"content": [5, {"type": "text", "text": 7}]}),
        ),
        ('{"role":"tool","content":"a"}', Message("tool", (text("a"),))),
        (
            '{"role":"toolResult","content":[{"type":"thinking","thinking":"hm"}],"isError":"no"}',
            message(
                "tool",
                tool_result("", []),
                metadata={"content": [{"type": "thinking", "thinking": "hm"}], "isError": "no"},
            ),
        ),
        (
            '{"role":"assistant","content":[],"model":null,"usage":{"input":1,"cacheRead":2,"totalTokens":9,"cost":{"total":1}}}',
            message(
                "assistant",
                [],
                usage=Usage(1, 0, 2, 0, 9, 1.0),
                metadata={"usage": {"input": 1, "cacheRead": 2, "totalTokens": 9, "cost": {"total": 1}}},
            ),
        ),
        ('{"role":"assistant","content":[],"usage":7}', message("assistant", [], metadata={"usage": 7})),
        (
            '{"role":"bashExecution","command":"ls","exitCode":null,"cancelled":"no"}',
            message("bashExecution", [], bash=BashExecution("ls"), metadata={"cancelled": "no"}),
        ),
    ],
)
def test_messages_of_odd_shapes_are_read_without_loss(body: str, message: Message) -> None:
    found = known(f'{{"type":"message",{ENVELOPE},"message":{body}}}')
    assert as_json(found) == as_json(entry(message))
    assert isinstance(found, MessageEntry)
    if found.message.role != "tool" or found.message.content != (text("a"),):  # which pi has no place for
        assert as_json(known(pi.encode(found))) == as_json(found)


@pytest.mark.parametrize(
    ("keys", "payload"),
    [
        ('"type":"compaction","summary":"S"', Compaction("S", None, 0)),
        (
            '"type":"compaction","firstKeptEntryId":null,"tokensBefore":1.5,"fromExtension":true',
            Compaction("", None, 1, from_hook=True),
        ),
        ('"type":"compaction","summary":"S","tokensBefore":-5,"usage":null', Compaction("S", None, 0)),
        ('"type":"branch_summary","fromId":"a","fromHook":true', BranchSummary("", "a", from_hook=True)),
        ('"type":"model_change","model":"a/b","provider":"x"', ModelChange("a", "b")),
        ('"type":"model_change","model":"a/b","provider":"x","modelId":"y","role":"z"', ModelChange("x", "y")),
        ('"type":"label","targetId":"a","treering":{"fields":{"target_id":5},"batch":"x"}', Label("a")),
        ('"type":"label","targetId":"a","label":"l","treering":{"fields":{"label":null}}', Label("a")),
        ('"type":"branch_summary","summary":"S"', BranchSummary("S", "root")),
        ('"type":"session_info"', SessionInfo("")),
        ('"type":"session_info","name":"  a "', SessionInfo("a")),
        ('"type":"thinking_level_change","thinkingLevel":null', ThinkingLevel("off")),
        ('"type":"custom_message","customType":"x"', CustomMessage("x", (), False)),
        ('"type":"custom_message","content":"c","display":true', CustomMessage("unknown", (text("c"),))),
        ('"type":"label","targetId":"a","label":null,"new":1', Label("a")),
        ('"type":"context_edit","targetId":"a","replacement":{"content":"e"}', ContextEdit("a", (text("e"),))),
        ('"type":"usage","kind":"k"', UsageRecord("k", Usage())),
    ],
)
def test_lines_with_missing_keys_are_read_as_pi_reads_them(keys: str, payload: Payload) -> None:
    assert known(f"{{{keys},{ENVELOPE}}}") == entry(payload)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type":"brand_new",ENVELOPE,"x":1}', "unknown type"),
        ("{ENVELOPE}", "unknown type"),
        ('{"type":"message",ENVELOPE}', "Input data was truncated"),
        ('{"type":"message",ENVELOPE,"message":[]}', "Expected `object`, got `array`"),
        ('{"type":"message",ENVELOPE,"message":{"content":"no role"}}', "a message must name its role"),
        ('{"type":"model_change",ENVELOPE,"provider":"p"}', "a model_change must name a provider and a model"),
        (
            '{"type":"model_change",ENVELOPE,"model":"a/b","role":"r"}',
            "the model of the role 'r', which does not answer",
        ),
        ('{"type":"label",ENVELOPE}', "Object missing required field `targetId`"),
        ('{"type":"compaction",ENVELOPE,"summary":5}', "Expected `str | null`, got `int` - at `$.summary`"),
        ('{"type":"custom",ENVELOPE,"data":1}', "Object missing required field `customType`"),
        ('{"type":"message","message":{"role":"user","content":"x"}}', "the line has no id"),
        ('{"type":"message","id":"","message":{"role":"user","content":"x"}}', "the line has no id"),
        ('{"type":"message","id":5,"message":{"role":"user","content":"x"}}', "the line has no id"),
        ('{"type":"session","version":3,"id":"01a1ffe4"}', "a second header"),
    ],
)
def test_an_invalid_line_is_opaque_and_keeps_its_id(line: str, reason: str) -> None:
    found = opaque(line)
    own = ("0000000b", "0000000a", AT) if "ENVELOPE" in line else (None, None, EPOCH)
    assert (found.id, found.parent_id, found.timestamp, found.seq) == (*own, 1)
    assert (found.value, found.reason) == (json.loads(full(line)), reason)
    assert found.type == json.loads(full(line)).get("type", "unknown")
    assert (found.command_id, found.batch, found.aside) == (None, None, False)


@pytest.mark.parametrize("line", ["", "null", "5", "[]", '"x"', "{", '{"type":"message"', "\x00", "{}}", "[" * 100_000])
def test_a_line_that_is_not_a_json_object_is_decoded_as_none(line: str) -> None:
    assert pi.decode(line.encode(), 1) is None


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ('"2026-01-01T12:00:01.25+02:00"', AT),
        ('"2026-01-01T10:00:01.250"', AT),
        (str(AT_MS), AT),
        ('"yesterday"', EPOCH),
        ('"0001-01-01T00:00:00+05:00"', EPOCH),
        ("1e300", EPOCH),
        ("null", EPOCH),
        ("{}", EPOCH),
    ],
)
def test_times_are_read_as_utc_or_are_the_epoch(written: str, time: datetime) -> None:
    for keys in (
        '"type":"label","targetId":"a"',
        '"type":"message","message":{"role":"user","content":"x"}',
        '"type":"new"',
    ):
        found = pi.decode(b'{%s,"id":"a","parentId":7,"timestamp":%s}' % (keys.encode(), written.encode()), 1)
        assert found is not None
        assert (found.parent_id, found.timestamp) == (None, time)
        assert found.timestamp.tzinfo is UTC


def test_invalid_bytes_and_lone_surrogates_are_replaced() -> None:
    line = (
        b'{"type":"message","id":"b","timestamp":"2026-01-01T10:00:01.250Z","message":{"role":"user","content":"%s"}}'
    )
    for broken, repaired in [
        (b"a\xffb", "a\ufffdb"),
        (b"a\\ud83db", "a\ufffdb"),
        (b"\\uDE00\\\\ud83d", "\ufffd\\ud83d"),
        (b"\\ud83d\\ude00", "😀"),
    ]:
        found = pi.decode(line % broken, 1)
        assert isinstance(found, MessageEntry)
        assert found.message.content == (text(repaired),)


def test_invalid_data_under_a_type_of_treering_is_kept() -> None:
    payload = Custom("treering.tool_execution", raw_json({"other": 1}))
    assert known('{"type":"custom","customType":"treering.tool_execution","data":{"other":1},ENVELOPE}') == entry(
        payload
    )


# -- fields and entries that pi does not have


def test_fields_that_pi_does_not_have_are_written_under_one_key() -> None:
    batch = Batch("s", "b", 0, 2)
    marked = entry(Label("0000000a", "x"), command_id="cmd", batch=batch)
    line = json.loads(pi.encode(marked))
    assert line["treering"] == {"command_id": "cmd", "batch": {"session": "s", "id": "b", "i": 0, "n": 2}}
    assert known(pi.encode(marked)) == marked
    unknown = json.dumps({**line, "type": "brand_new"})
    assert (opaque(unknown).command_id, opaque(unknown).batch) == ("cmd", batch)


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        (Message("user", (text("x"),), duration_ms=2.5), {"duration_ms": 2.5}),
        (Message("user", (tool_result("c", "out"),), tool_name="t"), {"role": "user"}),
        (Message("tool", (tool_result("c", [text("out")]),), tool_name="t"), None),
        (Message("tool", (tool_result("c", "out"),)), {"tool_name": None}),
        (Message("assistant", (text("x"),)), {"model": None, "provider": None, "usage": None, "stop_reason": None}),
        (message("user", "x", metadata={"role": "r", "x": 1}), {"metadata": {"role": "r", "x": 1}}),
        (Compaction("S", None, 1), {"first_kept_entry_id": None}),
        (SessionInfo("n", status="done", raw_metadata=raw_json({"a": 1})), {"status": "done", "metadata": {"a": 1}}),
        (SessionInfo("n", archived=False), {"archived": False}),
        (UsageRecord("turn", Usage(1), messages=3), {"provider": None, "model": None, "messages": 3}),
    ],
)
def test_payload_fields_that_pi_lacks_are_read_back(payload: Payload, fields: Mapping[str, object] | None) -> None:
    line = pi.encode(entry(payload))
    if fields is not None:
        assert json.loads(line)["treering"] == {"fields": fields}
    assert as_json(known(line)) == as_json(entry(payload))


@pytest.mark.parametrize(
    ("payload", "custom_type"),
    [
        (ToolExecution("c1", "read", raw_json({"p": 1}), False, "no", 1, 2.5, 3, "m"), "treering.tool_execution"),
        (SessionInfo(status="done", project="p"), "treering.session_info"),
    ],
)
def test_entries_of_types_that_pi_does_not_have_are_written_as_custom(payload: Payload, custom_type: str) -> None:
    line = json.loads(pi.encode(entry(payload)))
    assert (line["type"], line["customType"]) == ("custom", custom_type)
    assert known(pi.encode(entry(payload))) == entry(payload)


@pytest.mark.parametrize(
    ("message", "odd"),
    [
        (Message("assistant"), {"content": {"parts": 1}}),
        (Message("assistant"), {"content": [None]}),
        (Message("assistant"), {"content": 5}),
        (Message("assistant"), {"model": {"id": "gpt"}}),
        (Message("assistant"), {"provider": 5, "model": None, "stopReason": ["stop"], "errorMessage": {}}),
        (Message("assistant", usage=Usage(2, 1, 0, 0, 3, 0.25)), {"usage": {"input": 2, "output": 1, "cost": 0.25}}),
        (
            Message("assistant"),
            {"api": 1, "responseId": {}, "responseModel": [], "diagnostics": {}, "timestamp": "now"},
        ),
        (Message("system", (text("s"),)), {"sections": ["cwd"], "toolsAdded": ["read"], "toolsRemoved": "read"}),
        (Message("bashExecution", bash=BashExecution("ls")), {"exitCode": "one", "cancelled": "no", "command": "rm"}),
        (Message("user", (text("a"),)), {"content": "b", "role": "r", "display": True, "toolName": "t"}),
        (
            Message("tool", (tool_result("c", "out"),), tool_name="t"),
            {"content": "out", "toolCallId": "d", "isError": True},
        ),
        (Message("branchSummary", (text("s"),)), {"summary": "t", "content": "s"}),
        (Message("assistant", usage=Usage(2)), {"usage": {"input": 3, "cost": {}}}),
    ],
)
def test_metadata_of_types_that_pi_does_not_expect_is_kept_apart(message: Message, odd: dict[str, Any]) -> None:
    metadata = {**odd, "mine": 1}
    one = entry(replace(message, raw_metadata=raw_json(metadata)))
    line = json.loads(pi.encode(one))
    plain = json.loads(line_of(message))["message"]
    assert line["message"] == {**plain, "mine": 1}
    assert line["treering"]["fields"]["metadata"] == metadata
    assert as_json(known(pi.encode(one))) == as_json(one)


@pytest.mark.parametrize(
    ("message", "standing"),
    [
        (Message("assistant", (text("a"),)), {"content": "a"}),
        (Message("user", (text("a"),)), {"content": [{"type": "text", "text": "a"}]}),
        (
            Message("user", (text("a"),)),
            {"summary": "s", "command": "ls", "toolCallId": "c", "isError": 1, "fromId": "f"},
        ),
        (
            Message("assistant"),
            {"api": "a", "responseModel": "m", "responseId": "r", "diagnostics": [1], "timestamp": 1.5},
        ),
        (
            Message("system"),
            {"sections": {}, "toolsAdded": [{}], "toolsRemoved": [], "tokensBefore": 1, "details": None},
        ),
        (Message("bashExecution", bash=BashExecution("ls")), {"new": [1]}),
        (Message("assistant", usage=Usage(2)), {"usage": {"input": 2, "totalTokens": 0, "cost": {"output": 0}}}),
    ],
)
def test_metadata_stands_in_the_message_where_pi_reads_it_as_it_is(message: Message, standing: dict[str, Any]) -> None:
    given = replace(message, raw_metadata=raw_json(standing))
    assert json.loads(line_of(given))["message"] == {**json.loads(line_of(message))["message"], **standing}
    assert as_json(known(line_of(given))) == as_json(entry(given))


COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": COST}


@pytest.mark.parametrize(
    ("message", "model", "body"),
    [
        (Message("assistant"), ("p", "m"), {"provider": "p", "model": "m", "usage": NO_USAGE, "stopReason": "stop"}),
        (
            Message("assistant", (tool_use("c", "n"),), provider="x"),
            ("p", "m"),
            {"provider": "x", "model": "unknown", "usage": NO_USAGE, "stopReason": "toolUse"},
        ),
        (
            Message("assistant", model="y", stop_reason="end", usage=Usage(1, cost=0.5)),
            ("p", "m"),
            {
                "provider": "unknown",
                "model": "y",
                "usage": {**NO_USAGE, "input": 1, "cost": {**COST, "total": 0.5}},
                "stopReason": "end",
            },
        ),
        (
            Message("assistant"),
            None,
            {"provider": "unknown", "model": "unknown", "usage": NO_USAGE, "stopReason": "stop"},
        ),
        (Message("user"), ("p", "m"), {}),
        (Message("custom"), None, {"customType": "unknown", "display": True}),
        (Message("custom", custom_type="c", display=False), None, {"customType": "c", "display": False}),
    ],
)
def test_keys_that_pi_requires_are_there(message: Message, model: tuple[str, str] | None, body: dict[str, Any]) -> None:
    line = pi.encode(entry(message), model)
    found = json.loads(line)["message"]
    del found["content"]
    assert found == {"role": message.role, **body, "timestamp": AT_MS}
    assert as_json(known(line)) == as_json(entry(message))


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (Message("tool", (text("x"),)), "a tool's message must be one tool_result part"),
        (Message("bashExecution", (text("x"),)), "a bashExecution message needs `bash`"),
        (Message("user", (text("x"), tool_result("c", "out"))), "keeps a tool's result as a message of its own"),
        (Message("user", (ImagePart(Image(ImageSource("url", "image/png", "https://a/b"))),)), "keeps images inline"),
        (
            Custom("treering.tool_execution", raw_json({"tool_call_id": "c", "tool_name": "n"})),
            "would read this custom",
        ),
        (Message("session", (text("x"),), raw_metadata=Raw(b"7")), r"Expected `object` - at `\$\.message\.metadata`"),
    ],
)
def test_what_pi_has_no_place_for_is_refused(payload: Payload, told: str) -> None:
    with pytest.raises((DialectCannot, InvalidEntry), match=told):
        pi.write(entry(payload))


@pytest.mark.parametrize("space", [b"\n", b"\r", b"\r\n"])
def test_data_with_line_breaks_is_written_in_one_line(space: bytes) -> None:
    line, read = pi.write(entry(Custom("ext", Raw(b'{"a":%s1}' % space))))
    assert line == full('{"type":"custom","customType":"ext","data":{"a":1},ENVELOPE}\n').encode()
    assert read == entry(Custom("ext", Raw(b'{"a":1}')))


@pytest.mark.parametrize("more", [{}, {"error": "e", "raw_metadata": raw_json({"new": 1})}])
def test_the_stop_reason_for_tool_calls_is_translated_both_ways(more: dict[str, Any]) -> None:
    model = {"provider": "p", "model": "m", "usage": Usage(), **more}
    answer = entry(Message("assistant", (tool_use("c", "n"),), stop_reason="tool_use", **model))
    line = json.loads(pi.encode(answer))
    assert (line["message"]["stopReason"], "treering" in line) == ("toolUse", False)
    assert known(json.dumps(line)) == answer
    odd = entry(Message("assistant", (tool_use("c", "n"),), stop_reason="toolUse", **model))
    assert json.loads(pi.encode(odd))["message"]["stopReason"] == "toolUse"
    assert known(pi.encode(odd)) == odd


def test_a_name_is_written_on_one_line() -> None:
    line = line_of(SessionInfo(" My\r\n\nname "))
    assert json.loads(line)["name"] == "My name"
    assert "treering" not in line


@pytest.mark.parametrize("dialect", [pi, OmpDialect()])
def test_a_name_of_bytes_is_refused(dialect: Dialect) -> None:
    with pytest.raises(InvalidEntry, match="session_info"):
        dialect.encode(entry(SessionInfo(b"My name")))  # type: ignore[arg-type]  # this is refused


def test_times_are_written_in_utc_with_milliseconds() -> None:
    away = datetime(2026, 1, 1, 12, 0, 1, 250999, timezone(timedelta(hours=2)))
    line = json.loads(line_of(Message("user", (text("x"),)), timestamp=away))
    assert (line["timestamp"], line["message"]["timestamp"]) == ("2026-01-01T10:00:01.250Z", AT_MS)


def test_free_json_with_line_breaks_is_written_on_one_line() -> None:
    line = line_of(Custom("x", Raw(b'{\n  "a": 1.50\r\n}')))
    assert line.count("\n") == 1
    assert '"data":{"a":1.50}' in line


@pytest.mark.parametrize(
    ("payload", "fields", "message"),
    [
        (Label("a"), {"aside": True}, "does not become the leaf"),
        (Message("user", (tool_result("a", "1"), tool_result("b", "2"))), {}, "one message per result"),
        (Message("tool", (tool_result("a", "1"), tool_result("b", "2"))), {}, "one message per result"),
        (Message("tool", (text("1"),)), {}, "one message per result"),
        (Message("user", (image("https://x", "image/png", kind="url"),)), {}, "base64"),
        (Message("bashExecution", (text("x"),)), {}, "set `bash`"),
        (Custom("treering.tool_execution", raw_json({"tool_call_id": "a", "tool_name": "b"})), {}, "as another"),
    ],
)
def test_entries_that_pi_cannot_hold_are_refused(payload: Payload, fields: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DialectCannot, match=message):
        pi.encode(entry(payload, **fields))


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (Message(5, (text("x"),)), r"\$\.message\.role"),  # type: ignore[arg-type]  # this is refused
        (Message("user", (text("x"),), raw_metadata=Raw(b"[]")), r"\$\.message\.metadata"),
        (Label(""), r"\$\.label\.target_id"),
        (Compaction("S", "a", -1), r"\$\.compaction\.tokens_before"),
    ],
)
def test_fields_of_the_wrong_type_are_refused_with_their_path(payload: Payload, path: str) -> None:
    with pytest.raises(InvalidEntry, match=path):
        pi.encode(entry(payload))


# -- headers

PLACE = Where("x.jsonl", 1, 0)


def test_a_header_is_read_back_equal() -> None:
    header = Header(
        id="s", version=3, timestamp=AT, cwd="/w", parent_session="/p.jsonl", parent_entry="e", key="k", title="t"
    )
    line = pi.encode_header(header)
    assert line.startswith(
        b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T10:00:01.250Z","cwd":"/w","parentSession":"/p.jsonl"'
    )
    assert PiDialect.decode_header(line[:-1], PLACE) == header
    bare = Header(id="s", version=3, timestamp=AT)
    assert pi.encode_header(bare) == b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T10:00:01.250Z"}\n'
    assert PiDialect.decode_header(pi.encode_header(bare)[:-1], PLACE) == bare


def test_a_header_without_a_version_has_version_1() -> None:
    for version, read in {"": 1, "null": 1, "0": 1, "-1": 1, "1": 1, "2": 2, '"3"': 3, '"02"': 2}.items():
        stated = f'"version":{version},' if version else ""
        line = f'{{"type":"session","id":"s",{stated}"timestamp":5,"cwd":7,"treering":8}}'
        assert PiDialect.decode_header(line.encode(), PLACE) == Header(
            id="s", version=read, timestamp=EPOCH + timedelta(milliseconds=5)
        )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"type":"title"}',
        b'{"type":"session","version":3,"id":5}',
        b'{"id":"s"}',
        b'{"type":"session","id":"s","version":"x"}',
    ],
)
def test_a_line_that_is_not_a_header_is_refused(line: bytes) -> None:
    with pytest.raises(NotASession, match=r"x\.jsonl:1:0"):
        PiDialect.decode_header(line, PLACE)


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="version 4"):
        PiDialect.decode_header(b'{"type":"session","version":4,"id":"s"}', PLACE)


# -- the older versions

OLD = b"""\
{"type":"message","timestamp":"2025-11-20T23:33:01.550Z","message":{"role":"user","content":"a"}}
{"type":"message","timesta
{"type":"novel","timestamp":"2025-11-20T23:33:02.000Z","x":1}
{"type":"session","id":"again"}
{"type":"message","timestamp":"2025-11-20T23:33:03.000Z","message":{"role":"hookMessage","customType":"h","content":"b","display":true}}
{"type":"compaction","timestamp":"2025-11-20T23:33:04.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":5}
{"type":"compaction","timestamp":"2025-11-20T23:33:05.000Z","summary":"S","firstKeptEntryIndex":0,"tokensBefore":5}
{"type":"compaction","timestamp":"2025-11-20T23:33:06.000Z","summary":"S","firstKeptEntryIndex":3,"tokensBefore":5}
{"type":"compaction","timestamp":"2025-11-20T23:33:07.000Z","summary":"S","firstKeptEntryIndex":1,"tokensBefore":5}
{"type":"message","timestamp":"2025-11-20T23:33:08.000Z","message":7,"firstKeptEntryIndex":1}
""".splitlines()
OLD_HEADER = b'{"type":"session","id":"d703a1a9","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/w","provider":"p"}'


def old_dialect(header: bytes = OLD_HEADER) -> PiOldDialect:
    return PiOldDialect(PiDialect.decode_header(header, PLACE))


def read_all(dialect: Dialect, lines: list[bytes]) -> list[Entry | None]:
    return [dialect.decode(line, seq) for seq, line in enumerate(lines, 1)]


def test_entries_of_version_1_are_a_chain_that_skips_other_lines() -> None:
    entries = read_all(old_dialect(), OLD)
    chain = [each for each in entries if each is not None and each.id is not None]
    assert [entries.index(each) for each in chain] == [0, 2, 4, 5, 6, 7, 8, 9]
    ids = ["d9a45bd1", "16134f33", "52824295", "f0b9bc46", "8ef135f7", "2d28afa8", "cb602959", "6997a30a"]
    assert [each.id for each in chain] == ids
    assert [each.parent_id for each in chain] == [None, *ids[:-1]]
    torn, header, hook = entries[1], entries[3], entries[4]
    assert torn is None
    assert isinstance(header, OpaqueEntry)
    assert (header.id, header.parent_id) == (None, None)
    assert isinstance(hook, MessageEntry)
    assert hook.message == Message("custom", (text("b"),), custom_type="h", display=True)
    # the header is record 0, the torn line is none, and a second header is no entry
    kept = [each.compaction.first_kept_entry_id for each in chain if isinstance(each, CompactionEntry)]
    assert kept == [ids[1], None, None, ids[0]]


def test_lines_of_version_1_can_be_decoded_again_in_any_order() -> None:
    dialect = old_dialect()
    in_order = read_all(dialect, OLD)
    for seq in random.Random(1).sample(range(1, len(OLD) + 1), len(OLD)):
        assert dialect.decode(OLD[seq - 1], seq) == in_order[seq - 1]
    assert read_all(old_dialect(), OLD) == in_order
    assert read_all(old_dialect(OLD_HEADER.replace(b"d703a1a9", b"d703a1aa")), OLD) != in_order


def test_ids_of_version_1_are_unique() -> None:
    dialect = old_dialect()
    found = [dialect.decode(b'{"type":"custom","customType":"x"}', seq) for seq in range(1, 20_000)]
    ids = {each.id for each in found if each is not None and each.id}
    assert len(ids) == 19_999
    assert all(len(each) == 8 for each in ids)


def test_a_migrated_file_is_read_as_the_old_one() -> None:
    reader, writer = old_dialect(), old_dialect()
    migrated = [writer.migrated(line, seq) for seq, line in enumerate(OLD, 1)]
    assert read_all(pi, [line[:-1] for line in migrated]) == read_all(reader, OLD)
    assert [migrated[1], migrated[3]] == [OLD[1] + b"\n", OLD[3] + b"\n"]
    assert json.loads(migrated[2]).items() >= {"x": 1}.items()
    assert json.loads(migrated[9])["firstKeptEntryIndex"] == 1
    header = json.loads(writer.migrated_header(b"\xef\xbb\xbf\n" + OLD_HEADER + b"\r\n"))
    assert header == {**json.loads(OLD_HEADER), "version": 3}


def test_version_2_differs_in_the_name_of_one_role() -> None:
    dialect = old_dialect(b'{"type":"session","version":2,"id":"s","timestamp":"2025-11-20T23:33:50.805Z"}')
    plain, hook = (
        b'{"type":"message",%s,"message":{"role":"%s","customType":"h","content":"b","display":true}}'
        % (ENVELOPE.encode(), role)
        for role in (b"user", b"hookMessage")
    )
    for other in (plain.replace(b":", b": "), hook.replace(b'"type":"message"', b'"type": "custom"')):
        assert dialect.migrated(other, 1) == other + b"\n"
    found = dialect.decode(hook, 2)
    assert isinstance(found, MessageEntry)
    assert found.message.role == "custom"
    assert (found.id, found.parent_id) == ("0000000b", "0000000a")
    assert pi.decode(dialect.migrated(hook, 2)[:-1], 2) == found


def test_migrating_the_current_version_changes_nothing() -> None:
    assert pi.migrated(b"x", 1) == b"x\n"
    assert pi.migrated_header(b"x\n") == b"x\n"


# -- real files

REAL = [
    "v3_pi-0.73.1_all_entry_types.jsonl",
    "v3_pi-0.87.1_all_entry_types.jsonl",
    "v3_pi-1.5.2_all_entry_types.jsonl",
    "v3_pi-1.5.2_system_context_edit_usage.jsonl",
    "v1_large_session.jsonl",
]


def real_lines(shared_fixtures: Path, name: str) -> tuple[Dialect, list[bytes]]:
    data = (shared_fixtures / "pi" / name).read_bytes()
    found = detect(data, name)
    return found.dialect, data[found.size :].splitlines()


@pytest.mark.parametrize("name", REAL)
def test_every_line_of_a_real_file_is_read_as_a_known_entry(shared_fixtures: Path, name: str) -> None:
    dialect, lines = real_lines(shared_fixtures, name)
    expected = json.loads((shared_fixtures / "pi" / "expected.json").read_bytes())[name]["0.73.1"]["entries"]
    assert len(lines) == expected
    seen: set[str | None] = {None}
    for seq, line in enumerate(lines, 1):
        each = known(line, dialect, seq)
        assert each.parent_id in seen
        assert each.id not in seen
        seen.add(each.id)


@pytest.mark.parametrize("name", [name for name in REAL if "1.5.2" in name])
def test_lines_that_pi_wrote_are_written_again_byte_for_byte(shared_fixtures: Path, name: str) -> None:
    dialect, lines = real_lines(shared_fixtures, name)
    assert [dialect.encode(known(line, dialect)) for line in lines] == [line + b"\n" for line in lines]


@pytest.mark.parametrize("name", REAL)
def test_entries_of_real_files_are_written_and_read_back_equal(shared_fixtures: Path, name: str) -> None:
    dialect, lines = real_lines(shared_fixtures, name)
    for seq, line in enumerate(lines, 1):
        found = known(line, dialect, seq)
        again = known(pi.encode(found), seq=seq)
        if isinstance(found, SessionInfoEntry):
            found = replace(found, session_info=SessionInfo((found.session_info.name or "").replace("\n", " ")))
        assert as_json(again) == as_json(found)


@pytest.mark.parametrize("name", REAL)
def test_a_real_file_is_read_the_same_after_its_migration(shared_fixtures: Path, name: str) -> None:
    dialect, lines = real_lines(shared_fixtures, name)
    before = read_all(dialect, lines)
    assert read_all(pi, [dialect.migrated(line, seq)[:-1] for seq, line in enumerate(lines, 1)]) == before


# -- any entries and lines

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = names.filter(bool)
counts = st.integers(0, 2**40)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(
    names
    | st.sampled_from(["role", "content", "usage", "timestamp", "details", "command", "display", "summary", "api"]),
    values,
    max_size=3,
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


raws = maybe(values.map(raw_json))
metadata = maybe(objects.map(raw_json))
usages = st.builds(Usage, counts, counts, counts, counts, counts, st.floats(0, 1e6))
texts = st.builds(TextPart, st.builds(Text, names, maybe(names)))
images = st.builds(image, names, names)
calls = st.builds(
    ToolUsePart,
    st.builds(ToolUse, names, names, st.dictionaries(names, values, max_size=2).map(raw_json), maybe(names)),
)
thoughts = st.builds(ThinkingPart, st.builds(Thinking, names, maybe(names), st.booleans()))
parts: st.SearchStrategy[tuple[Content, ...]] = st.lists(texts | images | calls | thoughts, max_size=3).map(tuple)
answers = st.builds(tool_result, names, names | st.lists(texts | images, max_size=2), is_error=st.booleans()).map(
    lambda answer: (answer,)
)
common: dict[str, st.SearchStrategy[Any]] = {
    "model": maybe(names),
    "provider": maybe(names),
    "usage": maybe(usages),
    "stop_reason": maybe(names),
    "error": maybe(names),
    "tool_name": maybe(names),
    "duration_ms": maybe(st.floats(0, 1e9)),
    "custom_type": maybe(names),
    "display": maybe(st.booleans()),
    "raw_metadata": metadata,
}
bashes = st.builds(
    BashExecution, names, names, maybe(counts), st.booleans(), st.booleans(), maybe(names), st.booleans()
)
payloads: st.SearchStrategy[Payload] = st.one_of(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant", "system", "custom", "branchSummary", "compactionSummary"])
        | words.filter("tool".__ne__),
        parts,
        bash=maybe(bashes),
        **common,
    ).filter(lambda message: message.role != "bashExecution"),
    st.builds(Message, st.sampled_from(["tool", "user", "toolResult"]), answers, **common),
    st.builds(Message, st.just("bashExecution"), parts, bash=bashes, **common),
    st.builds(ModelChange, words.filter(lambda word: "/" not in word), words),
    st.builds(ThinkingLevel, names),
    st.builds(Label, words, maybe(names)),
    st.builds(SessionInfo, maybe(names), maybe(names), maybe(names), maybe(names), maybe(names), metadata),
    st.builds(Compaction, names, maybe(names), counts, raws, maybe(usages), st.booleans(), raws),
    st.builds(BranchSummary, names, names, raws, maybe(usages), st.booleans()),
    st.builds(Custom, words, raws),
    st.builds(CustomMessage, words, parts, st.booleans(), raws),
    st.builds(
        ToolExecution, words, words, values.map(raw_json), st.booleans(), maybe(names), maybe(st.integers(-255, 255))
    ),
    st.builds(UsageRecord, words, usages, maybe(names), maybe(names), maybe(names), maybe(counts), metadata),
    st.builds(ContextEdit, words, maybe(parts)),
)
times = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))
entries: st.SearchStrategy[KnownEntry] = st.builds(
    entry,
    payloads,
    id=words,
    parent_id=maybe(names),
    timestamp=times,
    command_id=maybe(names),
    batch=maybe(st.builds(Batch, names, names, counts, counts)),
)


@pytest.mark.parametrize("dialect", [PiDialect(), OmpDialect()], ids=["pi", "omp"])
@given(original=entries)
def test_any_entry_is_read_back_equal(dialect: Dialect, original: KnownEntry) -> None:
    line = dialect.encode(original)
    assert line.count(b"\n") == 1
    in_ms = original.timestamp.replace(microsecond=original.timestamp.microsecond // 1000 * 1000)
    expected: KnownEntry = replace(original, timestamp=in_ms)
    if isinstance(expected, SessionInfoEntry) and expected.session_info.name is not None:
        name = json.loads(line).get("name", json.loads(line).get("title"))
        assert "\n" not in name
        expected = replace(expected, session_info=replace(expected.session_info, name=name))
    found = known(line[:-1], dialect)
    assert as_json(found) == as_json(expected)
    assert dialect.encode(found) == dialect.encode(expected) or as_json(
        known(dialect.encode(found), dialect)
    ) == as_json(expected)


odd_values = values | st.sampled_from(["user", "a", [], {}, "2026-01-01T10:00:01.250Z", 10**400])
LINE_KEYS = """type id parentId timestamp message summary firstKeptEntryId tokensBefore targetId label name data
customType content treering thinkingLevel provider modelId usage kind replacement"""
INNER_KEYS = "role content usage timestamp toolCallId command isError summary fields batch cost"
odd_lines = st.dictionaries(
    st.sampled_from(LINE_KEYS.split()), odd_values | st.dictionaries(st.sampled_from(INNER_KEYS.split()), odd_values)
)


@given(
    kind=st.sampled_from(sorted({*PiDialect.types, *OmpDialect.types, "novel"})),
    line=odd_lines,
    role=st.sampled_from(["user", "assistant", "toolResult", "tool", "bashExecution", "custom", "x"]),
)
def test_reading_any_json_object_does_not_raise(kind: str, line: dict[str, Any], role: str) -> None:
    line = {"id": "a", **line, "type": kind}
    if isinstance(line.get("message"), dict):
        line["message"] = {"role": role, **line["message"]}
    encoded = json.dumps(line).encode()
    for dialect in (pi, OmpDialect(), old_dialect()):
        found = dialect.decode(encoded, 1)
        assert found is not None
        if found.id is not None and not isinstance(found, OpaqueEntry):
            as_json(found)


@given(st.binary(max_size=200))
def test_reading_any_bytes_does_not_raise(data: bytes) -> None:
    for dialect in (pi, OmpDialect(), old_dialect()):
        dialect.decode(data, 1)


@given(st.data())
def test_a_truncated_line_is_decoded_as_none(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(LINES))[0].encode()
    cut = data.draw(st.integers(0, len(line) - 1))
    for dialect in (pi, OmpDialect(), old_dialect()):
        assert dialect.decode(line[:cut], 1) is None

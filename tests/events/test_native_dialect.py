"""The native dialect writes one line per entry, reads it back equal, and reads any other line without raising."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.events.content import JSON, Text, TextPart, image, raw_json, text, thinking
from treering.events.dialects.base import Dialect
from treering.events.dialects.native import NativeDialect, read_object, time_of
from treering.events.entries import (
    ENTRY_TYPES,
    EPOCH,
    BashExecution,
    Batch,
    BranchSummary,
    Compaction,
    CompactionEntry,
    ContextEdit,
    Custom,
    CustomEntry,
    CustomMessage,
    CustomMessageEntry,
    Entry,
    Header,
    KnownEntry,
    Label,
    LabelEntry,
    Message,
    MessageEntry,
    ModelChange,
    ModelChangeEntry,
    OpaqueEntry,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ThinkingLevelEntry,
    ToolExecution,
    Usage,
    UsageRecord,
    entry_class,
    payload_of,
)
from treering.events.errors import InvalidEntry, NotASession, UnsupportedVersion, Where
from treering.testing import strategies

NATIVE = NativeDialect()
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
BASE = {"id": "e1", "parent_id": "e0", "timestamp": "2024-05-01T12:00:00Z"}
HERE = Where("/work/a.jsonl", 1, 0)


def decoded(fields: object) -> Entry | None:
    return NATIVE.decode(msgspec.json.encode(fields), 1)


def known(fields: object) -> KnownEntry:
    entry = decoded(fields)
    assert entry is not None
    assert not isinstance(entry, OpaqueEntry), entry.reason
    return entry


def opaque(fields: object) -> OpaqueEntry:
    entry = decoded(fields)
    assert isinstance(entry, OpaqueEntry)
    return entry


def entry_of(payload: Payload, **fields: object) -> KnownEntry:
    kind: Any = entry_class(payload)
    entry: KnownEntry = kind(
        **{"id": "e1", "parent_id": None, "timestamp": NOON, "seq": 1, kind.type: payload, **fields}
    )
    return entry


def in_place_of(entry: KnownEntry, **fields: object) -> KnownEntry:
    replace: Any = msgspec.structs.replace
    changed: KnownEntry = replace(entry, **fields)
    return changed


def message_of(role: str, *content: object, **fields: object) -> Message:
    make: Any = Message
    message: Message = make(role, content, **fields)
    return message


# -- writing


def test_the_native_dialect_implements_the_protocol() -> None:
    dialect: Dialect = NATIVE
    assert (dialect.name, dialect.version, dialect.shared, dialect.old) == ("native", 1, False, False)
    assert dialect.can_append_aside


@pytest.mark.feature("G-16", "G-21")
@pytest.mark.parametrize(
    "entries",
    [strategies.entries(), strategies.entries(["message"]), strategies.entries(["compaction"])],
    ids=["any", "message", "compaction"],
)
@given(data=st.data())
def test_any_entry_is_read_back_equal(entries: st.SearchStrategy[KnownEntry], data: st.DataObject) -> None:
    entry = data.draw(entries)
    line = NATIVE.encode(entry)
    assert line.count(b"\n") == 1
    assert NATIVE.decode(line[:-1], entry.seq) == entry
    assert NATIVE.encode(entry) == line


@pytest.mark.feature("G-44")
@given(st.sampled_from(["off", "low", "high"]) | st.text(st.characters(codec="utf-8")))
def test_any_thinking_level_is_kept(level: str) -> None:
    found = NATIVE.decode(NATIVE.encode(entry_of(ThinkingLevel(level)))[:-1], 1)
    assert isinstance(found, ThinkingLevelEntry)
    assert found.thinking_level.thinking_level == level


@pytest.mark.feature("G-11", "G-14")
@given(strategies.entries(), st.integers(-23, 23))
def test_every_line_has_the_four_keys_and_its_time_in_utc(entry: KnownEntry, hours: int) -> None:
    elsewhere = entry.timestamp.astimezone(timezone(timedelta(hours=hours)))
    fields = json.loads(NATIVE.encode(in_place_of(entry, timestamp=elsewhere)))
    assert {"type", "id", "parent_id", "timestamp"} <= fields.keys()
    assert (fields["type"], fields["id"], fields["parent_id"]) == (entry.type, entry.id, entry.parent_id)
    assert fields["timestamp"].endswith("Z")
    assert datetime.fromisoformat(fields["timestamp"]) == entry.timestamp


def test_fields_that_are_not_set_are_not_written() -> None:
    line = NATIVE.encode(entry_of(Label("e0")))
    assert line == (
        b'{"type":"label","id":"e1","parent_id":null,"timestamp":"2024-05-01T12:00:00Z","seq":1,'
        b'"label":{"target_id":"e0"}}\n'
    )


def test_raw_json_with_line_breaks_is_written_in_one_line() -> None:
    entry = entry_of(Custom("mine", msgspec.Raw(b'{\n  "a": [1.0,\n 2]\n}')))
    line = NATIVE.encode(entry)
    assert line.count(b"\n") == 1
    assert json.loads(line)["custom"]["data"] == {"a": [1.0, 2]}


@pytest.mark.parametrize("entry", [entry_of(Custom("mine", msgspec.Raw(b"{oops"))), entry_of(ThinkingLevel("\ud83d"))])
def test_an_entry_without_a_json_form_is_refused(entry: KnownEntry) -> None:
    with pytest.raises(InvalidEntry, match="cannot be written as JSON"):
        NATIVE.encode(entry)


WRONG: list[tuple[KnownEntry, str]] = [
    (entry_of(message_of("")), "$.message.role"),
    (entry_of(message_of("user", "Hello")), "$.message.content[0]"),
    (entry_of(Message("user", "Hello")), "$.message.content"),  # type: ignore[arg-type]
    (entry_of(message_of("user", model=5)), "$.message.model"),
    (entry_of(message_of("user", usage=Usage("many"))), "$.message.usage.input_tokens"),  # type: ignore[arg-type]
    (entry_of(ModelChange("", "m")), "$.model_change.provider"),
    (entry_of(ModelChange("p", "")), "$.model_change.model_id"),
    (entry_of(ThinkingLevel(None)), "$.thinking_level.thinking_level"),  # type: ignore[arg-type]
    (entry_of(Label("")), "$.label.target_id"),
    (entry_of(SessionInfo(name=7)), "$.session_info.name"),  # type: ignore[arg-type]
    (entry_of(Compaction(None, None, 1)), "$.compaction.summary"),  # type: ignore[arg-type]
    (entry_of(Compaction("s", None, -1)), "$.compaction.tokens_before"),
    (entry_of(Compaction("s", None, 1.5)), "$.compaction.tokens_before"),  # type: ignore[arg-type]
    (entry_of(BranchSummary(None, "e0")), "$.branch_summary.summary"),  # type: ignore[arg-type]
    (entry_of(BranchSummary("s", None)), "$.branch_summary.from_id"),  # type: ignore[arg-type]
    (entry_of(Custom("")), "$.custom.custom_type"),
    (entry_of(CustomMessage("", ())), "$.custom_message.custom_type"),
    (entry_of(ToolExecution("", "n")), "$.tool_execution.tool_call_id"),
    (entry_of(UsageRecord("turn", None)), "$.usage.usage"),  # type: ignore[arg-type]
    (entry_of(ContextEdit("")), "$.context_edit.target_id"),
    (entry_of(ThinkingLevel("off"), id=""), "$.id"),
    (entry_of(ThinkingLevel("off"), id=None), "$.id"),
    (entry_of(ThinkingLevel("off"), parent_id=7), "$.parent_id"),
    (entry_of(ThinkingLevel("off"), timestamp="2024-05-01T12:00:00Z"), "$.timestamp"),
    (entry_of(ThinkingLevel("off"), timestamp=datetime(2024, 5, 1)), "$.timestamp"),
    (entry_of(ThinkingLevel("off"), batch=Batch("s", "b", 0, None)), "$.batch.n"),  # type: ignore[arg-type]
    (entry_of(message_of(7, text("Hello"))), "$.message.role"),  # type: ignore[arg-type]
    (entry_of(message_of("user", text(7))), "$.message.content[0].text.content"),  # type: ignore[arg-type]
    (entry_of(message_of("user", TextPart(Text("Hello", 7)))), "$.message.content[0].text.signature"),  # type: ignore[arg-type]
    (entry_of(message_of("user", text("Hello"), stop_reason=7)), "$.message.stop_reason"),
    (entry_of(message_of("user", text("Hello")), id=""), "$.id"),
    (entry_of(message_of("user", text("Hello")), id=7), "$.id"),
    (entry_of(message_of("user", text("Hello")), parent_id=7), "$.parent_id"),
    (entry_of(message_of("user", text("Hello")), timestamp=datetime(2024, 5, 1)), "$.timestamp"),
    (entry_of(message_of("user", text("Hello")), seq=1.5), "$.seq"),
    (entry_of(message_of("user", text("Hello")), aside=1), "$.aside"),
    (entry_of(message_of("user", text("Hello")), command_id=7), "$.command_id"),
    (entry_of(message_of("user", text("Hello")), batch=Batch("s", "b", 0, None)), "$.batch.n"),  # type: ignore[arg-type]
    (entry_of(message_of("user", text("Hello")), batch=7), "$.batch"),
]


@pytest.mark.feature("G-6")
@pytest.mark.parametrize(("entry", "place"), WRONG, ids=[f"{place} #{n}" for n, (_, place) in enumerate(WRONG)])
def test_a_missing_or_ill_typed_field_is_refused_with_its_place(entry: KnownEntry, place: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        NATIVE.encode(entry)
    assert f"at `{place}` of a {entry.type} entry" in str(caught.value)


@pytest.mark.feature("G-37")
@pytest.mark.parametrize(
    ("payload", "belongs"),
    [
        (None, None),
        ({"role": "user"}, None),
        (CustomMessage("mine", ()), CustomMessageEntry),
        (Label("e0"), LabelEntry),
    ],
)
def test_a_payload_of_another_type_or_none_is_not_written(payload: object, belongs: type | None) -> None:
    for kind in ENTRY_TYPES.values():
        if kind is not belongs:
            make: Any = kind
            with pytest.raises(InvalidEntry, match=rf"got `{type(payload).__name__}` - at `\$\.{kind.type}`"):
                NATIVE.encode(make(id="e1", parent_id=None, timestamp=NOON, **{kind.type: payload}))


class Words(str):
    """A subclass of str, as programs can pass."""


@given(strategies.messages(), st.sampled_from(["role", "content", ""]), st.booleans())
def test_write_returns_the_entry_as_its_line_is_read_back(drawn: Message, own: str, batched: bool) -> None:
    content = drawn.content
    if own == "content":
        content = tuple(text(Words(each.text.content)) if isinstance(each, TextPart) else each for each in content)
    batch = Batch("s", "b", 0, 2) if batched else None
    message = msgspec.structs.replace(drawn, role=Words(drawn.role) if own == "role" else drawn.role, content=content)
    line, kept = NATIVE.write(entry_of(message, batch=batch))
    read = NATIVE.decode(line[:-1], 1)
    assert kept == read
    assert isinstance(kept, MessageEntry)
    assert type(kept.message.role) is str
    assert all(type(each.text.content) is str for each in kept.message.content if isinstance(each, TextPart))


def test_the_fields_that_the_fast_path_of_write_checks_are_all_there_are() -> None:
    base = ("id", "parent_id", "timestamp", "seq", "aside", "command_id", "batch")
    assert MessageEntry.__struct_fields__ == (*base, "message")
    assert Message.__struct_fields__[:2] == ("role", "content")
    assert (TextPart.__struct_fields__, Text.__struct_fields__) == (("text",), ("content", "signature"))


def test_text_beyond_ascii_is_kept_in_its_compact_form() -> None:
    long_text = "".join(["Grüße"] * 200)
    _, kept = NATIVE.write(entry_of(message_of("user", text(long_text))))
    part = kept.message.content[0] if isinstance(kept, MessageEntry) else None
    assert isinstance(part, TextPart)
    assert part.text.content == long_text
    assert sys.getsizeof(part.text.content) < sys.getsizeof(long_text)


def test_an_opaque_entry_is_not_encoded() -> None:
    entry: Any = opaque({"type": "label", **BASE})
    with pytest.raises(InvalidEntry, match="copy the line"):
        NATIVE.encode(entry)


# -- reading


def test_the_seq_is_the_position_of_the_line_not_its_stored_value() -> None:
    line = NATIVE.encode(entry_of(ThinkingLevel("off"), seq=7))[:-1]
    for seq in (7, 9):
        entry = NATIVE.decode(line, seq)
        assert entry is not None
        assert entry.seq == seq


@pytest.mark.feature("G-38")
@given(strategies.entries())
def test_a_nested_and_a_flat_payload_are_read_as_equal_entries(entry: KnownEntry) -> None:
    fields = msgspec.json.decode(NATIVE.encode(entry))
    payload = fields.pop(entry.type)
    flat = msgspec.json.encode({**fields, **payload})
    # An empty payload in the flat form is a missing one.
    assert NATIVE.decode(flat, entry.seq) == entry if payload else isinstance(decoded(fields), OpaqueEntry)


@pytest.mark.feature("G-38")
def test_flat_labels_and_compactions_are_read() -> None:
    label = {"type": "label", "id": "l", "parent_id": "m", "target_id": "m", "label": "greeting"}
    cut = {"type": "compaction", "id": "c", "parent_id": "l", "summary": "Hi.", "first_kept_entry_id": "m"}
    time = {"timestamp": "2024-05-01T12:00:00Z"}
    usage = {"usage": {"input_tokens": 3}}
    assert known({**label, **time}) == LabelEntry(
        id="l", parent_id="m", timestamp=NOON, seq=1, label=Label("m", "greeting")
    )
    assert known({**cut, **time, "tokens_before": 1500, **usage}) == CompactionEntry(
        id="c", parent_id="l", timestamp=NOON, seq=1, compaction=Compaction("Hi.", "m", 1500, usage=Usage(3))
    )


@pytest.mark.feature("G-37")
@pytest.mark.parametrize(
    "payloads",
    [
        {"message": {"role": "user"}, "compaction": {"summary": "s", "first_kept_entry_id": None, "tokens_before": 1}},
        {"message": {"role": "user"}, "usage": {"kind": "turn", "usage": {}}},
        {"label": {"target_id": "e0"}},
        {"role": "user", "content": "Hello", "label": {"target_id": "e0"}},
        {},
        {"message": None},
        {"something": "else"},
        {"type": "session_info"},
    ],
)
def test_a_line_with_two_payloads_none_or_one_of_another_type_is_opaque(payloads: dict[str, object]) -> None:
    assert payload_of(known({"type": "session_info", **BASE, "session_info": {}})) == SessionInfo()
    entry = opaque({"type": "message", **BASE, **payloads})
    assert (entry.id, entry.parent_id, entry.seq) == ("e1", "e0", 1)
    assert "payload" in entry.reason


@pytest.mark.feature("G-18")
@pytest.mark.parametrize("name", ["thinking_level", "thinking_level_change"])
@pytest.mark.parametrize("nested", ["thinking_level", "thinking_level_change", None])
def test_both_names_of_the_thinking_level_are_read_and_one_is_written(name: str, nested: str | None) -> None:
    payload = {"thinking_level": "high"}
    found = known({"type": name, **BASE, **({nested: payload} if nested else payload)})
    assert isinstance(found, ThinkingLevelEntry)
    assert found.thinking_level == ThinkingLevel("high")
    assert json.loads(NATIVE.encode(found))["type"] == "thinking_level"


def test_string_content_is_read_as_one_text_part() -> None:
    for line in ({"message": {"role": "user", "content": "Hi"}}, {"role": "user", "content": "Hi"}):
        assert payload_of(known({"type": "message", **BASE, **line})) == message_of("user", text("Hi"))
    edit = {"type": "context_edit", **BASE, "target_id": "e0", "replacement": "shorter"}
    assert payload_of(known(edit)) == ContextEdit("e0", (text("shorter"),))


@pytest.mark.feature("G-39")
@pytest.mark.parametrize("message", [{"content": "Hi"}, {"role": None}, {"role": 7}, {"role": ""}])
def test_a_message_without_a_role_is_opaque(message: dict[str, object]) -> None:
    assert "role" in opaque({"type": "message", **BASE, "message": message}).reason


REQUIRED: dict[str, dict[str, object]] = {
    "model_change": {"provider": "p", "model_id": "m"},
    "thinking_level": {"thinking_level": "off"},
    "label": {"target_id": "e0"},
    "compaction": {"summary": "s", "first_kept_entry_id": "e0", "tokens_before": 5},
    "branch_summary": {"summary": "s", "from_id": "e0"},
    "custom": {"custom_type": "mine"},
    "custom_message": {"custom_type": "mine", "content": "Hi"},
    "tool_execution": {"tool_call_id": "c", "tool_name": "ls"},
    "usage": {"kind": "turn", "usage": {"input_tokens": 1}},
    "context_edit": {"target_id": "e0"},
}


@pytest.mark.feature("G-42", "G-43", "G-50", "G-51", "G-53")
@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in REQUIRED.items() for field in fields])
def test_a_payload_without_a_required_field_or_with_a_wrong_one_is_opaque(name: str, field: str) -> None:
    whole = REQUIRED[name]
    assert known({"type": name, **BASE, name: whole}).type == name
    assert known({"type": name, **BASE, **whole}).type == name
    without = {key: value for key, value in whole.items() if key != field}
    wrongs: list[dict[str, object]] = [without, {**whole, field: True}, {**whole, field: -1}, {**whole, field: [[]]}]
    for wrong in wrongs:
        assert opaque({"type": name, **BASE, name: wrong}).id == "e1"


@pytest.mark.parametrize("field", ["id", "timestamp"])
def test_a_line_without_an_id_or_a_timestamp_is_opaque(field: str) -> None:
    fields = {"type": "label", **BASE, "target_id": "e0"}
    del fields[field]
    entry = opaque(fields)
    assert (entry.id, entry.timestamp) == ((None, NOON) if field == "id" else ("e1", EPOCH))
    root = {key: value for key, value in BASE.items() if key != "parent_id"}
    assert known({"type": "label", **root, "target_id": "e0"}).parent_id is None
    header = opaque({"type": "session", "id": "s", "version": 1, "timestamp": "2024-05-01T12:00:00Z"})
    assert (header.type, header.id) == ("session", None)


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("2024-05-01T14:00:00+02:00", NOON),
        ("2024-05-01T12:00:00", NOON),
        ("2024-05-01T12:00:00.000000001Z", NOON),
        ("yesterday", EPOCH),
        ("9999-12-31T23:59:59-10:00", EPOCH),
        (1714564800000, EPOCH),
        (None, EPOCH),
        ({}, EPOCH),
    ],
)
def test_any_stored_time_is_read_as_utc_or_as_the_epoch(written: JSON, time: datetime) -> None:
    assert time_of(written) == time
    entry = decoded({"type": "thinking_level", **BASE, "timestamp": written, "thinking_level": "off"})
    assert entry is not None
    assert entry.timestamp >= EPOCH
    if time == NOON:
        assert isinstance(entry, ThinkingLevelEntry)
        assert entry.timestamp == NOON


def test_unknown_keys_are_ignored_and_unknown_types_are_opaque() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": {"content": "Hi", "new": 1}, "new": 2}], "new": 3}
    assert payload_of(known({"type": "message", **BASE, "message": message, "new": 4})) == message_of(
        "user", text("Hi")
    )
    line = {"type": "hologram", **BASE, "data": {"deep": [1]}, "aside": True, "command_id": "c"}
    entry = opaque(line)
    assert (entry.type, entry.id, entry.parent_id, entry.timestamp) == ("hologram", "e1", "e0", NOON)
    assert (entry.value, entry.aside, entry.command_id, entry.reason) == (line, True, "c", "unknown type")
    mark = {"session": "s", "id": "b", "i": 1, "n": 3}
    assert opaque({**line, "batch": mark}).batch == Batch("s", "b", 1, 3)
    assert opaque({**line, "batch": {"session": "s"}}).batch is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b'"text"',
        b"{",
        b"\x00" * 64,
        b"\xff\xfe{}",
        b"not json",
        b'{"type":"message"}{"type":"message"}',
        b'{"type":"custom","id":"e1","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"message","id":"\xff"}',
    ],
    ids=repr,
)
def test_a_line_that_is_not_a_json_object_is_decoded_as_none(line: bytes) -> None:
    assert NATIVE.decode(line, 1) is None


def test_a_lone_surrogate_is_replaced_and_the_rest_is_read() -> None:
    line = json.dumps({"type": "message", **BASE, "message": {"role": "user", "content": "cut \ud83d off 😀"}})
    assert "\\ud83d off" in line
    entry = NATIVE.decode(line.encode(), 1)
    assert isinstance(entry, MessageEntry)
    assert entry.message.content == (text("cut \ufffd off 😀"),)
    assert read_object(b'{"a":"\\ud83d"}') == {"a": "\ufffd"}
    assert read_object(b'{"a":"\\u12"}') is None
    unknown = NATIVE.decode(json.dumps({"type": "bark", **BASE, "text": "cut \ud83d off 😀"}).encode(), 1)
    assert isinstance(unknown, OpaqueEntry)
    assert unknown.value == {"type": "bark", **BASE, "text": "cut \ufffd off 😀"}


@given(strategies.entries(), st.data())
def test_a_truncated_line_is_decoded_as_none(entry: KnownEntry, data: st.DataObject) -> None:
    line = NATIVE.encode(entry)[:-1]
    cut = data.draw(st.integers(0, len(line) - 1))
    assert NATIVE.decode(line[:cut], 1) is None


@given(strategies.entries(), st.data())
def test_a_line_with_overwritten_bytes_never_raises(entry: KnownEntry, data: st.DataObject) -> None:
    line = bytearray(NATIVE.encode(entry)[:-1])
    start = data.draw(st.integers(0, len(line) - 1))
    line[start : start + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    NATIVE.decode(bytes(line), 1)


@given(st.dictionaries(st.sampled_from([*BASE, "type", *ENTRY_TYPES, "content", "usage"]), strategies.json_values()))
def test_any_json_object_is_decoded_to_an_entry(fields: dict[str, Any]) -> None:
    assert decoded(fields) is not None


# -- headers


HEADERS = st.builds(
    Header,
    id=strategies.ids(),
    version=st.just(1),
    timestamp=strategies.times(),
    cwd=st.none() | st.text(st.characters(codec="utf-8")),
    parent_session=st.none() | strategies.ids(),
    parent_entry=st.none() | strategies.ids(),
    key=st.none() | st.just("telegram:123456"),
    title=st.none() | st.text(st.characters(codec="utf-8")),
)


@pytest.mark.feature("G-15")
@given(HEADERS)
def test_a_header_is_read_back_equal_and_written_again_byte_for_byte(header: Header) -> None:
    line = NATIVE.encode_header(header)
    assert line.startswith(b'{"type":"session","id":')
    assert NATIVE.decode_header(line[:-1], HERE) == header
    assert NATIVE.encode_header(NATIVE.decode_header(line[:-1], HERE)) == line
    fields = json.loads(line)
    assert fields["timestamp"].endswith("Z")
    assert datetime.fromisoformat(fields["timestamp"]) == header.timestamp == header.created


@pytest.mark.feature("G-36")
def test_a_header_has_a_cwd_only_if_it_is_known() -> None:
    header = Header(id="s", version=1, timestamp=NOON)
    assert b"cwd" not in NATIVE.encode_header(header)
    assert NATIVE.decode_header(NATIVE.encode_header(header)[:-1], HERE).cwd is None
    there = msgspec.structs.replace(header, cwd="/work/project")
    assert b'"cwd":"/work/project"' in NATIVE.encode_header(there)
    assert NATIVE.decode_header(NATIVE.encode_header(there)[:-1], HERE).cwd == "/work/project"


def test_a_header_with_a_time_without_zone_and_unknown_keys_is_read() -> None:
    line = b'{"type":"session","id":"s","version":1,"timestamp":"2024-05-01T12:00:00","harness":"x"}'
    assert NATIVE.decode_header(line, HERE) == Header(id="s", version=1, timestamp=NOON)


@pytest.mark.feature("G-31")
@pytest.mark.parametrize("name", ["message", "title", "Session", "", None, 7])
def test_a_header_of_another_type_is_refused(name: object) -> None:
    line = json.dumps({"type": name, "id": "s", "version": 1, "timestamp": "2024-05-01T12:00:00Z"}).encode()
    with pytest.raises(NotASession, match=r"/work/a\.jsonl:1:0: this is not a session header"):
        NATIVE.decode_header(line, HERE)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"type":"session","id":"s","version":"1","timestamp":"2024-05-01T12:00:00Z"}',
        b'{"type":"session","id":"s","version":1}',
        b'{"type":"session","id":"\xff","version":1,"timestamp":"2024-05-01T12:00:00Z"}',
    ],
    ids=repr,
)
def test_a_line_that_is_not_a_header_is_refused(line: bytes) -> None:
    with pytest.raises(NotASession):
        NATIVE.decode_header(line, HERE)


def test_a_header_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="version 2, this program reads up to 1"):
        NATIVE.decode_header(b'{"type":"session","id":"s","version":2,"timestamp":"2024-05-01T12:00:00Z"}', HERE)


# -- the rest of the protocol


def test_a_new_id_is_the_uuid_and_is_refused_if_it_is_taken() -> None:
    assert NATIVE.new_id("u", lambda _: False) == "u"
    with pytest.raises(InvalidEntry, match="twice"):
        NATIVE.new_id("u", lambda _: True)


def test_migrating_leaves_lines_as_they_are() -> None:
    assert NATIVE.migrated(b"{}", 1) == b"{}\n"
    assert NATIVE.migrated_header(b"{}\n") == b"{}\n"


def test_changing_the_data_of_an_entry_does_not_change_the_entry() -> None:
    entry = entry_of(Custom("mine", raw_json({"a": [1]})))
    assert isinstance(entry, CustomEntry)
    mine: Any = entry.custom.data
    mine["a"].append(2)
    assert entry.custom.data == {"a": [1]}


def test_messages_with_optional_fields_are_read_back_equal() -> None:
    for message in (
        message_of("user", text("Hi"), image("QQ==", "image/png"), raw_metadata=raw_json({"from": "cli"})),
        message_of("assistant", thinking("hm", signature="s"), provider="p", model="m", usage=Usage(1, 2, cost=0.5)),
        message_of("bashExecution", bash=BashExecution("ls", "a", exit_code=1, exclude_from_context=True)),
    ):
        assert NATIVE.decode(NATIVE.encode(entry_of(message))[:-1], 1) == entry_of(message)
    with pytest.raises(ValueError, match="needs `bash` or content"):
        Message("bashExecution")
    assert isinstance(entry_of(ModelChange("p", "m")), ModelChangeEntry)

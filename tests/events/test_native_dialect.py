"""The native dialect writes one line per entry, reads it back equal, and reads any other line without raising."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treering.entries import ThinkingLevel, ToolExecution
from treering.events.content import Text, TextPart, image, text, thinking, tool_result
from treering.events.dialects.base import Dialect, time_of
from treering.events.dialects.native import NativeDialect, is_object, read_object
from treering.events.entries import ENTRY_TYPES, EPOCH, Batch, Entry, Header, KnownEntry, OpaqueEntry, entry_class
from treering.events.entries.contextual import BranchSummary, Compaction, ContextEdit, CustomMessage, CustomMessageEntry
from treering.events.entries.message import BashExecution, Message, MessageEntry, Payload, Usage
from treering.events.entries.records import Custom, Label, LabelEntry, ModelChange, SessionInfo, UsageRecord
from treering.events.errors import InvalidEntry, NotASession, UnsupportedVersion, Where
from treering.events.json_values import JSON
from treering.testing import strategies

NATIVE = NativeDialect()
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TIME = "2024-05-01T12:00:00Z"
BASE = {"id": "e1", "parent_id": "e0", "timestamp": TIME}
HERE = Where("/work/a.jsonl", 1, 0)
CEST = timezone(timedelta(hours=2))


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
    base = {"id": "e1", "parent_id": None, "timestamp": NOON, "seq": 1, kind.type: payload}
    entry: KnownEntry = kind(**{**base, **fields})
    return entry


def message_of(role: str, *content: object, **fields: object) -> Message:
    make: Any = Message
    message: Message = make(role, content, **fields)
    return message


def user(*content: object, **fields: object) -> KnownEntry:
    """A message of a user, the entry's other fields as given."""
    return entry_of(message_of("user", *(content or (text("Hello"),))), **fields)


# -- writing


def test_the_native_dialect_implements_the_protocol() -> None:
    dialect: Dialect = NATIVE
    assert (dialect.name, dialect.version, dialect.shared, dialect.old) == ("native", 1, False, False)
    assert dialect.can_append_aside
    assert (dialect.migrated(b"{}", 1), dialect.migrated_header(b"{}\n")) == (b"{}\n", b"{}\n")
    assert dialect.new_id("u", lambda _: False) == "u"
    with pytest.raises(InvalidEntry, match="twice"):
        dialect.new_id("u", lambda _: True)


ENTRIES = [strategies.entries(), strategies.entries(["message"]), strategies.entries(["compaction"])]


@pytest.mark.feature("G-11", "G-14", "G-16", "G-21", "G-44")
@pytest.mark.parametrize("entries", ENTRIES, ids=["any", "message", "compaction"])
@given(data=st.data(), hours=st.integers(-23, 23))
def test_any_entry_is_read_back_equal(entries: st.SearchStrategy[KnownEntry], data: st.DataObject, hours: int) -> None:
    entry = data.draw(entries)
    line = NATIVE.encode(entry)
    assert line.count(b"\n") == 1
    assert NATIVE.decode(line[:-1], entry.seq) == entry
    assert NATIVE.encode(entry) == line
    assert is_object(line)
    replace: Any = msgspec.structs.replace
    elsewhere = replace(entry, timestamp=entry.timestamp.astimezone(timezone(timedelta(hours=hours))))
    assert NATIVE.write(elsewhere) == (line, entry)
    fields = json.loads(line)
    assert (fields["type"], fields["id"], fields["parent_id"]) == (entry.type, entry.id, entry.parent_id)
    assert fields["timestamp"].endswith("Z")
    assert datetime.fromisoformat(fields["timestamp"]) == entry.timestamp


HEAD = b'","id":"e1","parent_id":null,"timestamp":"2024-05-01T12:00:00Z","seq":1,'


@pytest.mark.feature("G-44")
@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (Label("e0"), b'"label":{"target_id":"e0"}'),
        (ThinkingLevel("any word"), b'"thinking_level":{"thinking_level":"any word"}'),
        (Custom("mine", Raw(b'{\n  "a": [1.0,\n 2]\n}')), b'"custom":{"custom_type":"mine","data":{"a":[1.0,2]}}'),
    ],
)
def test_a_line_holds_what_is_set_and_no_line_break(payload: Payload, written: bytes) -> None:
    entry = entry_of(payload)
    assert NATIVE.encode(entry) == b'{"type":"' + entry.type.encode() + HEAD + written + b"}\n"


class Words(str):
    """A subclass of str, as programs can pass."""


class Moments(datetime):
    """A subclass of datetime, as programs can pass."""


@pytest.mark.parametrize(
    "entry",
    [entry_of(Custom("mine", Raw(b"{oops"))), entry_of(ThinkingLevel("\ud83d")), user(timestamp=Moments.now(UTC))],
)
def test_an_entry_without_a_json_form_is_refused(entry: KnownEntry) -> None:
    with pytest.raises(InvalidEntry, match=f"this {entry.type} entry cannot be written as JSON"):
        NATIVE.encode(entry)


OTHER_FIELDS: dict[str, object] = {  # of a message: a value that is right for each
    "model": "m",
    "provider": "p",
    "usage": Usage(1, 2, cost=0.5),
    "stop_reason": "stop",
    "error": "no",
    "tool_name": "ls",
    "duration_ms": 1.5,
    "custom_type": "mine",
    "display": True,
    "bash": BashExecution("ls", "a", exit_code=1, exclude_from_context=True),
    "raw_metadata": Raw(b'{"a":1}'),
}
OFF = ThinkingLevel("off")
UNFINISHED: Any = Batch("s", "b", 0, None)  # type: ignore[arg-type]
NAIVE = datetime(2024, 5, 1)
WRONG: list[tuple[KnownEntry, str]] = [
    (entry_of(message_of("")), "$.message.role"),
    (entry_of(message_of("user", "Hello")), "$.message.content[0]"),
    (entry_of(Message("user", "Hello")), "$.message.content"),  # type: ignore[arg-type]
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
    (entry_of(CustomMessage("mine", 7)), "$.custom_message.content"),  # type: ignore[arg-type]
    (entry_of(CustomMessage("mine", b"QQ==")), "$.custom_message.content"),  # type: ignore[arg-type]
    (entry_of(ToolExecution("", "n")), "$.tool_execution.tool_call_id"),
    (entry_of(ToolExecution("c", "n", duration_ms="1")), "$.tool_execution.duration_ms"),  # type: ignore[arg-type]
    (entry_of(UsageRecord("turn", None)), "$.usage.usage"),  # type: ignore[arg-type]
    (entry_of(ContextEdit("")), "$.context_edit.target_id"),
    (entry_of(message_of(7, text("Hello"))), "$.message.role"),  # type: ignore[arg-type]
    (user(text(7)), "$.message.content[0].text.content"),  # type: ignore[arg-type]
    (user(TextPart(Text("Hello", 7))), "$.message.content[0].text.signature"),  # type: ignore[arg-type]
    *((entry_of(message_of("user", **{key: ()})), f"$.message.{key}") for key in OTHER_FIELDS if key[:4] != "raw_"),
    *((made, f"$.{key}") for key in ("id", "parent_id") for made in (entry_of(OFF, **{key: 7}), user(**{key: 7}))),
    *((made, "$.id") for made in (entry_of(OFF, id=""), entry_of(OFF, id=None), user(id=""))),
    *((made, "$.timestamp") for made in (entry_of(OFF, timestamp=TIME), entry_of(OFF, timestamp=NAIVE))),
    *((made, "$.timestamp") for made in (user(timestamp=TIME), user(timestamp=NAIVE))),
    *((made, "$.batch.n") for made in (entry_of(OFF, batch=UNFINISHED), user(batch=UNFINISHED))),
    *(
        (user(**{key: wrong}), f"$.{key}")
        for key, wrong in {"seq": 1.5, "aside": 1, "command_id": 7, "batch": 7}.items()
    ),
]


@pytest.mark.feature("G-6")
@pytest.mark.parametrize(("entry", "place"), WRONG, ids=[f"{place} #{n}" for n, (_, place) in enumerate(WRONG)])
def test_a_missing_or_ill_typed_field_is_refused_with_its_place(entry: KnownEntry, place: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        NATIVE.encode(entry)
    assert f"at `{place}` of a {entry.type} entry" in str(caught.value)


class Level(Enum):
    """An enumeration, which an encoder writes as the value of its member."""

    HIGH = "high"
    ONE = 1


DATA = {"a": [1]}
NOT_AS_GIVEN: list[tuple[Any, str, str]] = [
    (Message("user", {text("Hello")}), "Expected `array`, got `set`", "$.message.content"),  # type: ignore[arg-type]
    (
        message_of("user", text("a"), text(b"QQ==")),  # type: ignore[arg-type]
        "Expected `str`, got `bytes` (decode it first)",
        "$.message.content[1].text.content",
    ),
    (
        message_of("user", usage={"input_tokens": Level.ONE}),
        "Expected `int`, got `Level`",
        "$.message.usage.input_tokens",
    ),
    (
        message_of("user", duration_ms=math.nan),
        "nan cannot be written: give a finite number, or None",
        "$.message.duration_ms",
    ),
    (ThinkingLevel(Level.HIGH), "Expected `str`, got `Level`", "$.thinking_level.thinking_level"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("payload", "told", "place"), NOT_AS_GIVEN)
def test_a_value_that_would_be_written_as_of_another_type_is_refused(payload: Payload, told: str, place: str) -> None:
    entry = entry_of(payload)
    with pytest.raises(InvalidEntry) as caught:
        NATIVE.encode(entry)
    assert str(caught.value) == f"{told} - at `{place}` of a {entry.type} entry"
    with pytest.raises(InvalidEntry, match="values of type `bytes` have no JSON form of a custom entry"):
        NATIVE.encode(entry_of(Custom("mine", {"a": b"x"})))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (Message("user", [text("a"), text("b")]), message_of("user", text("a"), text("b"))),  # type: ignore[arg-type]
        (message_of("user", usage={"input_tokens": 5}, model="m"), message_of("user", usage=Usage(5), model="m")),
        (message_of("user", duration_ms=5, display=True), message_of("user", duration_ms=5.0, display=True)),
        (Custom("mine", DATA), Custom("mine", Raw(b'{"a":[1]}'))),  # type: ignore[arg-type]
        (ToolExecution("c", "n", Raw(b"{}"), error=Words("e")), ToolExecution("c", "n", Raw(b"{}"), error="e")),
    ],
)
def test_lists_mappings_and_data_may_be_given_for_what_is_read_back(given: Payload, read: Payload) -> None:
    assert NATIVE.write(entry_of(given))[1] == entry_of(read)


@pytest.mark.feature("G-37")
@pytest.mark.parametrize(
    ("payload", "belongs"),
    [(None, None), ({"role": "user"}, None), (CustomMessage("a", ()), CustomMessageEntry), (Label("e0"), LabelEntry)],
)
def test_a_payload_of_another_type_or_none_is_not_written(payload: object, belongs: type | None) -> None:
    for kind in ENTRY_TYPES.values():
        if kind is not belongs:
            make: Any = kind
            with pytest.raises(InvalidEntry, match=rf"got `{type(payload).__name__}` - at `\$\.{kind.type}`"):
                NATIVE.encode(make(id="e1", parent_id=None, timestamp=NOON, **{kind.type: payload}))


PLAIN = [user(), user(text("")), user(parent_id="e0", seq=7), user(text("a"), text("b"), batch=Batch("s", "b", 0, 2))]
NOT_PLAIN = [
    *(entry_of(message_of("user", text("Hello"), **{key: value})) for key, value in OTHER_FIELDS.items()),
    entry_of(message_of(Words("user"))),
    entry_of(Message("user", [text("Hello")])),  # type: ignore[arg-type]
    *(user(part) for part in (thinking("hm", signature="s"), image("QQ==", "image/png"), text(Words("a")), text("é"))),
    *(user(text("a"), part) for part in (TextPart(Text("a", "signed")), tool_result("c", "b"))),
    *(user(**{key: Words("e0")}) for key in ("id", "parent_id")),
    user(timestamp=NOON.astimezone(CEST)),
    *(
        user(**{key: value})
        for key, value in {"aside": True, "command_id": "c", "batch": Batch(Words("s"), "b", 0, 2)}.items()
    ),
    *(entry_of(payload) for payload in (Label("e0"), Compaction("s", None, 1), OFF)),
]


@pytest.mark.parametrize("entry", [*PLAIN, *NOT_PLAIN])
def test_write_returns_the_entry_as_its_line_is_read_back(entry: KnownEntry) -> None:
    line, kept = NATIVE.write(entry)
    read = NATIVE.decode(line[:-1], entry.seq)
    assert kept == read
    assert repr(kept) == repr(read), "every value has the type that reading gives it"
    assert (kept is entry) == any(entry is each for each in PLAIN), "messages of plain text alone are not decoded again"


def test_the_fields_that_the_fast_path_of_write_checks_are_all_there_are() -> None:
    base = ("id", "parent_id", "timestamp", "seq", "aside", "command_id", "batch")
    assert MessageEntry.__struct_fields__ == (*base, "message")
    assert Message.__struct_fields__[:2] == ("role", "content")
    assert {*Message.__struct_fields__[2:]} == {*OTHER_FIELDS}
    assert (TextPart.__struct_fields__, Text.__struct_fields__) == (("text",), ("content", "signature"))


def test_text_beyond_ascii_is_kept_in_its_compact_form() -> None:
    long_text = "".join(["Grüße"] * 200)
    _, kept = NATIVE.write(user(text(long_text)))
    part = kept.message.content[0] if isinstance(kept, MessageEntry) else None
    assert isinstance(part, TextPart)
    assert part.text.content == long_text
    assert sys.getsizeof(part.text.content) < sys.getsizeof(long_text)


def test_an_opaque_entry_is_not_encoded() -> None:
    entry: Any = opaque({"type": "label", **BASE})
    with pytest.raises(InvalidEntry, match="OpaqueEntry cannot be encoded: copy the line"):
        NATIVE.encode(entry)


# -- reading


def test_the_seq_is_the_position_of_the_line_not_its_stored_value() -> None:
    entries = [user(seq=7), entry_of(OFF, seq=7)]
    assert [NATIVE.decode(NATIVE.encode(entry)[:-1], 9) for entry in entries] == [user(seq=9), entry_of(OFF, seq=9)]


@pytest.mark.feature("G-38")
@given(strategies.entries())
def test_a_nested_and_a_flat_payload_are_read_as_equal_entries(entry: KnownEntry) -> None:
    fields = msgspec.json.decode(NATIVE.encode(entry))
    payload = fields.pop(entry.type)
    flat = msgspec.json.encode({**fields, **payload})
    # An empty payload in the flat form is a missing one.
    assert NATIVE.decode(flat, entry.seq) == entry if payload else isinstance(decoded(fields), OpaqueEntry)


HI = message_of("user", text("Hi"))
COMPACTED = {"summary": "Hi.", "first_kept_entry_id": "m", "tokens_before": 1500, "usage": {"input_tokens": 3}}
NEW = {"role": "user", "content": [{"type": "text", "text": {"content": "Hi", "new": 1}, "new": 2}], "new": 3}


@pytest.mark.feature("G-18", "G-38")
@pytest.mark.parametrize(
    ("name", "fields", "payload"),
    [
        ("label", {"target_id": "m", "label": "greeting"}, Label("m", "greeting")),
        ("label", {"label": {"target_id": "m", "label": "greeting"}}, Label("m", "greeting")),
        ("compaction", COMPACTED, Compaction("Hi.", "m", 1500, usage=Usage(3))),
        ("compaction", {"compaction": COMPACTED}, Compaction("Hi.", "m", 1500, usage=Usage(3))),
        ("compaction", {"compaction": COMPACTED, "x": {}}, Compaction("Hi.", "m", 1500, usage=Usage(3))),
        ("usage", {"kind": "turn", "usage": {"input_tokens": 3}}, UsageRecord("turn", Usage(3))),
        ("usage", {"usage": {"kind": "turn", "usage": {"input_tokens": 3}}}, UsageRecord("turn", Usage(3))),
        ("session_info", {"session_info": {}}, SessionInfo()),
        *(
            (
                name,
                {nested: {"thinking_level": "high"}} if nested else {"thinking_level": "high"},
                ThinkingLevel("high"),
            )
            for name in ("thinking_level", "thinking_level_change")
            for nested in ("thinking_level", "thinking_level_change", None)
        ),
        ("message", {"message": NEW, "new": 4}, HI),
        ("message", {"message": {"role": "user", "content": "Hi"}}, HI),
        ("message", {"role": "user", "content": "Hi"}, HI),
        *(
            ("message", {"role": "user", "content": [part]}, HI)
            for part in ("Hi", {"type": "text", "text": "Hi"}, {"text": {"content": "Hi"}}, {"text": "Hi"})
        ),
        (
            "message",
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, "Hi"]},
            message_of("assistant", thinking("hm", signature="s"), text("Hi")),
        ),
        (
            "message",
            {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c", "content": ["a", {"text": "b"}]}]},
            message_of("tool", tool_result("c", [text("a"), text("b")])),
        ),
        (
            "message",
            {"role": "tool", "content": [{"tool_result": {"tool_use_id": "c", "content": [{"text": "b"}]}}]},
            message_of("tool", tool_result("c", [text("b")])),
        ),
        ("message", {"role": "user", "content": [{"type": "text", "content": "Hi"}]}, HI),
        ("context_edit", {"target_id": "e0", "replacement": "shorter"}, ContextEdit("e0", (text("shorter"),))),
        ("context_edit", {"target_id": "e0", "replacement": None}, ContextEdit("e0")),
        ("custom", {"custom_type": "mine", "data": {"content": "a"}}, Custom("mine", Raw(b'{"content":"a"}'))),
    ],
)
def test_other_shapes_of_a_line_are_read(name: str, fields: dict[str, object], payload: Payload) -> None:
    marks = {"seq": 5, "aside": True, "command_id": "c", "batch": {"session": "s", "id": "b", "i": 0, "n": 2}}
    at_root = {key: value for key, value in BASE.items() if key != "parent_id"}
    assert known({"type": name, **at_root, **fields}) == entry_of(payload)
    assert known({"type": name, **BASE, **marks, **fields, "timestamp": "2024-05-01T12:00:00"}) == entry_of(
        payload, parent_id="e0", aside=True, command_id="c", batch=Batch("s", "b", 0, 2)
    )


@pytest.mark.feature("G-37", "G-39")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *(
            (fields, "a message entry must have its payload under 'message' alone")
            for fields in (
                {"message": {"role": "user"}, "compaction": {"summary": "s", "first_kept_entry_id": None}},
                {"message": {"role": "user"}, "usage": {"kind": "turn", "usage": {}}},
                {"label": {"target_id": "e0"}},
                {"role": "user", "content": "Hello", "label": {"target_id": "e0"}},
                {},
                {"message": None},
                {"something": "else"},
                {"type": "message", "id": "e1"},
            )
        ),
        ({"message": {"content": "Hi"}}, "missing required field `role`"),
        *(({"message": {"role": role}}, "role") for role in (None, 7, "")),
        ({"role": "user", "content": [7]}, "$.message.content[0]"),
        ({"role": "user", "content": [{"type": 7}]}, "$.message.content[0]"),
        ({"role": "user", "content": [{}]}, "$.message.content[0]"),
        ({"role": "user", "content": {"text": "Hi"}}, "$.message.content"),
        (
            {"role": "user", "content": [{"text": {"content": "a"}, "image": {}}]},
            "one member set, not ['text', 'image']",
        ),
        ({"role": "tool", "content": [{"type": "tool_result", "tool_result": 7}]}, "$.message.content[0]"),
        ({"role": "user", "content": "Hi", "batch": {"session": "s"}}, "$.batch"),
    ],
)
def test_a_line_that_makes_no_sense_is_opaque(fields: dict[str, object], reason: str) -> None:
    line = {"type": "message", **BASE, **fields}
    entry = opaque(line)
    assert (entry.type, entry.id, entry.parent_id, entry.timestamp) == ("message", "e1", "e0", NOON)
    assert (entry.seq, entry.value, entry.aside, entry.command_id, entry.batch) == (1, line, False, None, None)
    assert reason in entry.reason


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
    assert known({"type": name, **BASE, name: whole}) == known({"type": name, **BASE, **whole})
    without = {key: value for key, value in whole.items() if key != field}
    wrongs: list[dict[str, object]] = [without, {**whole, field: True}, {**whole, field: -1}, {**whole, field: [[]]}]
    for wrong in wrongs:
        assert opaque({"type": name, **BASE, name: wrong}).id == "e1"


def test_an_opaque_entry_keeps_what_makes_sense_of_the_envelope() -> None:
    line = {"type": "hologram", **BASE, "data": {"deep": [1]}, "aside": True, "command_id": "c"}
    mark = {"session": "s", "id": "b", "i": 1, "n": 3}
    for fields, expected in [
        (line, ("hologram", "e1", "e0", NOON, True, "c", None)),
        ({**line, "batch": mark}, ("hologram", "e1", "e0", NOON, True, "c", Batch("s", "b", 1, 3))),
        ({**line, "batch": {"session": "s"}, "aside": 1}, ("hologram", "e1", "e0", NOON, False, "c", None)),
        ({"type": "hologram", "parentId": "e0"}, ("hologram", None, "e0", EPOCH, False, None, None)),
        ({"type": 7, "id": "", "parent_id": 7, "command_id": 7}, ("7", None, None, EPOCH, False, None, None)),
        ({"id": 7}, ("unknown", None, None, EPOCH, False, None, None)),
        ({"type": "session", **BASE}, ("session", None, "e0", NOON, False, None, None)),
    ]:
        found = opaque(fields)
        kept = (found.type, found.id, found.parent_id, found.timestamp, found.aside, found.command_id, found.batch)
        assert kept == expected
        assert (found.value, found.reason, found.seq) == (fields, "unknown type", 1)
    for field in ("id", "timestamp"):
        fields = {key: value for key, value in {"type": "label", **BASE, "target_id": "e0"}.items() if key != field}
        assert (opaque(fields).id, opaque(fields).timestamp) == ((None, NOON) if field == "id" else ("e1", EPOCH))


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
    if time == NOON:
        assert entry == entry_of(OFF, parent_id="e0")
        assert entry.timestamp.tzinfo is UTC


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"null", b"[1]", b'"text"', b"{", b"\x00" * 64, b"\xff\xfe{}", b"not json", b'{"a":"\\u12"}'),
        b'{"type":"message"}{"type":"message"}',
        b'{"type":"custom","id":"e1","data":' + DEEP + b"}",
        b'{"a":"\\u0041","data":' + DEEP + b"}",
        b'{"type":"message","id":"\xff"}',
        b'{"type":"\\u0041","id":"\xff"}',
    ],
    ids=lambda line: repr(line[:40]),
)
def test_a_line_that_is_not_a_json_object_is_decoded_as_none(line: bytes) -> None:
    assert (NATIVE.decode(line, 1), read_object(line)) == (None, None)
    assert not is_object(line) or b"\xff" in line, "values are not decoded"


def test_a_lone_surrogate_is_replaced_and_the_rest_is_read() -> None:
    line = json.dumps({"type": "message", **BASE, "message": {"role": "user", "content": "cut \ud83d off 😀"}})
    assert "\\ud83d off" in line
    assert NATIVE.decode(line.encode(), 1) == user(text("cut \ufffd off 😀"), parent_id="e0")
    assert is_object(line.encode())
    assert is_object(b'{"\\ud83d":1}')
    assert read_object(b'{"a":"\\ud83d"}') == {"a": "\ufffd"}
    unknown = NATIVE.decode(json.dumps({"type": "bark", **BASE, "text": "cut \ud83d off 😀"}).encode(), 1)
    assert isinstance(unknown, OpaqueEntry)
    assert unknown.value == {"type": "bark", **BASE, "text": "cut \ufffd off 😀"}


@given(strategies.entries(), st.data())
def test_a_damaged_line_is_decoded_as_none_or_never_raises(entry: KnownEntry, data: st.DataObject) -> None:
    line = bytearray(NATIVE.encode(entry)[:-1])
    start = data.draw(st.integers(0, len(line) - 1))
    assert NATIVE.decode(bytes(line[:start]), 1) is None
    line[start : start + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    NATIVE.decode(bytes(line), 1)


@given(st.dictionaries(st.sampled_from([*BASE, "type", *ENTRY_TYPES, "content", "usage"]), strategies.json_values()))
def test_any_json_object_is_decoded_to_an_entry(fields: dict[str, Any]) -> None:
    assert decoded(fields) is not None


# -- headers


def words() -> st.SearchStrategy[str | None]:
    return st.none() | st.text(st.characters(codec="utf-8"))


HEADERS = st.builds(
    Header,
    id=strategies.ids(),
    version=st.just(1),
    timestamp=strategies.times(),
    cwd=words(),
    parent_session=st.none() | strategies.ids(),
    parent_entry=st.none() | strategies.ids(),
    key=st.none() | st.just("telegram:123456"),
    title=words(),
)


@pytest.mark.feature("G-15", "G-36")
@given(HEADERS)
def test_a_header_is_read_back_equal_and_written_again_byte_for_byte(header: Header) -> None:
    line = NATIVE.encode_header(header)
    assert line.startswith(b'{"type":"session","id":')
    assert NATIVE.decode_header(line[:-1], HERE) == header
    assert NATIVE.encode_header(NATIVE.decode_header(line[:-1], HERE)) == line
    elsewhere = msgspec.structs.replace(header, timestamp=header.timestamp.astimezone(CEST))
    assert NATIVE.encode_header(elsewhere) == line
    fields = json.loads(line)
    assert fields["timestamp"].endswith("Z")
    assert datetime.fromisoformat(fields["timestamp"]) == header.timestamp == header.created
    assert fields.get("cwd") == header.cwd
    assert ("cwd" in fields) == (header.cwd is not None)


def header_line(**fields: object) -> bytes:
    return json.dumps({"type": "session", "id": "s", "version": 1, "timestamp": TIME, **fields}).encode()


@pytest.mark.parametrize("time", [TIME, "2024-05-01T12:00:00", "2024-05-01T14:00:00+02:00"])
def test_a_header_with_a_time_in_any_zone_and_unknown_keys_is_read(time: str) -> None:
    found = NATIVE.decode_header(header_line(timestamp=time, harness="x"), HERE)
    assert found == Header(id="s", version=1, timestamp=NOON)
    assert found.timestamp.tzinfo is UTC


@pytest.mark.feature("G-31")
@pytest.mark.parametrize(
    "line",
    [
        *(header_line(type=name) for name in ("message", "title", "Session", "", None, 7)),
        *(header_line(version="1"), header_line(timestamp=None), header_line(id=None)),
        *(b"", b"{}", b"[]", b"\xff", b'{"type":"session","id":"\xff","version":1,"timestamp":"2024-05-01T12:00:00Z"}'),
    ],
    ids=repr,
)
def test_a_line_that_is_not_a_header_is_refused(line: bytes) -> None:
    with pytest.raises(
        NotASession, match=r"/work/a\.jsonl:1:0: this is not a session header \(.+\); the file was left"
    ):
        NATIVE.decode_header(line, HERE)


def test_a_header_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="version 2, this program reads up to 1"):
        NATIVE.decode_header(header_line(version=2), HERE)


def test_a_bash_message_needs_its_run_or_content() -> None:
    with pytest.raises(ValueError, match="needs `bash` or content"):
        Message("bashExecution")

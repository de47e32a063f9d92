"""Content parts keep their values when written and read, and wrong ones are refused."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treering.entries import ImagePart, ToolResultPart, ToolUsePart, file_text, plain_text, tool_result
from treering.events.content import Content, ImageSource, TextPart, as_content, image, text, thinking, tool_use
from treering.events.dialects.native import NativeDialect
from treering.events.entries import Custom, CustomEntry, Message, MessageEntry, OpaqueEntry
from treering.events.errors import InvalidEntry
from treering.events.json_values import JSON, NESTING_MAX, json_value, raw_json
from treering.testing import strategies

NATIVE = NativeDialect()
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def entry_with(*parts: Content, role: str = "user") -> MessageEntry:
    return MessageEntry(id="e1", parent_id=None, timestamp=NOON, seq=1, message=Message(role, parts))


def line_of(part: object) -> bytes:
    line = {"type": "message", "id": "e1", "parent_id": None, "timestamp": "2024-05-01T12:00:00Z"}
    return json.dumps({**line, "message": {"role": "user", "content": [part]}}).encode()


def read(part: object) -> tuple[Content, ...]:
    entry = NATIVE.decode(line_of(part), 1)
    assert isinstance(entry, MessageEntry), entry
    return entry.message.content


def reason_of_opaque(part: object) -> str:
    """Read a line with a wrong part, which makes its entry opaque, and return the reason."""
    entry = NATIVE.decode(line_of(part), 1)
    assert isinstance(entry, OpaqueEntry)
    return entry.reason


def round_trip(entry: MessageEntry) -> dict[str, Any]:
    """Write the entry, assert that it is read back equal, and return the first part as JSON."""
    line = NATIVE.encode(entry)
    assert NATIVE.decode(line[:-1], 1) == entry
    part: dict[str, Any] = json.loads(line)["message"]["content"][0]
    return part


@pytest.mark.feature("G-55")
def test_text_is_kept_and_is_also_read_in_the_flat_form() -> None:
    assert round_trip(entry_with(text("Grüße, 世界\n"))) == {"type": "text", "text": {"content": "Grüße, 世界\n"}}
    assert read({"type": "text", "text": "Hi"}) == read({"text": "Hi"}) == read("Hi") == (text("Hi"),)


@pytest.mark.feature("G-56", "G-61", "G-62")
@given(st.binary(), st.sampled_from(["image/png", "image/x-odd; v=1", ""]))
def test_an_image_keeps_its_media_type_and_every_byte_of_its_data(data: bytes, media_type: str) -> None:
    wrapped = base64.encodebytes(data).decode()  # with line breaks, which are kept
    part = round_trip(entry_with(image(wrapped, media_type)))
    assert part["image"]["source"] == {"type": "base64", "media_type": media_type, "data": wrapped}


@pytest.mark.feature("G-60")
def test_the_source_of_an_image_is_base64_or_a_url() -> None:
    address = image("https://example.org/a.png", "image/png", kind="url")
    assert round_trip(entry_with(address))["image"]["source"]["type"] == "url"
    other = {"type": "image", "image": {"source": {"type": "file", "media_type": "image/png", "data": "x"}}}
    assert reason_of_opaque(other) == "Invalid enum value 'file' - at `$.message.content[0].image.source.type`"
    with pytest.raises(InvalidEntry, match=r"'file' - at `\$\.message\.content\[0\]\.image\.source\.type`"):
        NATIVE.encode(entry_with(ImagePart(msgspec.structs.replace(address.image, source=_source("file")))))


def _source(kind: str) -> ImageSource:
    make: Any = ImageSource
    source: ImageSource = make(kind, "image/png", "x")
    return source


@pytest.mark.feature("G-57")
def test_a_tool_call_is_kept() -> None:
    call = tool_use("call_1", "read_file", {"path": "main.go", "lines": [1, 2.5, None]})
    assert round_trip(entry_with(call, role="assistant")) == {
        "type": "tool_use",
        "tool_use": {"id": "call_1", "name": "read_file", "input": {"path": "main.go", "lines": [1, 2.5, None]}},
    }


@pytest.mark.feature("G-63")
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": "n", "input": {}}, "missing required field `id`"),
        ({"id": "i", "input": {}}, "missing required field `name`"),
        ({"id": "i", "name": "n"}, "missing required field `input`"),
        ({"id": 7, "name": "n", "input": {}}, "`$.message.content[0].tool_use.id`"),
        ({"id": "i", "name": [], "input": {}}, "`$.message.content[0].tool_use.name`"),
        ({"id": "i", "name": "n", "input": [1]}, "Expected `object` at `$.tool_use.input`"),
        ({"id": "i", "name": "n", "input": "{}"}, "Expected `object` at `$.tool_use.input`"),
    ],
)
def test_a_tool_call_needs_an_id_a_name_and_an_object_as_input(fields: dict[str, object], place: str) -> None:
    assert place in reason_of_opaque({"type": "tool_use", "tool_use": fields})
    assert place in reason_of_opaque({"type": "tool_use", **fields})
    with pytest.raises((msgspec.ValidationError, ValueError)):
        msgspec.json.decode(json.dumps({"type": "tool_use", "tool_use": fields}), type=ToolUsePart)
    not_an_object: Any = [1]
    with pytest.raises(ValueError, match="Expected `object`"):
        tool_use("i", "n", not_an_object)


@pytest.mark.feature("G-58", "G-65", "G-66")
@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize("content", ["package main...", "", [text("a"), image("QQ==", "image/png")], []])
def test_a_tool_result_is_kept(content: str | list[TextPart | ImagePart], is_error: bool) -> None:
    result = tool_result("call_1", content, is_error=is_error)
    round_trip(entry_with(result, role="tool"))
    kept = result.tool_result
    assert kept.is_error is is_error
    assert kept.content == (content if isinstance(content, str) else tuple(content))


@pytest.mark.feature("G-66")
def test_a_tool_result_is_read_with_a_string_or_a_list_of_blocks_in_both_forms() -> None:
    source = {"type": "url", "media_type": "", "data": "u"}
    flat = [{"type": "text", "text": "a"}, {"type": "image", "source": source}]
    nested = [{"type": "text", "text": {"content": "a"}}, {"type": "image", "image": {"source": source}}]
    listed = tool_result("c", [text("a"), image("u", "", kind="url")])
    for blocks in (flat, nested):
        assert read({"type": "tool_result", "tool_use_id": "c", "content": blocks}) == (listed,)
        assert read({"type": "tool_result", "tool_result": {"tool_use_id": "c", "content": blocks}}) == (listed,)
    assert read({"type": "tool_result", "tool_use_id": "c", "content": "a"}) == (tool_result("c", "a"),)
    assert listed.tool_result.text == tool_result("c", "a").tool_result.text == "a"


def test_a_tool_result_without_a_call_id_is_refused() -> None:
    assert "missing required field `tool_use_id`" in reason_of_opaque(
        {"type": "tool_result", "tool_result": {"content": "x"}}
    )


@pytest.mark.feature("G-59")
@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": {"content": "a"}, "image": {"source": {}}},
        {"type": "text", "text": "a", "tool_use": {"id": "i", "name": "n", "input": {}}},
        {"type": "tool_result", "tool_result": {"tool_use_id": "c"}, "thinking": {"content": "b"}},
        {"text": "a", "thinking": "b"},
    ],
)
def test_a_part_with_two_members_is_refused(part: dict[str, object]) -> None:
    assert "one member set" in reason_of_opaque(part)


def test_a_part_without_a_member_or_of_an_unknown_type_is_refused() -> None:
    for part in ({"type": "text"}, {"type": "text", "image": {"source": {}}}, {"type": "video", "video": {}}, {}, 7):
        assert reason_of_opaque(part)


def test_signatures_are_read_and_cache_control_is_dropped_in_the_flat_form() -> None:
    assert read({"type": "thinking", "thinking": "hm", "signature": "s"}) == (thinking("hm", signature="s"),)
    flat = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert read(flat) == (text("a"),)


@pytest.mark.feature("G-67")
@given(strategies.parts())
def test_the_type_of_a_part_is_the_one_in_its_line(part: Content) -> None:
    assert part.type == json.loads(msgspec.json.encode(part))["type"]


def test_the_text_of_a_file_has_a_fixed_form_with_its_name_escaped() -> None:
    assert file_text("main.go", "package main\n...").text.content == '<file name="main.go">\npackage main\n...</file>'
    assert file_text('a"&b', "").text.content == '<file name="a&quot;&amp;b">\n</file>'


@pytest.mark.feature("G-68")
def test_a_file_read_by_a_tool_is_an_ordinary_tool_result() -> None:
    entry = entry_with(tool_result("call_abc", "package main..."), role="tool")
    assert round_trip(entry)["tool_result"] == {"tool_use_id": "call_abc", "content": "package main..."}
    assert entry.type == "message"


@pytest.mark.feature("G-54")
@given(strategies.json_values(max_leaves=30))
def test_any_json_is_kept_as_the_data_of_a_custom_entry(value: JSON) -> None:
    entry = CustomEntry(id="e1", parent_id=None, timestamp=NOON, seq=1, custom=Custom("mine", raw_json(value)))
    found = NATIVE.decode(NATIVE.encode(entry)[:-1], 1)
    assert isinstance(found, CustomEntry)
    assert found.custom.data == value
    assert json.dumps(found.custom.data) == json.dumps(value)  # 1 and True and 1.0 are equal, but not the same


def test_free_json_is_decoded_again_at_each_access() -> None:
    call = tool_use("i", "n", {"path": ["a"]}).tool_use
    call.input["path"] = "changed"
    assert call.input == {"path": ["a"]}


def test_tuples_mappings_and_raw_json_are_accepted_as_json() -> None:
    assert json_value(raw_json((1, (2,)))) == [1, [2]]
    assert json_value(raw_json(MappingProxyType({"a": MappingProxyType({})}))) == {"a": {}}
    raw = msgspec.Raw(b"[1]")
    assert raw_json(raw) is raw


@pytest.mark.parametrize("value", [{1}, b"x", float("nan"), [float("inf")], NOON, object(), "\ud83d", {"a": {2}}])
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(InvalidEntry, match="cannot be written as JSON"):
        raw_json(value)


def test_the_error_for_a_value_without_a_json_form_says_what_is_wrong() -> None:
    with pytest.raises(InvalidEntry, match="JSON: values of type `object` have no JSON form"):
        raw_json([object()])
    with pytest.raises(InvalidEntry, match=r"'\\udce9' is half a character: give valid Unicode"):
        raw_json({"a": "caf\udce9"})
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(InvalidEntry):
        raw_json(circle)


def test_raw_json_with_damaged_bytes_is_read_with_replacements() -> None:
    assert json_value(msgspec.Raw(b'["a\xff", 1e999]')) == ["a\ufffd", float("inf")]


def test_content_can_be_given_as_strings_parts_and_sequences_of_both() -> None:
    assert as_content("a") == as_content(text("a")) == as_content(["a"]) == (text("a"),)
    assert as_content(["a", image("x", "image/png"), thinking("b")])[2] == thinking("b")
    assert as_content([]) == ()
    wrong: Any = ["a", {"type": "text"}]
    with pytest.raises(InvalidEntry, match=r"content\[1\] is of type `dict`"):
        as_content(wrong)


def test_plain_text_is_the_text_of_the_text_parts() -> None:
    parts = as_content(["a", thinking("no"), tool_result("i", "no"), "b"])
    assert plain_text(parts) == "a\nb"
    assert isinstance(parts[2], ToolResultPart)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_json_nested_deeper_than_the_limit_is_refused() -> None:
    assert json_value(raw_json(nested(NESTING_MAX))) == nested(NESTING_MAX)
    wide = {"a": [[]] * 1000, "text": '[{"' * 1000}
    assert json_value(raw_json(wide)) == wide
    for deep in (nested(NESTING_MAX + 1), Raw(b"[" * 300 + b"]" * 300)):
        with pytest.raises(InvalidEntry, match="nested deeper"):
            raw_json(deep)

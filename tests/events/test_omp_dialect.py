"""The dialect of oh-my-pi: where it differs from that of pi."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.entries import BranchSummary, CustomMessage, OpaqueEntry, SessionInfo, ThinkingLevel, UsageRecord
from treering.events.content import image, text
from treering.events.dialects.detect import detect
from treering.events.dialects.header import SLOT_SIZE, read_slot, write_slot
from treering.events.dialects.omp import OmpDialect
from treering.events.dialects.pi.dialect import PiDialect
from treering.events.entries import Compaction, Entry, Header, KnownEntry, Message, ModelChange, Payload, Usage, message
from treering.events.entries.table import entry_class
from treering.events.errors import DialectCannot, Where
from treering.events.json_values import raw_json
from treering.events.kinds import Kind, kind_of

AT = datetime(2026, 1, 1, 10, 0, 1, 250000, UTC)
ENVELOPE = '"id":"0000000b","parentId":"0000000a","timestamp":"2026-01-01T10:00:01.250Z"'
PLACE = Where("x.jsonl", 1, 0)

omp = OmpDialect()


def entry(payload: Payload) -> KnownEntry:
    kind = entry_class(payload)
    fields: dict[str, Any] = {"id": "0000000b", "parent_id": "0000000a", "timestamp": AT, "seq": 1, kind.type: payload}
    return kind(**fields)


def read(line: str) -> Entry:
    found = omp.decode(line.replace("ENVELOPE", ENVELOPE).encode(), 1)
    assert found is not None
    return found


BOTH_WAYS: list[tuple[str, Payload]] = [
    (
        '{"type":"model_change",ENVELOPE,"model":"openrouter/anthropic/claude-x","resolvedModelIsFallback":false}',
        ModelChange("openrouter", "anthropic/claude-x"),
    ),
    ('{"type":"thinking_level_change",ENVELOPE,"thinkingLevel":"high"}', ThinkingLevel("high")),
    ('{"type":"title_change",ENVELOPE,"title":"My title","source":"user"}', SessionInfo("My title")),
    (
        '{"type":"compaction",ENVELOPE,"summary":"S","firstKeptEntryId":"a","tokensBefore":1,"fromExtension":true}',
        Compaction("S", "a", 1, from_hook=True),
    ),
    (
        '{"type":"branch_summary",ENVELOPE,"fromId":"a","summary":"S","details":{"x":1},"fromExtension":true}',
        BranchSummary("S", "a", raw_json({"x": 1}), from_hook=True),
    ),
]


@pytest.mark.parametrize(("line", "payload"), BOTH_WAYS)
def test_entries_are_read_and_written_with_the_keys_of_omp(line: str, payload: Payload) -> None:
    assert read(line) == entry(payload)
    assert omp.encode(entry(payload)).decode() == line.replace("ENVELOPE", ENVELOPE) + "\n"


@pytest.mark.parametrize(
    ("line", "payload"),
    [
        ('{"type":"model_change",ENVELOPE,"model":"a/b","role":"default"}', ModelChange("a", "b")),
        ('{"type":"model_change",ENVELOPE,"provider":"a","modelId":"b"}', ModelChange("a", "b")),
        ('{"type":"thinking_level_change",ENVELOPE,"thinkingLevel":null,"configured":"auto"}', ThinkingLevel("off")),
        ('{"type":"thinking_level_change",ENVELOPE,"configured":"auto"}', ThinkingLevel("off")),
        (
            '{"type":"title_change",ENVELOPE,"title":"T","previousTitle":"S","source":"auto","trigger":"x"}',
            SessionInfo("T"),
        ),
        ('{"type":"session_info",ENVELOPE,"name":"N"}', SessionInfo("N")),
        (
            '{"type":"compaction",ENVELOPE,"summary":"S","shortSummary":"s","firstKeptEntryId":"a","tokensBefore":1,"method":"x"}',
            Compaction("S", "a", 1),
        ),
        (
            '{"type":"custom_message","customType":"x","content":"c","display":true,"attribution":"agent",ENVELOPE}',
            CustomMessage("x", (text("c"),)),
        ),
        (
            (
                '{"type":"model_usage",ENVELOPE,"purpose":"title","api":"a","provider":"p","model":"m","usage":{"input":1,'
                '"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"total":0.5}},"stopReason":"stop"}'
            ),
            UsageRecord("title", Usage(1, 2, total_tokens=3, cost=0.5), "p", "m"),
        ),
        (
            '{"type":"message",ENVELOPE,"message":{"role":"developer","content":"d"}}',
            Message("developer", (text("d"),)),
        ),
        (
            '{"type":"message",ENVELOPE,"message":{"role":"pythonExecution","code":"1","output":"1"}}',
            message("pythonExecution", [], metadata={"code": "1", "output": "1"}),
        ),
        (
            '{"type":"message",ENVELOPE,"message":{"role":"fileMention","files":[{"path":"a"}]}}',
            message("fileMention", [], metadata={"files": [{"path": "a"}]}),
        ),
        (
            (
                '{"type":"message",ENVELOPE,"message":{"role":"user","content":[{"type":"image","mimeType":"image/png",'
                '"data":"blob:sha256:48c1"}]}}'
            ),
            Message("user", (image("blob:sha256:48c1", "image/png"),)),
        ),
    ],
)
def test_other_forms_of_omp_and_of_pi_are_read(line: str, payload: Payload) -> None:
    assert read(line) == entry(payload)


@pytest.mark.parametrize(
    "name", ["service_tier_change", "mode_change", "ttsr_injection", "credential_pin", "session_init", "reset_boundary"]
)
def test_types_without_a_native_one_are_opaque(name: str) -> None:
    found = read(f'{{"type":"{name}",ENVELOPE,"x":1}}')
    assert isinstance(found, OpaqueEntry)
    assert (found.type, found.id, found.parent_id, found.reason) == (name, "0000000b", "0000000a", "unknown type")
    assert kind_of(found) == (Kind.RESET if name == "reset_boundary" else None)


@pytest.mark.parametrize(
    "keys", ['"model":"a/b","role":"smol"', '"model":"a"', '"model":"/b"', '"provider":"a"', '"x":1']
)
def test_a_model_change_of_another_role_or_without_a_model_is_opaque(keys: str) -> None:
    found = read(f'{{"type":"model_change",ENVELOPE,{keys}}}')
    assert isinstance(found, OpaqueEntry)
    assert found.id == "0000000b"


def test_model_changes_of_older_omp_files_are_read_by_the_pi_dialect() -> None:
    header = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T10:00:01.250Z"}'
    dialect = detect(header + b"\n", "x.jsonl").dialect
    assert isinstance(dialect, PiDialect)
    for keys in ('"model":"a/b/c"', '"model":"a/b/c","role":"default"', '"provider":"a","modelId":"b/c","role":"x"'):
        found = dialect.decode(f'{{"type":"model_change",{ENVELOPE},{keys}}}'.encode(), 1)
        assert found == entry(ModelChange("a", "b/c"))
    for keys in ('"model":"a/b","role":"smol"', '"model":"a"'):
        assert isinstance(dialect.decode(f'{{"type":"model_change",{ENVELOPE},{keys}}}'.encode(), 1), OpaqueEntry)
    written = json.loads(dialect.encode(entry(ModelChange("a", "b/c"))))
    assert (written["provider"], written["modelId"], "model" in written) == ("a", "b/c", False)


def test_usage_is_written_as_a_model_usage_entry() -> None:
    payload = UsageRecord("turn", Usage(1, 2, total_tokens=3), "p", "m", note="n", messages=4)
    line = json.loads(omp.encode(entry(payload)))
    assert (line["type"], line["purpose"], line["usage"]["totalTokens"]) == ("model_usage", "turn", 3)
    assert read(json.dumps(line)) == entry(payload)


def test_session_info_without_a_name_is_written_as_a_custom_entry() -> None:
    line = json.loads(omp.encode(entry(SessionInfo(status="done"))))
    assert (line["type"], line["customType"]) == ("custom", "treering.session_info")
    assert read(json.dumps(line)) == entry(SessionInfo(status="done"))


def test_a_provider_name_with_a_slash_is_refused() -> None:
    with pytest.raises(DialectCannot, match="slash"):
        omp.encode(entry(ModelChange("a/b", "c")))


def test_the_title_slot_is_256_bytes_and_holds_the_title() -> None:
    slot = write_slot("My title", "2026-11-21T21:06:49.610Z")
    assert len(slot) == SLOT_SIZE
    assert slot.endswith(b' "}\n')
    assert slot.startswith(
        b'{"type":"title","v":1,"title":"My title","source":"user","updatedAt":"2026-11-21T21:06:49.610Z","pad":" '
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_any_title_fits_and_is_read_back(title: str) -> None:
    block = omp.encode_header(Header(id="s", version=3, timestamp=AT, cwd="/w", title=title or None))
    slot = read_slot(block[: SLOT_SIZE - 1])
    assert slot is not None
    assert block[SLOT_SIZE - 1 : SLOT_SIZE] == b"\n"
    assert title.startswith(slot.title or "")
    found = detect(block, "x.jsonl")
    assert found.dialect.name == "omp"
    assert found.header.title == (title or None)
    assert found.size == len(block)


def test_a_title_in_the_slot_takes_precedence_over_that_of_the_header() -> None:
    line = (
        b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T10:00:01.250Z",'
        b'"title":"Foobar","titleSource":"auto"}'
    )
    assert OmpDialect.decode_header(line, PLACE).title == "Foobar"
    assert OmpDialect.decode_header(line, PLACE, read_slot(write_slot("Foo", "x")[:-1])).title == "Foo"
    assert OmpDialect.decode_header(line, PLACE, read_slot(write_slot("", "x")[:-1])).title == "Foobar"


def test_a_header_with_a_parent_session_is_read_back_equal() -> None:
    header = Header(id="s", version=3, timestamp=AT, parent_session="01a1ffee", parent_entry="e", key="k", title="t")
    block = omp.encode_header(header)
    assert detect(block, "x").header == header


def test_only_a_title_line_is_read_as_a_slot() -> None:
    assert read_slot(b'{"type":"session","id":"s"}') is None
    assert read_slot(b"") is None
    assert read_slot(b'{"type":"title"}') is not None


REAL = "omp-18.2.3_all_entry_types.jsonl"


@pytest.fixture
def real(shared_fixtures: Path) -> bytes:
    return (shared_fixtures / "pi" / REAL).read_bytes()


def test_a_real_file_is_read(real: bytes) -> None:
    found = detect(real, REAL)
    assert (found.dialect.name, found.header.title, found.header.cwd) == ("omp", "My title", "/tmp/research")
    entries = [found.dialect.decode(line, seq) for seq, line in enumerate(real[found.size :].splitlines(), 1)]
    opaque = [each.type for each in entries if isinstance(each, OpaqueEntry)]
    assert opaque == [
        "service_tier_change",
        "mode_change",
        "ttsr_injection",
        "credential_pin",
        "session_init",
        "reset_boundary",
    ]
    ids: list[str | None] = [None]
    for each in entries:
        assert each is not None
        assert each.parent_id in ids
        ids.append(each.id)


def test_slot_and_header_are_written_as_oh_my_pi_writes_them(real: bytes) -> None:
    slot, header, _ = real.split(b"\n", 2)
    found = detect(real, REAL).header
    written_slot, written_header, _ = omp.encode_header(found).split(b"\n")
    updated = json.loads(slot)["updatedAt"].encode()
    assert written_slot.replace(json.loads(written_slot)["updatedAt"].encode(), updated) == slot
    assert written_header == header


def test_lines_without_unknown_keys_are_written_again_byte_for_byte(real: bytes) -> None:
    lines = [
        line
        for line in real.splitlines()[2:]
        if json.loads(line)["type"] in ("label", "custom", "branch_summary", "model_change")
    ]
    assert len(lines) == 4
    for line in lines:
        found = omp.decode(line, 1)
        assert found is not None
        assert not isinstance(found, OpaqueEntry)
        assert omp.encode(found) == line + b"\n"


def test_the_pi_dialect_reads_common_lines_equally(real: bytes) -> None:
    lines = [
        line
        for line in real.splitlines()[2:]
        if json.loads(line)["type"] in ("message", "label", "custom", "compaction")
    ]
    assert lines
    for line in lines:
        assert PiDialect().decode(line, 1) == omp.decode(line, 1)

"""Detecting the dialect of a file from its first bytes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.events.dialects.base import Dialect
from treering.events.dialects.detect import HEADER_MAX, detect, header_size
from treering.events.dialects.header import write_slot
from treering.events.dialects.native import NativeDialect
from treering.events.dialects.omp import OmpDialect
from treering.events.dialects.pi.dialect import PiDialect, PiOldDialect
from treering.events.entries import Header
from treering.events.errors import NotASession, UnsupportedVersion

AT = datetime(2026, 1, 1, 10, 0, 0, 0, UTC)
NATIVE = NativeDialect().encode_header(Header(id="s", version=1, timestamp=AT, cwd="/w"))
PI = PiDialect().encode_header(Header(id="s", version=3, timestamp=AT, cwd="/w"))
PI_1 = b'{"type":"session","id":"s","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/w"}\n'
PI_2 = b'{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/w"}\n'
OMP = OmpDialect().encode_header(Header(id="s", version=3, timestamp=AT, cwd="/w"))
OMP_BARE = (
    b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/w","titleSource":"auto"}\n'
)
ENTRY = b'{"type":"label","id":"a","parentId":null,"timestamp":"2026-01-01T10:00:00.000Z","targetId":"b"}\n'

KINDS: list[tuple[bytes, type[Dialect], int]] = [
    (NATIVE, NativeDialect, 1),
    (PI, PiDialect, 3),
    (PI_1, PiOldDialect, 1),
    (PI_2, PiOldDialect, 2),
    (OMP, OmpDialect, 3),
    (OMP_BARE, OmpDialect, 3),
]


@pytest.mark.parametrize(("block", "dialect", "version"), KINDS)
@pytest.mark.parametrize("after", [b"", ENTRY, ENTRY + b'{"torn'])
def test_a_dialect_is_detected_by_its_header(block: bytes, dialect: type[Dialect], version: int, after: bytes) -> None:
    found = detect(block + after, "x.jsonl")
    assert type(found.dialect) is dialect
    assert found.header == Header(id="s", version=version, timestamp=AT, cwd="/w")
    assert found.size == len(block)
    assert found.dialect.old == (version in (1, 2) and dialect is PiOldDialect)


@pytest.mark.parametrize(("block", "dialect", "version"), KINDS)
@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\n\r\n  \n", b"\xef\xbb\xbf\n\n"])
def test_a_byte_order_mark_and_blank_lines_before_the_header_count_to_its_size(
    block: bytes, dialect: type[Dialect], version: int, before: bytes
) -> None:
    prefixed = before + block.replace(b"\n", b"\r\n")
    found = detect(prefixed + ENTRY, "x.jsonl")
    assert type(found.dialect) is dialect
    assert found.header.version == version
    assert found.size == len(prefixed)
    assert header_size(prefixed + ENTRY) == len(prefixed)


@pytest.mark.parametrize("block", [block for block, _, _ in KINDS])
def test_a_header_without_a_newline_ends_at_the_end_of_the_file(block: bytes) -> None:
    assert header_size(block[:-1]) is None
    assert header_size(block[:-1], at_end=True) == len(block) - 1
    assert detect(block[:-1], "x.jsonl").size == len(block) - 1


@pytest.mark.parametrize("block", [block for block, _, _ in KINDS])
def test_the_header_size_is_unknown_until_the_header_ends(block: bytes) -> None:
    data = block + ENTRY
    for seen in range(len(data)):
        assert header_size(data[:seen]) == (len(block) if seen >= len(block) else None)


@pytest.mark.parametrize("size", [600, 10_000, 1_000_000])
@pytest.mark.parametrize("block", [NATIVE, PI, OMP])
def test_long_headers_are_read(block: bytes, size: int) -> None:
    long = block.replace(b'"cwd":"/w"', b'"cwd":"%s"' % (b"x" * size))
    assert header_size(long[: size // 2]) is None
    assert header_size(long + ENTRY) == len(long)
    assert detect(long, "x.jsonl").header.cwd == "x" * size


def test_a_blank_line_between_the_slot_and_the_header_is_read() -> None:
    slot = write_slot("T", "x")
    found = detect(slot + b"\n" + PI, "x.jsonl")
    assert (found.dialect.name, found.header.title, found.size) == ("omp", "T", len(slot) + 1 + len(PI))


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "x.jsonl: "),
        (b" \n\n", "x.jsonl: "),
        (b"garbage\n" + PI, "x.jsonl:1:0: "),
        (b"\n\xef\xbb\n" + PI, "x.jsonl:2:1: "),
        (b'{"torn\n' + PI, "x.jsonl:1:0: "),
        (b"[]\n", "x.jsonl:1:0: "),
        (b'"session"', "x.jsonl:1:0: "),
        (b"\xef\xbb\xbf" + ENTRY + PI, "x.jsonl:1:3: "),
        (b'{"type":"session","version":3,"id":5}\n', "x.jsonl:1:0: "),
        (b'{"type":"session","version":"three","id":"s"}\n', "x.jsonl:1:0: "),
        (b'{"type":"session","version":1}\n', "x.jsonl:1:0: "),
        (b'{"type":"session","version":1,"id":"\xff\n', "x.jsonl:1:0: "),
        (write_slot("T", "x") + ENTRY, "x.jsonl:2:256: "),
        (write_slot("T", "x") * 2 + PI, "x.jsonl:2:256: "),
        (write_slot("T", "x"), "x.jsonl: "),
    ],
)
def test_a_file_without_a_valid_header_is_not_a_session(data: bytes, place: str) -> None:
    with pytest.raises(NotASession) as caught:
        detect(data, "x.jsonl")
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize("data", [b"garbage without an end", b"[" * 100, b'{"x":"' + b"y" * HEADER_MAX])
def test_no_more_bytes_are_requested_if_the_first_ones_cannot_be_a_header(data: bytes) -> None:
    size = header_size(data)
    assert size is not None
    with pytest.raises(NotASession):
        detect(data[:size], "x.jsonl")


@pytest.mark.parametrize("before", [b"", write_slot("T", "x")])
def test_a_newer_version_is_refused(before: bytes) -> None:
    with pytest.raises(UnsupportedVersion, match=r"x\.jsonl:.*version 4"):
        detect(before + PI.replace(b'"version":3', b'"version":4'), "x.jsonl")


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: b'{"type":"session","id":"%s' % text.encode()))
def test_any_bytes_are_detected_or_raise_one_of_two_errors(data: bytes) -> None:
    size = header_size(data, at_end=True)
    assert size is not None
    try:
        found = detect(data[:size], "x.jsonl")
    except (NotASession, UnsupportedVersion):
        return
    assert found.size == size


@pytest.mark.parametrize(("version", "dialect"), [(1, PiOldDialect), (2, PiOldDialect), (3, PiDialect)])
def test_the_version_of_a_pi_file_can_be_a_string(version: int, dialect: type[Dialect]) -> None:
    found = detect(
        b'{"type":"session","version":"%d","id":"s","timestamp":"2026-01-01T10:00:00Z"}\n' % version, "x.jsonl"
    )
    assert (found.header.version, type(found.dialect)) == (version, dialect)
    with pytest.raises(UnsupportedVersion, match="version 4"):
        detect(b'{"type":"session","version":"4","id":"s"}\n', "x.jsonl")

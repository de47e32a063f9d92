"""Blocks of lines, and characters in them that no encoder accepts."""

import pytest

from treering.events.content import text, thinking, tool_use
from treering.events.dialects.base import Block, lines_of, size_of
from treering.events.dialects.native import NativeDialect
from treering.events.entries import Message, Usage
from treering.events.texts import whole, whole_json

LINE = (
    b'{"type":"message","id":"%d","parent_id":null,"timestamp":"2026-01-01T00:00:00Z","seq":%d,'
    b'"message":{"role":"user","content":[]}}'
)


def test_a_block_equals_the_list_of_its_lines() -> None:
    block = Block(b"one\ntwo\nthree\n", 3)
    assert len(block) == 3
    assert block == [b"one", b"two", b"three"]
    assert block[1:] == [b"two", b"three"]
    assert (block[-1], size_of(block), size_of([b"one"])) == (b"three", 14, 3)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", []),
        (b"one\n", [b"one"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"\none\n\n \t\ntwo\n\n", [b"one", b"two"]),
        (b"one\r\n\r\ntwo\r\n", [b"one", b"two"]),
        (b"one\rand\n two\n", [b"one\rand", b" two"]),
    ],
)
def test_lines_are_split_without_blank_ones(data: bytes, lines: list[bytes]) -> None:
    assert list(lines_of(data)) == lines
    assert len(lines_of(data)) == len(lines)


def test_lines_stay_together_if_none_is_left_out() -> None:
    assert isinstance(lines_of(b"one\ntwo\n"), Block)
    assert not isinstance(lines_of(b"one\n\ntwo\n"), Block)


@pytest.mark.parametrize(
    "odd",
    [
        LINE % (2, 7),  # its stored seq is wrong
        b"no json",
        LINE % (2, 2) + LINE % (3, 3),
        b'{"type":"novel","id":"2"}',
        b'{"type":\t"label"}',
    ],
)
def test_lines_decode_in_a_block_as_they_do_one_by_one(odd: bytes) -> None:
    dialect = NativeDialect()
    for lines in ([LINE % (1, 1), LINE % (2, 2), LINE % (3, 3)], [LINE % (1, 1), odd, LINE % (3, 3)]):
        together = dialect.decode_all(Block(b"\n".join(lines) + b"\n", 3), 1)
        assert together == [dialect.decode(line, seq) for seq, line in enumerate(lines, 1)]
        assert together == dialect.decode_all(lines, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain é 😀", "plain é 😀"),
        ("caf\udce9", "caf\ufffd"),
        ("\ud83d\ude00\ud83d", "😀\ufffd"),
        (["\ud83d", {"\ude00": ("\ude00", 1, None)}], ["\ufffd", {"\ufffd": ("\ufffd", 1, None)}]),
        (
            Message(
                "assistant", (text("\ud83d"), thinking("a", signature="\ud83d"), tool_use("\ud83d", "b", {"c": 1}))
            ),
            Message(
                "assistant", (text("\ufffd"), thinking("a", signature="\ufffd"), tool_use("\ufffd", "b", {"c": 1}))
            ),
        ),
        (Usage(1), Usage(1)),
    ],
)
def test_lone_surrogates_are_replaced_in_any_value(given: object, expected: object) -> None:
    assert whole(given) == expected


def test_lone_surrogates_in_json_escapes_are_replaced() -> None:
    assert (
        whole_json(rb'{"a": "\ud83d", "b": "\\ud83d \ud83d\ude00", "n":[1e999,1.50]')
        == rb'{"a": "%b", "b": "\\ud83d \ud83d\ude00", "n":[1e999,1.50]' % "\ufffd".encode()
    ), "nothing else is changed"

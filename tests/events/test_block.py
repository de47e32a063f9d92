"""A block of lines can be read as the list of its lines, and decodes as each line does."""

from __future__ import annotations

import pytest

from treering.events.block import Block, size_of
from treering.events.dialects.native import NativeDialect

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

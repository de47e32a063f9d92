"""The table of line ends: right however the file is read in chunks, and it notices a file that holds other lines."""

from __future__ import annotations

import json
import os
from array import array
from contextlib import suppress
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering.events.dialects.base import Block
from treering.events.stores.files.log import table
from treering.events.stores.files.log.table import Table
from treering.testing.disks import FaultyDisk, MemoryDisk

PARTS = st.lists(
    st.sampled_from([b"\n", b" ", b"\r", b"{}", b"\t{}", b"x" * 9, b'{"a":1}\n', b"x\n", b"xx\r\n"]), max_size=20
)
CHUNKS = st.integers(1, 12)


def on_disk(data: bytes) -> tuple[FaultyDisk, int]:
    disk = FaultyDisk(MemoryDisk())
    fd = disk.open("/log", os.O_RDWR | os.O_CREAT)
    disk.write(fd, data)
    return disk, fd


def lines_of(data: bytes) -> list[bytes]:
    return [each.removesuffix(b"\r") for each in data.split(b"\n") if each and not each.isspace()]


def ends_of(data: bytes) -> list[int]:
    ends, at = [0], 0
    for each in data.split(b"\n")[:-1]:
        at += len(each) + 1
        if each.strip():
            ends.append(at)
    return ends


def is_object(data: bytes) -> bool:
    with suppress(ValueError):
        return data.startswith(b"{") and isinstance(json.loads(data), dict)
    return False


@given(PARTS, CHUNKS, st.sampled_from([b"", b"{", b"{}", b'{"a":1}', b"{} \r", b"{}x", b" {}", b"[]"]))
@example([b"x\n", b"x\n", b" ", b"\n"], 5, b"")
def test_lines_are_the_same_with_chunks_of_any_size(parts: list[bytes], chunk: int, tail: bytes) -> None:
    data = b"".join(parts)
    data = data[: data.rfind(b"\n") + 1] + tail
    disk, fd = on_disk(data)
    expected = ends_of(data)
    with patch.object(table, "CHUNK", chunk):
        whole, stepwise = Table(array("Q", [0])), Table(array("Q", [0]))
        whole.grow(disk, fd, len(data))
        for stop in range(0, len(data) + 1, 3):
            stepwise.grow(disk, fd, stop)
            assert list(stepwise.ends) == ends_of(data[:stop])
            stepwise.count_open_end(disk, fd, stop)
        stepwise.grow(disk, fd, len(data))
        assert list(whole.ends) == list(stepwise.ends) == expected
        assert whole.scanned == stepwise.scanned == data.rfind(b"\n") + 1
        whole.count_open_end(disk, fd, len(data))
        whole.count_open_end(disk, fd, len(data))
        assert whole.open_end == is_object(tail)
        assert list(whole.ends) == expected + [len(data)] * whole.open_end
        assert whole.count == len(whole.ends) - 1
        assert whole.first_line(disk, fd, 9) == (data[: min(9, whole.ends[1])] if whole.count else None)
        for first in range(1, whole.count + 1):
            for last in range(first, whole.count + 1):
                found = whole.lines(disk, fd, first, last)
                assert found is not None
                assert list(found) == lines_of(data[whole.ends[first - 1] : whole.ends[last]])
        whole.close_end()
        whole.close_end()
        assert list(whole.ends) == expected


@given(st.lists(st.sampled_from([b"{}\n", b"xxxxx\n"]), min_size=1, max_size=8), CHUNKS, st.data())
def test_other_lines_at_the_same_place_are_noticed(parts: list[bytes], chunk: int, data: st.DataObject) -> None:
    before = b"".join(parts)
    disk, fd = on_disk(before)
    lines = Table(array("Q", [0]))
    lines.grow(disk, fd, len(before))
    at = data.draw(st.integers(0, len(before) - 1))
    after = data.draw(st.sampled_from([before[:at], before[:at] + b"x" + before[at + 1 :]]))
    disk.truncate(fd, 0)
    disk.seek(fd, 0)
    disk.write(fd, after)
    with patch.object(table, "CHUNK", chunk):
        for first in range(1, lines.count + 1):
            for last in range(first, lines.count + 1):
                part = after[lines.ends[first - 1] : lines.ends[last]]
                are_there = lines.ends[last] <= len(after) and part.endswith(b"\n")
                expected = lines_of(part) if are_there and len(lines_of(part)) == last - first + 1 else None
                found = lines.lines(disk, fd, first, last)
                assert (None if found is None else list(found)) == expected


def test_lines_are_read_once_and_without_copies() -> None:
    data = b'{"a":1}\n{"b":2}\n' + b'{"c":"' + b"x" * 100 + b'"}\n' + b'\n\n{"d":4}\r\n'
    disk, fd = on_disk(data)
    lines = Table(array("Q", [0]))
    with patch.object(table, "CHUNK", 64):
        lines.grow(disk, fd, len(data))
        assert disk.bytes_read == len(data)
        for first, last, reads in [(1, 2, [1, 16]), (3, 3, [2, 110]), (1, 3, [1, 125]), (4, 4, [1, 11])]:
            disk.reset_counts()
            found = lines.lines(disk, fd, first, last)
            assert [disk.counts["pread"], disk.bytes_read] == reads
            assert isinstance(found, Block) == ((first, last) in [(1, 2), (1, 3)])
    for text, read in [(b"x" * 999, 1), (b"{" + b"x" * 999, 65), (b'{"a":"' + b"x" * 200 + b'"}', 1 + 64 + 208)]:
        disk, fd = on_disk(b"12345" + text + b"67890")
        assert table.is_whole(disk, fd, 5, 5 + len(text)) == (read > 65)
        assert disk.bytes_read == read


def test_a_file_that_was_shortened_is_read_up_to_its_end() -> None:
    disk, fd = on_disk(b"{}\n{")
    lines = Table(array("Q", [0]))
    lines.grow(disk, fd, 100)
    assert (list(lines.ends), lines.scanned) == ([0, 3], 3)


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
@pytest.mark.parametrize("data", [b" \n\t   ", b'{"a":[1]}', b"[1]     ", b"{}{}    "])
def test_parts_of_a_file_are_examined_by_themselves(data: bytes, chunk: int) -> None:
    disk, fd = on_disk(data)
    with patch.object(table, "CHUNK", chunk):
        for start in range(len(data) + 1):
            for stop in range(start, len(data) + 1):
                part = data[start:stop]
                assert table.checksum(disk, fd, start, stop) == crc32(part)
                assert table.is_blank(disk, fd, start, stop) == (part.isspace() and len(part) <= chunk)
                assert table.is_whole(disk, fd, start, stop) == is_object(part)
                assert [*table.chunks(disk, fd, start, stop)] == [
                    part[at : at + chunk] for at in range(0, len(part), chunk)
                ]
        assert b"".join(table.chunks(disk, fd, 2, 999)) == data[2:]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_consecutive_lines_are_joined_up_to_a_size(sizes: list[int], data: st.DataObject) -> None:
    ends = [5]
    for each in sizes:
        ends.append(ends[-1] + each)
    lines = Table(array("Q", ends))
    seqs = sorted(data.draw(st.sets(st.integers(1, len(sizes)))))
    for size in range(30):
        expected: list[list[int]] = []
        for seq in seqs:
            if expected and expected[-1][-1] == seq - 1 and ends[seq] - ends[expected[-1][0] - 1] <= size:
                expected[-1].append(seq)
            else:
                expected.append([seq])
        assert lines.runs(seqs, size) == [(run[0], run[-1]) for run in expected]
        for after in range(len(sizes)):
            for last in range(after + 1, len(sizes) + 1):
                fits = [seq for seq in range(after + 1, last + 1) if ends[seq] - ends[after] <= size]
                assert lines.last_that_fits(after, last, size) == max(fits, default=after + 1)

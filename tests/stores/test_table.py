"""The table of line ends is right, however the file is read in chunks."""

from __future__ import annotations

import os
from array import array
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from treering.events.stores.files import table
from treering.events.stores.files.table import Table
from treering.testing.disks import MemoryDisk


def expected_ends(data: bytes) -> list[int]:
    """Return the ends of all lines that are not blank."""
    ends, at = [0], 0
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        if line.strip():
            ends.append(at)
    return ends


@given(st.lists(st.sampled_from([b"\n", b" ", b"\r", b"{}", b"\t{}", b"x" * 9]), max_size=30), st.integers(1, 12))
def test_line_ends_are_the_same_with_chunks_of_any_size(parts: list[bytes], chunk: int) -> None:
    data = b"".join(parts)
    disk = MemoryDisk()
    fd = disk.open("/log", os.O_RDWR | os.O_CREAT)
    disk.write(fd, data)
    with patch.object(table, "CHUNK", chunk):
        whole = Table(array("Q", [0]))
        whole.grow(disk, fd, len(data))
        stepwise = Table(array("Q", [0]))
        for stop in range(0, len(data) + 1, 3):
            stepwise.grow(disk, fd, stop)
        stepwise.grow(disk, fd, len(data))
    assert list(whole.ends) == expected_ends(data)
    assert list(stepwise.ends) == expected_ends(data)

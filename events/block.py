"""Consecutive lines of a log as one run of bytes, split only when a single line is needed.

A log is mostly read and decoded in one go, and then no line has to be split off and copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import overload

_SPACE = 32


class Block(Sequence[bytes]):
    """A sequence of lines, each without its newline.

    Args:
        data: Complete lines with their newlines, none of them blank.
        count: The number of lines in `data`.
    """

    __slots__ = ("_count", "_lines", "data")

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self._count = count
        self._lines: list[bytes] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return self._split()[at]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._split())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Block):
            return self._split() == other._split()
        return self._split() == other

    __hash__ = None  # type: ignore[assignment]  # it equals lists, which cannot be hashed

    def _split(self) -> list[bytes]:
        if self._lines is None:
            self._lines = self.data.split(b"\n")
            self._lines.pop()
        return self._lines


def lines_of(data: bytes) -> Sequence[bytes]:
    """Return complete lines without their line ends and without blank ones; as a block if nothing has to be left out.

    Args:
        data: Lines that all end in a newline.
    """
    first_bytes = [line[0] for line in BytesIO(data)]  # faster than searching for newlines, and than counting them
    if b"\r" not in data and min(first_bytes, default=_SPACE + 1) > _SPACE:
        return Block(data, len(first_bytes))
    return [line.removesuffix(b"\r") for line in data.split(b"\n") if line and not line.isspace()]


def size_of(lines: Sequence[bytes]) -> int:
    """Return the approximate size of lines in bytes: newlines count in a `Block`, but not in a list."""
    return len(lines.data) if isinstance(lines, Block) else sum(map(len, lines))

"""Consecutive lines as they lie in a log, cut apart only when somebody looks at one of them.

A log is mostly read in one go and decoded as a whole; then no line needs to be cut out and copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class Block(Sequence[bytes]):
    """Lines, each of which is given without its newline.

    Args:
        data: The bytes: whole lines with their newlines, none of them blank.
        count: How many lines that is.
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
        return self._cut()[at]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._cut())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Block):
            return self._cut() == other._cut()
        return self._cut() == other

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def _cut(self) -> list[bytes]:
        if self._lines is None:
            self._lines = self.data.split(b"\n")
            self._lines.pop()
        return self._lines


def size_of(lines: Sequence[bytes]) -> int:
    """Return about how many bytes lines have; the newlines of a block count."""
    return len(lines.data) if isinstance(lines, Block) else sum(map(len, lines))

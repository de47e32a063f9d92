"""The beginning and the end of a long file of lines, read by a format as if that were the file.

A list of many sessions shows how each begins and ends. What lies between is not read, however long it is. A last line
that its program is still writing is left out; it is there the next time.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path, PosixPath
from typing import IO, Any

from .json_lines import decoded

HEAD_BYTES = 32 * 1024
"""How much of the beginning of a file is read; more if its first line is longer."""

TAIL_BYTES = 64 * 1024
"""How much of the end of a file is read; more if its last line is longer."""

LINE_MAX = 4 * 1024 * 1024
"""The longest first or last line that is read."""

_GROWS = 4


class Excerpt(PosixPath):
    """The path of a file that opens as the beginning and the end of that file; all else is as with any path.

    Paths that are made from it, such as its folder, are those of the files and folders themselves.
    """

    _data: bytes | None = None
    is_whole: bool = False

    @classmethod
    def of(cls, path: Path) -> Excerpt:
        """Read the beginning and the end of a file.

        Raises:
            OSError: The file cannot be read.
        """
        excerpt = cls(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size <= HEAD_BYTES + TAIL_BYTES:
                file.seek(0)
                excerpt._data, excerpt.is_whole = _without_torn_line(file.read(HEAD_BYTES + TAIL_BYTES)), True
            else:
                head = _lines_from(file, size)
                excerpt._data = head + _lines_up_to(file, size, len(head))
        return excerpt

    @property
    def data(self) -> bytes:
        """What was read."""
        return self._data or b""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]  # noqa: ANN401
        """Open what was read; a path that was made from this one opens its file."""
        # The overloads of the base class tell which file each mode opens; readers of formats only ask for bytes.
        return super().open(mode, *args, **options) if self._data is None or mode != "rb" else BytesIO(self._data)


def _without_torn_line(data: bytes) -> bytes:
    end = data.rfind(b"\n") + 1
    return data if decoded(data[end:]) is not None else data[:end]


def _lines_from(file: IO[bytes], size: int) -> bytes:
    """Return the whole lines at the beginning; none if the first one is too long."""
    return _widened(lambda count: _read(file, 0, count), size, HEAD_BYTES, lambda data: data[: data.rfind(b"\n") + 1])


def _lines_up_to(file: IO[bytes], size: int, start: int) -> bytes:
    """Return the whole lines at the end, none of which begins before `start`; none if the last one is too long."""

    def lines(data: bytes) -> bytes:
        begins = 0 if len(data) >= size - start else data.find(b"\n") + 1
        return _without_torn_line(data[begins:]) if begins or len(data) >= size - start else b""

    return _widened(lambda count: _read(file, size - count, count), size - start, TAIL_BYTES, lines)


def _widened(read: Callable[[int], bytes], most: int, count: int, lines: Callable[[bytes], bytes]) -> bytes:
    """Read more and more until there is a whole line."""
    while True:
        found = lines(read(min(count, most)))
        if found or count >= most or count >= LINE_MAX:
            return found
        count *= _GROWS


def _read(file: IO[bytes], start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)

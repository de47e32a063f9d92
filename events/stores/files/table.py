"""Where each line of a log ends: the one thing that a file store has to know of a log's lines.

One number a line. A line begins where the one before it ended; blank lines lie between and have no ordinal. The table is
grown by scanning what was appended, and taken from the snapshot without looking at single lines.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from zlib import crc32

from ...block import Block
from ...dialects.native import is_object
from ...disk import Disk

CHUNK = 1024 * 1024
"""How much of a file is read at a time."""

_CLOSING = 64
_SPACE = 32


class Table:
    """The line ends of one history of a log.

    Attributes:
        ends: The offset after each line's newline, by ordinal; ordinal 0 is the header block.
        scanned: The offset after the last newline that was seen, be it a blank line's.
        open_end: The last line is whole, but has no newline yet. Only readers count such a line.
    """

    __slots__ = ("ends", "open_end", "scanned")

    def __init__(self, ends: array[int]) -> None:
        self.ends = ends
        self.scanned = ends[-1]
        self.open_end = False

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self.ends) - 1

    def grow(self, disk: Disk, fd: int, stop: int) -> None:
        """Take in the lines that end between what was scanned and an offset."""
        self.close_end()
        ends, offset, blank = self.ends, self.scanned, True
        while offset < stop:
            chunk = disk.pread(fd, min(CHUNK, stop - offset), offset)
            if not chunk:
                return  # it was shortened meanwhile, which is found out elsewhere
            stops = _after_newlines(chunk)
            if stops:
                starts = [0, *stops[:-1]]
                odd = [at for at, start in enumerate(starts) if chunk[start] <= _SPACE]
                blanks = {at for at in odd if chunk[starts[at] : stops[at]].isspace()}
                if not blank:
                    blanks.discard(0)  # it began in the chunk before
                ends.extend(offset + stop for at, stop in enumerate(stops) if at not in blanks)
                self.scanned = offset + stops[-1]
                blank = True
            rest = chunk[stops[-1] :] if stops else chunk
            offset += len(chunk)
            blank = blank and not rest.strip()

    def take_end(self, disk: Disk, fd: int, size: int) -> None:
        """Count what stands after the last newline as a line, if it is whole."""
        if not self.open_end and size > self.scanned and is_whole(disk, fd, self.scanned, size):
            self.ends.append(size)
            self.open_end = True

    def close_end(self) -> None:
        """Stop counting a line that has no newline yet."""
        if self.open_end:
            self.ends.pop()
            self.open_end = False

    def last_that_fits(self, after: int, last: int, size: int) -> int:
        """Return the ordinal up to which lines fit into so many bytes; at least one does."""
        fits = bisect_right(self.ends, self.ends[after] + size, lo=after + 1, hi=last + 1) - 1
        return max(fits, after + 1)

    def lines(self, disk: Disk, fd: int, first: int, last: int) -> Sequence[bytes] | None:
        """Read lines, without their newlines; None where the file does not hold lines there, so is another one."""
        start, stop = self.ends[first - 1], self.ends[last]
        closed = not (self.open_end and last == len(self.ends) - 1)
        if first == last and closed and stop - start > CHUNK:
            return self._long_line(disk, fd, start, stop)
        data = disk.pread(fd, stop - start, start)
        if len(data) != stop - start or (closed and not data.endswith(b"\n")):
            return None
        count, returns = last - first + 1, b"\r" in data  # one byte is looked for many times faster than two
        if closed and not returns and len(_after_newlines(data)) == count:
            return Block(data, count)
        found = [line for line in data.split(b"\n") if line and not line.isspace()]
        if len(found) != count:
            return None
        return [line.removesuffix(b"\r") for line in found] if returns else found

    def _long_line(self, disk: Disk, fd: int, start: int, stop: int) -> list[bytes] | None:
        """Read one line in one piece: a copy of 100 MB is worth avoiding."""
        ending = disk.pread(fd, 2, stop - 2)
        cut = 2 if ending == b"\r\n" else 1
        data = disk.pread(fd, stop - start - cut, start)
        if not ending.endswith(b"\n") or len(data) != stop - start - cut:
            return None
        before, newline, line = data.rpartition(b"\n") if b"\n" in data else (b"", b"", data)
        return [line] if not newline or before.isspace() or not before else None


def _after_newlines(chunk: bytes) -> list[int]:
    """Return the offset after each newline; with lines of usual lengths, this is faster than counting them."""
    found: list[int] = []
    append, find, at = found.append, chunk.find, 0
    while at := find(b"\n", at) + 1:
        append(at)
    return found


def is_whole(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether the bytes between two offsets are one JSON object."""
    if disk.pread(fd, 1, start) != b"{":
        return False
    if not disk.pread(fd, min(_CLOSING, stop - start), max(start, stop - _CLOSING)).rstrip().endswith(b"}"):
        return False
    return is_object(disk.pread(fd, stop - start, start))


def is_blank(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether there is nothing but whitespace between two offsets."""
    return stop - start <= CHUNK and disk.pread(fd, stop - start, start).isspace()


def checksum(disk: Disk, fd: int, start: int, stop: int) -> int:
    """Return the crc32 of the bytes between two offsets."""
    crc = 0
    for chunk in chunks(disk, fd, start, stop):
        crc = crc32(chunk, crc)
    return crc


def chunks(disk: Disk, fd: int, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes between two offsets, a chunk at a time; where the file ends before, so do they."""
    while start < stop and (chunk := disk.pread(fd, min(CHUNK, stop - start), start)):
        yield chunk
        start += len(chunk)

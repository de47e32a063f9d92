"""The line table of a log: where each line ends, which is all that the file store has to know about lines.

There is one number per line. A line begins where the previous one ended; blank lines in between have no seq. The table
grows by scanning appended bytes, and is loaded from the snapshot without scanning.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from zlib import crc32

from ....dialects.base import Block
from ....dialects.native import is_object
from ....disk import Disk

CHUNK = 1024 * 1024
"""How many bytes of a file are read at a time."""

INLINE_MAX = 64 * 1024
"""How many bytes are read on the event loop at most; larger reads run in a worker thread."""

_CLOSING = 64
_SPACE = 32


class Table:
    """The line ends of one generation of a log.

    Attributes:
        ends: The offset after each line's newline, by seq; seq 0 is the header block.
        scanned: The offset after the last newline that was seen, including that of a blank line.
        open_end: Whether the last line is whole but has no newline yet. Only readers count such a line.
    """

    __slots__ = ("ends", "open_end", "scanned")

    def __init__(self, ends: array[int]) -> None:
        self.ends = ends
        self.scanned = ends[-1]
        self.open_end = False

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.ends) - 1

    def first_line(self, disk: Disk, fd: int, size: int) -> bytes | None:
        """Return up to `size` bytes of the first line; None if there is no line."""
        return disk.pread(fd, min(self.ends[1] - self.ends[0], size), self.ends[0]) if self.count else None

    def grow(self, disk: Disk, fd: int, stop: int) -> None:
        """Add the lines that end between `scanned` and an offset."""
        self.close_end()
        ends, offset, blank = self.ends, self.scanned, True
        # An empty chunk means that the file was shortened in the meantime, which is detected elsewhere.
        while offset < stop and (chunk := disk.pread(fd, min(CHUNK, stop - offset), offset)):
            stops = _after_newlines(chunk)
            if stops:
                starts = [0, *stops[:-1]]
                candidates = [at for at, start in enumerate(starts) if chunk[start] <= _SPACE]
                blanks = {at for at in candidates if chunk[starts[at] : stops[at]].isspace()}
                if not blank:
                    blanks.discard(0)  # this line began in the previous chunk, and not with whitespace alone
                kept = [stop for at, stop in enumerate(stops) if at not in blanks] if blanks else stops
                ends.fromlist([offset + stop for stop in kept])
                self.scanned = offset + stops[-1]
                blank = True
            rest = chunk[stops[-1] :] if stops else chunk
            offset += len(chunk)
            blank = blank and not rest.strip()

    def count_open_end(self, disk: Disk, fd: int, size: int) -> None:
        """Count the bytes after the last newline as a line, if they are a whole one."""
        if not self.open_end and size > self.scanned and is_whole(disk, fd, self.scanned, size):
            self.ends.append(size)
            self.open_end = True

    def close_end(self) -> None:
        """Stop counting a line that has no newline yet."""
        if self.open_end:
            self.ends.pop()
            self.open_end = False

    def last_that_fits(self, after: int, last: int, size: int) -> int:
        """Return the seq, at most `last`, up to which lines after `after` fit into `size` bytes; at least one does."""
        fits = bisect_right(self.ends, self.ends[after] + size, lo=after + 1, hi=last + 1) - 1
        return max(fits, after + 1)

    def runs(self, seqs: Iterable[int], size: int) -> list[tuple[int, int]]:
        """Join sorted seqs into runs of consecutive lines, each of at most `size` bytes unless it is a single line.

        Returns:
            The first and the last seq of each run.
        """
        runs: list[tuple[int, int]] = []
        for seq in seqs:
            if runs and runs[-1][1] == seq - 1 and self.ends[seq] - self.ends[runs[-1][0] - 1] <= size:
                runs[-1] = (runs[-1][0], seq)
            else:
                runs.append((seq, seq))
        return runs

    def lines(self, disk: Disk, fd: int, first: int, last: int) -> Sequence[bytes] | None:
        """Read lines, without their newlines; None if the file does not hold these lines, so that it was replaced."""
        start, stop = self.ends[first - 1], self.ends[last]
        closed = not (self.open_end and last == len(self.ends) - 1)
        if first == last and closed and stop - start > CHUNK:
            return self._long_line(disk, fd, start, stop)
        data = disk.pread(fd, stop - start, start)
        if len(data) != stop - start or (closed and not data.endswith(b"\n")):
            return None
        count, has_returns = last - first + 1, b"\r" in data  # searching for one byte is many times faster than for two
        if closed and not has_returns and len(_after_newlines(data)) == count:
            return Block(data, count)
        lines = [line for line in data.split(b"\n") if line and not line.isspace()]
        if len(lines) != count:
            return None
        return [line.removesuffix(b"\r") for line in lines] if has_returns else lines

    def _long_line(self, disk: Disk, fd: int, start: int, stop: int) -> list[bytes] | None:
        """Read a single line without a second copy, which matters at 100 MB."""
        ending = disk.pread(fd, 2, stop - 2)
        cut = 2 if ending == b"\r\n" else 1
        data = disk.pread(fd, stop - start - cut, start)
        if not ending.endswith(b"\n") or len(data) != stop - start - cut:
            return None
        before, newline, line = data.rpartition(b"\n") if b"\n" in data else (b"", b"", data)
        return [line] if not newline or before.isspace() or not before else None


def _after_newlines(chunk: bytes) -> list[int]:
    """Return the offset after each newline; for lines of usual length, this is faster than searching or counting."""
    offsets = list(accumulate(map(len, BytesIO(chunk))))
    if offsets and not chunk.endswith(b"\n"):
        offsets.pop()
    return offsets


def is_whole(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether the bytes between two offsets are one JSON object."""
    if disk.pread(fd, 1, start) != b"{":
        return False
    if not disk.pread(fd, min(_CLOSING, stop - start), max(start, stop - _CLOSING)).rstrip().endswith(b"}"):
        return False
    return is_object(disk.pread(fd, stop - start, start))


def is_blank(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether the bytes between two offsets are only whitespace; False if there are too many to check."""
    return stop - start <= CHUNK and disk.pread(fd, stop - start, start).isspace()


def checksum(disk: Disk, fd: int, start: int, stop: int) -> int:
    """Return the crc32 of the bytes between two offsets."""
    crc = 0
    for chunk in chunks(disk, fd, start, stop):
        crc = crc32(chunk, crc)
    return crc


def chunks(disk: Disk, fd: int, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes between two offsets in chunks, up to the end of the file if that comes first."""
    while start < stop and (chunk := disk.pread(fd, min(CHUNK, stop - start), start)):
        yield chunk
        start += len(chunk)

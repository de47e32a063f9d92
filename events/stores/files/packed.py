"""Packed logs: the compressed form of a log at rest, `abc.jsonl.zst` or `abc.jsonl.gz`, and how it is read.

The bytes are those of the log, in pieces of `PIECE` that are compressed each by itself, one after the other. That is a plain
file to every tool: `zcat` and `zstdcat` print the log. And it is a file that can be read from the middle: whoever wants some
lines unpacks the pieces that they are in, in memory, and keeps the last few of them. Files that were packed by hand, in
one piece, are read too, at the price of holding that piece.

Each piece carries a checksum. A file of which any piece is damaged, or that ends within one, is not read at all, since nobody
could tell which lines are missing; the doctor says where the damage is, and what stands before it.

zstd needs the package `zstandard`; gzip comes with Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from ...disk import Disk, FileStat
from ...errors import LogDamaged, Where
from .codecs import SUFFIXES, Unpacker, codec_of

PIECE = 1024 * 1024
"""How many bytes of a log are compressed together."""

_PIECES_KEPT = 2
_WALK = 64 * 1024  # what is read at a time, since it may unpack to a thousand times as much


def log_path(path: str) -> str:
    """Return the path of the log that a file is the packed form of; any other path as it is."""
    for suffix in SUFFIXES:
        if path.endswith(".jsonl" + suffix):
            return path.removesuffix(suffix)
    return path


def packed_forms(disk: Disk, path: str) -> list[str]:
    """Return the packed forms of a log that are there."""
    return [packed for suffix in SUFFIXES if look_at(disk, packed := path + suffix) is not None]


def look_at(disk: Disk, path: str) -> FileStat | None:
    """Look at a file by name; None where it is not there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return disk.stat(path)
    return None


class Piece(Struct, frozen=True, gc=False):
    """Where a piece lies in a packed file, and how many bytes of the log it holds."""

    at: int
    size: int
    holds: int


class PackedFile:
    """A packed log that is open for reading.

    Args:
        disk: The disk.
        fd: The packed file.
        path: Its path.
        pieces: Where its pieces are, where that is known already.

    Attributes:
        pieces: Where its pieces are.
        size: How many bytes the log has.

    Raises:
        LogDamaged: A piece is damaged, or the last one is not whole.
        ExtraMissing: Reading it needs a package that is not installed.
        OSError: It cannot be read.
    """

    def __init__(self, disk: Disk, fd: int, path: str, pieces: Sequence[Piece] | None = None) -> None:
        self._disk = disk
        self._fd = fd
        self._path = path
        self._codec = codec_of(path)
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self.pieces: Sequence[Piece] = self._walk() if pieces is None else pieces
        self._starts = [0]
        for piece in self.pieces:
            self._starts.append(self._starts[-1] + piece.holds)
        self.size = self._starts[-1]

    def read(self, length: int, offset: int) -> bytes:
        """Return bytes of the log; fewer than asked for only at its end."""
        parts: list[bytes] = []
        length = min(length, self.size - offset)
        while length > 0:
            number = bisect_right(self._starts, offset) - 1
            within = offset - self._starts[number]
            part = self._piece(number)[within : within + length]
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def _piece(self, number: int) -> bytes:
        kept = self._kept.get(number)
        if kept is not None:
            self._kept.move_to_end(number)
            return kept
        piece = self.pieces[number]
        unpacker = self._codec.unpacker()
        try:
            data = unpacker.decompress(self._disk.pread(self._fd, piece.size, piece.at))
        except self._codec.errors as error:
            raise self._damaged(piece.at, 0, str(error)) from error
        if len(data) != piece.holds:
            raise self._damaged(piece.at, self._starts[number], "it was changed while it was read")
        self._kept[number] = data
        while len(self._kept) > _PIECES_KEPT:
            self._kept.popitem(last=False)
        return data

    def _walk(self) -> list[Piece]:
        """Find the pieces by unpacking all of them, which also proves that they are whole."""
        found: list[Piece] = []
        at, holds, before = 0, 0, 0
        unpacker: Unpacker | None = None
        offset, rest = 0, b""
        while True:
            if not rest:
                rest = self._disk.pread(self._fd, _WALK, offset)
                offset += len(rest)
                if not rest:
                    break
            unpacker = unpacker or self._codec.unpacker()
            try:
                holds += len(unpacker.decompress(rest))
            except self._codec.errors as error:
                raise self._damaged(at, before, str(error)) from error
            rest = b""
            if unpacker.eof:
                rest, unpacker = unpacker.unused_data, None
                end = offset - len(rest)
                found.append(Piece(at, end - at, holds))
                at, holds, before = end, 0, before + holds
        if unpacker is not None:
            raise self._damaged(at, before, "it ends in the middle of a piece")
        if not found:
            raise self._damaged(0, 0, "it is empty, and a session that is archived is not")
        return found

    def _damaged(self, at: int, before: int, why: str) -> LogDamaged:
        return LogDamaged(
            f"the packed session is damaged from here on ({why}); it was left as it is. "
            f"What stands before is {before} bytes of it",
            where=Where(self._path, None, at),
        )

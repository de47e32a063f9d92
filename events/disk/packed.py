"""Reading of packed logs: the compressed form of a log at rest, `abc.jsonl.zst` or `abc.jsonl.gz`.

A packed log consists of pieces: each holds `PIECE` bytes of the log and is compressed by itself. Common tools can read
such a file: `zcat` and `zstdcat` print the log. It can also be read from the middle: only the pieces that hold the
requested lines are unpacked, in memory, and the last few of them are kept. Files that were packed by hand, as a single
piece, can be read too, but that piece is then held in memory as a whole.

Each piece has a checksum. If a piece is damaged or incomplete, the file is not read at all, since it would be unknown
which lines are missing. The doctor reports where the damage is, and what precedes it.

zstd needs the package `zstandard`; gzip comes with Python.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

from ..errors import LogDamaged, Where
from .disk import Disk, FileStat

PIECE = 1024 * 1024
"""How many bytes of a log are compressed into one piece."""

_PIECES_KEPT = 2
_WALK = 64 * 1024  # bytes read at a time; they may unpack to a thousand times as much


def log_path(path: str) -> str:
    """Return the path of the log whose packed form has a path; return any other path unchanged."""
    for suffix in SUFFIXES:
        if path.endswith(".jsonl" + suffix):
            return path.removesuffix(suffix)
    return path


def packed_forms(disk: Disk, path: str) -> list[str]:
    """Return the paths of the packed forms of a log that exist."""
    return [packed for suffix in SUFFIXES if stat_if_exists(disk, packed := path + suffix) is not None]


def stat_if_exists(disk: Disk, path: str) -> FileStat | None:
    """Return the status of a file; None if it does not exist, or cannot exist because its name is too long."""
    try:
        return disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


class Piece(Struct, frozen=True, gc=False):
    """The offset and the size of a piece in a packed file, and the number of bytes of the log that it holds."""

    at: int
    size: int
    holds: int


class PackedFile:
    """A packed log that is open for reading.

    Args:
        disk: The disk.
        fd: The packed file.
        path: Its path.
        pieces: Its pieces, if they are known already.

    Attributes:
        pieces: The pieces of the file.
        size: The size of the unpacked log in bytes.

    Raises:
        LogDamaged: A piece is damaged, or the last one is incomplete.
        ExtraMissing: Reading the file needs a package that is not installed.
        OSError: The file cannot be read.
    """

    def __init__(self, disk: Disk, fd: int, path: str, pieces: Sequence[Piece] | None = None) -> None:
        self._disk = disk
        self._fd = fd
        self._path = path
        self._codec = codec_of(path)
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self.pieces: Sequence[Piece] = self._walk() if pieces is None else pieces
        self._starts = [0]
        for piece in self.pieces:
            self._starts.append(self._starts[-1] + piece.holds)
        self.size = self._starts[-1]

    def read(self, length: int, offset: int) -> bytes:
        """Return bytes of the log; fewer than requested only at its end."""
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
        cached = self._cache.get(number)
        if cached is not None:
            self._cache.move_to_end(number)
            return cached
        piece = self.pieces[number]
        unpacker = self._codec.unpacker()
        try:
            data = unpacker.decompress(self._disk.pread(self._fd, piece.size, piece.at))
        except self._codec.errors as error:
            raise self._damage_error(piece.at, self._starts[number], str(error)) from error
        if len(data) != piece.holds:
            raise self._damage_error(piece.at, self._starts[number], "it was changed while it was read")
        self._cache[number] = data
        while len(self._cache) > _PIECES_KEPT:
            self._cache.popitem(last=False)
        return data

    def _walk(self) -> list[Piece]:
        """Locate all pieces by unpacking them, which also verifies them."""
        pieces: list[Piece] = []
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
                raise self._damage_error(at, before, str(error)) from error
            rest = b""
            if unpacker.eof:
                rest, unpacker = unpacker.unused_data, None
                end = offset - len(rest)
                pieces.append(Piece(at, end - at, holds))
                at, holds, before = end, 0, before + holds
        if unpacker is not None:
            raise self._damage_error(at, before, "it ends in the middle of a piece")
        if not pieces:
            raise self._damage_error(0, 0, "it is empty, which an archived session never is")
        return pieces

    def _damage_error(self, at: int, before: int, reason: str) -> LogDamaged:
        return LogDamaged(
            f"the packed session is damaged from here on ({reason}); it was left unchanged. "
            f"The part before the damage holds {before} bytes of the session",
            where=Where(self._path, None, at),
        )

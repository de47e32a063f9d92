"""The content of an object: a log as JSONL, compressed in pieces of whole lines, so that it can be read from within.

Each piece is compressed by itself, and common tools read the whole: `zstdcat` and `zcat` print the log. An object is
checked as a whole, by its hash, before any of it is used.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from msgspec import Struct

from ....events.disk.packed import Codec, codec_of
from ....events.errors import LogDamaged, Where
from .objects import Content

PIECE_BYTES = 1024 * 1024
"""At how many bytes a piece ends; a longer line is a piece of its own."""

_PIECES_KEPT = 2
_FED = 64 * 1024  # bytes unpacked at a time while the ends of pieces are looked for


class Written(Struct, frozen=True):
    """What was written: the SHA-256 and the number of the bytes of an object, and the number of lines in it."""

    hash: bytes
    size: int
    lines: int


def write_packed(file: IO[bytes], header: bytes, lines: Iterable[bytes], codec: Codec) -> Written:
    """Write a log.

    Args:
        file: Where to.
        header: The log's header block.
        lines: Its lines, without their newlines.
        codec: How to compress.
    """
    digest, size, count = hashlib.sha256(), 0, 0

    def put(parts: list[bytes]) -> None:
        nonlocal size
        piece = codec.pack(b"".join(parts))
        file.write(piece)
        digest.update(piece)
        size += len(piece)

    parts, held = [header], len(header)
    for line in lines:
        if held + len(line) + 1 > PIECE_BYTES and parts:
            put(parts)
            parts, held = [], 0
        parts += (line, b"\n")
        held += len(line) + 1
        count += 1
    put(parts)
    return Written(digest.digest(), size, count)


class _Piece(Struct, frozen=True, gc=False):
    """Where a piece is in the object, and the seq of the last line before it."""

    at: int
    end: int
    after: int


class PackedLog:
    """A log in an object, whose lines can be read by their seqs, on any thread.

    Args:
        uri: The address of the object, for its compression and for messages.
        content: Its bytes.
        digest: What the SHA-256 of these bytes has to be.
        header: What the header block has to be.
        lines: How many lines it has to hold.

    Raises:
        LogDamaged: It is not that object.
        ExtraMissing: Reading it needs a package that is not installed.
    """

    def __init__(self, uri: str, content: Content, digest: bytes, header: bytes, lines: int) -> None:
        self._uri = uri
        self._content = content
        self._header = header
        self._codec = codec_of(uri)
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, list[bytes]] = OrderedDict()
        if hashlib.sha256(content).digest() != digest:
            raise self._damage("its hash is another than that of what was written")
        self._pieces: list[_Piece] = []
        self.lines = 0
        for number, (at, end, data) in enumerate(self._unpacked()):
            if not number and not data.startswith(header):
                raise self._damage("it begins with another header than the session has")
            lines_of_piece = self._split(number, data)
            self._pieces.append(_Piece(at, end, self.lines))
            self.lines += len(lines_of_piece)
            if number < _PIECES_KEPT:  # most logs have one piece
                self._kept[number] = lines_of_piece
        if self.lines != lines:
            raise self._damage(f"it holds {self.lines} entries, and the session has {lines}")
        self._afters = [each.after for each in self._pieces]

    def page(self, after: int, through: int, lines_max: int, bytes_max: int) -> list[bytes]:
        """Return lines after a seq, at least one if there is one, without newlines.

        Args:
            after: The seq.
            through: The seq of the last line to return.
            lines_max: The most lines.
            bytes_max: After how many bytes to end.
        """
        found: list[bytes] = []
        held = 0
        for line in self.lines_after(after, min(through, self.lines, after + lines_max)):
            found.append(line)
            held += len(line)
            if held >= bytes_max:
                break
        return found

    def lines_after(self, after: int = 0, through: int | None = None) -> Iterator[bytes]:
        """Yield the lines after a seq, without newlines."""
        through = self.lines if through is None else through
        while after < through:
            number = bisect_right(self._afters, after) - 1
            piece = self._pieces[number]
            part = self._lines_of(number)[after - piece.after : through - piece.after]
            yield from part
            after += len(part)

    def bodies(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Return lines by their seqs; those that the log does not have are left out."""
        return {seq: next(self.lines_after(seq - 1, seq)) for seq in sorted(set(seqs)) if 0 < seq <= self.lines}

    def _lines_of(self, number: int) -> list[bytes]:
        with self._lock:
            lines = self._kept.get(number)
            if lines is None:
                piece = self._pieces[number]
                data = self._codec.unpacker().decompress(self._content[piece.at : piece.end])
                lines = self._kept[number] = self._split(number, data)
                while len(self._kept) > _PIECES_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(number)
            return lines

    def _split(self, number: int, data: bytes) -> list[bytes]:
        lines = (data if number else data[len(self._header) :]).split(b"\n")
        lines.pop()  # what follows the last newline
        return lines

    def _unpacked(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield where each piece begins and ends, and what it holds."""
        at = 0
        while at < len(self._content):
            unpacker = self._codec.unpacker()
            parts: list[bytes] = []
            end = at
            while not unpacker.eof:
                fed = self._content[end : end + _FED]
                if not fed:
                    raise self._damage("it ends in the middle of a piece")
                try:
                    parts.append(unpacker.decompress(fed))
                except self._codec.errors as error:
                    raise self._damage(str(error)) from error
                end += len(fed)
            end -= len(unpacker.unused_data)
            yield at, end, b"".join(parts)
            at = end

    def _damage(self, reason: str) -> LogDamaged:
        return LogDamaged(
            f"the object of an archived session is damaged ({reason}); it was left unchanged: bring it back from a "
            f"backup of the place, or from an earlier version of it",
            where=Where(self._uri),
        )

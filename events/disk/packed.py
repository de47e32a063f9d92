"""Packed logs: the compressed form of a log at rest, `abc.jsonl.zst` or `abc.jsonl.gz`, and a disk that unpacks it.

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
import os
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NoReturn, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ExtraMissing, LogDamaged, Where
from .disk import Disk, FileStat

ZST = ".zst"
GZ = ".gz"
SUFFIXES = (ZST, GZ)
"""The suffixes that packing adds to a log's name, in the order in which they are looked for."""

_GZIP = 31  # the `wbits` with which zlib uses the gzip format
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 9


class Unpacker(Protocol):
    """A decompressor for one piece, whose bytes may be passed in portions of any size."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Codec(Protocol):
    """A compression format."""

    def pack(self, data: bytes) -> bytes:
        """Compress data into one piece."""
        ...

    def unpacker(self) -> Unpacker:
        """Return a decompressor for the next piece; it raises `errors`."""
        ...

    @property
    def errors(self) -> type[Exception]: ...


class _Gzip:
    errors = zlib.error

    def pack(self, data: bytes) -> bytes:
        packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP)
        return packer.compress(data) + packer.flush()

    def unpacker(self) -> Unpacker:
        return zlib.decompressobj(_GZIP)


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self.errors: type[Exception] = zstandard.ZstdError
        self._unpacker = zstandard.ZstdDecompressor()
        self._packer = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)

    def pack(self, data: bytes) -> bytes:
        return self._packer.compress(data)

    def unpacker(self) -> Unpacker:
        return self._unpacker.decompressobj()


def best_suffix() -> str:
    """Return the suffix for newly packed logs: that of zstd if its package is installed, otherwise that of gzip."""
    try:
        _Zstd()
    except ImportError:
        return GZ
    return ZST


def codec_of(path: str) -> Codec:
    """Return the codec of a packed log, by its name.

    Raises:
        ExtraMissing: The codec needs a package that is not installed.
    """
    if path.endswith(GZ):
        return _Gzip()
    try:
        return _Zstd()
    except ImportError as error:
        raise ExtraMissing(f"{path} is compressed with zstd: install treering[zstd] to read it") from error


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
        fd: The packed file.
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


def reading_disk(disk: Disk, path: str) -> PackedDisk | None:
    """Return a disk on which a packed log can be read like any other; None if the log is not packed."""
    if stat_if_exists(disk, path) is not None or not packed_forms(disk, path):
        return None
    return PackedDisk(disk)


class PackedDisk:
    """A disk on which packed logs are read under their original names, as if they were not packed.

    It only supports the calls that are needed to read a log; all calls that write raise an error. A file that exists
    under its own name is read unchanged.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, PackedFile] = {}
        self._walked: tuple[str, FileStat, Sequence[Piece]] | None = None

    def open(self, path: str, flags: int) -> int:
        """Open a file, or else its packed form."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._refuse(path)
        if log_path(path) == path:
            try:
                return self._disk.open(path, flags)
            except FileNotFoundError:
                packed = packed_forms(self._disk, path)
                if not packed:
                    raise
                path = packed[0]
        fd = self._disk.open(path, flags)
        try:
            stat = self._disk.fstat(fd)
            known_pieces = self._walked[2] if self._walked is not None and self._walked[:2] == (path, stat) else None
            self._files[fd] = file = PackedFile(self._disk, fd, path, known_pieces)
            self._walked = (path, stat, file.pieces)
        except BaseException:
            self._disk.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._files.pop(fd, None)
        self._disk.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read bytes of the log."""
        file = self._files.get(fd)
        return self._disk.pread(fd, length, offset) if file is None else file.read(length, offset)

    def fstat(self, fd: int) -> FileStat:
        """Return the status of an open file, with the size of the log."""
        stat, file = self._disk.fstat(fd), self._files.get(fd)
        return stat if file is None else replace(stat, size=file.size)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        """Tell whether a file is unchanged."""
        return self.stat(path).is_still(device, inode, size)

    def stat(self, path: str) -> FileStat:
        """Return the status of a file, or else of its packed form."""
        try:
            stat = self._disk.stat(path)
        except FileNotFoundError:
            if not packed_forms(self._disk, path):
                raise
        else:
            if log_path(path) == path:
                return stat
        fd = self.open(path, os.O_RDONLY)
        try:
            return self.fstat(fd)
        finally:
            self.close(fd)

    def unchanged(self) -> bool:
        """Tell whether the packed file that was opened last is still the same."""
        if self._walked is None:
            return False
        path, stat, _ = self._walked
        return stat_if_exists(self._disk, path) == stat

    def list_directory(self, path: str) -> Sequence[str]:
        """Return the names in a directory, sorted."""
        return self._disk.list_directory(path)

    def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return self._disk.real_path(path)

    def _refuse(self, what: str | int, *_: object) -> NoReturn:
        """Refuse a call that writes."""
        raise PermissionError(errno.EROFS, "a packed log is read-only", str(what))

    write = position = seek = truncate = datasync = sync_directory = rename = unlink = make_directory = _refuse

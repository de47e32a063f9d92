"""How packed logs are compressed: with zstd where its package is installed, with gzip anywhere."""

from __future__ import annotations

import zlib
from typing import Protocol

from ...errors import ExtraMissing

ZST = ".zst"
GZ = ".gz"
SUFFIXES = (ZST, GZ)
"""How the names of packed logs go on after the log's own, in the order in which they are looked for."""

_GZIP = 31  # zlib's way to ask for gzip's frame
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 9


class Unpacker(Protocol):
    """What unpacks one piece, given its bytes in whatever portions."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Codec(Protocol):
    """One way to compress."""

    def pack(self, data: bytes) -> bytes:
        """Return a piece."""
        ...

    def unpacker(self) -> Unpacker:
        """Return what unpacks the next piece.

        Its errors are `errors`.
        """
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
    """Return how a log is packed here: with zstd where its package is installed, else with gzip."""
    try:
        _Zstd()
    except ImportError:
        return GZ
    return ZST


def codec_of(path: str) -> Codec:
    """Return how a packed log is compressed, by its name.

    Raises:
        ExtraMissing: It needs a package that is not installed.
    """
    if path.endswith(GZ):
        return _Gzip()
    try:
        return _Zstd()
    except ImportError as error:
        raise ExtraMissing(f"{path} is compressed with zstd: install treering[zstd] to read it") from error

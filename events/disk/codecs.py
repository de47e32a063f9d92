"""The compression of packed logs: zstd if its package is installed, otherwise gzip."""

from __future__ import annotations

import zlib
from typing import Protocol

from ..errors import ExtraMissing

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

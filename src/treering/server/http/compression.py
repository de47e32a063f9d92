"""Compression of replies: gzip, and zstd where it is installed, for clients that accept them; streams are never packed.

A reply is packed piece by piece as it is sent, or at once if all of it is at hand. Work that takes long leaves the
event loop.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from typing import Literal, Protocol, TypeAlias

import anyio.to_thread

Coding: TypeAlias = Literal["gzip", "zstd"]
"""A coding of content that this server can make."""

COMPRESS_FROM = 1024
"""Bytes from which a reply is packed."""

_INLINE_MAX = 64 * 1024
"""Bytes up to which a reply is packed on the event loop."""

_GZIP_LEVEL = 6
_GZIP_FORMAT = 31  # zlib's word for gzip with the largest window
_ZSTD_LEVEL = 3
_CODINGS: tuple[Coding, ...] = ("zstd", "gzip") if find_spec("zstandard") is not None else ("gzip",)


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def coding_of(accept: bytes, among: Sequence[Coding] = _CODINGS) -> Coding | None:
    """Return the best coding that an Accept-Encoding header allows, or None."""
    allowed: dict[str, float] = {}
    for each in accept.decode("latin-1").lower().split(","):
        name, _, weight = each.partition(";")
        try:
            allowed[name.strip()] = float(weight.partition("=")[2]) if weight else 1.0
        except ValueError:
            allowed[name.strip()] = 0.0
    best: Coding | None = None
    at_least = 0.0
    for coding in among:
        quality = allowed.get(coding, allowed.get("*", 0.0))
        if quality > at_least:
            best, at_least = coding, quality
    return best


async def packed(body: bytes, coding: Coding) -> bytes:
    """Return a whole reply in a coding."""
    if len(body) <= _INLINE_MAX:
        return _pack(body, coding)
    return await anyio.to_thread.run_sync(_pack, body, coding)


def _pack(body: bytes, coding: Coding) -> bytes:
    if coding == "gzip":
        return gzip.compress(body, _GZIP_LEVEL, mtime=0)
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


async def packed_pieces(pieces: AsyncGenerator[bytes], coding: Coding) -> AsyncGenerator[bytes]:
    """Yield the pieces of a long reply in a coding."""
    packer = _packer(coding)
    async with aclosing(pieces):
        async for piece in pieces:
            if part := await anyio.to_thread.run_sync(packer.compress, piece):
                yield part
    yield packer.flush()


def _packer(coding: Coding) -> _Packer:
    if coding == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()

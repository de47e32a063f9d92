"""Opening a file to be read, also one that is compressed as treering packs its archived logs: `abc.jsonl.zst`, `.gz`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..disk import OsDisk
from ..errors import ExtraMissing, ForeignFormatError, LogDamaged, Where
from ..stores.files.codecs import codec_of
from ..stores.files.packed import PackedFile, log_path

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PACKED_BYTES = 16 * 1024  # of what is compressed, at a time, to see how it begins


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file for reading; what is packed is read as what it holds.

    Raises:
        ExtraMissing: It is compressed, and needs a package that is not installed.
        ForeignFormatError: It is compressed, and damaged.
        OSError: It cannot be read.
    """
    if not is_packed(path):
        with path.open("rb") as file:
            yield file
        return
    disk = OsDisk()
    fd = disk.open(str(path), os.O_RDONLY)
    try:
        yield BufferedReader(_Unpacked(PackedFile(disk, fd, str(path))))
    except LogDamaged as error:
        raise ForeignFormatError(error.message, where=error.where) from error
    finally:
        disk.close(fd)


def is_packed(path: Path) -> bool:
    """Tell whether a file is compressed, by its name."""
    return log_path(str(path)) != str(path)


def beginning_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a file; of one that cannot be unpacked here, as they are.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        if not is_packed(path):
            return file.read(size)
        packed = head = file.read(_PACKED_BYTES)
        try:
            codec = codec_of(str(path))
        except ExtraMissing:
            return head  # whoever reads on says what is missing
        found, unpacker = b"", codec.unpacker()
        try:
            while packed and len(found) < size and not unpacker.eof:
                found += unpacker.decompress(packed)
                packed = file.read(_PACKED_BYTES)
        except codec.errors:
            return found[:size] or head
        return found[:size]


def cannot_read(error: OSError, path: Path) -> ForeignFormatError:
    """Return an error that says once, and in words, which file cannot be read and why."""
    if isinstance(error, FileNotFoundError):
        what = "there is no such file or folder"
    else:
        what = f"it cannot be read ({error.strerror or error})"
    return ForeignFormatError(what, where=Where(str(path)))


class _Unpacked(RawIOBase):
    """What a packed file holds, from its beginning to its end."""

    def __init__(self, file: PackedFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, into: WriteableBuffer, /) -> int:
        """Read the next bytes."""
        view = memoryview(into).cast("B")
        data = self._file.read(len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

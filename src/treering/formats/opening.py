"""Opening files for reading, also ones that treering has compressed as an archived log: `abc.jsonl.zst`, `.gz`.

What cannot be read becomes an error that names it, or a finding where other sessions are read all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..events.disk import OsDisk
from ..events.disk.packed import PackedFile, codec_of, log_path
from ..events.errors import ExtraMissing, ForeignFormatError, LogDamaged, TreeringError, Where
from ..events.findings import Finding
from .base import ForeignSession

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


HEAD_MAX = 256 * 1024
"""The number of bytes by which a format detects a file; a first line may be long."""

_PACKED_BYTES = 16 * 1024  # compressed bytes read at a time to obtain the beginning


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """Open a file for reading; a compressed file is decompressed on the fly.

    Raises:
        ExtraMissing: The file is compressed, and reading it requires a package that is not installed.
        ForeignFormatError: The file is compressed and damaged.
        OSError: The file cannot be read.
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
    """Return whether a file is compressed, by its name."""
    return log_path(str(path)) != str(path)


def beginning_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, decompressed if that is possible.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        if not is_packed(path):
            return file.read(size)
        packed = head = file.read(_PACKED_BYTES)
        try:
            codec = codec_of(str(path))
        except ExtraMissing:
            return head  # opening the file will raise the error that names the package
        data, unpacker = b"", codec.unpacker()
        try:
            while packed and len(data) < size and not unpacker.eof:
                data += unpacker.decompress(packed)
                packed = file.read(_PACKED_BYTES)
        except codec.errors:
            return data[:size] or head
        return data[:size]


def head_of(path: Path) -> bytes:
    """Return the bytes by which a file is recognized, decompressed if it is compressed; b"" for a folder.

    Raises:
        ForeignFormatError: It does not exist or cannot be read.
    """
    try:
        return b"" if path.is_dir() else beginning_of(path, HEAD_MAX)
    except OSError as error:
        raise cannot_read(error, path) from error


def modified_at(path: Path) -> datetime:
    """Return when a file was modified, to the second."""
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


def cannot_read(error: OSError, path: Path) -> ForeignFormatError:
    """Return an error that says which file cannot be read and why."""
    if isinstance(error, FileNotFoundError):
        reason = "there is no such file or folder"
    else:
        reason = f"it cannot be read ({error.strerror or error})"
    return ForeignFormatError(reason, where=Where(str(path)))


class _Unpacked(RawIOBase):
    """A stream of the decompressed content of a packed file."""

    def __init__(self, file: PackedFile) -> None:
        self._file = file
        self._offset = 0

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self._file.read(len(view), self._offset)
        view[: len(data)] = data
        self._offset += len(data)
        return len(data)


def unreadable(error: TreeringError | OSError, path: Path) -> Finding:
    """Return the finding for a session that cannot be read."""
    failure = cannot_read(error, path) if isinstance(error, OSError) else error
    where = failure.where
    place = (where.path, where.line, where.byte) if where else (str(path), None, None)
    return Finding(*place, "unreadable", "error", failure.message)


def read_each(
    paths: Iterable[Path], read: Callable[[Path], ForeignSession], none_found: str
) -> Iterator[ForeignSession]:
    """Read sessions one after another.

    A session that cannot be read is reported as a finding of the one before it, or of the first readable one after it.

    Args:
        paths: The locations of the sessions.
        read: Reads one session, or raises `ForeignFormatError`.
        none_found: The error message if `paths` is empty.

    Raises:
        ForeignFormatError: There is no session, or none of them can be read.
    """
    previous: ForeignSession | None = None
    unplaced: list[Finding] = []
    for path in paths:
        try:
            session = read(path)
        except (ForeignFormatError, OSError) as error:
            (unplaced if previous is None else previous.findings).append(unreadable(error, path))
            continue
        session.findings.extend(unplaced)
        unplaced.clear()
        if previous is not None:
            yield previous
        previous = session
    if previous is None:
        raise ForeignFormatError(
            unplaced[0].message if unplaced else none_found, where=unplaced[0].where if unplaced else None
        )
    yield previous

"""The destination of an export: memory, or a file that is written atomically and readable only by its owner."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio

from ...events.disk import OsDisk, write_all
from ...events.disk.atomic_files import open_temporary
from ...events.errors import ExportExists, InvalidInput
from ...events.offload import Offload, carried_out

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EMLINK})

_disk = OsDisk()


async def in_memory(pieces: AsyncIterator[bytes]) -> bytes:
    """Return an export as bytes."""
    return b"".join([piece async for piece in pieces])


async def in_file(offload: Offload, path: Path, pieces: AsyncIterator[bytes], *, overwrite: bool) -> Path:
    """Write an export to a file, under a temporary name first.

    Raises:
        ExportExists: The path exists already, or appeared meanwhile.
        OSError: The file cannot be written; nothing is left behind.
    """
    file = await offload(_TemporaryFile, path, overwrite)
    try:
        async for piece in pieces:
            await offload(file.write, piece)
        await carried_out(offload, file.finish, overwrite)
    finally:
        with anyio.CancelScope(shield=True):
            await offload(file.close)
    return path


def new_file(path: Path, data: bytes) -> None:
    """Create a file, under a temporary name first, and the folders above it.

    Raises:
        ExportExists: The path exists already, or appeared meanwhile.
        OSError: The file cannot be written; nothing is left of it.
    """
    _disk.make_directory(str(path.parent.absolute()))
    file = _TemporaryFile(path, overwrite=False)
    try:
        file.write(data)
        file.finish(overwrite=False)
    finally:
        file.close()


class _TemporaryFile:
    """A file that has a temporary name until it is finished."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InvalidInput(
                f"{path} is not a regular file but a device or a pipe: export without a path, and write the bytes there"
            )
        if not overwrite:
            _refuse_existing(path)
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no folder {path.parent}: create it, or export elsewhere")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder: give the path of a file")
        self._path = os.path.abspath(path)
        try:
            self._fd, self._temporary = open_temporary(_disk, self._path)
        except OSError as error:
            error.filename = self._path  # the temporary name means nothing to the caller
            raise
        self._finished = False

    def write(self, piece: bytes) -> None:
        """Write the next piece."""
        try:
            write_all(_disk, self._fd, piece)
        except OSError as error:
            error.filename = self._path
            raise

    def finish(self, overwrite: bool) -> None:
        """Flush the file and give it its final name."""
        _disk.datasync(self._fd)
        if overwrite or not self._link():
            _disk.rename(self._temporary, self._path)
        self._finished = True
        _disk.sync_directory(os.path.dirname(self._path))

    def _link(self) -> bool:
        """Give the file its name unless that exists; return False if the file system has no hard links."""
        try:
            os.link(self._temporary, self._path)
        except FileExistsError:
            _refuse_existing(Path(self._path))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _refuse_existing(Path(self._path))
            return False
        _disk.unlink(self._temporary)
        return True

    def close(self) -> None:
        """Close the file, and remove it if it was not finished."""
        _disk.close(self._fd)
        if not self._finished:
            with suppress(FileNotFoundError):
                _disk.unlink(self._temporary)


def _refuse_existing(path: Path) -> None:
    """Refuse a destination that exists.

    Raises:
        ExportExists: The path exists.
    """
    if os.path.lexists(path):
        raise ExportExists(f"{path} already exists: give another path, or overwrite=True")
